"""Compact manifests: rewrite the list of files that make up the table, without touching a data file.

Manifests with removals, and small ones, are rewritten to few large ones in a separate snapshot. Commits also do
this now and then (`table.commit.manifest_merge`); this action does it at once.

Source: `FileStoreCommitImpl.compactManifest` of the Java library. Difference: a repeated job makes one snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from paimon_engine.action import Context, Result, action_once
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.manifest import ManifestFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, Spec
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.commit.commit import Conflict, commit
from paimon_engine.table.commit.manifest_merge import compact_manifests as merged
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import snapshot_manifests
from paimon_engine.table.state.metadata_writer import MeasuringWriter
from paimon_engine.table.state.snapshots import read_at_latest


@dataclass(frozen=True, slots=True)
class CompactManifests(Spec):
    """Rewrite the manifests; a dry run says what the result would be and writes nothing."""

    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class CompactManifestsResult(Result):
    """What it did; `status` is `committed`, `already_done` (by an earlier attempt), `noop` or `dry_run`.

    Entries are additions and removals of data files; those after are additions only, one for each live file of the
    manifests that were rewritten.
    """

    status: str
    snapshot_id: int | None
    manifests_before: int = 0
    manifests_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    entries_before: int = 0
    entries_after: int = 0
    seconds: float = 0.0


@action_once(CommitKind.COMPACT, Maker.COMPACT_MANIFESTS, CompactManifestsResult)
def compact_manifests(context: Context, spec: CompactManifests) -> CompactManifestsResult:
    """Rewrites the manifests of the latest snapshot; once for a `commit_user`.

    Raises: UnsupportedError if the manifests are not to be Avro; ConflictError after too many lost races; StorageError.
    """
    table = context.table
    check_metadata_writable(table.options)
    before, after = read_at_latest(table, partial(_plan, table))
    if spec.dry_run or before == after:
        status = "noop" if before == after else "dry_run"
        return _result(status, None, before, after)
    outcome = commit(table, replace(context.job.request(), compacts_manifests=True))
    assert not isinstance(outcome, Conflict), "nothing is added or removed"
    if outcome.by_other_attempt:
        return CompactManifestsResult("already_done", outcome.snapshot.id)
    after = snapshot_manifests(table, outcome.snapshot)
    return _result("committed", outcome.snapshot.id, before, after)


def _plan(table: TableHandle, snapshot: Snapshot | None) -> tuple[list[ManifestFile], list[ManifestFile]]:
    """Manifests of the latest snapshot, and what they would become; equal lists where there is nothing to do."""
    before = [] if snapshot is None else snapshot_manifests(table, snapshot)
    return before, merged(table, before, MeasuringWriter(table))


def _result(
    status: str, snapshot_id: int | None, before: Sequence[ManifestFile], after: Sequence[ManifestFile]
) -> CompactManifestsResult:
    return CompactManifestsResult(
        status=status,
        snapshot_id=snapshot_id,
        manifests_before=len(before),
        manifests_after=len(after),
        bytes_before=sum(item.size_bytes for item in before),
        bytes_after=sum(item.size_bytes for item in after),
        entries_before=sum(item.added_count + item.deleted_count for item in before),
        entries_after=sum(item.added_count + item.deleted_count for item in after),
    )
