"""Tables as Airflow assets: `paimon_table("shop.orders", conn_id="lake")`, at `paimon://lake/shop/orders`.

The address names the connection, not the location: it is the same in all deployments, and contains no secret. A
warehouse that is given by its address replaces the connection, percent-encoded. `orders.tags` is a separate asset,
`paimon://lake/shop/orders$tags`: DAGs that read days wait for tags, not for each write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

import attrs
from airflow.sdk import Asset

from airflow_provider_paimon.table_tasks import TableTasks
from paimon_engine.errors import InvalidArgumentError

__all__ = [
    "PaimonTable",
    "TableAddress",
    "create_asset",
    "openlineage_dataset",
    "paimon_table",
    "place_of",
    "sanitize_uri",
    "table_address",
]

SCHEME: Final = "paimon"
DEFAULT_CONN_ID: Final = "paimon_default"
_TAGS: Final = "$tags"
_FORM: Final = "write paimon://connection/database/table"

CHANGES_ROWS: Final = frozenset(
    {
        *("write", "delete_rows", "drop_partition", "expire_partitions", "purge_files"),
        *("merge_branch", "fast_forward", "rollback", "rollback_to_as_latest", "restore"),
    }
)
"""Actions after which readers see other rows: their operators report that by the asset of the table."""
MAKES_TAGS: Final = frozenset({"create_tag", "create_due_tags", "create_day_tags"})
"""Actions whose operators report that by the asset of the table's tags."""
UNCHANGED: Final = frozenset({"noop", "dry_run", "stopped", "sound", "damaged"})
"""What the status of a result is where nothing has changed."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """What a `paimon://` address names; `alias` is a connection's id, or the address of a warehouse."""

    alias: str
    table: str
    is_tags: bool = False

    @classmethod
    def of(cls, table: str, conn_id: str | None = None, warehouse: str | None = None) -> TableAddress:
        """The address of `database.table`; a warehouse wins over the connection, which then only has its credentials.

        Raises: InvalidArgumentError for another form, or an address of a warehouse that contains credentials.
        """
        parts = table.split(".")
        if len(parts) != 2 or not all(parts) or any(sign in table for sign in "/\\$") or "{{" in table:
            raise InvalidArgumentError(
                f"{table!r} cannot be an asset; give database.table, without templates: assets are known before runs"
            )
        if warehouse is not None and "@" in urlsplit(warehouse).netloc:
            raise InvalidArgumentError(
                f"the address of the warehouse of {table} contains credentials; put them into a connection"
            )
        return cls(warehouse or conn_id or DEFAULT_CONN_ID, table)

    @classmethod
    def parse(cls, uri: str) -> TableAddress:
        """What the address says. Raises: ValueError."""
        parts = urlsplit(uri)
        if parts.scheme != SCHEME:
            raise ValueError(f"{uri} is not an address of a table; {_FORM}")
        parts = sanitize_uri(parts)
        database, table = (unquote(part) for part in parts.path.strip("/").split("/"))
        return cls(unquote(parts.netloc), f"{database}.{table.removesuffix(_TAGS)}", table.endswith(_TAGS))

    @property
    def namespace(self) -> str:
        """The warehouse: `paimon://lake`."""
        return f"{SCHEME}://{quote(self.alias, safe='')}"

    @property
    def uri(self) -> str:
        """All of it: `paimon://lake/shop/orders`."""
        database, _, table = self.table.partition(".")
        return f"{self.namespace}/{quote(database, safe='')}/{quote(table, safe='')}{_TAGS if self.is_tags else ''}"

    @property
    def name(self) -> str:
        """A name that no other asset has, for people: `lake.shop.orders`."""
        tags = ".tags" if self.is_tags else ""
        return f"{self.uri}{tags}" if "/" in self.alias else f"{self.alias}.{self.table}{tags}"


def table_address(uri: str) -> TableAddress | None:
    """The table that an asset's address names; None if it names none."""
    try:
        return TableAddress.parse(uri)
    except ValueError:
        return None


@attrs.define(init=False, eq=False)
class PaimonTable(Asset, TableTasks):
    """A table as an asset, and as the arguments of operators: `PaimonCompactOperator(table=orders, …)`.

    Schedule by it (`schedule=[orders]`), name it as outlet or inlet, and give it to operators and sensors as `table`;
    or let it make them: `orders.compact()`.
    """

    table: str = ""
    conn_id: str | None = None
    warehouse: str | None = None
    storage_options: dict[str, str] = attrs.field(factory=dict, repr=False)
    table_options: dict[str, str] = attrs.field(factory=dict, repr=False)
    spark_conn_id: str | None = None

    def __init__(
        self,
        table: str,
        conn_id: str | None = None,
        *,
        warehouse: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        table_options: Mapping[str, str] | None = None,
        spark_conn_id: str | None = None,
        **asset: Any,
    ) -> None:
        address = TableAddress.of(table, conn_id, warehouse)
        super().__init__(name=asset.pop("name", address.name), uri=address.uri, **asset)
        self.table = table
        self.conn_id = conn_id
        self.warehouse = warehouse
        self.storage_options = dict(storage_options or {})
        self.table_options = dict(table_options or {})
        self.spark_conn_id = spark_conn_id

    def check_alone(self, conn_id: str | None, warehouse: str | None) -> None:
        """That nothing else says where the table is. Raises: InvalidArgumentError."""
        for name, given, own in (("paimon_conn_id", conn_id, self.conn_id), ("warehouse", warehouse, self.warehouse)):
            if given is not None and given != own:
                raise InvalidArgumentError(
                    f"{name}={given!r} and a paimon_table give two locations of {self.table}; give one of them, "
                    "or another paimon_table"
                )

    @property
    def arguments(self) -> dict[str, Any]:
        """What operators, sensors, triggers and hooks take to find the table, without what is not given."""
        named = {
            "table": self.table,
            "paimon_conn_id": self.conn_id,
            "warehouse": self.warehouse,
            "storage_options": self.storage_options,
        }
        return {name: value for name, value in named.items() if value}

    @property
    def tags(self) -> Asset:
        """The table's tags as an asset, which is changed when a tag is made or moved."""
        address = TableAddress(TableAddress.parse(self.uri).alias, self.table, is_tags=True)
        return Asset(name=f"{self.name}.tags", uri=address.uri, group=self.group)

    def keys(self) -> Iterator[str]:
        """Makes `**orders` the same as `table=orders`."""
        return iter(("table",))

    def __getitem__(self, key: str) -> PaimonTable:
        if key != "table":
            raise KeyError(key)
        return self


_Name = TypeVar("_Name")


def as_table(given: _Name | Asset) -> _Name | PaimonTable:
    """An asset that was made of the address of a table as that table; all else unchanged.

    Raises: InvalidArgumentError for an asset of something else.
    """
    if isinstance(given, PaimonTable) or not isinstance(given, Asset):
        return given
    address = table_address(given.uri)
    if address is None or address.is_tags:
        raise InvalidArgumentError(f"the asset {given.uri} is not a table; give a paimon_table, or {_FORM}")
    names = ("name", "group", "extra", "watchers", "access_control")
    asset: dict[str, Any] = {name: getattr(given, name) for name in names}
    if "/" in address.alias:
        return PaimonTable(address.table, warehouse=address.alias, **asset)
    return PaimonTable(address.table, address.alias, **asset)


def place_of(
    table: str | Asset,
    conn_id: str | None,
    warehouse: str | None,
    storage_options: Mapping[str, Any] | str | None,
) -> tuple[str, str | None, str | None, Mapping[str, Any] | str | None]:
    """Name, connection, warehouse and store's options of a table that was given by its name, or as an asset.

    Raises: InvalidArgumentError if both the asset and an argument say where it is, or it is not a table.
    """
    table = as_table(table)
    if not isinstance(table, PaimonTable):
        return table, conn_id, warehouse, storage_options
    table.check_alone(conn_id, warehouse)
    options = added_options("storage_options", table.storage_options, storage_options)
    return table.table, table.conn_id, table.warehouse, options


def added_options(
    name: str, own: Mapping[str, Any], given: Mapping[str, Any] | str | None
) -> Mapping[str, Any] | str | None:
    """Options of a `paimon_table` with those of a task, which win; those of one of them may be a template.

    Raises: InvalidArgumentError for a template that would have to be added to others.
    """
    if isinstance(given, str) and not own:
        return given
    if isinstance(given, str):
        raise InvalidArgumentError(f"{name} cannot be one template where the paimon_table has some, too; give a map")
    return {**own, **(given or {})}


def is_from_mapped(operator: Any) -> bool:
    """Whether Airflow makes this operator of a mapped task: such assets it knows only where `partial` has them.

    It is asked before the base class is initialised. Airflow has no public name for it.
    """
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def paimon_table(
    table: str,
    conn_id: str | None = None,
    *,
    warehouse: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    table_options: Mapping[str, str] | None = None,
    spark_conn_id: str | None = None,
    **asset: Any,
) -> PaimonTable:
    """A table as an Airflow asset, and as the arguments of operators and sensors.

    Args:
        table: `database.table`.
        conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
        table_options: Paimon options for all runs of operators on it.
        spark_conn_id: connection of the Spark on which work on rows runs.
        **asset: what else Airflow's `Asset` takes: `group`, `extra`, `watchers`, `access_control`; or another `name`.

    Raises: InvalidArgumentError.
    """
    return PaimonTable(
        table,
        conn_id,
        warehouse=warehouse,
        storage_options=storage_options,
        table_options=table_options,
        spark_conn_id=spark_conn_id,
        **asset,
    )


# ── what the provider registers for `paimon://` ─────────────────────────────────────────────────


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """The one spelling of an address. Raises: ValueError if it names no table, or contains credentials."""
    shown = f"{uri.scheme}://{uri.netloc.rpartition('@')[2]}{uri.path}"
    if "@" in uri.netloc:
        raise ValueError(f"{shown} must not hold a user or a password; {_FORM}, and keep them in the connection")
    if uri.query:
        raise ValueError(f"{shown} must have no query; {_FORM}")
    parts = [unquote(part) for part in uri.path.strip("/").split("/")]
    if not uri.netloc or len(parts) != 2 or not all(parts):
        raise ValueError(f"{shown} names no table; {_FORM}")
    database, table = parts
    plain = table.removesuffix(_TAGS)
    if not plain or any(sign in f"{database}{plain}" for sign in "./\\$"):
        raise ValueError(f"{shown} names no table: names have no dot, slash or dollar; {_FORM}")
    address = TableAddress(unquote(uri.netloc), f"{database}.{plain}", table.endswith(_TAGS))
    spelled = urlsplit(address.uri)
    return uri._replace(netloc=spelled.netloc, path=spelled.path, fragment="")


def create_asset(
    *, table: str, conn_id: str | None = None, warehouse: str | None = None, extra: dict[str, Any] | None = None
) -> PaimonTable:
    """What hook lineage makes assets by."""
    return paimon_table(table, conn_id, warehouse=warehouse, extra=extra)


def openlineage_dataset(asset: Asset, lineage_context: Any = None) -> Any:  # noqa: ARG001 - as Airflow calls it
    """The asset as a dataset of OpenLineage: namespace `paimon://lake`, name `shop.orders`."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    address = TableAddress.parse(asset.uri)
    return Dataset(namespace=address.namespace, name=address.table)
