"""Arguments that commands share, and what they mean."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from paimon_engine.cli.terminal import warn
from paimon_engine.errors import InvalidArgumentError

if TYPE_CHECKING:
    from paimon_engine.api import Table
    from paimon_engine.catalog import Catalog
    from paimon_engine.jobs import Action, Job


_FROM_ENV: Final = "env:"


class Output(StrEnum):
    """Format of the rows; json is one object a line."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


TableArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="Directory of a table, or database.table together with --warehouse.")
]
WarehouseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--warehouse", "-w", metavar="ADDRESS", envvar="PAIMON_WAREHOUSE", help="Warehouse of the table: path or URL."
    ),
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        "-s",
        metavar="KEY=VALUE",
        help="Option of the file system (fsspec); the value env:NAME reads that environment variable. May be repeated.",
    ),
]
CatalogOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="KEY=VALUE",
        help="Option of the catalog, such as metastore=jdbc or uri=…; env:NAME as value takes it from the "
        "environment. May be repeated.",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the complete result as JSON.")]
DryRunOption: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
QuarantineOption: TypeAlias = Annotated[
    bool,
    typer.Option("--quarantine", help="Move files to a quarantine, so that restore can restore them."),
]
RateOption: TypeAlias = Annotated[
    float | None, typer.Option("--files-per-second", metavar="N", help="Delete at most this many files per second.")
]
ParallelismOption: TypeAlias = Annotated[
    int | None, typer.Option("--parallelism", metavar="N", min=1, help="Delete with at most this many workers.")
]
SparkOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help=r"Run tasks on Spark: `local[*]`, or sc://host for Connect."),
]


def storage_options(storage: Sequence[str] | None) -> dict[str, str]:
    """Options of the file system, with values from the environment included.

    Raises: InvalidArgumentError.
    """
    from paimon_engine.env import secret_values

    options, secrets = _with_secrets("--storage", storage)
    return {**options, **secret_values(secrets)}


def key_values(name: str, items: Sequence[str] | None) -> dict[str, str]:
    """Options of `KEY=VALUE` texts, given by the argument of that name.

    Raises: InvalidArgumentError.
    """
    options = {}
    for item in items or ():
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise InvalidArgumentError(f"{name} {item!r}: write KEY=VALUE")
        options[key] = value
    return options


def bounds(text: str) -> tuple[int, int] | tuple[str, str]:
    """The two ends of `FROM..TO`: snapshot ids if both are numbers, else tags.

    Raises: InvalidArgumentError.
    """
    start, dots, end = text.partition("..")
    if not start or not dots or not end:
        raise InvalidArgumentError(f"--incremental {text!r}: write FROM..TO, two snapshot ids or two tags")
    return (int(start), int(end)) if start.isdigit() and end.isdigit() else (start, end)


def catalog_options(catalog: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the catalog, and the environment variables of those that come from there.

    Raises: InvalidArgumentError.
    """
    return _with_secrets("--catalog", catalog)


def _with_secrets(name: str, items: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    given = key_values(name, items)
    secrets = {key: value.removeprefix(_FROM_ENV) for key, value in given.items() if value.startswith(_FROM_ENV)}
    return {key: value for key, value in given.items() if key not in secrets}, secrets


def open_catalog(warehouse: str | None, storage: Sequence[str] | None, catalog: Sequence[str] | None) -> Catalog:
    """The catalog that the arguments name."""
    from paimon_engine.catalog import Catalog

    options, secrets = catalog_options(catalog)
    if not catalog:
        _check_storage(warehouse, storage)
    return Catalog(warehouse, storage_options=storage_options(storage), options=options, secrets=secrets)


def open_named(
    table: str, warehouse: str | None, storage: Sequence[str] | None, catalog: Sequence[str] | None
) -> Table:
    """The table that the arguments name.

    Raises: InvalidArgumentError, NotFoundError.
    """
    from paimon_engine.catalog import open_table

    if not catalog and _is_path(table):
        _check_storage(table, storage)
        return open_table(table, storage_options=storage_options(storage))
    return open_catalog(warehouse if catalog else _needed(warehouse, table), storage, catalog).table(table)


def job_on(
    table: str, warehouse: str | None, storage: Sequence[str] | None, catalog: Sequence[str] | None, action: Action
) -> Job:
    """A new job for an action on the table that the arguments name.

    Raises: InvalidArgumentError.
    """
    from paimon_engine.jobs import CatalogRef, Job, StorageRef, TableRef

    user, store = f"cli-{uuid.uuid4()}", StorageRef(*_with_secrets("--storage", storage))
    if catalog:
        return Job(TableRef(warehouse, table), action, user, store, catalog=CatalogRef(*catalog_options(catalog)))
    ref = TableRef(path=table) if _is_path(table) else TableRef(warehouse=_needed(warehouse, table), name=table)
    _check_storage(ref.path or ref.warehouse, storage)
    return Job(ref, action, user, store)


def _check_storage(address: str | None, storage: Sequence[str] | None) -> None:
    """Warns of options of a file system where there is none but the local disk, which has no options."""
    if address is None or not storage:
        return
    from paimon_engine.storage import ENGINE_OPTIONS
    from paimon_engine.storage.locations import is_local

    others = sorted(set(key_values("--storage", storage)).difference(ENGINE_OPTIONS))
    if others and is_local(address):
        warn(f"--storage {', '.join(others)}: no effect, since {address} is on the local disk")


def epoch_ms(text: str) -> int:
    """Epoch milliseconds of a number, an ISO time, local unless it names a zone, or an age such as `7 d`.

    Raises: InvalidArgumentError.
    """
    from paimon_engine.env import now_ms
    from paimon_engine.units import moment_ms

    return moment_ms("time", text, now_ms=now_ms())


def _is_path(table: str) -> bool:
    return "/" in table or Path(table).is_dir()


def _needed(warehouse: str | None, table: str) -> str:
    if warehouse is None:
        raise InvalidArgumentError(f"{table!r} is not a directory here; add --warehouse, or give the table's directory")
    return warehouse
