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

from itertools import islice
from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.commit_identifier import counts_up
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries
from paimon_engine.table.state.snapshots import snapshots_newest_first

REMEMBERED_MS: Final = 60 * 60 * 1000
"""Longer than the time between two checkpoints: after that, a writer without new rows has forgotten the bucket."""
_SNAPSHOTS_MAX: Final = 500
"""Of a job that commits every few seconds, the last hour need not be read to the end."""
_OLD_MAX: Final = 8
"""So many old snapshots one after another end the search: one alone may be that of a committer whose clock is late."""


def may_have_streams(table: TableHandle) -> bool:
    """Whether the table is of the kind that a compaction beside a streaming job would damage."""
    return bool(table.schema.primary_keys) and table.options.deletion_vectors_enabled


def compacted_by_streams(table: TableHandle, snapshot: Snapshot | None) -> dict[Bucket, int]:
    """The id of the newest snapshot in which a streaming job compacted a bucket, for those of the last hour.

    Raises: CorruptTableError, StorageError.
    """
    if snapshot is None or not may_have_streams(table):
        return {}
    begin_ms, old = table.env.clock() - REMEMBERED_MS, 0
    found: dict[Bucket, int] = {}
    for one in islice(snapshots_newest_first(table, newest=snapshot.id), _SNAPSHOTS_MAX):
        old = old + 1 if one.time_ms < begin_ms else 0
        if old == _OLD_MAX:
            break
        if old or one.commit_kind is not CommitKind.COMPACT or not counts_up(one.commit_identifier):
            continue
        try:
            entries = delta_entries(table, one)
        except NotFoundError:
            break  # it has just expired, as all before it
        for entry in entries:
            found.setdefault((entry.partition, entry.bucket), one.id)
    return found


def why_not(snapshot_id: int) -> str:
    """Why a bucket is left that a streaming job compacted in that snapshot."""
    return (
        f"a streaming job compacts it (snapshot {snapshot_id}, less than an hour ago), and would mark rows in files "
        "that are gone: set 'write-only' = 'true' for that job, or leave the compaction to it"
    )
