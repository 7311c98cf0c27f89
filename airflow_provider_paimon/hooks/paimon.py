"""The hook: from an Airflow connection, or from a plain warehouse address, to tables.

Secrets never become part of a job: `storage_ref` names environment variables, and `secrets` gives their values to
the code that starts the process that needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_provider_paimon import engine
from airflow_provider_paimon.assets import TableAddress
from airflow_provider_paimon.rendered import structure, text
from paimon_engine.errors import InvalidArgumentError, NotFoundError

_S3_SCHEMES: Final = ("s3://", "s3a://")
_S3_FIELDS: Final[Mapping[str, str]] = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
}
_PLAIN_CATALOG_OPTIONS: Final = ("metastore", "warehouse")
"""Options of the catalog that a job needs before it reads the environment."""
_SECRET_LENGTH_MIN: Final = 8
_PLAIN_VALUE: Final = re.compile(r"true|false|[\d.]+ ?[a-z]{0,4}", re.IGNORECASE)
"""Flags, numbers, sizes and durations."""


class PaimonHook(BaseHook):
    """A warehouse.

    The connection's `catalog_options` name the catalog that keeps its tables: `metastore`, `uri` and so on; without
    any the warehouse is a directory.

    It is that of the connection, or `warehouse` itself without any connection; given both, the connection supplies
    credentials only. `storage_options` are added to the connection's, and override them.
    """

    conn_name_attr = "paimon_conn_id"
    default_conn_name = "paimon_default"
    conn_type = "paimon"
    hook_name = "Apache Paimon"

    def __init__(
        self,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
    ) -> None:
        """All may be what a template left: the text of a map, or `None` for nothing. Raises: InvalidArgumentError."""
        super().__init__()
        self.paimon_conn_id = text(paimon_conn_id)
        self._warehouse = text(warehouse)
        self._given_options = _texts(structure("storage_options", storage_options, dict) or {})

    # ── connection ──────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _connection(self) -> Any | None:
        if self.paimon_conn_id is None and self._warehouse is not None:
            return None
        try:
            return self._checked(self.get_connection(self.paimon_conn_id or self.default_conn_name))
        except AirflowNotFoundException as error:
            self._check_unnamed(error)
            return None

    def use_connection(self, connection: Any | None) -> None:
        """Uses this connection; for callers that have it already, such as commands that read the database.

        Raises: InvalidArgumentError for one of another type.
        """
        self.__dict__["_connection"] = self._checked(connection)

    async def load_connection(self) -> None:
        """Fetches the connection without blocking the event loop; for triggers, before any other call.

        Raises: AirflowNotFoundException for one that is not defined; InvalidArgumentError for one of another type.
        """
        if self.paimon_conn_id is not None or self._warehouse is None:
            try:
                self.use_connection(await self.aget_connection(self.paimon_conn_id or self.default_conn_name))
            except AirflowNotFoundException as error:
                self._check_unnamed(error)
                self.use_connection(None)

    def _checked(self, connection: Any | None) -> Any | None:
        """The connection. Raises: InvalidArgumentError for one of another type, whose host is no warehouse."""
        kind = None if connection is None else connection.conn_type
        if kind and kind != self.conn_type:
            raise InvalidArgumentError(
                f"The connection {self.paimon_conn_id or self.default_conn_name} is of type {kind}; a warehouse needs "
                f"one of type {self.conn_type} ({self.hook_name})"
            )
        return connection

    def _check_unnamed(self, error: AirflowNotFoundException) -> None:
        """Tables that are named by their path on a local disk need no connection.

        Raises: AirflowNotFoundException for a connection that was named. It is not hopeless: Airflow says so, too,
        while the place where connections are kept does not answer.
        """
        if self.paimon_conn_id is not None:
            raise AirflowNotFoundException(
                f"The connection {self.paimon_conn_id} is not defined: define it with type {self.conn_type}, or "
                "correct its name"
            ) from error

    @property
    def warehouse(self) -> str:
        """Address of the warehouse.

        Raises: InvalidArgumentError if the connection has none.
        """
        if self._warehouse is not None:
            return self._warehouse
        if self._connection is None:
            raise InvalidArgumentError(
                f"No warehouse is given: define the connection {self.default_conn_name}, or name another by "
                "paimon_conn_id=, or give warehouse="
            )
        address: str | None = self._connection.host
        if not address:
            conn_id = self.paimon_conn_id or self.default_conn_name
            raise InvalidArgumentError(
                f"The connection {conn_id} names no warehouse: put its address into the field Warehouse (host), "
                "percent-encoded if the connection is a URI (paimon://%2Fdata%2Flake, paimon://s3%3A%2F%2Flake), or "
                "give warehouse= together with the connection"
            )
        return address

    @cached_property
    def storage_options(self) -> dict[str, str]:
        """All options of the store, with secrets in clear."""
        return {**self._connection_options, **self._given_options}

    @cached_property
    def _connection_options(self) -> dict[str, str]:
        """Options of the store that the connection gives, with secrets in clear: those of S3 also from its fields.

        What the extra gives under `storage_options` wins.
        """
        connection = self._connection
        if connection is None:
            return {}
        extra = connection.extra_dejson
        options = {}
        if self._is_s3:
            pairs = {
                "s3.access-key": connection.login,
                "s3.secret-key": connection.password,
                "s3.session-token": extra.get("token"),
                **{option: extra.get(field) for field, option in _S3_FIELDS.items()},
            }
            options = {option: str(value) for option, value in pairs.items() if value}
        return {**options, **_texts(_object(extra.get("storage_options"), "storage"))}

    @cached_property
    def catalog_options(self) -> dict[str, str]:
        """Options of the connection's catalog, with secrets in clear."""
        connection = self._connection
        return {} if connection is None else _texts(_object(connection.extra_dejson.get("catalog_options"), "catalog"))

    @property
    def extra(self) -> Mapping[str, Any]:
        """What the connection's extra says; nothing without a connection."""
        extra: Mapping[str, Any] = {} if self._connection is None else self._connection.extra_dejson
        return extra

    @property
    def _is_s3(self) -> bool:
        address = self._warehouse or (self._connection.host if self._connection is not None else None)
        # A connection without a warehouse is used for tables that are named by their path.
        return address is None or address.startswith(_S3_SCHEMES)

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────

    def table_ref(self, table: str) -> engine.TableRef:
        """A table for a job: `database.table` of the warehouse, or the path of a table's directory."""
        if "/" in table:
            return engine.TableRef(path=table)
        return engine.TableRef(warehouse=self.warehouse, name=table)

    def storage_ref(self) -> engine.StorageRef:
        """The store for a job: plain options, and the names of environment variables for all that may be secret."""
        plain = {name: value for name, value in self.storage_options.items() if not self._is_secret(name, value)}
        hidden = [name for name in self.storage_options if name not in plain]
        return engine.StorageRef(plain, {name: self._variable(name) for name in hidden})

    def catalog_ref(self) -> engine.CatalogRef:
        """The catalog for a job: its kind, and the names of environment variables for all the rest."""
        plain = {name: value for name, value in self.catalog_options.items() if name in _PLAIN_CATALOG_OPTIONS}
        hidden = [name for name in self.catalog_options if name not in plain]
        return engine.CatalogRef(plain, {name: self._variable(f"catalog_{name}") for name in hidden})

    def source_ref(self) -> engine.SourceRef:
        """The warehouse for a job whose source is a table of it."""
        has_address = self._warehouse is not None or (self._connection is not None and bool(self._connection.host))
        return engine.SourceRef(self.warehouse if has_address else None, self.storage_ref(), self.catalog_ref())

    def table_refs(self, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Options of the table for a job: those that may be shown, and the environment variables of all others."""
        plain = {name: value for name, value in options.items() if engine.shows_table_option(name, value)}
        return plain, {name: self._variable(f"table_{name}") for name in options if name not in plain}

    def secrets(self, table_options: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment variables, with their values, that a process needs to run a job of this warehouse."""
        given = table_options or {}
        values = {}
        for variables, options, shows in (
            (self.storage_ref().secrets, self.storage_options, engine.shows_storage_option),
            (self.catalog_ref().secrets, self.catalog_options, engine.shows_catalog_option),
            (self.table_refs(given)[1], given, engine.shows_table_option),
        ):
            for name, variable in variables.items():
                values[variable] = options[name]
                if not shows(name, options[name]):
                    _mask(name, options[name])
        return values

    def _is_secret(self, name: str, value: str) -> bool:
        if not engine.shows_storage_option(name, value):
            return True
        # Other entries of a connection's free form may have been put there to hide them.
        return name not in self._given_options and name not in _S3_FIELDS.values()

    def _variable(self, option: str) -> str:
        name = f"PAIMON_{self.paimon_conn_id or ''}_{option}"
        return re.sub(r"[^A-Z0-9]+", "_", name.upper())

    def has_given_secrets(self) -> bool:
        """Whether the options given in addition to the connection contain a secret."""
        return any(self._is_secret(name, value) for name, value in self._given_options.items())

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def get_conn(self) -> engine.Catalog:
        """The catalog; the name that Airflow's hooks use."""
        return self.catalog()

    def catalog(self, storage_options: Mapping[str, str] | None = None) -> engine.Catalog:
        """The warehouse as a catalog, whose work runs in threads of this process; with other options of the store."""
        options = self.storage_options if storage_options is None else storage_options
        return engine.Catalog(self.warehouse, storage_options=options, options=self.catalog_options)

    def table(self, table: str) -> engine.Table:
        """The table `database.table`, or the one in a directory. Raises: NotFoundError."""
        if "/" in table and not self.catalog_options:
            return engine.open_table(table, storage_options=self.storage_options)
        return self.catalog().table(table)

    def read(self, table: str, columns: Sequence[str] | None = None, **how: Any) -> Any:
        """Rows as an Arrow table, with the arguments of `Table.to_arrow`; noted as an input of the task's lineage.

        Raises: NotFoundError, and what `Table.to_arrow` raises.
        """
        rows = self.table(table).to_arrow(columns, **how)
        self.note_lineage(table, is_input=True)
        return rows

    def write(self, table: str, data: Any, **how: Any) -> dict[str, Any]:
        """Writes rows as `Table.write` does, and gives its result; noted as an output of the task's lineage."""
        result: dict[str, Any] = self.table(table).write(data, **how).to_dict()
        self.note_lineage(table, is_input=False)
        return result

    def note_lineage(self, table: str, *, is_input: bool) -> None:
        """Tells Airflow's collector of lineage that this task has read the table, or written it."""
        from airflow.sdk.lineage import get_hook_lineage_collector

        collector = get_hook_lineage_collector()
        note = collector.add_input_asset if is_input else collector.add_output_asset
        note(context=self, uri=self.asset_uri(table))

    def asset_uri(self, table: str) -> str:
        """The address of a table as an asset: `paimon://lake/shop/orders`; of a table in a directory, that."""
        if "/" in table:
            return table if "://" in table else Path(table).absolute().as_uri()
        named, _, _ = table.partition("$")  # system tables and branches are the table, too
        return TableAddress.of(named, self.paimon_conn_id, self._warehouse).uri

    def latest_snapshot(self, table: str) -> dict[str, Any] | None:
        """The newest snapshot, with the columns of the system table `$snapshots`; None before the first commit."""
        found = self.table(table)
        newest = found.latest_snapshot_id()
        rows: list[dict[str, Any]] = [] if newest is None else found.snapshots(newer_than=newest - 1).to_pylist()
        return rows[-1] if rows else None

    def tags(self, table: str) -> dict[str, int]:
        """Tags and the snapshots that they name."""
        tags = self.table(table).tags().select(["tag_name", "snapshot_id"]).to_pylist()
        return {row["tag_name"]: row["snapshot_id"] for row in tags}

    def tag_names(self, table: str) -> list[str]:
        """Names of all tags, sorted. Raises: NotFoundError."""
        return self.table(table).tag_names()

    def look(self, table: str, wait: engine.Wait) -> dict[str, Any] | None:
        """What a wait of `read_wait` waits for, or None: it is not there yet, or the table is not.

        Raises: InvalidArgumentError, UnsupportedError for conditions that can never be met.
        """
        try:
            found = self.table(table)
        except NotFoundError:
            return None
        return found.look(wait)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the warehouse can be listed, and its store decides commits; for Airflow's connection form."""
        # Only needed if that button is pressed.
        from airflow_provider_paimon.connection_check import examine_connection

        return examine_connection(self)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as texts, nested values as JSON, the form that the engine takes."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}


def _mask(name: str, value: str) -> None:
    """Lets Airflow replace the value of an option in logs by `***`.

    Under a name that Airflow takes for secret any value is replaced, else one that might be a secret: where a flag, a
    number or a region were replaced, logs could not be read.
    """
    of_store = re.split(r"[.-]", name)[-1]
    is_plain = len(value) < _SECRET_LENGTH_MIN or _PLAIN_VALUE.fullmatch(value) is not None
    mask_secret(value, name if is_plain or engine.shows_storage_option(of_store, value) else None)


def _object(value: Any, of: str) -> Mapping[str, Any]:
    """Options of the storage or catalog: the connection form gives an object, an address (URI) its text.

    Raises: InvalidArgumentError.
    """
    if not value:
        return {}
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        value = None
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f'{of}_options of the connection must be a JSON object such as {{"name": "value"}}')
    return value
