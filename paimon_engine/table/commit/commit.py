"""Commit: turn commit messages into the next snapshot, exactly once.

Each try:

1. Read the latest snapshot. If a newer one has our user, identifier and kind, the commit is done: an earlier try
   succeeded although its answer was lost, or another attempt of the same job was faster. Such a snapshot counts only
   if it is part of the table's history (`table.commit.lineage`).
2. Prepare the snapshot (`table.commit.next_snapshot`): check its changes against the files that are live now, and write
   its metadata. A conflict is a return value, not an error: the caller plans again. So is the loss of files to a
   clean-up (`table.commit.own_files`); this is checked before and after the snapshot is published, if it can have
   happened.
3. If the caller chose the commit's name in order to repeat it, write a record of the intent (`table.commit.records`).
4. Create `snapshot-<n+1>` if absent; if a server keeps the snapshots, request the commit from it.
   Created: done.
   Taken by another commit: try again. But first check whether the existing snapshot is ours: client libraries of object
   stores repeat a request whose answer was lost, and the repeated one then finds the file of the first.
   Outcome unknown: delete nothing; the next try finds out.

`table.commit.patience` limits the tries and the waits between them. At the end the metadata of failed tries is deleted.
A snapshot is ours if it names our delta manifest list. That name is unique to the commit; after a try with unknown
outcome the next try gets a new name.

Source: `FileStoreCommitImpl`, `ConflictDetection` of the Java library.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

import tenacity

from paimon_engine.errors import ConflictError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.commit.commit_callbacks import announcing
from paimon_engine.table.commit.lineage import follows, is_in_line
from paimon_engine.table.commit.next_snapshot import NextSnapshot, PreparedSnapshot
from paimon_engine.table.commit.origins import committed_before
from paimon_engine.table.commit.own_commits import Recorder
from paimon_engine.table.commit.own_files import LostFiles, OwnFiles
from paimon_engine.table.commit.patience import Patience
from paimon_engine.table.commit.publish import publish, removes_cut_off, take_back
from paimon_engine.table.commit.records import CommitKey
from paimon_engine.table.commit.request import (
    CommitRequest,
    Committed,
    Conflict,
    IndexRead,
    OverwriteScope,
    check_request,
)
from paimon_engine.table.commit.snapshot_walk import snapshots_after
from paimon_engine.table.state.handle import TableHandle, index_file_path
from paimon_engine.table.state.partitions import partition_names
from paimon_engine.table.state.snapshots import is_latest, latest_snapshot, read_snapshot, snapshots_of_user
from paimon_engine.table.state.table_entry import TableEntry
from paimon_engine.table.state.unneeded import delete_unneeded

__all__ = ["CommitRequest", "Committed", "Conflict", "IndexRead", "OverwriteScope", "commit"]

logger = logging.getLogger(__name__)

_UNANSWERED_MAX: Final = 10
"""Tries with unknown outcome after which the commit ends with OutcomeUnknownError."""


def commit(table: TableHandle, request: CommitRequest) -> Committed | Conflict:
    """Creates the next snapshot from the request's messages. Atomic, and safe to repeat with the same request.

    Raises: ConflictError after too many lost races (see `table.commit.patience`); OutcomeUnknownError if the storage
    never answered whether the last try succeeded; StorageError.
    """
    check_metadata_writable(table.options)
    check_request(request)
    if table.entry is not None:
        _list_partitions(table.entry, table, request)
    with announcing(table, request) as notifier:
        outcome = _Commit(table, request).run()
        notifier.end(outcome)
    return outcome


def _list_partitions(entry: TableEntry, table: TableHandle, request: CommitRequest) -> None:
    """Has the catalog list the partitions that get files, before there is a snapshot that a reader would miss."""
    keys = dict.fromkeys(item.partition for item in request.messages if item.new_files or item.compact_after)
    if keys and table.schema.partition_keys:
        entry.add_partitions(table, [partition_names(table, key) for key in keys])


class _TryAgain(Exception):  # noqa: N818 - an outcome of a try, not an error
    """Another commit took the snapshot id, or the outcome is unknown: try again."""


@dataclass(frozen=True, slots=True)
class _Try:
    """A snapshot that this commit tried to publish after `base`."""

    prepared: PreparedSnapshot
    base: Snapshot | None


class _Commit:
    """The state of one commit over its tries.

    `_unknown` are snapshots of which it is not known whether they were created; their metadata must stay. `_tries` are
    all published or attempted snapshots, by the name of their base manifest list, which is unique to a try. `_known` is
    the newest snapshot of others that was read; None means that the snapshots must be listed.
    """

    def __init__(self, table: TableHandle, request: CommitRequest) -> None:
        self._table = table
        self._request = request
        self._next = NextSnapshot(table, request)
        self._checked_up_to = request.checked_up_to
        self._unknown: list[Snapshot] = []
        self._tries: dict[str, _Try] = {}
        self._last: PreparedSnapshot | None = None
        self._own_files = OwnFiles(table, request.messages, request.statistics, request.begun)
        self._known, self._known_is_old = self._read_by_writer(), True
        self._lost_races = 0
        self._unanswered = 0
        self._no_answer = ""
        self._last_try_s = 0.0
        key = CommitKey(request.commit_user, request.kind, request.commit_identifier)
        self._recorder = Recorder(table, key, request.checked_up_to)

    def run(self) -> Committed | Conflict:
        try:
            outcome = self._run()
        except BaseException:
            self._clean_up(None)
            raise
        self._clean_up(outcome.snapshot if isinstance(outcome, Committed) else None)
        return outcome

    def _run(self) -> Committed | Conflict:
        patience = Patience(self._table.options)
        try:
            return patience.retrying(lambda: self._last_try_s, self._must_try_again)(self._attempt)
        except tenacity.RetryError as error:
            return self._after_last_try(patience, error)
        except PaimonError as error:
            if self._unknown and not isinstance(error, OutcomeUnknownError):
                raise self._outcome_unknown_error() from error
            raise

    def _must_try_again(self, state: tenacity.RetryCallState) -> bool:
        assert state.outcome is not None
        return isinstance(state.outcome.exception(), _TryAgain)

    def _after_last_try(self, patience: Patience, error: tenacity.RetryError) -> Committed | Conflict:
        latest = latest_snapshot(self._table)
        done = self._already_done(latest)
        if done is not None:
            return done
        if self._unknown:
            raise self._outcome_unknown_error() from error
        what = f"other commits were faster in {self._lost_races} tries"
        if not self._lost_races:
            what = "the catalog refused every try, though no other commit was faster; the log has its reasons"
        raise ConflictError(f"{self._table.paths.root}: {what}; {patience.remedy}") from error

    def _outcome_unknown_error(self) -> OutcomeUnknownError:
        path = self._table.paths.snapshot(self._unknown[-1].id)
        said = f". The last try: {self._no_answer}" if self._no_answer else ""
        return OutcomeUnknownError(
            f"the storage never confirmed {path}; check whether it exists before you commit again{said}"
        )

    # ── one try ─────────────────────────────────────────────────────────────────────────────────

    def _attempt(self) -> Committed | Conflict:
        begun = time.monotonic()
        try:
            return self._try()
        finally:
            self._last_try_s = time.monotonic() - begun

    def _try(self) -> Committed | Conflict:
        """One try: find the latest snapshot, prepare, record the intent, publish. Raises: _TryAgain."""
        latest, done = self._find_latest()
        if done is not None:
            return done
        self._settle_unknown(latest)
        if self._request.under_any_name:
            by_others = committed_before(self._table, self._request.messages, latest)
            if by_others is not None:
                return Committed(by_others, by_other_attempt=True, lost_races=self._lost_races)
        if self._checked_up_to is None:
            self._checked_up_to = latest.id if latest else 0
        if lost := self._own_files.lost_to_fences(latest, () if self._last is None else tuple(self._last.files)):
            return self._after_loss(lost, latest)
        try:
            prepared = self._next.prepare(latest)
            if isinstance(prepared, Conflict):
                return prepared
            if lost := self._own_files.lost_since_last_check(tuple(prepared.files)):
                return self._after_loss(lost, latest)
            other = self._recorder.begin(latest.id if latest else 0)
        except NotFoundError as error:
            self._known = None
            if latest is not None and not is_latest(self._table, latest):
                raise _TryAgain from error  # the base expired, or was rolled back, while this try was prepared
            raise
        if other is not None:
            return self._finish(other)
        return self._publish(prepared, latest)

    def _find_latest(self) -> tuple[Snapshot | None, Committed | Conflict | None]:
        """The latest snapshot, and this commit's outcome if it turns out to be done.

        After a lost race the following snapshots are read by their ids, which needs no listing.
        """
        if self._known is not None and self._table.snapshot_service is None:
            later = snapshots_after(self._table, self._known, is_old=self._known_is_old)
            if later is not None:
                self._own_files.know(later)
                done = next((item for item in reversed(later) if self._is_done_by(item)), None)
                return (later[-1] if later else self._known), (None if done is None else self._finish(done))
        self._next.forget_others()
        self._recorder.look_again()
        latest = latest_snapshot(self._table)
        return latest, self._already_done(latest)

    def _read_by_writer(self) -> Snapshot | None:
        """The snapshot that the writer of the messages read, if the caller has searched up to it for this commit."""
        read, checked = self._request.read, self._request.checked_up_to
        if read is None or read.snapshot is None or (checked is not None and read.snapshot.id > checked):
            return None
        return read.snapshot

    def _already_done(self, latest: Snapshot | None) -> Committed | Conflict | None:
        if latest is None or self._checked_up_to is None or latest.id <= self._checked_up_to:
            return None
        for snapshot in snapshots_of_user(self._table, self._request.commit_user, newer_than=self._checked_up_to):
            if self._is_done_by(snapshot):
                return self._finish(snapshot)
        return None

    def _is_done_by(self, snapshot: Snapshot) -> bool:
        ours = self._request.commit_user, self._request.commit_identifier, self._request.kind
        theirs = snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind
        if ours != theirs or self._table.snapshot_service is not None:
            return ours == theirs
        if not is_in_line(self._table, snapshot):
            return False
        own = self._tries.get(snapshot.base_manifest_list)
        if own is None or self._table.env.storage.exists(self._table.paths.snapshot(snapshot.id + 1)):
            return True
        # Nothing builds on it yet, and a rollback may have put another snapshot in the place of its base.
        return follows(self._table, snapshot, own.base)

    def _settle_unknown(self, latest: Snapshot | None) -> None:
        """Removes tries from `_unknown` whose snapshot id turns out to belong to another commit, or to nothing.

        Raises: OutcomeUnknownError if that id has expired, so that its owner cannot be found out any more; _TryAgain
        if the latest snapshot turns out to be such a try, which is deleted.
        """
        unsettled, was_latest = [], False
        for item in self._unknown:
            if latest is None or latest.id < item.id:
                if latest is None or latest.id == item.id - 1 or not self._is_cut_off(item):
                    unsettled.append(item)
                continue
            try:
                there = read_snapshot(self._table, item.id)
            except NotFoundError as error:
                raise self._outcome_unknown_error() from error
            if there.delta_manifest_list == item.delta_manifest_list:
                # Our file, but `_find_latest` did not count it as done: it was created after its id had been used by
                # another commit and had expired (see `lineage`), or after a rollback. Nothing builds on it.
                delete_unneeded(self._table.env.storage, [self._table.paths.snapshot(there.id)])
                was_latest = was_latest or there.id == latest.id
        self._unknown = unsettled
        if was_latest:
            self._known = None
            raise _TryAgain

    def _is_cut_off(self, item: Snapshot) -> bool:
        return removes_cut_off(self._table, item, self._tries[item.base_manifest_list].base)

    def _publish(self, prepared: PreparedSnapshot, base: Snapshot | None) -> Committed | Conflict:
        """Creates the snapshot if absent. Raises: _TryAgain if another one exists, or if the outcome is unknown."""
        self._last, snapshot = prepared, prepared.snapshot
        self._tries[snapshot.base_manifest_list] = _Try(prepared, base)
        # Unknown until there is an answer. An interrupt while we wait is not an answer, so the entry then stays.
        self._unknown.append(snapshot)
        try:
            created = publish(self._table, snapshot, base, prepared.changes)
        except OutcomeUnknownError as error:
            self._next.begin_new_lists()
            self._known = None
            self._unanswered += 1
            self._no_answer = str(error)
            if self._unanswered > _UNANSWERED_MAX:
                raise self._outcome_unknown_error() from error
            raise _TryAgain from error
        except PaimonError:
            self._unknown.remove(snapshot)
            raise
        # The snapshot stays in `_unknown` until it is settled: if an interrupt ends the process below, `_clean_up` must
        # not delete the metadata of a snapshot that exists.
        if created:
            return self._finish(snapshot)
        try:
            there = read_snapshot(self._table, snapshot.id)
        except NotFoundError as error:
            # The id was taken a moment ago and has already expired. It was not ours: ours would be the newest one,
            # and expiry never removes that.
            self._begin_again_after(snapshot)
            raise _TryAgain from error
        if self._is_ours(there) and self._is_cut_off(there):
            self._begin_again_after(snapshot)
            raise _TryAgain
        if self._is_ours(there) or self._is_done_by(there):
            return self._finish(there)
        self._unknown.remove(snapshot)
        self._known, self._known_is_old = there, False
        self._own_files.know([there])
        self._lost_races += 1
        logger.debug("lost the race for snapshot %d", snapshot.id)
        raise _TryAgain

    def _begin_again_after(self, failed: Snapshot) -> None:
        """Makes the next try look at all snapshots again, and write lists of new names."""
        self._unknown.remove(failed)
        self._next.begin_new_lists()
        self._known = None

    def _after_loss(self, lost: LostFiles, latest: Snapshot | None) -> Conflict:
        """What to do when files of this commit were deleted by a clean-up.

        Lost manifests can be written again by the next try; lost data files cannot.

        Raises: _TryAgain if only manifests of this commit are lost; ConflictError; OutcomeUnknownError.
        """
        if self._unknown:
            raise self._outcome_unknown_error()
        if not lost.is_metadata or self._request.statistics is not None:
            return self._refused(lost, latest)
        self._clean_up(None)
        self._next, self._last = NextSnapshot(self._table, self._request), None
        self._lost_races += 1
        raise _TryAgain

    def _refused(self, lost: LostFiles, latest: Snapshot | None) -> Conflict:
        """The conflict in the buckets of the lost files. Raises: ConflictError if they belong to no bucket."""
        if not lost.is_metadata:
            return Conflict(lost.conflicts, latest.id if latest else 0, is_lost=True)
        raise ConflictError(
            f"{self._table.paths.root}: a clean-up has deleted {lost} before it was committed; run it again"
        )

    # ── afterwards ──────────────────────────────────────────────────────────────────────────────

    def _is_ours(self, snapshot: Snapshot) -> bool:
        ours = (item.prepared.snapshot for item in self._tries.values())
        return any(snapshot.delta_manifest_list == item.delta_manifest_list for item in ours)

    def _finish(self, snapshot: Snapshot) -> Committed | Conflict:
        """The outcome once `snapshot` holds this commit: completes the record, unless files were lost meanwhile."""
        own = self._tries.get(snapshot.base_manifest_list)
        if own is not None and (lost := self._lost_since(own)):
            self._take_back(own, lost)
            self._unknown = [item for item in self._unknown if item is not own.prepared.snapshot]
            return self._refused(lost, own.base)
        self._recorder.done(snapshot)
        logger.info("committed snapshot %d: %s by %s", snapshot.id, snapshot.commit_kind, snapshot.commit_user)
        return Committed(snapshot, by_other_attempt=not self._is_ours(snapshot), lost_races=self._lost_races)

    def _clean_up(self, committed: Snapshot | None) -> None:
        """Deletes the metadata of tries that certainly failed, and index files that were merged into others."""
        made = None if committed is None else self._tries.get(committed.base_manifest_list)
        needed = set() if made is None else set(made.prepared.files)
        for item in self._unknown:
            # Ids up to the committed one have owners by now, and a try that lost its id cannot succeed any more. A try
            # with a higher id may still be created by a request that is on its way.
            if committed is None or item.id > committed.id:
                needed |= self._tries[item.base_manifest_list].prepared.files
        merged = () if made is None else made.prepared.merged_index
        unneeded = [path for path in self._next.written if path not in needed]
        unneeded += [index_file_path(self._table, file.partition, file.bucket, file.name) for file in merged]
        delete_unneeded(self._table.env.storage, unneeded)

    # ── files that a clean-up deleted while the commit was delayed ──────────────────────────────

    def _lost_since(self, own: _Try) -> LostFiles:
        """Files that were already deleted when the snapshot was published."""
        lost = self._own_files.lost_since_last_check(tuple(own.prepared.files), is_first=own.base is None)
        if lost:
            try:
                read_snapshot(self._table, own.prepared.snapshot.id)
            except NotFoundError:
                return LostFiles()  # the snapshot has expired already, and its files with it
        return lost

    def _take_back(self, own: _Try, lost: LostFiles) -> None:
        """Removes a snapshot that was published after its files were lost.

        Raises: OutcomeUnknownError if other snapshots build on it.
        """
        try:
            done = take_back(self._table, own.prepared.snapshot, own.base)
        except PaimonError as error:
            raise self._broken(own, lost) from error
        if not done:
            raise self._broken(own, lost)

    def _broken(self, own: _Try, lost: LostFiles) -> OutcomeUnknownError:
        number = own.prepared.snapshot.id
        if own.prepared.snapshot not in self._unknown:
            self._unknown.append(own.prepared.snapshot)  # so that its metadata is not deleted
        return OutcomeUnknownError(
            f"{self._table.paths.root}: snapshot {number} was committed after a long delay, and a clean-up had already "
            f"deleted files of it: {lost}. Other snapshots may build on it: roll back to snapshot {number - 1}, "
            "or remove its lost files with remove_unexisting_files, and run this again under another commit user"
        )
