"""The moment of a commit: the next snapshot becomes visible, or somebody else's did.

Source: `RenamingSnapshotCommit`, `CatalogSnapshotCommit` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from paimon_engine.errors import ConflictError, NotFoundError, OutcomeUnknownError, PaimonError, StorageError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.table.commit.lineage import follows
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot_id, lower_latest_hint, mend_latest_hint, write_hint


def publish(table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]) -> bool:
    """Make `snapshot` the latest after `base`, of which `changes` tell: True if this call did, False if others were.

    Atomic. Raises: OutcomeUnknownError if the answer got lost; StorageError if nothing was done.
    """
    if table.snapshot_service is not None:
        return table.snapshot_service.publish(table, snapshot, base, changes)
    path = table.paths.snapshot(snapshot.id)
    if not _created(table, path, snapshot_to_json(snapshot).encode()):
        return False
    if not _is_the_tables(table, snapshot, base):
        # Others have taken this id, and it has expired since.
        _take_back(table, path)
        return False
    write_hint(table, table.paths.latest_hint, snapshot.id)
    with suppress(StorageError):
        # A process that was stopped since then writes the hint late. Java follows one whose successor is gone too.
        if not table.env.storage.exists(path):
            mend_latest_hint(table)
    if snapshot.id == 1:
        write_hint(table, table.paths.earliest_hint, 1)
    return True


def _created(table: TableHandle, path: str, data: bytes) -> bool:
    """Whether this call made the file, whatever the store says.

    Who takes an error for a refusal deletes what a snapshot needs that is there all the same. Raises: as `publish`.
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
                f"{path} was refused, and nobody can tell whether it is there: {error}"
            ) from error
        raise


def take_back(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Removes a snapshot that this process has published after `base`: False if others may build on it already.

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
    # Somebody has built on it at the same time: readers need the row of snapshots unbroken.
    storage.create(paths.snapshot(snapshot.id), snapshot_to_json(snapshot).encode())
    write_hint(table, paths.latest_hint, snapshot.id + 1)
    return False


def _is_the_tables(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Raises OutcomeUnknownError if it cannot be told: the snapshot was created, whatever it is worth."""
    try:
        return follows(table, snapshot, base)
    except OutcomeUnknownError:
        raise
    except PaimonError as error:
        path = table.paths.snapshot(snapshot.id)
        raise OutcomeUnknownError(f"{path} was created, and could not be looked at again: {error}") from error


def _take_back(table: TableHandle, path: str) -> None:
    try:
        table.env.storage.delete([path])
    except StorageError as error:
        raise OutcomeUnknownError(f"{path} is no snapshot of the table, and could not be removed: {error}") from error
