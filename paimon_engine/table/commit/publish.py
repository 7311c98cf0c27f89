"""Publishes a snapshot: the step that makes a commit visible, or finds that another commit was faster.

Source: `RenamingSnapshotCommit`, `CatalogSnapshotCommit` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from paimon_engine.errors import ConflictError, NotFoundError, OutcomeUnknownError, PaimonError, StorageError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.table.commit.lineage import follows, schema_exists
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import lower_latest_hint, repair_latest_hint, write_earliest_hint, write_hint
from paimon_engine.table.state.snapshots import latest_snapshot_id, read_snapshot
from paimon_engine.table.state.unneeded import delete_unneeded


def publish(table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]) -> bool:
    """Makes `snapshot` the latest one, after `base`. True if this call did, False if another commit took its id.

    `changes` are the entries of its delta; a server computes partition statistics from them. Atomic.

    Raises: OutcomeUnknownError if the answer was lost; NotFoundError if the branch or the table was deleted meanwhile,
    StorageError: nothing was done.
    """
    if table.snapshot_service is not None:
        return table.snapshot_service.publish(table, snapshot, base, changes)
    path = table.paths.snapshot(snapshot.id)
    if not _created(table, path, snapshot_to_json(snapshot).encode()):
        return False
    if not _is_in_history(table, snapshot, base):
        # Another commit took this id, and its snapshot has expired since (see `lineage`).
        _delete_created(table, path)
        _check_not_dropped(table, snapshot)
        return False
    write_hint(table, table.paths.latest_hint, snapshot.id)
    with suppress(StorageError):
        # If this process was paused before it wrote the hint, the snapshot may have expired by now. Java trusts a hint
        # if there is no snapshot after it, so it would find no latest snapshot: correct the hint.
        if not table.env.storage.exists(path):
            repair_latest_hint(table)
    if snapshot.id == 1:
        write_earliest_hint(table, table.paths.snapshot_dir, 1)
    return True


def _created(table: TableHandle, path: str, data: bytes) -> bool:
    """Whether this call created the file, even if the storage reported an error.

    Some errors are reported although the file was created. If such an error counted as a failure, the caller would
    delete metadata that the existing snapshot needs. Raises: as `publish`.
    """
    storage = table.env.storage
    try:
        return storage.create(path, data)
    except OutcomeUnknownError:
        raise
    except StorageError as error:
        try:
            if storage.read(path) == data:
                return True
        except NotFoundError:
            pass
        except StorageError:
            raise OutcomeUnknownError(
                f"creating {path} failed, and it could not be checked whether it exists: {error}"
            ) from error
        raise


def removes_cut_off(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Whether a snapshot was created after a rollback had removed its base, if it was; it is deleted then.

    For one whose creation `publish` has not confirmed. It would be the latest one by its number, with files that the
    rollback has deleted.

    Raises: OutcomeUnknownError, StorageError.
    """
    if table.snapshot_service is not None:
        return False
    try:
        there = read_snapshot(table, snapshot.id)
    except NotFoundError:
        return False
    if there.delta_manifest_list != snapshot.delta_manifest_list or follows(table, snapshot, base):
        return False
    delete_unneeded(table.env.storage, [table.paths.snapshot(snapshot.id)])
    return True


def take_back(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Removes a snapshot that this process published after `base`. False if other snapshots may build on it already.

    Raises: StorageError; CorruptTableError, NotFoundError from a server.
    """
    if table.snapshot_service is not None:
        if base is None:
            return False
        try:
            table.snapshot_service.roll_back(table, base, tag=None, latest=snapshot)
        except ConflictError:
            return False
        return True
    if latest_snapshot_id(table) != snapshot.id:
        return False
    storage, paths = table.env.storage, table.paths
    if base is not None:
        lower_latest_hint(table, base.id)
    else:
        storage.delete([paths.latest_hint])
    storage.delete([paths.snapshot(snapshot.id)])
    if not storage.exists(paths.snapshot(snapshot.id + 1)):
        return True
    # Another commit built on it at the same moment. Readers need snapshot ids without gaps, so put it back.
    storage.create(paths.snapshot(snapshot.id), snapshot_to_json(snapshot).encode())
    write_hint(table, paths.latest_hint, snapshot.id + 1)
    return False


def _is_in_history(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """As `lineage.follows`. Raises OutcomeUnknownError for every failure, since the snapshot file exists by now."""
    try:
        return follows(table, snapshot, base)
    except OutcomeUnknownError:
        raise
    except PaimonError as error:
        path = table.paths.snapshot(snapshot.id)
        raise OutcomeUnknownError(f"{path} was created, but could not be checked afterwards: {error}") from error


def _check_not_dropped(table: TableHandle, snapshot: Snapshot) -> None:
    """Raises: NotFoundError if the snapshot's schema is missing."""
    if schema_exists(table, snapshot):
        return
    raise NotFoundError(
        f"{table.paths.label} was deleted during the commit, which is not done: "
        f"{table.paths.schema(snapshot.schema_id)} is missing"
    )


def _delete_created(table: TableHandle, path: str) -> None:
    try:
        table.env.storage.delete([path])
    except StorageError as error:
        raise OutcomeUnknownError(
            f"{path} was created too late and is not part of the table; it could not be deleted: {error}"
        ) from error
