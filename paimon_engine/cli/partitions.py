"""Commands on partitions: drop-partition, expire-partitions, mark-partition-done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    job_on,
    key_values,
)
from paimon_engine.cli.running import run_quick
from paimon_engine.cli.terminal import count, hint, print_json, say, size, warn

PARTITIONS_SHOWN: Final = 20
PartitionsArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="PARTITION...", help="COLUMN=VALUE, several with commas between: day=…,hour=…")
]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command("drop-partition", epilog=example + "`paimon-engine drop-partition /lake/db.db/t day=2013-01-01`")(
        drop_partition
    )
    app.command(
        "expire-partitions",
        epilog=example + "`paimon-engine expire-partitions db.t -w /lake --older-than '30 d' --dry-run`",
    )(expire_partitions)
    app.command(
        "mark-partition-done", epilog=example + "`paimon-engine mark-partition-done /lake/db.db/t day=2013-01-01`"
    )(mark_partition_done)


def drop_partition(
    table: TableArgument,
    partitions: PartitionsArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Drop the rows of partitions. A value for some of the columns drops all that have it."""
    from paimon_engine.actions.drop_partition import DropPartition

    job = job_on(table, warehouse, storage, catalog, DropPartition(_specs(partitions), dry_run))
    _print_dropped(run_quick(job, "dropping partitions"), as_json=as_json)


def expire_partitions(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    older_than: Annotated[str | None, typer.Option(metavar="AGE", help="Such as '30 d'.")] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="values-time, or update-time: that of the newest file.")
    ] = None,
    pattern: Annotated[str | None, typer.Option(metavar="TEXT", help="Its time: '$day $hour:00:00'.")] = None,
    formatter: Annotated[str | None, typer.Option(metavar="TEXT", help="How that reads: yyyyMMdd HH:mm:ss.")] = None,
    max_num: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many at once.")] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Drop the partitions that are too old. What is not given comes from the table's options."""
    from paimon_engine.actions.drop_partition import ExpirePartitions

    spec = ExpirePartitions(older_than, strategy, pattern, formatter, max_num, dry_run)
    _print_dropped(run_quick(job_on(table, warehouse, storage, catalog, spec), "expiring partitions"), as_json=as_json)


def mark_partition_done(
    table: TableArgument,
    partitions: PartitionsArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tell those who wait that no more rows will come to partitions."""
    from paimon_engine.actions.mark_partition_done import MarkPartitionDone

    job = job_on(table, warehouse, storage, catalog, MarkPartitionDone(_specs(partitions), dry_run))
    details = run_quick(job, "marking partitions")
    if as_json:
        print_json(details)
        return
    for path in details["files"]:
        say(f"would write {path}" if dry_run else f"wrote {path}")
    for path in details["reported"]:
        say(f"would report {path}" if dry_run else f"reported {path}")


def _specs(partitions: Sequence[str]) -> list[dict[str, str]]:
    return [key_values("partition", text.split(",")) for text in partitions]


def _print_dropped(details: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(details)
        return
    partitions = details["partitions"]
    for values in partitions[:PARTITIONS_SHOWN]:
        say(", ".join(f"{name}={'null' if value is None else value}" for name, value in values.items()))
    if len(partitions) > PARTITIONS_SHOWN:
        hint(f"and {count(len(partitions) - PARTITIONS_SHOWN, 'more partition')} (--json lists all)")
    say(_line(details))
    for reason in details["stopped"]:
        warn(f"left alone: {reason}")


def _line(details: Mapping[str, Any]) -> str:
    gone = (
        f"{count(len(details['partitions']), 'partition')} with {count(details['files'], 'file')}, "
        f"{count(details['rows'], 'record')}, {size(details['bytes'])}"
    )
    match details["status"]:
        case "committed":
            return f"committed snapshot {details['snapshot_id']}: dropped {gone}"
        case "dry_run":
            return f"dry run: would drop {gone}"
        case "already_done":
            return f"already done in snapshot {details['snapshot_id']}"
        case _:
            return "nothing to drop"
