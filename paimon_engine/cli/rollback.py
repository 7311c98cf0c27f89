"""The command rollback, of two actions: newer snapshots are deleted, or, with --as-latest, nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    ParallelismOption,
    QuarantineOption,
    RateOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    job_on,
)
from paimon_engine.cli.faces import finish
from paimon_engine.cli.outcome import deleted_text, print_outcome, words
from paimon_engine.cli.running import confirm, run_quick
from paimon_engine.cli.terminal import count
from paimon_engine.errors import InvalidArgumentError


def add_commands(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Examples:\n\n`paimon-engine rollback /lake/db.db/t --tag 2013-01-01`")(rollback)


def rollback(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    snapshot: Annotated[str | None, typer.Option(metavar="ID", help="Snapshot to go back to.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Tag to go back to.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the newest snapshot not younger than this time.")
    ] = None,
    watermark: Annotated[
        str | None, typer.Option(metavar="MS", help="To the newest snapshot whose watermark is not greater.")
    ] = None,
    as_latest: Annotated[
        bool, typer.Option("--as-latest", help="Lose nothing: make a new snapshot with the content of that one.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier snapshot, tag or time the latest state. Newer snapshots are deleted."""
    from paimon_engine.actions.rollback import Rollback
    from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
    from paimon_engine.specs import decode

    how: dict[str, Any] = {"dry_run": dry_run, "quarantine": quarantine}
    how |= {"files_per_second": files_per_second, "parallelism": parallelism}
    ways = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp, "watermark": watermark}
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) != 1:
        raise InvalidArgumentError(
            "name what to go back to: one of --snapshot ID, --tag NAME, --timestamp TIME and --watermark MS"
        )
    if as_latest:
        if dry_run:
            raise InvalidArgumentError("--dry-run says what is deleted, and --as-latest deletes nothing; leave one out")
        as_new = decode(RollbackToAsLatest, given)
        details = run_quick(job_on(table, warehouse, storage, catalog, as_new), "going back")
        finish(details, as_new, _print_as_latest, as_json=as_json)
        return
    spec = decode(Rollback, {**given, **how})
    job = job_on(table, warehouse, storage, catalog, spec)
    if not yes and not dry_run:
        name, value = next(iter(given.items()))
        confirm(job, "looking", f"Delete everything that came after {name} {value}?")
    details = run_quick(job, "rolling back")
    finish(details, spec, _print_result, as_json=as_json)


def _print_as_latest(details: Mapping[str, Any], _: Any) -> None:
    restored = f"snapshot {details['snapshot_id']} has the rows of snapshot {details['restored_snapshot']} again"
    print_outcome(details, f"{words(details)}: {restored}")


def _print_result(details: Mapping[str, Any], _: Any) -> None:
    removed = f"{count(len(details['removed_snapshots']), 'snapshot')}, {count(len(details['removed_tags']), 'tag')}"
    if details["removed_changelogs"]:
        removed += f", {count(len(details['removed_changelogs']), 'changelog')}"
    latest = f"snapshot {details['snapshot_id']} is the latest"
    print_outcome(details, f"{words(details)}: {latest}; removed {removed}, {deleted_text(details)}")
