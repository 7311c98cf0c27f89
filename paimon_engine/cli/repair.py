"""Commands that mend, empty and bring back: restore, empty-quarantine, purge, remove-lost, repair-earliest."""

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
    SparkOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    epoch_ms,
    job_on,
    open_named,
)
from paimon_engine.cli.outcome import gone, print_deleted, tell, words
from paimon_engine.cli.running import run_quick
from paimon_engine.cli.terminal import count, print_grid, print_json, size, warn

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    commands = (
        ("restore", restore, "`paimon-engine restore /lake/db.db/t 6f1d…`"),
        ("quarantines", quarantines, "`paimon-engine quarantines db.t -w /lake`"),
        (
            "empty-quarantine",
            empty_quarantine,
            "`paimon-engine empty-quarantine db.t -w /lake --dry-run`",
        ),
        ("purge", purge, "`paimon-engine purge db.t -w /lake --quarantine`"),
        ("remove-lost-files", remove_lost_files, "`paimon-engine remove-lost-files db.t -w /lake --dry-run`"),
        (
            "remove-lost-manifests",
            remove_lost_manifests,
            "`paimon-engine remove-lost-manifests db.t -w /lake --dry-run`",
        ),
        ("repair-earliest", repair_earliest, "`paimon-engine repair-earliest db.t -w /lake --dry-run`"),
    )
    for name, command, line in commands:
        app.command(name, epilog=example + line)(command)


def restore(
    table: TableArgument,
    quarantine: Annotated[str, typer.Argument(metavar="NAME", help="Name that the deletion gave.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_tags: Annotated[
        bool, typer.Option("--as-tags", help="Bring versions back as tags restored-…, whatever took their place.")
    ] = False,
    dry_run: DryRunOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    spark: SparkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring back what a command with --quarantine moved aside: files, snapshots, tags, branches."""
    from paimon_engine.actions.restore import Restore

    spec = Restore(
        quarantine=quarantine,
        as_tags=as_tags,
        dry_run=dry_run,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "restoring files", spark=spark)
    roots = [f"snapshot {number}" for number in details["snapshots"]]
    roots += [f"tag {name}" for name in details["tags"]] + [f"branch {name}" for name in details["branches"]]
    text = f"{words(details)}: {count(details['files'], 'file')} of {details['action']}"
    tell({**details, "quarantine": None}, f"{text}; {', '.join(roots)}" if roots else text, as_json=as_json)
    if details["status"] == "stopped":
        raise typer.Exit(1)


def quarantines(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was moved aside and can be brought back, whatever state it is in."""
    found = open_named(table, warehouse, storage, catalog).quarantines()
    if as_json:
        print_json(list(found))
        return
    rows = [
        {
            "quarantine": item["quarantine"],
            "action": item["action"] or "unknown",
            "state": item["state"].replace("_", " "),
            "size": size(item["bytes"]),
        }
        for item in found
    ]
    print_grid(rows, empty="no quarantines")
    for item in found:
        if item["problem"]:
            warn(f"{item['quarantine']}: {item['problem']}")


def empty_quarantine(
    table: TableArgument,
    quarantine: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one.")] = None,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="All made before: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete for good what was moved aside more than 30 days ago, or as told."""
    from paimon_engine.actions.restore import EmptyQuarantine

    limit = None if older_than is None else epoch_ms(older_than)
    job = job_on(table, warehouse, storage, catalog, EmptyQuarantine(quarantine, limit, dry_run))
    details = run_quick(job, "deleting files")
    found = count(len(details["quarantines"]), "quarantine")
    tell(details, f"{words(details)}: {found}, {gone(details)}", as_json=as_json)
    _end(details)


def purge(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    keep_tags: Annotated[bool, typer.Option("--keep-tags", help="Leave tags and their files.")] = False,
    keep_branches: Annotated[bool, typer.Option("--keep-branches", help="Leave branches and their files.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Files that nothing names go if older; a day."),
    ] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    spark: SparkOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Empty a table: all rows, older snapshots, tags, branches, consumers and files go. Schema and options stay."""
    from paimon_engine.actions.purge_files import PurgeFiles

    limit = None if older_than is None else epoch_ms(older_than)
    spec = PurgeFiles(
        keep_tags,
        keep_branches,
        limit,
        dry_run,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    job = job_on(table, warehouse, storage, catalog, spec)
    if not yes and not dry_run:
        typer.confirm(f"Delete all that {table} is and has been?", abort=True, err=True)
    details = run_quick(job, "purging the table", spark=spark)
    kinds = {"snapshot": "snapshots", "tag": "tags", "branch": "branches", "consumer": "consumers"}
    found = {kind: len(details[f"removed_{kinds[kind]}"]) for kind in kinds}
    removed = ", ".join(f"{number:,} {kind if number == 1 else kinds[kind]}" for kind, number in found.items())
    tell(details, f"{words(details)}: {removed}, {gone(details)}", as_json=as_json)
    _end(details)


def remove_lost_files(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    parallelism: ParallelismOption = None,
    spark: SparkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take data files that are gone out of the table's lists, so that the rest can be read. Their rows are lost."""
    from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles

    job = job_on(table, warehouse, storage, catalog, RemoveUnexistingFiles(dry_run, parallelism))
    details = run_quick(job, "looking for files", spark=spark)
    if not as_json:
        print_deleted([{**item, "why": "gone"} for item in details["removed"]])
    lost = f"{count(details['files'], 'file')} with {count(details['rows'], 'row')}"
    text = f"{words(details)}: removed {lost}, of {count(details['files_checked'], 'file')}"
    tell(details, text if details["files"] else "no file is lost", as_json=as_json)


def remove_lost_manifests(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take manifests that are gone out of the table's lists. What they alone named is lost."""
    from paimon_engine.actions.remove_unexisting_manifests import RemoveUnexistingManifests

    job = job_on(table, warehouse, storage, catalog, RemoveUnexistingManifests(dry_run))
    details = run_quick(job, "looking for manifests")
    lost = details["removed"]
    rows = f"{details['rows_before']} rows before, {details['rows_after']} after"
    text = f"{words(details)}: removed {count(len(lost), 'manifest')}; {rows}"
    tell(details, text if lost else "no manifest is lost", as_json=as_json)


def repair_earliest(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="The one that should be the first.")] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the table begin behind a gap in its snapshots, or behind a damaged one. Those before it go."""
    from paimon_engine.actions.repair_earliest_snapshot import RepairEarliestSnapshot

    spec = RepairEarliestSnapshot(
        snapshot, dry_run, quarantine=quarantine, files_per_second=files_per_second, parallelism=parallelism
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "looking at snapshots")
    removed = count(len(details["removed_snapshots"]), "snapshot")
    first = f"begins with snapshot {details['earliest_snapshot_id']}"
    text = f"{words(details)}: the table {first}; removed {removed}, {gone(details)}"
    tell(details, "nothing to repair" if details["status"] == "noop" else text, as_json=as_json)


def _end(details: Mapping[str, Any]) -> None:
    if details["status"] == "stopped":
        raise typer.Exit(1)
