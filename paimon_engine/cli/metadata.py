"""Commands on what a table knows of itself: compact-manifests, analyze."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    SparkOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    job_on,
)
from paimon_engine.cli.running import run_job, run_quick
from paimon_engine.cli.terminal import ProgressStyle, count, print_grid, print_json, say, size


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command("compact-manifests", epilog=example + "`paimon-engine compact-manifests /lake/db.db/t --dry-run`")(
        compact_manifests
    )
    app.command(
        epilog=example
        + "`paimon-engine analyze /lake/db.db/t`\n\n"
        + "`paimon-engine analyze db.t -w /lake --columns k,day`"
    )(analyze)


def compact_manifests(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rewrite the lists of a table's files to few large ones. No data file is touched."""
    from paimon_engine.actions.compact_manifests import CompactManifests

    details = run_quick(job_on(table, warehouse, storage, catalog, CompactManifests(dry_run)), "rewriting manifests")
    if as_json:
        print_json(details)
        return
    before = f"{count(details['manifests_before'], 'manifest')}, {size(details['bytes_before'])}"
    after = f"{count(details['manifests_after'], 'manifest')}, {size(details['bytes_after'])}"
    match details["status"]:
        case "committed":
            say(f"committed snapshot {details['snapshot_id']}: {before} → {after}")
        case "dry_run":
            say(f"dry run: would turn {before} into {after}")
        case "already_done":
            say(f"already done in snapshot {details['snapshot_id']}")
        case _:
            say(f"nothing to rewrite: {before}")


def analyze(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns; all that are not nested by default.")
    ] = None,
    spark: SparkOption = None,
    progress: Annotated[ProgressStyle, typer.Option(help="How to tell progress, on standard error.")] = (
        ProgressStyle.BAR
    ),
    as_json: JsonOption = False,
) -> None:
    """Count rows and gather statistics of columns, for query planners."""
    from paimon_engine.actions.analyze import Analyze

    names = None if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip())
    details = run_job(
        job_on(table, warehouse, storage, catalog, Analyze(names)), spark=spark, progress=progress
    ).details
    if as_json:
        print_json(details)
        return
    print_grid([_row(name, found) for name, found in details["columns"].items()], empty="no columns were analyzed")
    if details["status"] == "committed":
        say(f"committed snapshot {details['snapshot_id']}: {count(details['rows'], 'row')}, {size(details['bytes'])}")
    elif details["status"] == "already_done":
        say(f"already done in snapshot {details['snapshot_id']}")
    else:
        say("nothing to analyze: the table has no snapshot")


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "column": name,
        "distinct": found.get("distinctCount"),
        "nulls": found.get("nullCount"),
        "min": found.get("min"),
        "max": found.get("max"),
        "average length": found.get("avgLen"),
        "max length": found.get("maxLen"),
    }
