"""Entries of a Hive metastore as Java's `HiveCatalog` writes them: a database, a table, its columns in Hive's types.

Source: `HiveCatalog`, `HiveTypeUtils`, `HiveTableUtils`, `LocationHelper` of the Java library.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.metastores.config import CatalogConfig, is_true
from paimon_engine.servers.hive_values import (
    EXTERNAL,
    INPUT_FORMAT,
    LOCATION_PARAMETER,
    OUTPUT_FORMAT,
    RETENTION,
    column,
    column_comment,
    full_location,
    is_paimon,
    plain_location,
)
from paimon_engine.table.state.table_entry import PARTITIONED, TAG_PARTITION

LOCATION: Final = "location"
COMMENT: Final = "comment"
OWNER: Final = "owner"

_SERDE: Final = "org.apache.paimon.hive.PaimonSerDe"
_STORAGE_HANDLER: Final = "org.apache.paimon.hive.PaimonStorageHandler"
_HIVE_PREFIX: Final = "hive."
_ALWAYS_KEPT: Final = ("partition.expiration-time", "data-file.path-directory")
"""Options that an entry shows even if it does not show all."""

_MANAGED: Final = "MANAGED_TABLE"
_VIEW: Final = "VIRTUAL_VIEW"


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """What the catalog's options say of entries.

    `shows_all`: all options of a table are parameters of its entry. `location_in_parameters`: locations are parameters,
    so that the metastore needs no access to the store. `makes_external`: new tables are external.
    """

    shows_all: bool
    location_in_parameters: bool
    makes_external: bool
    cascades: bool
    skips_statistics: bool

    @classmethod
    def of(cls, config: CatalogConfig) -> EntrySettings:
        """Those of a catalog. Raises: InvalidArgumentError."""
        values = config.values()
        kind = values.get("table.type", "managed").lower()
        if kind not in ("managed", "external"):
            raise InvalidArgumentError(f"catalog option 'table.type' = {kind!r}; write managed or external")
        return cls(
            is_true(values, "sync-all-properties", default=True),
            is_true(values, "location-in-properties"),
            kind == "external",
            is_true(values, "alter-table-cascade", default=True),
            is_true(values, "hive.skip-update-stats"),
        )

    # ── where things are ────────────────────────────────────────────────────────────────────────

    def database_location(self, entry: Any) -> str | None:
        """Directory of a database."""
        found = (entry.parameters or {}).get(LOCATION_PARAMETER) if self.location_in_parameters else None
        return plain_location(found or entry.locationUri)

    def table_location(self, entry: Any) -> str | None:
        """Directory of a table."""
        found = (entry.parameters or {}).get(LOCATION_PARAMETER) if self.location_in_parameters else None
        return plain_location(found or (entry.sd.location if entry.sd is not None else None))

    def partition_location(self, entry: Any) -> str | None:
        """Directory of a partition."""
        return self.table_location(entry)

    def put_table(self, entry: Any, location: str) -> None:
        """Writes a table's directory into its entry."""
        if self.location_in_parameters:
            entry.parameters[LOCATION_PARAMETER] = full_location(location)
        else:
            entry.sd.location = full_location(location)

    def put_partition(self, entry: Any, location: str) -> None:
        """Writes a partition's directory into its entry."""
        if self.location_in_parameters:
            entry.parameters = {**(entry.parameters or {}), LOCATION_PARAMETER: full_location(location)}
        else:
            entry.sd.location = full_location(location)

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def database(self, types: Any, name: str, properties: Mapping[str, str], location: str) -> Any:
        """The entry of a new database in that directory."""
        own = (COMMENT, OWNER, LOCATION)
        parameters = {key: value for key, value in properties.items() if key not in own}
        if self.location_in_parameters:
            parameters[LOCATION_PARAMETER] = full_location(location)
        return types.Database(
            name=name,
            description=properties.get(COMMENT),
            ownerName=properties.get(OWNER),
            locationUri=None if self.location_in_parameters else full_location(location),
            parameters=parameters,
        )

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def table(
        self, types: Any, name: tuple[str, str], schema: TableSchema, location: str, owner: str, *, is_external: bool
    ) -> Any:
        """The entry of a new table; `name` is its database and its own name."""
        now_s = int(time.time())
        entry = types.Table(
            tableName=name[1],
            dbName=name[0],
            owner=owner,
            createTime=now_s,
            lastAccessTime=now_s,
            retention=RETENTION,
            partitionKeys=[],
            tableType=EXTERNAL if is_external else _MANAGED,
            parameters={"table_type": "PAIMON", "storage_handler": _STORAGE_HANDLER},
        )
        if is_external:
            entry.parameters["EXTERNAL"] = "TRUE"
        entry.parameters |= self._shown_options(schema, is_new=True)
        self.set_schema(types, entry, schema)
        self.put_table(entry, location)
        return entry

    def set_schema(self, types: Any, entry: Any, schema: TableSchema) -> None:
        """Writes columns, partition columns and comment of a schema into an entry."""
        entry.sd = entry.sd or types.StorageDescriptor()
        entry.sd.inputFormat, entry.sd.outputFormat = INPUT_FORMAT, OUTPUT_FORMAT
        entry.sd.serdeInfo = entry.sd.serdeInfo or types.SerDeInfo()
        entry.sd.serdeInfo.serializationLib, entry.sd.serdeInfo.parameters = _SERDE, {}
        in_partitions = schema.partition_keys if lists_partitions(schema) else ()
        fields = {field.name: field for field in schema.row_type}
        if in_partitions:
            entry.partitionKeys = [column(types, fields[name], fields[name].description) for name in in_partitions]
        elif tag_column := schema.options.get(TAG_PARTITION):
            entry.partitionKeys = [types.FieldSchema(tag_column, "string", None)]
        entry.sd.cols = [
            column(types, field, column_comment(field.description))
            for field in schema.row_type
            if field.name not in in_partitions
        ]
        if schema.comment is not None:
            entry.parameters[COMMENT] = schema.comment

    def change(self, types: Any, entry: Any, before: TableSchema, after: TableSchema) -> bool:
        """Brings an entry from one schema to the next; whether that changed the entry."""
        seen = _state(entry)
        entry.parameters = {**(entry.parameters or {})}
        for key in self._shown_options(before, is_new=False).keys() - self._shown_options(after, is_new=False).keys():
            entry.parameters.pop(key, None)
        if before.comment is not None and after.comment is None:
            entry.parameters.pop(COMMENT, None)
        entry.parameters |= self._shown_options(after, is_new=False)
        self.set_schema(types, entry, after)
        return seen != _state(entry)

    def _shown_options(self, schema: TableSchema, *, is_new: bool) -> dict[str, str]:
        options = schema.options
        if not self.shows_all:
            kept = _ALWAYS_KEPT if is_new else ()
            shown = {
                key.removeprefix(_HIVE_PREFIX): text for key, text in options.items() if key.startswith(_HIVE_PREFIX)
            }
            return shown | {key: options[key] for key in kept if key in options}
        keys = {
            "primary-key": ",".join(schema.primary_keys),
            "partition": ",".join(schema.partition_keys),
            "bucket-key": ",".join(schema.bucket_keys),
        }
        return {**options, **{key: text for key, text in keys.items() if text}}

    def alter_context(self, types: Any, entry: Any) -> Any:
        """How the metastore is to carry out a change of an entry."""
        keeps = self.skips_statistics or (entry.parameters or {}).get("DO_NOT_UPDATE_STATS", "").lower() == "true"
        cascade = {"CASCADE": "true"} if self.cascades else {}
        return types.EnvironmentContext(properties={**cascade, "DO_NOT_UPDATE_STATS": str(keeps).lower()})


def is_external(entry: Any) -> bool:
    """Whether the files of a table stay when it is dropped."""
    return bool(entry.tableType == EXTERNAL)


def kind_of(entry: Any) -> str:
    """What an entry of something else than a Paimon table is, for messages."""
    if entry.tableType == _VIEW:
        return "a view"
    return f"a table of Hive ({entry.sd.inputFormat if entry.sd is not None else 'without files'})"


def lists_partitions(schema: TableSchema) -> bool:
    """Whether the metastore lists the partitions of a table of that schema."""
    return bool(schema.partition_keys) and schema.options.get(PARTITIONED, "false").lower() == "true"


def check_tag_partitions(options: Mapping[str, str], columns: Sequence[str], partition_keys: Sequence[str]) -> None:
    """Raises InvalidArgumentError if the tags of a table cannot be listed as partitions, though its options say so."""
    column = options.get(TAG_PARTITION)
    if column is None:
        return
    if partition_keys:
        raise InvalidArgumentError(f"'{TAG_PARTITION}' is for tables without partition keys; leave it out, or these")
    if column in columns or column != column.lower():
        raise InvalidArgumentError(
            f"'{TAG_PARTITION}' = '{column}' names the column of the partitions, in small letters, and none of the "
            "table's columns; choose another name"
        )


def partition_entry(types: Any, table: Any, values: Sequence[str]) -> Any:
    """The entry of a new partition, but for its directory."""
    now_s = int(time.time())
    part = types.StorageDescriptor(**{key: value for key, value in vars(table.sd).items() if key != LOCATION})
    return types.Partition(
        values=list(values),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=now_s,
        lastAccessTime=now_s,
        sd=part,
        parameters={},
    )


def _state(entry: Any) -> tuple[Any, ...]:
    columns = [(item.name, item.type, item.comment) for item in entry.sd.cols or ()] if entry.sd is not None else None
    keys = [(item.name, item.type, item.comment) for item in entry.partitionKeys or ()]
    return dict(entry.parameters or {}), columns, keys, is_paimon(entry)
