"""Buckets that a streaming job of another engine compacts itself: a compaction beside it would bring old rows back.

A Java writer keeps its view of a bucket's files from one checkpoint to the next. On a table with deletion vectors it
goes on marking replaced rows in files that somebody else has replaced meanwhile, and writes the index file of the
bucket again from what it knows. Java's commit looks at neither, so old versions of rows stay in the new files,
unmarked: readers see a key twice. Without vectors nothing of the kind happens.

A writer forgets a bucket after some checkpoints without new rows, so only buckets that were compacted lately matter.

Source: `AbstractFileStoreWrite.prepareCommit`, `BucketedDvMaintainer`, `ConflictDetection` of the Java library (2.0);
tried in `tests/interop/test_streaming_writers.py`.
"""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.commit_identifier import counts_up
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries
from paimon_engine.table.state.snapshots import read_snapshot

REMEMBERED_MS: Final = 60 * 60 * 1000
"""Longer than the time between two checkpoints: after that, a writer without new rows has forgotten the bucket."""
_SNAPSHOTS_MAX: Final = 500
"""Of a job that commits every few seconds, the last hour need not be read to the end."""


def compacted_by_streams(table: TableHandle, snapshot: Snapshot | None) -> dict[Bucket, int]:
    """The id of the newest snapshot in which a streaming job compacted a bucket, for those of the last hour.

    Raises: CorruptTableError, StorageError.
    """
    if snapshot is None or not (table.schema.primary_keys and table.options.deletion_vectors_enabled):
        return {}
    begin_ms = table.env.clock() - REMEMBERED_MS
    found: dict[Bucket, int] = {}
    one: Snapshot | None = snapshot
    for _ in range(_SNAPSHOTS_MAX):
        if one is None or one.time_ms < begin_ms:
            break
        if one.commit_kind is CommitKind.COMPACT and counts_up(one.commit_identifier):
            try:
                entries = delta_entries(table, one)
            except NotFoundError:
                break  # it has just expired, as all before it
            for entry in entries:
                found.setdefault((entry.partition, entry.bucket), one.id)
        one = _before(table, one)
    return found


def why_not(snapshot_id: int) -> str:
    """Why a bucket is left that a streaming job compacted in that snapshot."""
    return (
        f"a streaming job compacts it (snapshot {snapshot_id}, less than an hour ago), and would mark rows in files "
        "that are gone: set 'write-only' = 'true' for that job, or leave the compaction to it"
    )


def _before(table: TableHandle, snapshot: Snapshot) -> Snapshot | None:
    try:
        return read_snapshot(table, snapshot.id - 1) if snapshot.id > 1 else None
    except NotFoundError:
        return None
