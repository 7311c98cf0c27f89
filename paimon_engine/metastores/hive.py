"""The catalog of a Hive metastore: it has the names and the locations, the files are the truth about everything else.

Entries are those of Java's catalog, so tables of one engine are tables of the other, of Spark, Flink, Hive and Trino.
An entry shows a copy of the columns and options to programs that read no schema file.

Where metastore and files contradict each other:

- An entry at whose location no schema file is: the table cannot be opened, and the error says so. It may be dropped,
  which deletes the entry only.
- Files of a table without an entry: there is no table of that name; `create_table(…, if_not_exists=True)` enters it.
- An entry of another kind of table or view under that name is never opened, changed or dropped.
- An entry whose columns are old or, after a change that died, new: reads and writes use the files, the next `alter`,
  also one that changes nothing, repairs it.

Source: `HiveCatalog` of the Java library. Differences: a refused change of a schema deletes no schema file, since the
metastore is asked before the file is created; files are deleted by this engine, not by the metastore, and only if there
is a table at the location; a database is dropped with the Paimon tables in it, never with others.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_engine.env import EnvConfig
from paimon_engine.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths, escape_path_name
from paimon_engine.meta.schema import TableSchema
from paimon_engine.metastores.base import TableName
from paimon_engine.metastores.config import LOCK_ENABLED, CatalogConfig, is_true
from paimon_engine.metastores.filesystem import files_left, no_files, not_empty
from paimon_engine.metastores.hive_entries import (
    COMMENT,
    LOCATION,
    OWNER,
    EntrySettings,
    check_tag_partitions,
    is_external,
    kind_of,
    lists_partitions,
    partition_entry,
)
from paimon_engine.metastores.hive_renaming import EntryRenaming, found_entry
from paimon_engine.metastores.renaming import moved_only, was_moved
from paimon_engine.metastores.stores import LockedStorageSource
from paimon_engine.servers.hive_client import HiveServers, HiveSession, user_name
from paimon_engine.servers.hive_values import is_paimon
from paimon_engine.storage import Storage
from paimon_engine.storage.locations import in_one_store
from paimon_engine.table.state import warehouse as directories
from paimon_engine.table.state.handle import TableHandle, latest_schema_id, load_table
from paimon_engine.table.state.partitions import relative_path, whole_partition
from paimon_engine.table.state.table_entry import TAG_PARTITION
from paimon_engine.table.state.warehouse import DATABASE_SUFFIX, TableDraft, columns_of

logger = logging.getLogger(__name__)

_BATCH: Final = 300
_PATH: Final = "path"
_NEEDS_NO_LOCK: Final = frozenset({"", "file", "memory", "hdfs", "viewfs"})
"""Schemes of storage with an atomic rename; on all others Java locks unless `lock.enabled` is false."""


def open_metastore(config: CatalogConfig) -> HiveMetastore:
    """The catalog of a metastore. Nothing is asked of it yet.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    values = config.values()
    if values.get("lock.type", "hive") != "hive":
        raise UnsupportedError(
            f"'lock.type' = '{values['lock.type']}' is not supported; a Hive catalog supports 'hive' only"
        )
    scheme = config.warehouse.partition("://")[0] if "://" in config.warehouse else ""
    locks = is_true(values, LOCK_ENABLED, default=scheme not in _NEEDS_NO_LOCK)
    return HiveMetastore(config, HiveServers.of(config.values()), EntrySettings.of(config), locks=locks)


class HiveMetastore:
    """`Metastore` of a Hive metastore."""

    def __init__(self, config: CatalogConfig, servers: HiveServers, settings: EntrySettings, *, locks: bool) -> None:
        self._config = config
        self._servers = servers
        self._settings = settings
        self._locks = locks

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def list_databases(self) -> list[str]:
        with self._servers.session() as session:
            return sorted(session.read("get_all_databases"))

    def database_properties(self, database: str) -> dict[str, str]:
        with self._servers.session() as session:
            entry = self._database(session, database)
        found = {
            LOCATION: self._settings.database_location(entry),
            COMMENT: entry.description,
            OWNER: entry.ownerName,
        }
        return {**(entry.parameters or {}), **{key: text for key, text in found.items() if text}}

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        _check_case(database)
        location = properties.get(LOCATION, self._directory(database)).rstrip("/")
        with self._servers.session() as session:
            if database in session.read("get_all_databases"):
                raise AlreadyExistsError(f"database {database!r} already exists in {self}")
            if self._settings.location_in_parameters:
                self._store(location).build().storage.make_dir(location)
            session.change("create_database", self._settings.database(session.types, database, properties, location))

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Drops the entry and its Paimon tables; the directory goes if nothing is left in it."""
        tables = self.list_tables(database)
        with self._servers.session() as session:
            entry = self._database(session, database)
            others = sorted(set(session.read("get_all_tables", database)) - set(tables))
        if others:
            raise ConflictError(
                f"database {database!r} has tables or views that are not Paimon's: {', '.join(others[:5])}; drop them "
                "with Hive first"
            )
        if tables and not cascade:
            raise not_empty(database, tables)
        for table in tables:
            # Another process may drop the same table at this moment.
            with contextlib.suppress(NotFoundError):
                self.drop_table(TableName(database, table))
        with self._servers.session() as session:
            session.change("drop_database", database, False, False)
        if location := self._settings.database_location(entry):
            self._store(location).build().storage.delete_dir(location)

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def list_tables(self, database: str) -> list[str]:
        with self._servers.session() as session:
            self._database(session, database)
            names = session.read("get_all_tables", database)
            entries = []
            for begin in range(0, len(names), _BATCH):
                entries += session.read("get_table_objects_by_name", database, names[begin : begin + _BATCH])
        return sorted(entry.tableName for entry in entries if is_paimon(entry))

    def create_table(self, name: TableName, draft: TableDraft, *, if_not_exists: bool) -> TableHandle:
        """Creates the schema file first, then the entry that makes the table exist for users of the catalog.

        A process that dies in between leaves files without an entry, which the next call with `if_not_exists` enters.
        The table option `path` gives another location, and makes the table external.
        """
        _check_case(name.table)
        wanted = draft.with_defaults(self._config.table_defaults)
        path = wanted.options.get(_PATH)
        wanted = replace(wanted, options={key: text for key, text in wanted.options.items() if key != _PATH})
        check_tag_partitions(
            wanted.options, [field.name for field in columns_of(wanted.columns)], wanted.partition_keys
        )
        with self._servers.session() as session:
            database = self._database(session, name.database)
            entry = found_entry(session, name)
        if entry is not None:
            return self._existing(name, entry, wanted, if_not_exists=if_not_exists)
        external = path is not None or self._settings.makes_external
        location = str(path).rstrip("/") if path is not None else self._new_location(database, name)
        config = self._env_config(name, location)
        env = config.build()
        was_there = latest_schema_id(env, TablePaths(location)) is not None
        if was_there and external:
            _check_same_table(load_table(location, config).schema, wanted, location)
        if was_there and not external and not if_not_exists:
            raise ConflictError(
                f"{location} contains a table that {self} does not know; if_not_exists=True (--if-not-exists) enters "
                f"it as {name}"
            )
        handle = directories.create_table(
            env,
            config,
            location,
            schema=wanted.columns,
            primary_keys=wanted.primary_keys,
            partition_keys=wanted.partition_keys,
            options=wanted.options,
            comment=wanted.comment,
            if_not_exists=was_there,
        )
        try:
            self._enter(name, handle.schema, location, is_external=external)
        except ConflictError:
            # Another process entered it between the look above and here.
            if not if_not_exists:
                raise
        except InvalidArgumentError:
            if not was_there:
                _remove_refused(env.storage, handle.paths)
            raise
        return replace(handle, entry=self._entry_of(name))

    def load_table(self, name: TableName, *, branch: str, options: Mapping[str, str]) -> TableHandle:
        with self._servers.session() as session:
            entry = self._paimon_entry(session, name)
        location = self._location(entry, name)
        config = self._env_config(name, location)
        try:
            handle = load_table(location, config, branch=branch, options=options)
        except NotFoundError as error:
            if latest_schema_id(config.build(), TablePaths(location)) is not None:
                raise
            raise no_files(str(self), name, location) from error
        return replace(handle, entry=self._entry_of(name))

    def drop_table(self, name: TableName) -> None:
        """Drops the entry, then the files, unless the table is external or nothing at its location is a table."""
        with self._servers.session() as session:
            entry = self._paimon_entry(session, name)
        location = self._settings.table_location(entry)
        storage = None if location is None or is_external(entry) else self._files_to_drop(location)
        with self._servers.session() as session:
            if self._settings.table_location(self._paimon_entry(session, name)) != location:
                raise ConflictError(f"others have created table {name} again; drop it again if you want that")
            session.change("drop_table", name.database, name.table, False)
        if storage is None or location is None:
            logger.info("dropped the entry of %s; the files of %s were not deleted", name, location)
            return
        try:
            directories.delete_table(storage, location)
        except StorageError as error:
            raise files_left(error, name, location) from error

    def _files_to_drop(self, location: str) -> Storage | None:
        """The store of a table that may be deleted; None if there is none. Raises: ConflictError."""
        env = self._store(location).build()
        if latest_schema_id(env, TablePaths(location)) is None:
            logger.warning("nothing will be deleted: there is no table at %s", location)
            return None
        directories.check_deletable(env.storage, location)
        return env.storage

    def rename_table(self, name: TableName, new_name: TableName) -> None:
        """Renames the directory, if it is where the table's name says, then the entry; see `renaming`."""
        _check_case(new_name.table)
        with self._servers.session() as session:
            entry = self._paimon_entry(session, name)
            database = self._database(session, new_name.database)
            if found_entry(session, new_name) is not None:
                raise AlreadyExistsError(f"table {new_name} already exists in {self}")
            old_place = self._new_location(self._database(session, name.database), name)
        old = self._location(entry, name)
        moves = not is_external(entry) and old == old_place
        new = self._new_location(database, new_name) if moves else old
        if not in_one_store(old, new):
            raise UnsupportedError(
                f"{name} cannot become {new_name}: its files would move from {old} to another store, {new}; write its "
                "rows to a new table there, and drop this one"
            )
        env = self._store(old).build()
        new_env = self._store(new).build()
        if moves and not was_moved(old, new, (env, new_env), str(self)):
            directories.check_free(new_env.storage, new)
            env.storage.rename_dir(old, new)
        renaming = EntryRenaming(self._servers, self._settings, name, new_name, old, new)
        try:
            renaming.run(entry)
        except PaimonError as error:
            if not moves:
                raise
            if isinstance(error, OutcomeUnknownError) or not renaming.has_old_name():
                raise moved_only(error, name, new_name, new) from error
            env.storage.rename_dir(new, old)
            raise
        if moves and entry.partitionKeys:
            renaming.move_partitions()

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def _existing(self, name: TableName, entry: Any, wanted: TableDraft, *, if_not_exists: bool) -> TableHandle:
        if not is_paimon(entry):
            raise ConflictError(f"{name} in {self} is {kind_of(entry)}; choose another name")
        if not if_not_exists:
            raise AlreadyExistsError(
                f"table {name} already exists in {self}; if_not_exists=True (--if-not-exists) uses it, or choose "
                "another name"
            )
        handle = self.load_table(name, branch=MAIN_BRANCH, options={})
        wanted.first_schema(handle.env)
        return handle

    def _enter(self, name: TableName, schema: TableSchema, location: str, *, is_external: bool) -> None:
        """Creates the entry of a table; if the answer is lost, one with our location counts as ours.

        Raises: OutcomeUnknownError if there is none then; ConflictError if another table has the name.
        """
        with self._servers.session() as session:
            entry = self._settings.table(
                session.types,
                (name.database, name.table),
                schema,
                location,
                user_name(),
                is_external=is_external,
            )
            try:
                session.change("create_table", entry)
            except OutcomeUnknownError:
                found = None
                with contextlib.suppress(StorageError), self._servers.session() as other:
                    found = found_entry(other, name)
                if found is None or self._settings.table_location(found) != location:
                    raise

    def _env_config(self, name: TableName, location: str) -> EnvConfig:
        config = self._store(location)
        if not self._locks:
            return config
        return replace(config, source=LockedStorageSource(self._config, str(name)))

    def _store(self, location: str) -> EnvConfig:
        """The store of a location, which may be another one than that of the warehouse."""
        return replace(self._config.storage, address=location)

    def _entry_of(self, name: TableName) -> HiveTableEntry:
        return HiveTableEntry(self._config, name.database, name.table)

    def _database(self, session: HiveSession, database: str) -> Any:
        _check_case(database)
        try:
            return session.read("get_database", database)
        except NotFoundError as error:
            known = ", ".join(sorted(session.read("get_all_databases"))) or "none"
            raise NotFoundError(f"no database {database!r} in {self}, which has: {known}") from error

    def _paimon_entry(self, session: HiveSession, name: TableName) -> Any:
        self._database(session, name.database)
        return paimon_entry(session, name, str(self))

    def _location(self, entry: Any, name: TableName) -> str:
        location = self._settings.table_location(entry)
        if location is None:
            raise StorageError(f"{self}: the entry of {name} has no location")
        return location

    def _new_location(self, database: Any, name: TableName) -> str:
        directory = self._settings.database_location(database) or self._directory(name.database)
        return f"{directory}/{name.table}"

    def _directory(self, database: str) -> str:
        return f"{self._config.warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"

    def __str__(self) -> str:
        return f"the Hive metastore at {self._servers}"


@dataclass(frozen=True)
class HiveTableEntry:
    """`TableEntry` of a table in a Hive metastore."""

    config: CatalogConfig
    database: str
    table: str

    def follow(self, table: TableHandle, before: TableSchema, after: TableSchema) -> None:
        if table.paths.branch != MAIN_BRANCH:
            return
        settings = EntrySettings.of(self.config)
        with self._servers.session() as session:
            entry = self._entry(session)
            if settings.change(session.types, entry, before, after):
                context = settings.alter_context(session.types, entry)
                session.change("alter_table_with_environment_context", self.database, self.table, entry, context)

    def add_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        if lists_partitions(table.schema):
            self._add({tuple(item.values()): _partition_path(table, item) for item in partitions})

    def add_tags(self, table: TableHandle, tags: Sequence[str]) -> None:
        if column := _tag_column(table):
            directory = "/".join(part for part in (table.paths.root, table.options.data_file_directory) if part)
            name = escape_path_name(column)
            self._add({(tag,): f"{directory}/{name}={escape_path_name(tag)}" for tag in tags})

    def _add(self, locations: Mapping[tuple[str, ...], str]) -> None:
        """Lists partitions, by their values, at these locations."""
        settings = EntrySettings.of(self.config)
        with self._servers.session() as session:
            entry, parts = self._entry(session), []
            for values, location in locations.items():
                part = partition_entry(session.types, entry, values)
                settings.put_partition(part, location)
                parts.append(part)
            request = session.types.AddPartitionsRequest(
                dbName=self.database, tblName=self.table, parts=parts, ifNotExists=True, needResult=False
            )
            session.change("add_partitions_req", request)

    def drop_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        if lists_partitions(table.schema):
            self._drop([list(partition.values()) for partition in partitions])

    def drop_tags(self, table: TableHandle, tags: Sequence[str]) -> None:
        if _tag_column(table):
            self._drop([[tag] for tag in tags])

    def _drop(self, partitions: Sequence[list[str]]) -> None:
        with self._servers.session() as session:
            for values in partitions:
                # Java may have dropped it at this moment.
                with contextlib.suppress(NotFoundError):
                    session.change("drop_partition", self.database, self.table, values, False)

    @property
    def _servers(self) -> HiveServers:
        return HiveServers.of(self.config.values())

    def _entry(self, session: HiveSession) -> Any:
        where = f"the Hive metastore at {self._servers}"
        return paimon_entry(session, TableName(self.database, self.table), where)


def paimon_entry(session: HiveSession, name: TableName, where: str) -> Any:
    """The entry of a Paimon table. Raises: NotFoundError if there is none, or one of something else."""
    _check_case(name.table)
    entry = found_entry(session, name)
    if entry is None:
        raise NotFoundError(f"no table {name} in {where}; list_tables({name.database!r}) shows those that it has")
    if not is_paimon(entry):
        raise NotFoundError(f"{name} in {where} is {kind_of(entry)}, not a Paimon table")
    return entry


def _partition_path(table: TableHandle, partition: Mapping[str, str]) -> str:
    values = whole_partition(table, partition)
    parts = (table.paths.root, table.options.data_file_directory, relative_path(table, values))
    return "/".join(part for part in parts if part)


def _tag_column(table: TableHandle) -> str | None:
    """The column of the partitions that tags of the table are listed as; None if they are not."""
    if table.paths.branch != MAIN_BRANCH or lists_partitions(table.schema):
        return None
    return table.schema.options.get(TAG_PARTITION)


def _check_case(name: str) -> None:
    """Raises InvalidArgumentError for a name that the metastore would change."""
    if name != name.lower():
        raise InvalidArgumentError(f"a Hive metastore has names in small letters: write {name.lower()!r}, not {name!r}")


def _check_same_table(stored: TableSchema, wanted: TableDraft, location: str) -> None:
    """Raises ConflictError if the table at a location that an external table is to have is another one."""
    columns = [(field.name, field.type) for field in columns_of(wanted.columns)]
    there = [(field.name, field.type) for field in stored.row_type]
    keys = (wanted.primary_keys, wanted.partition_keys)
    if [name for name, _ in columns] != [name for name, _ in there] or keys != (
        tuple(stored.primary_keys),
        tuple(stored.partition_keys),
    ):
        raise ConflictError(
            f"{location} contains a table with other columns or keys: {', '.join(name for name, _ in there)}; give the "
            "columns and keys that it has, or another path"
        )


def _remove_refused(storage: Storage, paths: TablePaths) -> None:
    """Deletes the schema file of a table that the metastore does not accept, if there is nothing else in it."""
    if [info.path for info in storage.walk(paths.root)] == [paths.schema(0)]:
        storage.delete([paths.schema(0)])
        storage.delete_dir(paths.schema_dir)
        storage.delete_dir(paths.root)
