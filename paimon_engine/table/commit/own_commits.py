"""Finds the commit of a job, so that a repeated job does not commit twice.

Snapshots and tags are searched first. A commit whose snapshot has expired is found by its record
(`table.commit.records`), which is in one of two states:

- done (it holds the snapshot): the job is done, unless a rollback removed that snapshot (`_committed_by_record`);
- an intent (it holds `base`): an attempt began, and the commit is in no snapshot up to `base`. If every later snapshot
  can be read and none is the commit, the attempt failed, and the job may run. If some of the later snapshots have
  expired, one of them may have been the commit. Then nothing is written (`_resolve_intent`), unless `SETTLED` says that
  these were checked before they expired.

Example: a job looks at snapshots 1 to 5, writes an intent with `base` 5 and dies. It is repeated when the table has
snapshots 6 to 9: all are read, none is the job's, so the job runs. If it is repeated when only 8 and 9 are left, 6 or 7
may have been its commit. This engine's expiry completes the records of the snapshots that it removes, and then adds
their ids to `SETTLED`, so this can be decided; after another engine's expiry the job ends with OutcomeUnknownError.
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
    """The newest snapshot that a job committed, None if there is none, among those with ids up to `checked_up_to`.

    `parts` is the highest number of a part that the job has committed (`meta.commit_identifier`), 0 if none.
    """

    snapshot: Snapshot | None
    checked_up_to: int
    parts: int = 0


def find_own_commit(table: TableHandle, commit_user: str, kind: CommitKind, identifier: int) -> OwnCommit:
    """Searches the record of the commit of that name, then snapshots, then tags (see `meta.commit_identifier`).

    Raises: OutcomeUnknownError if the snapshot expires while it is checked, or if an earlier attempt may have made a
    snapshot that has expired since; CorruptTableError if the record or a tag, which may hold the commit, is damaged.
    """
    key = CommitKey(commit_user, kind, identifier)
    # First the newest id, then the record: a commit writes its record before its snapshot, so a commit with an id up to
    # `checked` has its record in storage by now.
    checked = latest_snapshot_id(table) or 0
    record = _record(table, key) if key.is_recorded else None
    done = None if record is None else _committed_by_record(table, key, record, checked)
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
            f"nothing was written, since it is unknown whether {commit_user!r} has done this before: {error}"
        ) from error
    tagged = [tag.snapshot for tag in tags]
    newest = max(filter(is_own, tagged), key=lambda item: item.id, default=None)
    if newest is None and record is not None:
        seen.update(item.id for item in tagged)
        newest = _resolve_intent(table, key, record, seen, range(1, checked + 1))
    return OwnCommit(newest, checked, parts)


def _record(table: TableHandle, key: CommitKey) -> CommitRecord | None:
    try:
        return read_record(table, key)
    except CorruptTableError as error:
        raise CorruptTableError(
            f"nothing was written, since it is unknown whether {key.user!r} has done this before: {error}"
        ) from error


def _committed_by_record(table: TableHandle, key: CommitKey, record: CommitRecord, latest: int) -> Snapshot | None:
    """The snapshot of a record that is done, None if a rollback removed it; `latest` is the newest id.

    An expiry removes the oldest snapshots and a rollback the newest. So if the snapshot is missing and a newer one
    exists, it has expired, and its rows are in the newer one. After a rollback its id is higher than the latest one,
    or belongs to another commit.

    Raises: OutcomeUnknownError if the table shows no snapshot at all.
    """
    snapshot = record.done(key)
    if snapshot is None:
        return None
    if latest == 0:
        raise OutcomeUnknownError(
            f"{record_path(table, key)} says that {key.user!r} has committed snapshot {snapshot.id}, but "
            f"{table.paths.root} lists no snapshot at all; nothing was written. Restore the table's snapshots first"
        )
    if snapshot.id > latest:
        return None
    try:
        there = read_snapshot(table, snapshot.id)
    except NotFoundError:
        return snapshot
    return snapshot if same_commit(there, snapshot) else None


def _resolve_intent(
    table: TableHandle, key: CommitKey, record: CommitRecord, seen: Container[int], ids_to_check: range
) -> Snapshot | None:
    """Decides whether the attempt that left an intent has committed one of the snapshot ids `asked`.

    None if it certainly committed nothing there: each id is up to `base`, was `seen` (read, and not this commit), or is
    settled. The snapshot, if that attempt, or an expiry, has completed the record in the meantime.

    Raises: OutcomeUnknownError if some of the ids have expired unchecked.
    """
    base = record.base_of(key)
    if base is None:
        return None
    missing = [number for number in ids_to_check if number > base and number not in seen]
    if not missing:
        return None
    # Read again: an expiry that removed the missing ones completed the record first.
    again, latest = _record(table, key), ids_to_check.stop - 1
    done = None if again is None else _committed_by_record(table, key, again, latest)
    if done is not None:
        return done
    settled = settled_ids(table)
    missing = [number for number in missing if number not in settled]
    if not missing:
        return None
    ids = " to ".join(str(number) for number in dict.fromkeys((missing[0], missing[-1])))
    raise OutcomeUnknownError(
        f"{table.paths.root}: it is unknown whether {key.user!r} has committed this before: an earlier attempt never "
        f"reported its outcome, and of the snapshots committed since, {ids} have expired; nothing was written. "
        f"Check whether its rows are in the table: if not, run it under another commit_user, or delete "
        f"{record_path(table, key)} and run it again (an Airflow task: clear it with force_rerun=True)"
    )


class Recorder:
    """Writes the record of one commit during its tries; does nothing for commits that have no record.

    `checked_up_to` is the newest snapshot id in which the caller has looked for the commit; None if the commit's name
    was not chosen by the caller.
    """

    def __init__(self, table: TableHandle, key: CommitKey, checked_up_to: int | None) -> None:
        self._table = table
        self._key = key
        self._checked_up_to = checked_up_to if checked_up_to is not None and key.is_recorded else None
        self._base: int | None = None
        self._seen = checked_up_to or 0

    def look_again(self) -> None:
        """Makes `begin` check again: snapshots may have been committed and expired since the intent was written."""
        self._base = None

    def begin(self, latest: int) -> Snapshot | None:
        """Writes the intent, before a snapshot is first published on `latest`.

        None, or the commit itself if another attempt of the same job has made it. The caller has checked all snapshots
        newer than `checked_up_to` that exist, up to `latest`.

        Raises: OutcomeUnknownError if one of these expired before it was checked; CorruptTableError; StorageError.
        """
        checked = self._checked_up_to
        if checked is None or (self._base is not None and self._base <= latest):
            return None
        record = _record(self._table, self._key)
        if record is not None:
            done = _committed_by_record(self._table, self._key, record, latest)
            if done is not None and done.id > checked:
                return done
            if latest > self._seen and record.base_of(self._key) is not None:
                there = range(earliest_snapshot_id(self._table) or latest, latest + 1)
                done = _resolve_intent(self._table, self._key, record, there, range(self._seen + 1, latest + 1))
                if done is not None:
                    return done
        self._base, self._seen = min(checked, latest), latest
        earlier = record.snapshot if record is not None and counts_up(self._key.identifier) else None
        write_record(self._table, self._key, base=self._base, snapshot=earlier)
        return None

    def done(self, snapshot: Snapshot) -> None:
        """Completes the record. The commit itself is done, so a failure here is only logged."""
        if self._checked_up_to is None:
            return
        try:
            write_record(self._table, self._key, base=None, snapshot=snapshot)
        except PaimonError as error:
            logger.warning("the commit record of %s could not be completed: %s", self._key.user, error)
