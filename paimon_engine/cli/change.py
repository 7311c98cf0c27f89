"""Commands that change: compact, cluster, rescale, rewrite-file-index, rollback, run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
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
)
from paimon_engine.cli.outcome import ROWS_SHOWN, gone, tell, words
from paimon_engine.cli.running import run_job, run_quick
from paimon_engine.cli.terminal import ProgressStyle, count, hint, print_grid, print_json, say, size, warn, working
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.units import parse_size_bytes

ProgressOption = Annotated[ProgressStyle, typer.Option(help="How to tell progress, on standard error.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    example = "Examples:\n\n"
    app.command(
        epilog=example
        + "`paimon-engine compact db.t -w /lake --full --dry-run`\n\n"
        + "`paimon-engine compact /lake/db.db/t --where \"day >= DATE '2013-01-01'\"`\n\n"
        + "`paimon-engine compact db.t -w /lake --max-bytes 50gb --max-seconds 3600`"
    )(compact)
    app.command(
        epilog=example
        + "`paimon-engine cluster db.t -w /lake --by city --by day`\n\n"
        + "`paimon-engine cluster /lake/db.db/t --by x --by y --order hilbert --partition-idle-time 1d --dry-run`"
    )(cluster)
    app.command(
        epilog=example + "`paimon-engine alter set db.t bucket=8 -w /lake && paimon-engine rescale db.t -w /lake`"
    )(rescale)
    app.command("rewrite-file-index", epilog=example + "`paimon-engine rewrite-file-index db.t -w /lake --dry-run`")(
        rewrite_file_index
    )
    app.command(epilog=example + "`paimon-engine rollback /lake/db.db/t --tag 2013-01-01`")(rollback)
    app.command(epilog=example + "`paimon-engine run --job job.json --result result.json --progress json`")(run)
    app.command("warm-up", epilog=example + "`paimon-engine warm-up /var/cache/paimon-engine`")(warm_up)


def compact(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into the highest level.")] = False,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="SQL condition over partition columns.")
    ] = None,
    bucket: Annotated[
        list[int] | None, typer.Option(metavar="NUMBER", help="Only this bucket; may be repeated.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option("--partition-idle-time", metavar="TIME", help="Only partitions without a newer file, as in 1d."),
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Rewrite no more than this, as in 50gb.")
    ] = None,
    max_buckets: Annotated[int | None, typer.Option(metavar="N", help="Compact no more buckets than this.")] = None,
    max_seconds: Annotated[float | None, typer.Option(metavar="S", help="Begin no round after this time.")] = None,
    round_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="Commit after so much.")] = None,
    task_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Split larger buckets, where keys allow.")
    ] = None,
    task_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of a task, by estimate.")] = None,
    dry_run: DryRunOption = False,
    spark: SparkOption = None,
    progress: ProgressOption = ProgressStyle.BAR,
    as_json: JsonOption = False,
) -> None:
    """Merge sorted runs and small files; within limits those first that cost readers most."""
    from paimon_engine.actions.compact import Compact

    spec = Compact(
        full,
        where,
        dry_run,
        buckets=bucket or None,
        partition_idle_time=idle,
        max_bytes=_bytes(max_bytes),
        max_buckets=max_buckets,
        max_seconds=max_seconds,
        round_bytes=_bytes(round_bytes),
        task_bytes=_bytes(task_bytes),
        task_memory_bytes=_bytes(task_memory),
    )
    job = job_on(table, warehouse, storage, catalog, spec)
    details = run_job(job, spark=spark, progress=progress).details
    if as_json:
        print_json(details)
        return
    _print_buckets(details["buckets"])
    for reason in details["failed"]:
        warn(f"failed: {reason}")
    say(_compact_line(details))
    if details["failed"]:
        raise typer.Exit(1)


def _bytes(text: str | None) -> int | None:
    return None if text is None else parse_size_bytes(text)


def cluster(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to cluster by; may be repeated.")
    ] = None,
    order: Annotated[str | None, typer.Option(metavar="ORDER", help="order, zorder or hilbert.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="SQL condition over partition columns.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option("--partition-idle-time", metavar="TIME", help="Only partitions without a newer file, as in 1d."),
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Rewrite no more than this, as in 50gb.")
    ] = None,
    round_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="Commit after so much.")] = None,
    target_file: Annotated[str | None, typer.Option(metavar="SIZE", help="Size of new files.")] = None,
    task_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="What a task writes.")] = None,
    task_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="What a task sorts in.")] = None,
    dry_run: DryRunOption = False,
    spark: SparkOption = None,
    progress: ProgressOption = ProgressStyle.BAR,
    as_json: JsonOption = False,
) -> None:
    """Order the rows of an append table by columns, so that filters on these read few files."""
    from paimon_engine.actions.cluster import Cluster

    spec = Cluster(
        tuple(by or ()),
        order,
        where,
        dry_run,
        partition_idle_time=idle,
        max_bytes=_bytes(max_bytes),
        round_bytes=_bytes(round_bytes),
        target_file_bytes=_bytes(target_file),
        task_bytes=_bytes(task_bytes),
        task_memory_bytes=_bytes(task_memory),
    )
    job = job_on(table, warehouse, storage, catalog, spec)
    details = run_job(job, spark=spark, progress=progress).details
    if as_json:
        print_json(details)
    else:
        for reason in details["failed"]:
            warn(f"failed: {reason}")
        say(_cluster_line(details))
    if details["failed"]:
        raise typer.Exit(1)


def _cluster_line(details: Mapping[str, Any]) -> str:
    chosen = [report for report in details["partitions"] if report["skipped"] is None]
    ordered = f"by {', '.join(details['columns'])} ({details['order']})"
    left = (
        f"; {count(details['partitions_left'], 'partition')} left to another run" if details["partitions_left"] else ""
    )
    if details["status"] == "already_done":
        return f"already done by snapshot {details['snapshot_id']}"
    if not chosen:
        return f"nothing to cluster{left}"
    before = size(sum(report["bytes_before"] for report in chosen))
    if details["status"] == "dry_run":
        return f"dry run: would cluster {count(len(chosen), 'partition')} {ordered}, and rewrite {before}{left}"
    files = f"{sum(report['files_before'] for report in chosen):,} → "
    files += count(sum(report["files_after"] for report in chosen), "file")
    done = f"clustered {count(len(chosen), 'partition')} {ordered}, {files} in {details['seconds']:.1f} s"
    return f"committed snapshot {details['snapshot_id']}: {done}{left}"


def rescale(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="SQL condition over partition columns.")
    ] = None,
    dry_run: DryRunOption = False,
    spark: SparkOption = None,
    progress: ProgressOption = ProgressStyle.BAR,
    as_json: JsonOption = False,
) -> None:
    """Give partitions as many buckets as the option `bucket` says by now."""
    from paimon_engine.actions.rescale import Rescale

    job = job_on(table, warehouse, storage, catalog, Rescale(where, dry_run))
    details = run_job(job, spark=spark, progress=progress).details
    if as_json:
        print_json(details)
        return
    what = f"{count(details['partitions'], 'partition')} to {count(details['buckets'], 'bucket')}"
    if details["status"] == "dry_run":
        say(f"dry run: would bring {what}, and rewrite {size(details['bytes_before'])}")
    elif details["status"] != "committed":
        say(f"nothing to rescale: every partition has {count(details['buckets'], 'bucket')}")
    else:
        files = f"{details['files_before']:,} → {count(details['files_after'], 'file')}"
        say(f"committed snapshot {details['snapshot_id']}: brought {what}, {files} in {details['seconds']:.1f} s")


def rewrite_file_index(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="SQL condition over partition columns.")
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Also files that have these indexes.")] = False,
    dry_run: DryRunOption = False,
    spark: SparkOption = None,
    progress: ProgressOption = ProgressStyle.BAR,
    as_json: JsonOption = False,
) -> None:
    """Give data files the indexes that the table's options ask for now."""
    from paimon_engine.actions.rewrite_file_index import RewriteFileIndex

    job = job_on(table, warehouse, storage, catalog, RewriteFileIndex(where, rebuild, dry_run))
    details = run_job(job, spark=spark, progress=progress).details
    if as_json:
        print_json(details)
    else:
        for reason in details["failed"]:
            warn(f"failed: {reason}")
        say(_index_line(details))
    if details["failed"]:
        raise typer.Exit(1)


def _index_line(details: Mapping[str, Any]) -> str:
    current = f"{count(details['files_current'], 'file')} left as they are"
    changed = f"index {count(details['files_indexed'], 'file')}, clear {details['files_cleared']}"
    if details["status"] == "dry_run":
        return f"dry run: would {changed}, and read {size(details['bytes_read'])}; {current}"
    if details["status"] != "committed":
        return f"nothing to index: {current}"
    return (
        f"committed snapshot {details['snapshot_id']}: indexed {count(details['files_indexed'], 'file')} "
        f"({size(details['index_bytes'])}), cleared {details['files_cleared']}; {current}, "
        f"in {details['seconds']:.1f} s"
    )


def _print_buckets(buckets: Sequence[Mapping[str, Any]]) -> None:
    """Those with work first."""
    ordered = sorted(buckets, key=lambda bucket: bucket["skipped"] is not None)
    rows = [_bucket_row(bucket) for bucket in ordered[:ROWS_SHOWN]]
    print_grid(rows, empty="no data files to compact", flexible=("partition", "what"))
    if len(ordered) > ROWS_SHOWN:
        hint(f"and {count(len(ordered) - ROWS_SHOWN, 'more bucket')} (--json lists all)")


def _compact_line(details: Mapping[str, Any]) -> str:
    if details["status"] == "dry_run":
        planned = [bucket for bucket in details["buckets"] if bucket["skipped"] is None]
        rewritten = size(sum(bucket["rewritten_bytes"] for bucket in planned))
        return f"dry run: would compact {count(len(planned), 'bucket')} and rewrite {rewritten}{_left(details)}"
    if details["status"] != "committed":
        found = f"{count(details['files_before'], 'file')}, {size(details['bytes_before'])}"
        return f"nothing to compact: {found}{_left(details)}"
    postponed = f"{count(details['rows_distributed'], 'postponed record')} given a bucket, "
    return (
        f"committed snapshot {details['snapshot_id']}: {postponed if details['rows_distributed'] else ''}"
        f"{details['files_before']:,} → "
        f"{count(details['files_after'], 'file')}, {size(details['bytes_before'])} → {size(details['bytes_after'])}, "
        f"{details['rows_before']:,} → {count(details['rows_after'], 'record')} in {details['seconds']:.1f} s"
        f"{_left(details)}"
    )


def _left(details: Mapping[str, Any]) -> str:
    return f"; {count(details['buckets_left'], 'bucket')} left for another run" if details["buckets_left"] else ""


def _bucket_row(bucket: Mapping[str, Any]) -> dict[str, Any]:
    values = [f"{name}={'null' if value is None else value}" for name, value in bucket["partition"].items()]
    partition = {"partition": ", ".join(values)}
    after = bucket["files_after"]
    return {
        **(partition if bucket["partition"] else {}),
        "bucket": bucket["bucket"],
        "files": str(bucket["files_before"]) if after is None else f"{bucket['files_before']} → {after}",
        "size": size(bucket["bytes_before"]) + ("" if after is None else f" → {size(bucket['bytes_after'])}"),
        "memory": size(bucket["memory_bytes"]) if bucket["memory_bytes"] else None,
        "read amplification": _amplification(bucket["read_amplification_before"], bucket["read_amplification_after"]),
        "what": f"skipped: {bucket['skipped']}" if bucket["skipped"] else bucket["reason"],
    }


def _amplification(before: float, after: float | None) -> str:
    return f"{before:.1f}" if after is None else f"{before:.1f} → {after:.1f}"


def rollback(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    snapshot: Annotated[int | None, typer.Option(metavar="ID", help="Snapshot to go back to.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Tag to go back to.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the newest snapshot not younger than this time.")
    ] = None,
    watermark: Annotated[
        int | None, typer.Option(metavar="MS", help="To the newest snapshot whose watermark is not beyond.")
    ] = None,
    as_latest: Annotated[
        bool, typer.Option("--as-latest", help="Lose nothing: make a new snapshot that holds what that one held.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    quarantine: QuarantineOption = False,
    files_per_second: RateOption = None,
    parallelism: ParallelismOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier snapshot, tag or moment the latest. What came after it is deleted."""
    from paimon_engine.actions.rollback import Rollback
    from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest

    ways = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp, "watermark": watermark}
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) != 1:
        raise InvalidArgumentError(
            "name what to go back to: one of --snapshot ID, --tag NAME, --timestamp TIME and --watermark MS"
        )
    moment = None if timestamp is None else epoch_ms(timestamp)
    if as_latest:
        if dry_run:
            raise InvalidArgumentError("--dry-run says what is deleted, and --as-latest deletes nothing; leave one out")
        as_new = RollbackToAsLatest(snapshot, tag, moment, watermark)
        details = run_quick(job_on(table, warehouse, storage, catalog, as_new), "going back")
        text = (
            f"{words(details)}: snapshot {details['snapshot_id']} holds snapshot {details['restored_snapshot']} again"
        )
        tell(details, text, as_json=as_json)
        return
    spec = Rollback(
        snapshot,
        tag,
        moment,
        watermark,
        dry_run,
        quarantine=quarantine,
        files_per_second=files_per_second,
        parallelism=parallelism,
    )
    job = job_on(table, warehouse, storage, catalog, spec)
    if not yes and not dry_run:
        name, value = next(iter(given.items()))
        typer.confirm(f"Delete everything that came after {name} {value}?", abort=True, err=True)
    details = run_quick(job, "rolling back")
    removed = f"{count(len(details['removed_snapshots']), 'snapshot')}, {count(len(details['removed_tags']), 'tag')}"
    if details["removed_changelogs"]:
        removed += f", {count(len(details['removed_changelogs']), 'changelog')}"
    text = f"{words(details)}: snapshot {details['snapshot_id']} is the latest; removed {removed}, {gone(details)}"
    tell(details, text, as_json=as_json)


def run(
    job: Annotated[str, typer.Option(metavar="FILE", help="The job's JSON; - is standard input.")],
    result: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the result's JSON goes; else standard output.")
    ] = None,
    spark: SparkOption = None,
    guard: Annotated[bool, typer.Option("--guard", help="End when standard input closes: with its starter.")] = False,
    progress: ProgressOption = ProgressStyle.BAR,
) -> None:
    """Carry out a job: an action on a table, as JSON. This is what a scheduler calls."""
    from paimon_engine.jobs import Job

    if guard and job == "-":
        raise InvalidArgumentError("--guard watches standard input, so the job must come from a file")
    if guard:
        from paimon_engine.cli.guard import exit_when_stdin_closes

        exit_when_stdin_closes()
    parsed = Job.from_json(sys.stdin.read() if job == "-" else Path(job).read_text(encoding="utf-8"))
    done = run_job(parsed, spark=spark, progress=progress)
    if result is None:
        print_json(done.to_dict())
        return
    # Whoever waits for the file must never read half of it.
    partial = result.with_name(f".{result.name}.partial")
    partial.write_text(done.to_json(), encoding="utf-8")
    partial.replace(result)


def warm_up(
    folder: Annotated[
        Path, typer.Argument(envvar="PAIMON_ENGINE_CACHE", help="Where to keep 150 MB of loaded Java classes.")
    ],
) -> None:
    """Make embedded Spark start in half the time, wherever PAIMON_ENGINE_CACHE names this folder."""
    from paimon_engine.spark import session

    with working("running Spark once"):
        path = session.warm_up(folder)
    say(f"made {path}, {size(path.stat().st_size)}; set PAIMON_ENGINE_CACHE={folder.absolute()} to use it")
