"""Finding the commits of one job, so that a repeated job does not commit twice."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.commit_identifier import is_done_by, part_of
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.lineage import is_in_line
from paimon_engine.table.snapshots import latest_snapshot_id, readable_tags, snapshots_of_user


@dataclass(frozen=True, slots=True)
class OwnCommit:
    """The newest snapshot that a job made, None if it made none, among all up to `checked_up_to`.

    `parts` is the highest number of a part that it has committed, 0 if none.
    """

    snapshot: Snapshot | None
    checked_up_to: int
    parts: int = 0


def find_own_commit(table: TableHandle, commit_user: str, kind: CommitKind, identifier: int) -> OwnCommit:
    """Looks through snapshots, then tags, for the commit of that name (see `meta.commit_identifier`).

    Raises: OutcomeUnknownError if it expires while it is looked at; CorruptTableError if a tag is broken, which may
    hold it.

    Tags keep what expiry has removed, so that a job repeated after weeks still finds the snapshot that it made.
    """

    def is_own(snapshot: Snapshot) -> bool:
        return snapshot.commit_kind is kind and is_done_by(identifier, snapshot.commit_identifier)

    checked, parts = latest_snapshot_id(table) or 0, 0
    for snapshot in snapshots_of_user(table, commit_user):
        if snapshot.id <= checked and is_own(snapshot) and (table.door is not None or is_in_line(table, snapshot)):
            return OwnCommit(snapshot, checked)
        if snapshot.commit_kind is kind:
            parts = max(parts, part_of(identifier, snapshot.commit_identifier))
    tags, broken = readable_tags(table)
    for error in broken:
        raise CorruptTableError(
            f"nothing was written, since nobody can tell whether {commit_user!r} has done this before: {error}"
        ) from error
    tagged = [tag.snapshot for tag in tags if tag.snapshot.commit_user == commit_user]
    newest = max(filter(is_own, tagged), key=lambda item: item.id, default=None)
    return OwnCommit(newest, checked, parts)
