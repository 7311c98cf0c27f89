"""Publishes a snapshot whose commit has written metadata only, and no files of a bucket.

Until then its lists and manifests look like orphans. So they are checked as those of other commits are
(`table.commit.own_files`): if the commit was paused for long, a clean-up may have deleted them.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.errors import ConflictError, OutcomeUnknownError, PaimonError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.commit.commit_callbacks import announcing
from paimon_engine.table.commit.own_files import LostFiles, OwnFiles, WorkBegun
from paimon_engine.table.commit.publish import publish, removes_cut_off, take_back
from paimon_engine.table.commit.request import CommitRequest, Committed
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.presence import is_there


def publish_metadata(
    table: TableHandle,
    snapshot: Snapshot,
    base: Snapshot,
    changes: Sequence[ManifestEntry],
    *,
    writer: MetadataWriter,
    begun: WorkBegun,
    request: CommitRequest,
) -> bool:
    """As `publish`, for a snapshot whose own files are those of `writer`, written since `begun`.

    False if another commit was faster; the writer's files are deleted then. Callbacks of commits are called, and
    Iceberg metadata is brought up to date, as for the commit of a `request`, which names this one.

    Raises: ConflictError if a clean-up has deleted some of them, so that nothing is committed; OutcomeUnknownError if
    the answer was lost, or if others may build on a snapshot that lacks files; StorageError; UnsupportedError if the
    table names a callback that no installed package provides.
    """
    with announcing(table, request) as notifier:
        is_done = _published(table, snapshot, base, changes, writer=writer, begun=begun)
        if is_done:
            notifier.end(Committed(snapshot))
        else:
            notifier.forget()
    return is_done


def _published(
    table: TableHandle,
    snapshot: Snapshot,
    base: Snapshot,
    changes: Sequence[ManifestEntry],
    *,
    writer: MetadataWriter,
    begun: WorkBegun,
) -> bool:
    """Whether it is published; see `publish_metadata`."""
    own = OwnFiles(table, (), None, begun)
    if lost := own.lost_since_last_check(writer.written):
        writer.take_back()
        raise _refused(table, lost)
    try:
        is_confirmed = publish(table, snapshot, base, changes)
    except OutcomeUnknownError:
        if not is_there(table, snapshot):
            raise
        is_confirmed = False
    # A store's client may have repeated our own request, which then found our own snapshot.
    if not is_confirmed and (not is_there(table, snapshot) or removes_cut_off(table, snapshot, base)):
        writer.take_back()
        return False
    # If it does not exist any more, it has expired, and its files with it.
    if (lost := own.lost_since_last_check(writer.written)) and is_there(table, snapshot):
        _take_back(table, snapshot, base, lost)
        writer.take_back()
        raise _refused(table, lost)
    return True


def _refused(table: TableHandle, lost: LostFiles) -> ConflictError:
    return ConflictError(f"{table.paths.root}: a clean-up has deleted {lost} before it was committed; run it again")


def _take_back(table: TableHandle, snapshot: Snapshot, base: Snapshot, lost: LostFiles) -> None:
    broken = OutcomeUnknownError(
        f"{table.paths.root}: snapshot {snapshot.id} was committed after a long delay, and a clean-up had already "
        f"deleted files of it: {lost}. Other snapshots may build on it: roll back to snapshot {base.id}, and run this "
        "again under another commit user"
    )
    try:
        done = take_back(table, snapshot, base)
    except PaimonError as error:
        raise broken from error
    if not done:
        raise broken
