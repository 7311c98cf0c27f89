"""The filesystem catalog: databases and tables are directories of the warehouse.

Source: `FileSystemCatalog` of the Java library.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from paimon_engine.errors import AlreadyExistsError, ConflictError, NotFoundError, StorageError, UnsupportedError
from paimon_engine.meta.paths import TablePaths
from paimon_engine.metastores.base import TableName
from paimon_engine.metastores.config import LOCK_ENABLED, CatalogConfig, is_true
from paimon_engine.table.state import warehouse as directories
from paimon_engine.table.state.handle import TableHandle, latest_schema_id, load_table
from paimon_engine.table.state.warehouse import DATABASE_SUFFIX, TableDraft


def open_metastore(config: CatalogConfig) -> FilesystemMetastore:
    """The catalog of a warehouse directory.

    Raises: UnsupportedError with `lock.enabled`.
    """
    if is_true(config.values(), LOCK_ENABLED):
        raise UnsupportedError(
            f"'{LOCK_ENABLED}' = 'true' needs 'metastore' = 'jdbc'; a directory has no lock, and local disks and "
            "object stores with conditional writes need none"
        )
    return FilesystemMetastore(config)


class FilesystemMetastore:
    """`Metastore` of `<warehouse>/<database>.db/<table>`; databases have no properties."""

    def __init__(self, config: CatalogConfig) -> None:
        self._config = config
        self._env_config = config.storage
        self._warehouse = config.warehouse

    def list_databases(self) -> list[str]:
        return directories.list_databases(self._env_config.build(), self._warehouse)

    def database_properties(self, database: str) -> dict[str, str]:
        self._check_database(database)
        return {"location": self._directory(database)}

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        if properties:
            raise UnsupportedError(
                f"database {database!r}: a filesystem catalog cannot store properties "
                f"({', '.join(sorted(properties))}); a JDBC or REST catalog can"
            )
        storage = self._env_config.build().storage
        if storage.exists(self._directory(database)):
            raise AlreadyExistsError(f"database {database!r} already exists in {self._warehouse}")
        storage.make_dir(self._directory(database))

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Drops the directory; without `cascade` only an empty one, with it also what is in it that is not a table."""
        self._check_database(database)
        directory, storage = self._directory(database), self._env_config.build().storage
        tables = self.list_tables(database)
        if tables and not cascade:
            raise not_empty(database, tables)
        for table in tables:
            # Another process may drop the same table at this moment.
            with contextlib.suppress(NotFoundError):
                self.drop_table(TableName(database, table))
        if not cascade:
            # First, since others may create a table at this moment; it leaves a directory that is not empty.
            storage.delete_dir(directory)
            if found := [info.path.rpartition("/")[2] for info in storage.list(directory)]:
                raise ConflictError(
                    f"database {database!r} is not empty: {directory} has {_some(found)}, which are not tables, or not "
                    "yet, as while they are copied; move or delete them first, or use drop_database(..., "
                    "cascade=True), which deletes everything there"
                )
        if storage.exists(directory):
            storage.delete_tree(directory)

    def list_tables(self, database: str) -> list[str]:
        return directories.list_tables(self._env_config.build(), self._warehouse, database)

    def create_table(self, name: TableName, draft: TableDraft, *, if_not_exists: bool) -> TableHandle:
        wanted = draft.with_defaults(self._config.table_defaults)
        return directories.create_table(
            self._env_config.build(),
            self._env_config,
            self._path(name),
            schema=wanted.columns,
            primary_keys=wanted.primary_keys,
            partition_keys=wanted.partition_keys,
            options=wanted.options,
            comment=wanted.comment,
            if_not_exists=if_not_exists,
        )

    def load_table(self, name: TableName, *, branch: str, options: Mapping[str, str]) -> TableHandle:
        return load_table(self._path(name), self._env_config, branch=branch, options=options)

    def drop_table(self, name: TableName) -> None:
        env = self._env_config.build()
        load_table(self._path(name), self._env_config)
        directories.check_deletable(env.storage, self._path(name))
        directories.delete_table(env.storage, self._path(name))

    def rename_table(self, name: TableName, new_name: TableName) -> None:
        env = self._env_config.build()
        load_table(self._path(name), self._env_config)
        self._check_database(new_name.database)
        if latest_schema_id(env, TablePaths(self._path(new_name))) is not None:
            raise AlreadyExistsError(f"table {new_name} already exists in {self._warehouse}")
        directories.check_free(env.storage, self._path(new_name))
        env.storage.rename_dir(self._path(name), self._path(new_name))

    def _check_database(self, database: str) -> None:
        if not self._env_config.build().storage.exists(self._directory(database)):
            known = ", ".join(self.list_databases()) or "none"
            raise NotFoundError(f"no database {database!r} in {self._warehouse}; it has {known}")

    def _directory(self, database: str) -> str:
        return f"{self._warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"

    def _path(self, name: TableName) -> str:
        return f"{self._directory(name.database)}/{name.table}"


def not_empty(database: str, tables: list[str]) -> ConflictError:
    """The error for a database that cannot be dropped because it has tables or views."""
    return ConflictError(
        f"database {database!r} is not empty: {_some(tables)}; drop them first, or use drop_database(..., cascade=True)"
    )


def no_files(where: str, name: TableName, path: str) -> NotFoundError:
    """The error for a table that a catalog knows, while there is no schema file where its files should be."""
    return NotFoundError(
        f"{where} has a table {name} at {path}, but there is no schema file: the table was moved or deleted without "
        "the catalog, or the store does not show it. Bring its files back, or drop the entry with drop_table"
    )


def files_left(error: StorageError, name: TableName, path: str) -> StorageError:
    """The error for a table that a catalog has dropped, while its files could not be deleted."""
    return StorageError(
        f"{error}. The catalog has no table {name} any more, but files of it are left in {path}: delete that "
        "directory, or let create_table(..., if_not_exists=True) enter it again, and drop it again"
    )


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
