"""Commands that change rows and files: write, delete-rows, rewrite-file-index, and all that compact or order rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.outcome import ROWS_SHOWN, failed
from paimon_engine.cli.terminal import count, hint, print_grid, say
from paimon_engine.units import size_text as size


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "write", "delete-rows", "compact", "compact-chain-table", "cluster", "rescale", "rewrite-file-index")


@face(
    "write",
    "`paimon-engine write db.t rows.parquet -w /lake`",
    "`paimon-engine write /lake/db.db/t 'day-1/*.csv' --format csv --overwrite day=2013-01-01`",
    arguments=("source",),
)
def write(details: Mapping[str, Any], _: Any) -> None:
    """Add the rows of files to a table; a table with a primary key keeps the newest row of a key."""
    rows = f"{count(details['rows'], 'row')} in {count(details['files'], 'file')}, {size(details['bytes'])}"
    say(f"committed snapshot {details['snapshot_id']}: {rows}" if details["rows"] else "no rows")


@face("delete-rows", "`paimon-engine delete-rows /lake/db.db/t \"day = '2013-01-01'\"`", arguments=("where",))
def delete_rows(details: Mapping[str, Any], _: Any) -> None:
    """Delete the rows of an append table with deletion vectors that match a condition."""
    if details["status"] != "committed":
        say("no row matches")
        return
    rows, files = count(details["rows_deleted"], "row"), count(details["files_marked"], "file")
    say(f"committed snapshot {details['snapshot_id']}: deleted {rows} in {files}")


@face(
    "compact",
    "`paimon-engine compact db.t -w /lake --full --dry-run`",
    "`paimon-engine compact /lake/db.db/t --where \"day >= DATE '2013-01-01'\"`",
    "`paimon-engine compact db.t -w /lake --max-bytes 50gb --max-seconds 3600`",
    options={"buckets": "--bucket", "task_memory_bytes": "--task-memory"},
)
def compact(details: Mapping[str, Any], _: Any) -> None:
    """Merge sorted runs and small files; within limits, first the buckets that cost readers most."""
    _print_buckets(details["buckets"])
    failed(details)
    say(_compact_line(details))


@face(
    "cluster",
    "`paimon-engine cluster db.t -w /lake --by city --by day`",
    "`paimon-engine cluster /lake/db.db/t --by x --by y --order hilbert --partition-idle-time 1d --dry-run`",
    options={"columns": "--by", "target_file_bytes": "--target-file", "task_memory_bytes": "--task-memory"},
)
def cluster(details: Mapping[str, Any], _: Any) -> None:
    """Order the rows of an append table by columns, so that filters on these read few files."""
    failed(details)
    say(_cluster_line(details))


@face(
    "compact-chain-table",
    "`paimon-engine compact-chain-table db.t dt=20250811 -w /lake`",
    "`paimon-engine compact-chain-table db.t dt=20250811 -w /lake --rebuild --dry-run`",
    arguments=("partitions",),
)
def compact_chain_table(details: Mapping[str, Any], _: Any) -> None:
    """Make partitions of a chain table complete: merge the changes since the last complete one before them."""
    what = f"{count(len(details['partitions']), 'partition')} of {size(details['bytes_read'])}"
    if details["status"] == "dry_run":
        say(f"dry run: would make complete {what}")
    elif details["status"] != "committed":
        say(f"nothing to do: {count(len(details['kept']), 'partition')} complete already")
    else:
        rows = f"{count(details['rows'], 'row')} in {count(details['files'], 'file')}"
        number = details["branch_snapshot_id"]
        say(f"committed snapshot {number} of the branch: {what} complete, {rows} in {details['seconds']:.1f} s")


@face("rescale", "`paimon-engine alter set db.t bucket=8 -w /lake && paimon-engine rescale db.t -w /lake`")
def rescale(details: Mapping[str, Any], _: Any) -> None:
    """Change the number of buckets of partitions to the current value of the option `bucket`."""
    what = f"{count(details['partitions'], 'partition')} to {count(details['buckets'], 'bucket')}"
    if details["status"] == "dry_run":
        say(f"dry run: would rescale {what}, and rewrite {size(details['bytes_before'])}")
    elif details["status"] != "committed":
        say(f"nothing to rescale: every partition has {count(details['buckets'], 'bucket')}")
    else:
        files = f"{details['files_before']:,} → {count(details['files_after'], 'file')}"
        say(f"committed snapshot {details['snapshot_id']}: rescaled {what}, {files} in {details['seconds']:.1f} s")


@face("rewrite-file-index", "`paimon-engine rewrite-file-index db.t -w /lake --dry-run`")
def rewrite_file_index(details: Mapping[str, Any], _: Any) -> None:
    """Write the indexes that the table's options require now, for existing data files."""
    failed(details)
    say(_index_line(details))


def _cluster_line(details: Mapping[str, Any]) -> str:
    """One line for people about a clustering; `details` are the result's `to_dict()`."""
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
    """One line for people about a compaction; `details` are the result's `to_dict()`."""
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
