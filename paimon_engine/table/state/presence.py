"""Whether a version that was read is still there: others expire, roll back, and move or delete tags and branches."""

from __future__ import annotations

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import branch_exists, read_snapshot, read_tag, same_commit


def is_there(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the snapshot exists; after a rollback another commit may have its id. Raises: CorruptTableError."""
    try:
        return same_commit(read_snapshot(table, snapshot.id), snapshot)
    except NotFoundError:
        return False


def is_tagged(table: TableHandle, name: str, snapshot: Snapshot) -> bool:
    """Whether the tag of that name exists and is on the snapshot. Raises: CorruptTableError."""
    try:
        return same_commit(read_tag(table, name).snapshot, snapshot)
    except NotFoundError:
        return False


def create_again(table: TableHandle, snapshot_id: int, data: bytes) -> None:
    """Stores a snapshot that was removed a moment ago; not if others have deleted its branch meanwhile."""
    path = table.paths.snapshot(snapshot_id)
    table.env.storage.create(path, data)
    is_on_branch = table.paths.branch != MAIN_BRANCH and table.snapshot_service is None
    if is_on_branch and not branch_exists(table, table.paths.branch):
        table.env.storage.delete([path])
