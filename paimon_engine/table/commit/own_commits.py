"""Finding the commits of one job, so that a repeated job does not commit twice.

What is visible tells first: snapshots, then tags. Of commits whose snapshots have expired their records tell
(`table.commit.records`): one that is done is done, unless a rollback has taken it back; of an intent it must be certain
that it came to nothing. Where that cannot be known, nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass

from paimon_engine.errors import CorruptTableError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_engine.meta.commit_identifier import counts_up, is_done_by, part_of
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.lineage import is_in_line
from paimon_engine.table.commit.records import (
    CommitKey,
    CommitRecord,
    read_record,
    record_path,
    settled_ids,
    write_record,
)
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import (
    earliest_snapshot_id,
    latest_snapshot_id,
    read_snapshot,
    readable_tags,
    same_commit,
    snapshots_newest_first,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnCommit:
    """The newest snapshot that a job made, None if it made none, among all up to `checked_up_to`.

    `parts` is the highest number of a part that it has committed, 0 if none.
    """

    snapshot: Snapshot | None
    checked_up_to: int
    parts: int = 0


def find_own_commit(table: TableHandle, commit_user: str, kind: CommitKind, identifier: int) -> OwnCommit:
    """Looks through the record of the commit of that name, snapshots, then tags (see `meta.commit_identifier`).

    Raises: OutcomeUnknownError if it expires while it is looked at, or if an attempt that never reported may have made
    a snapshot that has expired since; CorruptTableError if its record or a tag is broken, which may hold it.
    """
    key = CommitKey(commit_user, kind, identifier)
    # In this order: who commits writes the record before the snapshot.
    checked = latest_snapshot_id(table) or 0
    record = _record(table, key) if key.is_recorded else None
    done = None if record is None else _standing(table, key, record, checked)
    if done is not None:
        return OwnCommit(done, checked)

    def is_own(snapshot: Snapshot) -> bool:
        same_job = snapshot.commit_user == commit_user and snapshot.commit_kind is kind
        return same_job and is_done_by(identifier, snapshot.commit_identifier)

    seen: set[int] = set()
    parts = 0
    for snapshot in snapshots_newest_first(table, newest=checked):
        seen.add(snapshot.id)
        if (
            snapshot.id <= checked
            and is_own(snapshot)
            and (table.snapshot_service is not None or is_in_line(table, snapshot))
        ):
            return OwnCommit(snapshot, checked)
        if snapshot.commit_user == commit_user and snapshot.commit_kind is kind:
            parts = max(parts, part_of(identifier, snapshot.commit_identifier))
    tags, broken = readable_tags(table)
    for error in broken:
        raise CorruptTableError(
            f"nothing was written, since nobody can tell whether {commit_user!r} has done this before: {error}"
        ) from error
    tagged = [tag.snapshot for tag in tags]
    newest = max(filter(is_own, tagged), key=lambda item: item.id, default=None)
    if newest is None and record is not None:
        seen.update(item.id for item in tagged)
        newest = _settled(table, key, record, seen, range(1, checked + 1))
    return OwnCommit(newest, checked, parts)


def _record(table: TableHandle, key: CommitKey) -> CommitRecord | None:
    try:
        return read_record(table, key)
    except CorruptTableError as error:
        raise CorruptTableError(
            f"nothing was written, since nobody can tell whether {key.user!r} has done this before: {error}"
        ) from error


def _standing(table: TableHandle, key: CommitKey, record: CommitRecord, latest: int) -> Snapshot | None:
    """The snapshot of a record that is done, unless a rollback has taken it back; `latest` is the newest id.

    An expiry removes the oldest snapshots and a rollback the newest: so a snapshot that is gone while a newer one is
    there has expired. After a rollback its id is beyond the latest one, or another commit has it.

    Raises: OutcomeUnknownError if the table shows no snapshot at all.
    """
    snapshot = record.done(key)
    if snapshot is None:
        return None
    if latest == 0:
        raise OutcomeUnknownError(
            f"{record_path(table, key)} says that {key.user!r} has committed snapshot {snapshot.id}, and "
            f"{table.paths.root} shows no snapshot at all; nothing was written. Bring the table's snapshots back first"
        )
    if snapshot.id > latest:
        return None
    try:
        there = read_snapshot(table, snapshot.id)
    except NotFoundError:
        return snapshot
    return snapshot if same_commit(there, snapshot) else None


def _settled(
    table: TableHandle, key: CommitKey, record: CommitRecord, seen: Container[int], asked: range
) -> Snapshot | None:
    """None if it is certain that the commit is in no snapshot of the ids asked for; those `seen` are not it.

    The snapshot, if the attempt that made it has just said so.

    Raises: OutcomeUnknownError.
    """
    base = record.base_of(key)
    if base is None:
        return None
    missing = [number for number in asked if number > base and number not in seen]
    if not missing:
        return None
    again, latest = _record(table, key), asked.stop - 1
    done = None if again is None else _standing(table, key, again, latest)
    if done is not None:
        return done
    settled = settled_ids(table)
    missing = [number for number in missing if number not in settled]
    if not missing:
        return None
    ids = " to ".join(str(number) for number in dict.fromkeys((missing[0], missing[-1])))
    raise OutcomeUnknownError(
        f"{table.paths.root}: nobody can tell whether {key.user!r} has committed this before: an earlier attempt never "
        f"reported, and of the snapshots made since, {ids} have expired; nothing was written. "
        f"Look whether its rows are in the table: if not, run it under another commit_user, or delete "
        f"{record_path(table, key)} and run it again (an Airflow task: clear it with force_rerun=True)"
    )


class Recorder:
    """Keeps the record of one commit while it is made; does nothing for commits that keep none.

    `checked_up_to` is the newest snapshot in which the caller has looked for the commit; None if nobody chose its name.
    """

    def __init__(self, table: TableHandle, key: CommitKey, checked_up_to: int | None) -> None:
        self._table = table
        self._key = key
        self._checked_up_to = checked_up_to if checked_up_to is not None and key.is_recorded else None
        self._base: int | None = None
        self._seen = checked_up_to or 0

    def look_again(self) -> None:
        """Snapshots may have come and gone unseen since the intent was noted: others are asked for anew."""
        self._base = None

    def begin(self, latest: int) -> Snapshot | None:
        """Notes the intent, before the first snapshot is published on `latest`; the commit if others have made it.

        To be called once the snapshots newer than `checked_up_to` have been looked at.

        Raises: OutcomeUnknownError if some of these have expired meanwhile; CorruptTableError; StorageError.
        """
        checked = self._checked_up_to
        if checked is None or (self._base is not None and self._base <= latest):
            return None
        record = _record(self._table, self._key)
        if record is not None:
            done = _standing(self._table, self._key, record, latest)
            if done is not None and done.id > checked:
                return done
            if latest > self._seen and record.base_of(self._key) is not None:
                there = range(earliest_snapshot_id(self._table) or latest, latest + 1)
                done = _settled(self._table, self._key, record, there, range(self._seen + 1, latest + 1))
                if done is not None:
                    return done
        self._base, self._seen = min(checked, latest), latest
        earlier = record.snapshot if record is not None and counts_up(self._key.identifier) else None
        write_record(self._table, self._key, base=self._base, snapshot=earlier)
        return None

    def done(self, snapshot: Snapshot) -> None:
        """Completes the record. The commit is made, so that what fails here is no failure of it."""
        if self._checked_up_to is None:
            return
        try:
            write_record(self._table, self._key, base=None, snapshot=snapshot)
        except PaimonError as error:
            logger.warning("the record of %s stays an intent: %s", self._key.user, error)
