"""Finding the commits of one job, so that a repeated job does not commit twice."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.snapshots import latest_snapshot_id, list_tags, snapshots_of_user


@dataclass(frozen=True, slots=True)
class OwnCommit:
    """The newest snapshot that a job made, None if it made none, among all up to `checked_up_to`."""

    snapshot: Snapshot | None
    checked_up_to: int


def find_own_commit(
    table: TableHandle, commit_user: str, kinds: tuple[CommitKind, ...], identifier: int | None = None
) -> OwnCommit:
    """Looks through snapshots, then tags, for a commit of this user and kind, and `identifier` where one is given.

    Tags keep what expiry has removed, so that a job repeated after weeks still finds the snapshot that it made.
    """

    def is_own(snapshot: Snapshot) -> bool:
        return snapshot.commit_kind in kinds and identifier in (None, snapshot.commit_identifier)

    checked = latest_snapshot_id(table) or 0
    for snapshot in snapshots_of_user(table, commit_user):
        if is_own(snapshot) and snapshot.id <= checked:
            return OwnCommit(snapshot, checked)
    tagged = [tag.snapshot for tag in list_tags(table) if tag.snapshot.commit_user == commit_user]
    newest = max(filter(is_own, tagged), key=lambda item: item.id, default=None)
    return OwnCommit(newest, checked)
