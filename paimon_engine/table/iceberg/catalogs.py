"""The catalog of Iceberg that shows a table, if its options name one."""

from __future__ import annotations

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.servers.iceberg_catalog import IcebergCatalog
from paimon_engine.servers.iceberg_hive import HiveIcebergCatalog
from paimon_engine.servers.iceberg_rest import RestIcebergCatalog
from paimon_engine.table.state.handle import TableHandle

_DATABASE_END = ".db"


def catalog_of(table: TableHandle) -> IcebergCatalog | None:
    """The catalog that shows the table; None without one. Raises: InvalidArgumentError."""
    options = table.options
    if options.iceberg_storage == "hive-catalog":
        databases = options.iceberg_databases or (_database(table),)
        return HiveIcebergCatalog(options, databases, options.iceberg_table or _name(table))
    if options.iceberg_storage == "rest-catalog":
        database = options.raw.get("metadata.iceberg.database") or _database(table)
        return RestIcebergCatalog(options, database, options.iceberg_table or _name(table))
    return None


def _name(table: TableHandle) -> str:
    return table.paths.root.rpartition("/")[2]


def _database(table: TableHandle) -> str:
    directory = table.paths.root.rpartition("/")[0].rpartition("/")[2]
    if not directory.endswith(_DATABASE_END) or directory == _DATABASE_END:
        raise InvalidArgumentError(
            f"{table.paths.root} is not in a directory <database>.db: set 'metadata.iceberg.database' to the database "
            "in which Iceberg's catalog shows the table"
        )
    return directory.removesuffix(_DATABASE_END)
