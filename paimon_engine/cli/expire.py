"""Commands that let old versions go: expire, expire-changelogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    ParallelismOption,
    QuarantineOption,
    RateOption,
    SparkOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    epoch_ms,
    job_on,
)
from paimon_engine.cli.outcome import gone, print_deleted, tell_quarantine
from paimon_engine.cli.running import run_job, run_quick
from paimon_engine.cli.terminal import ProgressStyle, count, hint, print_json, say, warn

TAGS_SHOWN: Final = 4


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command(
        epilog=example
        + "`paimon-engine expire db.t -w /lake --retain-max 10 --dry-run`\n\n"
        + "`paimon-engine expire /lake/db.db/t --older-than 2013-01-31`"
    )(expire)
    app.command("expire-changelogs", epilog=example + "`paimon-engine expire-changelogs db.t -w /lake --dry-run`")(
        expire_changelogs
    )


def expire(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    retain_max: Annotated[int | None, typer.Option(metavar="N", min=1, help="Keep at most so many snapshots.")] = None,
    retain_min: Annotated[int | None, typer.Option(metavar="N", min=1, help="Keep at least so many snapshots.")] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only older ones: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Delete at most so many.")] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Begin no further round after this time.")
    ] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    spark: SparkOption = None,
    progress: Annotated[ProgressStyle, typer.Option(help="How to tell progress, on standard error.")] = (
        ProgressStyle.BAR
    ),
    as_json: JsonOption = False,
) -> None:
    """Delete old snapshots and the files that nothing else reaches. Tags keep theirs.

    What is not given comes from the table's options.
    """
    from paimon_engine.actions.expire_snapshots import ExpireSnapshots

    age = None if older_than is None else epoch_ms(older_than)
    spec = ExpireSnapshots(
        retain_max,
        retain_min,
        age,
        dry_run,
        limit,
        max_seconds,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    details = run_job(job_on(table, warehouse, storage, catalog, spec), spark=spark, progress=progress).details
    if as_json:
        print_json(details)
        return
    _print_expired(details)


def expire_changelogs(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    retain_max: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Keep at most so many, snapshots counted.")
    ] = None,
    retain_min: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Keep at least so many, snapshots counted.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only older ones: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Delete at most so many.")] = None,
    delete_all: Annotated[bool, typer.Option("--all", help="Delete all of them.")] = False,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete old changelogs of expired snapshots. Consumers keep what they have not read.

    What is not given comes from the table's options.
    """
    from paimon_engine.actions.expire_changelogs import ExpireChangelogs

    age = None if older_than is None else epoch_ms(older_than)
    spec = ExpireChangelogs(
        retain_max,
        retain_min,
        age,
        limit,
        delete_all,
        dry_run,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "expiring changelogs")
    if as_json:
        print_json(details)
        return
    _print_expired(details)


def _print_expired(details: Mapping[str, Any]) -> None:
    print_deleted(details["deleted"])
    if kept := details["kept_by_tags"]:
        names = list(kept)
        some = ", ".join(names) if len(names) <= TAGS_SHOWN else f"{names[0]}, {names[1]} … {names[-1]}"
        hint(f"files kept for {count(len(kept), 'tag')}: {some}")
    if kept := details.get("kept_changelogs"):
        hint(f"changelogs live on: {_span(kept)}")
    say(_expire_line(details))
    if remaining := details["remaining"]:
        warn(f"old enough to go, and left for now: {remaining:,}")
    tell_quarantine(details)
    if len(aside := details["quarantines"]) > 1:
        hint(f"one quarantine per round; restore them in this order: {', '.join(aside)}")
    for reason in details["stopped"]:
        warn(f"left alone: {reason}")


def _expire_line(details: Mapping[str, Any]) -> str:
    parts = [
        f"{count(len(ids), what)} ({_span(ids)})"
        for what in ("snapshot", "changelog")
        if (ids := details.get(f"expired_{what}s"))
    ]
    if not parts:
        return "nothing to expire"
    verb = "dry run: would expire" if details["status"] == "dry_run" else "expired"
    return f"{verb} {' and '.join(parts)}: {gone(details)}"


def _span(ids: Sequence[int]) -> str:
    return f"{ids[0]}" if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
