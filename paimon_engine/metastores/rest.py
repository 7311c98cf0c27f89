"""The REST catalog: a server keeps names, schemas and snapshots, and may provide credentials for the storage.

The engine writes data files and manifests; the server keeps the snapshots and schemas that name them. External tables
(`isExternal`), whose directory the server does not manage, are committed by snapshot files as in a filesystem catalog.

Source: `rest-catalog-open-api.yaml`, `RESTCatalog`, `RESTTokenFileIO` of the Java library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import AlreadyExistsError, ConflictError, StorageError, UnsupportedError
from paimon_engine.meta.fixed_options import with_dynamic_options
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.schema import TableSchema, schema_to_json
from paimon_engine.metastores.base import TableName
from paimon_engine.metastores.config import TABLE_DEFAULT_PREFIX, CatalogConfig, is_true, with_prefix
from paimon_engine.metastores.filesystem import not_empty
from paimon_engine.metastores.rest_client import RestClient, client_of, part, texts
from paimon_engine.metastores.rest_schema import RestSchemaService, schema_of_answer
from paimon_engine.metastores.rest_snapshots import RestSnapshotService, branch_object
from paimon_engine.metastores.stores import RestStorageSource
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import TableDraft, check_engine_can

_OUR_TABLES: Final = ("table", "materialized-table")


def open_metastore(config: CatalogConfig) -> RestMetastore:
    """The catalog of a server. Requests the server's configuration at once.

    Raises: InvalidArgumentError, UnsupportedError, StorageError.
    """
    client_of(config)
    return RestMetastore(config)


class RestMetastore:
    """`Metastore` of a server."""

    def __init__(self, config: CatalogConfig) -> None:
        self._config = config

    @property
    def _client(self) -> RestClient:
        # Looked up each time: a forked process needs a client with its own connections.
        return client_of(self._config)

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def list_databases(self) -> list[str]:
        return sorted(set(self._client.pages("databases", key="databases")))

    def database_properties(self, database: str) -> dict[str, str]:
        answer = self._client.get("databases", database)
        where = f"{self._client}: database {database!r}"
        location = part(answer, "location", str, where)
        return {**texts(answer, "options", where), **({"location": location} if location else {})}

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        with _name_is_free():
            self._client.post("databases", body={"name": database, "options": dict(properties)})

    def drop_database(self, database: str, *, cascade: bool) -> None:
        tables = [] if cascade else self.list_tables(database)
        if tables:
            raise not_empty(database, tables)
        self._client.delete("databases", database)

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def list_tables(self, database: str) -> list[str]:
        return sorted(set(self._client.pages("databases", database, "tables", key="tables")))

    def create_table(self, name: TableName, draft: TableDraft, *, if_not_exists: bool) -> TableHandle:
        wanted = draft.with_defaults(self._table_defaults())
        schema = wanted.first_schema(Env(MemoryStorage()))
        check_engine_can(schema)
        stored = json.loads(schema_to_json(schema))
        parts = ("fields", "partitionKeys", "primaryKeys", "options", "comment")
        body = {
            "identifier": {"database": name.database, "object": name.table},
            "schema": {key: stored[key] for key in parts if key in stored},
        }
        try:
            with _name_is_free():
                self._client.post("databases", name.database, "tables", body=body)
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return self.load_table(name, branch=MAIN_BRANCH, options={})

    def load_table(self, name: TableName, *, branch: str, options: Mapping[str, str]) -> TableHandle:
        """The handle of a table as the server describes it, with its services for snapshots and schemas.

        External tables have no snapshot service: their snapshots are files. Raises: NotFoundError, StorageError,
        UnsupportedError.
        """
        object_name = branch_object(name.table, branch)
        answer = self._client.get("databases", name.database, "tables", object_name)
        source = f"{self._client}: table {name}"
        path = (part(answer, "path", str, source) or "").rstrip("/")
        if not path:
            raise StorageError(f"{source}: the server's answer has no 'path'")
        is_external = bool(part(answer, "isExternal", bool, source))
        schema = schema_of_answer(answer, source)
        _check_type(schema, source)
        config = self._env_config(path, name, branch, is_external=is_external)
        snapshot_service = None
        if not is_external:
            snapshot_service = RestSnapshotService(self._config, name.database, name.table, answer.get("id"))
        schema = with_dynamic_options(schema, options)
        paths, known = TablePaths(path, branch), {schema.id: schema}
        schema_service = RestSchemaService(self._config, name.database, name.table)
        return TableHandle(
            config.build(), config, paths, schema, dict(options), snapshot_service, known, schema_service
        )

    def drop_table(self, name: TableName) -> None:
        self._client.delete("databases", name.database, "tables", name.table)

    def rename_table(self, name: TableName, new_name: TableName) -> None:
        names = {"source": name, "destination": new_name}
        body = {key: {"database": item.database, "object": item.table} for key, item in names.items()}
        with _name_is_free():
            self._client.post("tables", "rename", body=body)

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def _table_defaults(self) -> dict[str, str]:
        return with_prefix(self._client.options, TABLE_DEFAULT_PREFIX)

    def _env_config(self, path: str, name: TableName, branch: str, *, is_external: bool) -> EnvConfig:
        config = replace(self._config.storage, address=path)
        if is_external:
            return config
        has_data_token = is_true(self._client.options, "data-token.enabled")
        source = RestStorageSource(self._config, name.database, branch_object(name.table, branch), has_data_token)
        return replace(config, source=source)


@contextmanager
def _name_is_free() -> Iterator[None]:
    """For requests that take a name. Raises: AlreadyExistsError where the server says that they conflict."""
    try:
        yield
    except ConflictError as error:
        raise AlreadyExistsError(str(error)) from error


def _check_type(schema: TableSchema, source: str) -> None:
    kind = schema.options.get("type", "table").lower()
    if kind not in _OUR_TABLES:
        raise UnsupportedError(f"{source} is not a Paimon data table: 'type' = '{kind}'")
    if schema.options.get("query-auth.enabled", "false").lower() == "true":
        raise UnsupportedError(
            f"{source}: 'query-auth.enabled' = 'true' lets the server filter rows and mask columns, "
            "which is not supported"
        )
