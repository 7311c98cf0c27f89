"""The JDBC catalog: names and commit locks are rows of a database, tables are directories below the warehouse.

A Paimon database exists if it has a property (the engine and Java always write the property `exists`) or a table. A
table exists if it has a row in `paimon_tables`; its schema and data are in `<warehouse>/<database>.db/<table>`. With
`lock.enabled`, a process that creates a snapshot, schema or tag file holds the table's lock, which makes commits safe
on storage that cannot create a file atomically.

Source: `JdbcCatalog` of the Java library.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import URL, ColumnElement, Connection, Select, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from paimon_engine.env import EnvConfig
from paimon_engine.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.schema import TableSchema
from paimon_engine.metastores.base import TableName
from paimon_engine.metastores.config import (
    LOCK_ENABLED,
    URI,
    CatalogConfig,
    is_true,
)
from paimon_engine.metastores.filesystem import files_left, no_files, not_empty
from paimon_engine.metastores.jdbc_lock import LockSettings, make_lock_table
from paimon_engine.metastores.jdbc_tables import (
    DATABASE_PROPERTIES,
    TABLE_PROPERTIES,
    TABLES,
    VIEWS,
    catalog_tables,
    check_properties,
    engine_for,
    has_views,
    make_tables,
    reading,
    transaction,
)
from paimon_engine.metastores.jdbc_url import url_of
from paimon_engine.metastores.renaming import moved_only, was_moved
from paimon_engine.metastores.stores import LockedStorageSource
from paimon_engine.table.state.handle import TableHandle, latest_schema_id, load_table
from paimon_engine.table.state.warehouse import (
    DATABASE_SUFFIX,
    TableDraft,
    check_deletable,
    check_free,
    create_table,
    delete_table,
)

_EXISTS: Final = "exists"
_LOCATION: Final = "location"
_NEEDS_NO_LOCK: Final = frozenset({"", "file", "memory", "hdfs", "viewfs"})
"""Schemes of storage with an atomic rename; on all others Java locks unless `lock.enabled` is false."""


def open_metastore(config: CatalogConfig) -> JdbcMetastore:
    """The catalog in a database; creates the catalog's own tables if they are missing.

    Raises: InvalidArgumentError, UnsupportedError, StorageError.
    """
    values = config.values()
    if URI not in values:
        raise InvalidArgumentError("a JDBC catalog needs 'uri', for example jdbc:sqlite:/lake/catalog.db")
    if values.get("lock.type", "jdbc") != "jdbc":
        raise UnsupportedError(
            f"'lock.type' = '{values['lock.type']}' is not supported; a JDBC catalog supports 'jdbc' only"
        )
    url = url_of(values)
    scheme = config.warehouse.partition("://")[0] if "://" in config.warehouse else ""
    settings = LockSettings.of(values)
    locks = is_true(values, LOCK_ENABLED, default=scheme not in _NEEDS_NO_LOCK)
    metastore = JdbcMetastore(config, url, settings if locks else None)
    make_tables(engine_for(url), catalog_tables())
    if locks:
        make_lock_table(engine_for(url), settings)
    return metastore


class JdbcMetastore:
    """`Metastore` in a database."""

    def __init__(self, config: CatalogConfig, url: URL, lock: LockSettings | None) -> None:
        self._config = config
        self._url = url
        self._lock = lock
        values = config.values()
        self._key = values.get("catalog-key", "jdbc")
        self._syncs_properties = is_true(values, "sync-all-properties")

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def list_databases(self) -> list[str]:
        tables = [TABLES, DATABASE_PROPERTIES, *([VIEWS] if has_views(engine_for(self._url)) else [])]
        found: set[str] = set()
        with reading(engine_for(self._url)) as connection:
            for table in tables:
                names = select(table.c.database_name).distinct().where(table.c.catalog_key == self._key)
                found.update(connection.scalars(names))
        return sorted(found)

    def database_properties(self, database: str) -> dict[str, str]:
        self._check_database(database)
        kept = DATABASE_PROPERTIES.c
        with reading(engine_for(self._url)) as connection:
            rows = connection.execute(
                select(kept.property_key, kept.property_value).where(
                    kept.catalog_key == self._key, kept.database_name == database
                )
            )
            properties = {key: value for key, value in rows if key != _EXISTS}
        return {_LOCATION: self._directory(database), **properties}

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Inserts one row per property; the unique key decides between two that create it at the same time."""
        if properties.get(_LOCATION, self._directory(database)).rstrip("/") != self._directory(database):
            raise UnsupportedError(
                f"database {database!r}: a JDBC catalog keeps its tables in {self._directory(database)}; "
                f"another '{_LOCATION}' is not supported; leave the property out"
            )
        if database in self.list_databases():
            raise self._database_exists(database)
        check_properties(engine_for(self._url), properties)
        rows = {_EXISTS: "true", _LOCATION: self._directory(database), **properties}
        try:
            with transaction(engine_for(self._url)) as connection:
                connection.execute(
                    insert(DATABASE_PROPERTIES),
                    [
                        {
                            "catalog_key": self._key,
                            "database_name": database,
                            "property_key": key,
                            "property_value": value,
                        }
                        for key, value in rows.items()
                    ],
                )
        except IntegrityError as error:
            raise self._database_exists(database) from error

    def drop_database(self, database: str, *, cascade: bool) -> None:
        tables = self.list_tables(database)
        views = self._views(database)
        if (tables or views) and not cascade:
            raise not_empty(database, [*tables, *views])
        for table in tables:
            # Another process may drop the same table at this moment.
            with contextlib.suppress(NotFoundError):
                self.drop_table(TableName(database, table))
        with transaction(engine_for(self._url)) as connection:
            for kept in (DATABASE_PROPERTIES, *([VIEWS] if views else [])):
                connection.execute(
                    delete(kept).where(kept.c.catalog_key == self._key, kept.c.database_name == database)
                )
            # Made by others since they were listed; without its row, nothing would lead to the files of a table.
            if made := sorted(connection.scalars(self._names_of_tables(database))):
                raise not_empty(database, made)
        self._config.storage.build().storage.delete_dir(self._directory(database))

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def list_tables(self, database: str) -> list[str]:
        self._check_database(database)
        with reading(engine_for(self._url)) as connection:
            return sorted(connection.scalars(self._names_of_tables(database)))

    def create_table(self, name: TableName, draft: TableDraft, *, if_not_exists: bool) -> TableHandle:
        """Creates the schema file first, then the row that makes the table exist for readers of the catalog.

        A process that dies in between leaves a directory without a row. With `if_not_exists` the next call uses it;
        without, `create_table` of the files raises ConflictError. With `if_not_exists` an existing table is returned
        unchanged, after a check that the draft itself would be valid.
        """
        self._check_database(name.database)
        wanted = draft.with_defaults(self._config.table_defaults)
        exists = self._exists(name)
        if not exists and name.table in self._views(name.database):
            raise AlreadyExistsError(f"a view {name} already exists; drop it, or choose another name")
        if exists and not if_not_exists:
            raise self._table_exists(name)
        env_config = self._env_config(name)
        if exists:
            wanted.first_schema(env_config.build())
            return self._load(name, MAIN_BRANCH, {})
        if self._syncs_properties:
            # Before there are files, which a database that refuses them would leave without a row.
            check_properties(engine_for(self._url), _synced(wanted.first_schema(env_config.build())))
        handle = create_table(
            env_config.build(),
            env_config,
            self._path(name),
            schema=wanted.columns,
            primary_keys=wanted.primary_keys,
            partition_keys=wanted.partition_keys,
            options=wanted.options,
            comment=wanted.comment,
            if_not_exists=if_not_exists,
        )
        try:
            with transaction(engine_for(self._url)) as connection:
                connection.execute(insert(TABLES).values(self._names(name)))
                if self._syncs_properties:
                    self._insert_properties(connection, name, handle.schema)
        except IntegrityError as error:
            # Another process inserted the row between the check above and here.
            if not if_not_exists:
                raise self._table_exists(name) from error
        return handle

    def load_table(self, name: TableName, *, branch: str, options: Mapping[str, str]) -> TableHandle:
        self._check_table(name)
        return self._load(name, branch, options)

    def drop_table(self, name: TableName) -> None:
        self._check_table(name)
        path, storage = self._path(name), self._config.storage.build().storage
        check_deletable(storage, path)
        with transaction(engine_for(self._url)) as connection:
            if not connection.execute(delete(TABLES).where(*self._is(TABLES, name))).rowcount:
                raise self._changed_meanwhile(name)
            connection.execute(delete(TABLE_PROPERTIES).where(*self._is(TABLE_PROPERTIES, name)))
        try:
            delete_table(storage, path)
        except StorageError as error:
            raise files_left(error, name, path) from error

    def rename_table(self, name: TableName, new_name: TableName) -> None:
        """Renames the rows of the table and, within their transaction, its directory.

        Raises: ConflictError if the new name is taken; NotFoundError if there is no such table, or others rename or
        drop it meanwhile; OutcomeUnknownError if the directory has its new name, and the database does not answer.
        """
        self._check_table(name)
        self._check_database(new_name.database)
        if self._exists(new_name) or new_name.table in self._views(new_name.database):
            raise self._table_exists(new_name)
        old, new = self._path(name), self._path(new_name)
        env = self._config.storage.build()
        where = f"the JDBC catalog {self._key!r}"
        is_moved = was_moved(old, new, (env, env), where)
        if not is_moved:
            check_free(env.storage, new)
            if latest_schema_id(env, TablePaths(old)) is None:
                raise no_files(where, name, old)
        try:
            with transaction(engine_for(self._url)) as connection:
                renamed = update(TABLES).where(*self._is(TABLES, name)).values(self._names(new_name))
                if not connection.execute(renamed).rowcount:
                    raise self._changed_meanwhile(name)
                of_table = self._is(TABLE_PROPERTIES, name)
                connection.execute(update(TABLE_PROPERTIES).where(*of_table).values(self._names(new_name)))
                if not is_moved:
                    # Inside the transaction: if the storage fails to rename, the rows keep the old name.
                    env.storage.rename_dir(old, new)
        except IntegrityError as error:
            raise self._table_exists(new_name) from error
        except OutcomeUnknownError as error:
            raise moved_only(error, name, new_name, new) from error

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def _load(self, name: TableName, branch: str, options: Mapping[str, str]) -> TableHandle:
        config, path = self._env_config(name), self._path(name)
        try:
            return load_table(path, config, branch=branch, options=options)
        except NotFoundError as error:
            if latest_schema_id(config.build(), TablePaths(path)) is not None:
                raise
            raise no_files(f"the JDBC catalog {self._key!r}", name, path) from error

    def _env_config(self, name: TableName) -> EnvConfig:
        if self._lock is None:
            return self._config.storage
        lock_id = f"{self._key}.{name.database}.{name.table}"
        return replace(self._config.storage, source=LockedStorageSource(self._config, lock_id))

    def _insert_properties(self, connection: Connection, name: TableName, schema: TableSchema) -> None:
        """Copies options and keys of a new table into the database, as Java does with `sync-all-properties`."""
        rows = [
            {**self._names(name), "property_key": key, "property_value": value}
            for key, value in _synced(schema).items()
        ]
        if rows:
            connection.execute(insert(TABLE_PROPERTIES), rows)

    def _views(self, database: str) -> list[str]:
        engine = engine_for(self._url)
        if not has_views(engine):
            return []
        names = select(VIEWS.c.view_name).where(VIEWS.c.catalog_key == self._key, VIEWS.c.database_name == database)
        with reading(engine) as connection:
            return sorted(connection.scalars(names))

    def _exists(self, name: TableName) -> bool:
        with reading(engine_for(self._url)) as connection:
            return connection.execute(select(TABLES).where(*self._is(TABLES, name))).first() is not None

    def _check_database(self, database: str) -> None:
        databases = self.list_databases()
        if database not in databases:
            known = ", ".join(databases) or "none"
            raise NotFoundError(
                f"no database {database!r} in the JDBC catalog {self._key!r}, which has: {known}; "
                "create it with create_database"
            )

    def _check_table(self, name: TableName) -> None:
        if not self._exists(name):
            known = ", ".join(self.list_tables(name.database)) or "none"
            raise NotFoundError(f"no table {name} in the JDBC catalog {self._key!r}; its tables: {known}")

    def _names_of_tables(self, database: str) -> Select[str]:
        of_database = TABLES.c.catalog_key == self._key, TABLES.c.database_name == database
        return select(TABLES.c.table_name).where(*of_database)

    def _changed_meanwhile(self, name: TableName) -> NotFoundError:
        return NotFoundError(
            f"no table {name} in the JDBC catalog {self._key!r} any more: others dropped or renamed it"
        )

    def _is(self, kept: Table, name: TableName) -> tuple[ColumnElement[bool], ...]:
        return (
            kept.c.catalog_key == self._key,
            kept.c.database_name == name.database,
            kept.c.table_name == name.table,
        )

    def _names(self, name: TableName) -> dict[str, str]:
        return {"catalog_key": self._key, "database_name": name.database, "table_name": name.table}

    def _database_exists(self, database: str) -> ConflictError:
        return ConflictError(f"database {database!r} already exists in the JDBC catalog {self._key!r}")

    def _table_exists(self, name: TableName) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"table {name} already exists in the JDBC catalog {self._key!r}; "
            "if_not_exists=True (--if-not-exists) uses it, or choose another name"
        )

    def _directory(self, database: str) -> str:
        return f"{self._config.warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"

    def _path(self, name: TableName) -> str:
        return f"{self._directory(name.database)}/{name.table}"


def _synced(schema: TableSchema) -> dict[str, str]:
    """Options and keys of a table, as `sync-all-properties` keeps them."""
    keys = {
        "primary-key": ",".join(schema.primary_keys),
        "partition": ",".join(schema.partition_keys),
        "bucket-key": ",".join(schema.bucket_keys),
    }
    return {**schema.options, **{key: text for key, text in keys.items() if text}}
