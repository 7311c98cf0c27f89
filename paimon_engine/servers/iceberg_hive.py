"""Entries of a Hive metastore by which Iceberg's Hive catalog finds a table.

An entry names the metadata file. It is created, or changed, if it is the table's own: one that names metadata in the
table's metadata directory, or that of the Paimon table itself, which then is both. Any other one stays as it is.

Source: `IcebergHiveMetadataCommitter` of the Java library. Differences: it takes over every entry of that name, and
creates an entry without metadata first; columns of the Paimon table's own entry are left to its catalog.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    UnsupportedError,
)
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions
from paimon_engine.servers.hive_client import HiveServers, HiveSession, check_client, user_name
from paimon_engine.servers.hive_values import (
    EXTERNAL,
    LOCATION_PARAMETER,
    RETENTION,
    column,
    column_comment,
    full_location,
    is_paimon,
)
from paimon_engine.servers.iceberg_catalog import Shown
from paimon_engine.storage.locations import normal_path

_URIS: Final = "hive.metastore.uris"
_SASL: Final = "hive.metastore.sasl.enabled"
_SITES: Final = ("hive-site.xml", "core-site.xml")
_TYPE: Final = "table_type"
_METADATA: Final = "metadata_location"
_PREVIOUS: Final = "previous_metadata_location"
_INPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
_SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


@dataclass(frozen=True)
class HiveIcebergCatalog:
    """`IcebergCatalog` of a Hive metastore, which has the table in each of the databases."""

    options: TableOptions
    databases: tuple[str, ...]
    table: str

    def check(self, schema: TableSchema) -> None:
        check_client()
        self._servers()
        for field in schema.row_type:
            column(_Column, field, None)

    def shows(self, shown: Shown) -> bool:
        with self._servers().session() as session:
            entries = [_found(session, database, self.table) for database in self.databases]
            return all(entry is not None and not _change(session.types, entry, shown) for entry in entries)

    def show(self, shown: Shown) -> None:
        servers = self._servers()
        for database in self.databases:
            try:
                with servers.session() as session:
                    self._show(session, database, shown)
            except (ConflictError, OutcomeUnknownError):
                # Others may have created it at this moment; or it is done, and the answer was lost.
                with servers.session() as session:
                    self._show(session, database, shown)

    def _show(self, session: HiveSession, database: str, shown: Shown) -> None:
        entry, types = _found(session, database, self.table), session.types
        if entry is None:
            _create_database(session, database, shown)
            session.change("create_table", self._new_entry(types, database, shown))
            return
        self._check_own(entry, database, shown)
        if _change(types, entry, shown):
            context = self._context(types)
            session.change("alter_table_with_environment_context", database, self.table, entry, context)

    def _new_entry(self, types: Any, database: str, shown: Shown) -> Any:
        """The entry of a table that the metastore does not have yet."""
        now_s = int(time.time())
        entry = types.Table(
            tableName=self.table,
            dbName=database,
            owner=user_name(),
            createTime=now_s,
            lastAccessTime=now_s,
            retention=RETENTION,
            partitionKeys=[],
            tableType=EXTERNAL,
            parameters={
                "DO_NOT_UPDATE_STATS": str(self.options.iceberg_hive_skip_update_stats).lower(),
                "EXTERNAL": "TRUE",
            },
            sd=types.StorageDescriptor(
                location=full_location(shown.location),
                inputFormat=_INPUT_FORMAT,
                outputFormat=_OUTPUT_FORMAT,
                serdeInfo=types.SerDeInfo(serializationLib=_SERDE),
            ),
        )
        _change(types, entry, shown)
        return entry

    def _context(self, types: Any) -> Any:
        """How the metastore is to carry out the change."""
        options = self.options
        properties = {
            "CASCADE": "true",
            "skipAWSGlueArchive": str(options.iceberg_glue_skip_archive).lower(),
            "DO_NOT_UPDATE_STATS": str(options.iceberg_hive_skip_update_stats).lower(),
        }
        return types.EnvironmentContext(properties=properties)

    def _check_own(self, entry: Any, database: str, shown: Shown) -> None:
        """Raises ConflictError for an entry of anything else than this table."""
        parameters, location = entry.parameters or {}, entry.sd.location if entry.sd is not None else None
        if is_paimon(entry):
            location = parameters.get(LOCATION_PARAMETER) or location
            kind, is_own = f"the Paimon table in {location}", _is_same(location, shown.root)
        elif parameters.get(_TYPE, "").upper() == "ICEBERG":
            metadata = parameters.get(_METADATA)
            # Without metadata it is one that Java has just created.
            is_own = _is_same((metadata or "").rpartition("/")[0], shown.directory)
            is_own = is_own or (metadata is None and _is_same(location, shown.location))
            kind = f"an Iceberg table with the metadata {metadata}"
        else:
            kind, is_own = f"a table or view of Hive ({entry.tableType})", False
        if not is_own:
            raise ConflictError(
                f"{database}.{self.table} in the Hive metastore at {self._servers()} is {kind}, and not the Iceberg "
                f"table of {shown.root}: it stays as it is. Set 'metadata.iceberg.table' or "
                "'metadata.iceberg.database' to another name, or drop that entry"
            )

    def _servers(self) -> HiveServers:
        return HiveServers.of({"uri": _addresses(self.options)})


@dataclass(frozen=True)
class _Column:
    """A column as `column` makes it, where there is no metastore to write it into."""

    name: str
    type: str
    comment: str | None

    @classmethod
    def FieldSchema(cls, name: str, kind: str, comment: str | None) -> _Column:  # noqa: N802 - Thrift's name
        return cls(name, kind, comment)


def _addresses(options: TableOptions) -> str:
    """Where the metastore is. Raises: InvalidArgumentError, UnsupportedError."""
    if options.iceberg_uri is not None:
        return options.iceberg_uri
    directories = (options.iceberg_hive_conf_dir, options.iceberg_hadoop_conf_dir)
    for directory, name in zip(directories, _SITES, strict=True):
        settings = {} if directory is None else _settings(Path(directory) / name)
        if settings.get(_SASL, "false").strip().lower() == "true":
            raise UnsupportedError(f"{directory}/{name}: '{_SASL}' = 'true': this client has no Kerberos")
        if settings.get(_URIS, "").strip():
            return settings[_URIS]
    raise InvalidArgumentError(
        "'metadata.iceberg.storage' = 'hive-catalog' needs 'metadata.iceberg.uri', for example "
        f"thrift://metastore:9083, or '{_URIS}' in the hive-site.xml of 'metadata.iceberg.hive-conf-dir'"
    )


def _settings(path: Path) -> dict[str, str]:
    """The properties in a configuration file of Hadoop or Hive; none if there is no such file."""
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 - a file of the machine that runs this
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}") from error
    return {item.findtext("name", "").strip(): item.findtext("value", "") for item in root.iter("property")}


def _found(session: HiveSession, database: str, table: str) -> Any | None:
    try:
        return session.read("get_table", database, table)
    except NotFoundError:
        return None


def _create_database(session: HiveSession, database: str, shown: Shown) -> None:
    """Creates the database if there is none."""
    if database.lower() in session.read("get_all_databases"):
        return
    directory = shown.location.rpartition("/")[0]
    entry = session.types.Database(name=database, locationUri=full_location(directory), parameters={})
    with contextlib.suppress(ConflictError):
        session.change("create_database", entry)


def _change(types: Any, entry: Any, shown: Shown) -> bool:
    """Makes an entry show that; whether it did not before."""
    parameters = dict(entry.parameters or {})
    wanted = {_TYPE: "ICEBERG", _METADATA: shown.path}
    before = parameters.get(_METADATA)
    if before is not None and before != shown.path:
        wanted[_PREVIOUS] = before
    columns = entry.sd.cols
    if not is_paimon(entry):
        columns = [column(types, field, column_comment(field.description)) for field in shown.schema.row_type]
    if parameters.items() >= wanted.items() and columns == entry.sd.cols:
        return False
    entry.parameters, entry.sd.cols = {**parameters, **wanted}, columns
    return True


def _is_same(one: str | None, other: str) -> bool:
    return bool(one) and normal_path(full_location(one or "")) == normal_path(full_location(other))
