"""Commands that look after a table's files: verify, remove-orphans, restore-orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
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
from paimon_engine.cli.running import run_job, run_quick
from paimon_engine.cli.terminal import ProgressStyle, count, hint, print_grid, print_json, say, size, warn

ROWS_SHOWN: Final = 20


class DepthOfLook(StrEnum):
    """How much of a table is checked."""

    METADATA = "metadata"
    FILES = "files"
    ROWS = "rows"


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command(
        epilog=example
        + "`paimon-engine verify /lake/db.db/t`\n\n"
        + "`paimon-engine verify db.t -w /lake --depth rows --json`"
    )(verify)
    app.command(
        "remove-orphans",
        epilog=example
        + "`paimon-engine remove-orphans db.t -w /lake --dry-run`\n\n"
        + "`paimon-engine remove-orphans /lake/db.db/t --older-than 2013-01-31`",
    )(remove_orphans)


def remove_orphans(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only older files: epoch milliseconds or 2013-01-01T12:00.")
    ] = None,
    confirm_latest_snapshot: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Vouch for it that this is the latest snapshot (0: there is none) and that nothing is out of sight.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    spark: SparkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete old files that nothing names: what jobs that died have left.

    Files that changed within the last day stay, unless --older-than says otherwise. Nothing goes where snapshots, tags
    or branches seem to be out of sight, as while a table is copied; --confirm-latest-snapshot says that none is.
    """
    from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles

    limit = None if older_than is None else epoch_ms(older_than)
    spec = RemoveOrphanFiles(
        limit,
        dry_run,
        confirm_latest_snapshot,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    details = run_quick(job_on(table, warehouse, storage, catalog, spec), "looking for orphan files", spark=spark)
    if as_json:
        print_json(details)
    else:
        _print_files(details["deleted"])
        say(_line(details))
        for reason in details["stopped"]:
            warn(f"left alone: {reason}")
    if details["status"] == "stopped":
        raise typer.Exit(1)


def _print_files(files: Sequence[Mapping[str, Any]]) -> None:
    if not files:
        return
    rows = [{"file": item["path"], "size": size(item["size_bytes"])} for item in files[:ROWS_SHOWN]]
    print_grid(rows, empty="", flexible=("file",))
    if len(files) > ROWS_SHOWN:
        hint(f"and {count(len(files) - ROWS_SHOWN, 'more file')} (--json lists all)")


def _line(details: Mapping[str, Any]) -> str:
    files = f"{count(details['files_deleted'], 'file')}, {size(details['bytes_deleted'])}"
    checked = f"of {count(details['files_checked'], 'old file')}"
    match details["status"]:
        case "dry_run":
            return f"dry run: would remove {files}, {checked}"
        case "deleted":
            return f"deleted {files}, {checked}"
        case "quarantined":
            return f"moved {files}, {checked}, to quarantine {details['quarantine']}"
        case "stopped":
            where = f", in quarantine {details['quarantine']}" if details["quarantine"] else ""
            return f"stopped after {files}, {checked}{where}"
        case _:
            return f"nothing to remove: {count(details['files_checked'], 'old file')}, all in use"


def verify(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    depth: Annotated[DepthOfLook, typer.Option(help="Metadata only, also files, or also all rows.")] = (
        DepthOfLook.FILES
    ),
    spark: SparkOption = None,
    progress: Annotated[ProgressStyle, typer.Option(help="How to tell progress, on standard error.")] = (
        ProgressStyle.BAR
    ),
    as_json: JsonOption = False,
) -> None:
    """Check that a table is whole. Nothing is written; the exit code is 1 where something is wrong."""
    from paimon_engine.actions.verify import Verify

    job = job_on(table, warehouse, storage, catalog, Verify(depth.value))
    details = run_job(job, spark=spark, progress=progress).details
    if as_json:
        print_json(details)
    else:
        for problem in details["problems"]:
            say(f"{problem['where']}: {problem['what']}")
        for note in details["notes"]:
            warn(f"{note['where']}: {note['what']}")
        say(_looked_at(details))
        if details["closed"]:
            outside = count(details["closed"], "file")
            warn(f"not looked at: {outside} outside the table; 'external-paths.allowed' = '<directory>' allows it")
    if details["problems"]:
        raise typer.Exit(1)


def _looked_at(details: Mapping[str, Any]) -> str:
    verdict = count(len(details["problems"]), "problem") if details["problems"] else "sound"
    looked = [count(details["roots"], "version"), count(details["manifests"], "manifest")]
    if details["depth"] != "metadata":
        looked.append(count(details["data_files"], "data file"))
    if details["depth"] == "rows":
        looked.append(count(details["rows"], "row"))
    return f"{verdict}: {', '.join(looked)}"
