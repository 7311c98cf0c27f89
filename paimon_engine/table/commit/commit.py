"""Commit: turn commit messages into the next snapshot, exactly once.

Each try:

1. Read the latest snapshot. If a newer one carries our user, identifier and kind, we are done: an earlier try
   succeeded although its answer was lost, or another attempt of the same job was faster. It counts only if the
   table goes on from it (`table.commit.lineage`).
2. Prepare the snapshot (`table.commit.next_snapshot`): its changes, checked against what is live now, and its metadata.
   A conflict is an answer, not an error: the caller plans again. So is the loss of files to a clean-up
   (`table.commit.own_files`), which is asked for before and after the snapshot is made, where there is reason to.
3. Note the intent, where the commit has a name that somebody chose (`table.commit.records`).
4. Create `snapshot-<n+1>` if absent; where a server keeps the snapshots, ask it to.
   Created: done. Taken: look whether it is ours after all (a store's client may have repeated a request that had
   succeeded), else try again.
   Unknown: delete nothing; the next try finds out.

`table.commit.patience` says for how long, and how a commit waits between its tries. Metadata of lost tries is deleted
in the end. A snapshot is recognised as ours by its delta list, whose name is unique to the commit, and to the try where
it is not known what became of the one before.

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
from paimon_engine.table.commit.lineage import is_in_line
from paimon_engine.table.commit.next_snapshot import NextSnapshot, Prepared
from paimon_engine.table.commit.own_commits import Recorder
from paimon_engine.table.commit.own_files import Lost, OwnFiles
from paimon_engine.table.commit.patience import Patience
from paimon_engine.table.commit.publish import publish, take_back
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
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, read_snapshot, snapshots_of_user
from paimon_engine.table.state.unneeded import delete_unneeded

__all__ = ["CommitRequest", "Committed", "Conflict", "IndexRead", "OverwriteScope", "commit"]

logger = logging.getLogger(__name__)

_UNANSWERED_MAX: Final = 10
"""Tries of which the store does not say what became of them, after which a commit says so too."""


def commit(table: TableHandle, request: CommitRequest) -> Committed | Conflict:
    """Makes the next snapshot out of the request's messages; atomic, and safe to repeat.

    Raises: ConflictError after too many lost races (see `table.commit.patience`); OutcomeUnknownError if the store
    never said whether the last try succeeded; StorageError.
    """
    check_metadata_writable(table.options)
    check_request(request)
    return _Commit(table, request).run()


class _Lost(Exception):  # noqa: N818 - an outcome of a try, not an error
    """Somebody else made the snapshot, or we do not know: try again."""


@dataclass(frozen=True, slots=True)
class _Try:
    """A snapshot that was to follow `base`."""

    prepared: Prepared
    base: Snapshot | None


class _Commit:
    def __init__(self, table: TableHandle, request: CommitRequest) -> None:
        self._table = table
        self._request = request
        self._next = NextSnapshot(table, request)
        self._checked_up_to = request.checked_up_to
        self._unknown: list[Snapshot] = []
        self._tries: dict[str, _Try] = {}
        self._last: Prepared | None = None
        self._own_files = OwnFiles(table, request.messages, request.statistics, request.begun)
        self._known, self._known_is_old = self._read_by_writer(), True
        self._lost_races = 0
        self._unanswered = 0
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
            return patience.retrying(lambda: self._last_try_s, self._asks_for_another_try)(self._attempt)
        except tenacity.RetryError as error:
            return self._after_last_try(patience, error)
        except PaimonError as error:
            if self._unknown and not isinstance(error, OutcomeUnknownError):
                raise self._never_confirmed() from error
            raise

    def _asks_for_another_try(self, state: tenacity.RetryCallState) -> bool:
        assert state.outcome is not None
        return isinstance(state.outcome.exception(), _Lost)

    def _after_last_try(self, patience: Patience, error: tenacity.RetryError) -> Committed | Conflict:
        latest = latest_snapshot(self._table)
        done = self._already_done(latest)
        if done is not None:
            return done
        if self._unknown:
            raise self._never_confirmed() from error
        raise ConflictError(
            f"{self._table.paths.root}: others committed first in {self._lost_races} tries; {patience.way_out}"
        ) from error

    def _never_confirmed(self) -> OutcomeUnknownError:
        path = self._table.paths.snapshot(self._unknown[-1].id)
        return OutcomeUnknownError(f"the store never confirmed {path}; look whether it exists before committing again")

    # ── one try ─────────────────────────────────────────────────────────────────────────────────

    def _attempt(self) -> Committed | Conflict:
        begun = time.monotonic()
        try:
            return self._try()
        finally:
            self._last_try_s = time.monotonic() - begun

    def _try(self) -> Committed | Conflict:
        latest, done = self._look()
        if done is not None:
            return done
        self._settle_unknown(latest)
        if self._checked_up_to is None:
            self._checked_up_to = latest.id if latest else 0
        if lost := self._own_files.lost_to_fences(latest, () if self._last is None else tuple(self._last.files)):
            return self._without(lost, latest)
        try:
            prepared = self._next.prepare(latest)
            if isinstance(prepared, Conflict):
                return prepared
            if lost := self._own_files.lost_with_age(tuple(prepared.files)):
                return self._without(lost, latest)
            other = self._recorder.begin(latest.id if latest else 0)
        except NotFoundError as error:
            self._known = None
            if latest is not None and latest_snapshot_id(self._table) != latest.id:
                raise _Lost from error  # the snapshot that we built on has expired meanwhile
            raise
        if other is not None:
            return self._finish(other)
        return self._publish(prepared, latest)

    def _look(self) -> tuple[Snapshot | None, Committed | Conflict | None]:
        """The latest snapshot, and this commit if it turns out to be done.

        After a lost race the next ones are asked for by their numbers, which needs no listing.
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
        """The snapshot that the writer of the messages has read, if this commit is in none up to that."""
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
        return ours == theirs and (self._table.snapshot_service is not None or is_in_line(self._table, snapshot))

    def _settle_unknown(self, latest: Snapshot | None) -> None:
        """Forgets tries whose id belongs to another snapshot.

        Raises: OutcomeUnknownError if that id has expired: nobody can tell any more whose it was.
        """
        unsettled = []
        for item in self._unknown:
            if latest is None or latest.id < item.id:
                unsettled.append(item)
                continue
            try:
                there = read_snapshot(self._table, item.id)
            except NotFoundError as error:
                raise self._never_confirmed() from error
            if there.delta_manifest_list == item.delta_manifest_list:
                # Created so late that its id had been taken and had expired: nobody builds on it.
                delete_unneeded(self._table.env.storage, [self._table.paths.snapshot(there.id)])
        self._unknown = unsettled

    def _publish(self, prepared: Prepared, base: Snapshot | None) -> Committed | Conflict:
        """Creates the snapshot if absent. Raises: _Lost if another one is there, or if the store does not say."""
        self._last, snapshot = prepared, prepared.snapshot
        self._tries[snapshot.base_manifest_list] = _Try(prepared, base)
        # Until there is an answer; what ends the process's wait for one is no answer.
        self._unknown.append(snapshot)
        try:
            created = publish(self._table, snapshot, base, prepared.changes)
        except OutcomeUnknownError as error:
            self._next.begin_new_lists()
            self._known = None
            self._unanswered += 1
            if self._unanswered > _UNANSWERED_MAX:
                raise self._never_confirmed() from error
            raise _Lost from error
        except PaimonError:
            self._unknown.remove(snapshot)
            raise
        # What ends us in what follows must not take the snapshot for a failure, and delete its metadata.
        if created:
            return self._finish(snapshot)
        try:
            there = read_snapshot(self._table, snapshot.id)
        except NotFoundError as error:
            # Taken a moment ago and expired already: it cannot have been ours, which would be the newest.
            self._unknown.remove(snapshot)
            self._next.begin_new_lists()
            self._known = None
            raise _Lost from error
        if self._is_ours(there) or self._is_done_by(there):
            return self._finish(there)
        self._unknown.remove(snapshot)
        self._known, self._known_is_old = there, False
        self._own_files.know([there])
        self._lost_races += 1
        logger.debug("lost the race for snapshot %d", snapshot.id)
        raise _Lost

    def _without(self, lost: Lost, latest: Snapshot | None) -> Conflict:
        """Raises: _Lost if the next try can do without these files; ConflictError; OutcomeUnknownError."""
        if self._unknown:
            raise self._never_confirmed()
        if not lost.is_metadata or self._request.statistics is not None:
            return self._refused(lost, latest)
        self._clean_up(None)
        self._next, self._last = NextSnapshot(self._table, self._request), None
        self._lost_races += 1
        raise _Lost

    def _refused(self, lost: Lost, latest: Snapshot | None) -> Conflict:
        """Raises: ConflictError if what is lost belongs to no bucket."""
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
        own = self._tries.get(snapshot.base_manifest_list)
        if own is not None and (lost := self._lost_since(own)):
            self._take_back(own, lost)
            self._unknown = [item for item in self._unknown if item is not own.prepared.snapshot]
            return self._refused(lost, own.base)
        self._recorder.done(snapshot)
        logger.info("committed snapshot %d: %s by %s", snapshot.id, snapshot.commit_kind, snapshot.commit_user)
        return Committed(snapshot, by_other_attempt=not self._is_ours(snapshot), lost_races=self._lost_races)

    def _clean_up(self, committed: Snapshot | None) -> None:
        """Deletes the metadata of tries that certainly failed, and index files that have gone into others."""
        made = None if committed is None else self._tries.get(committed.base_manifest_list)
        needed = set() if made is None else set(made.prepared.files)
        for item in self._unknown:
            # The id of a commit, and those before it, can belong to nothing else.
            if committed is None or item.id > committed.id:
                needed |= self._tries[item.base_manifest_list].prepared.files
        merged = () if made is None else made.prepared.merged_index
        unneeded = [path for path in self._next.written if path not in needed]
        delete_unneeded(self._table.env.storage, [*unneeded, *(self._table.paths.index(file.name) for file in merged)])

    # ── files that went while the commit was held up ────────────────────────────────────────────

    def _lost_since(self, own: _Try) -> Lost:
        """Files that were gone when the snapshot was published."""
        lost = self._own_files.lost_with_age(tuple(own.prepared.files), is_first=own.base is None)
        if lost:
            try:
                read_snapshot(self._table, own.prepared.snapshot.id)
            except NotFoundError:
                return Lost()  # it has expired already, and its files with it
        return lost

    def _take_back(self, own: _Try, lost: Lost) -> None:
        """Removes a snapshot that came when its files were gone. Raises: OutcomeUnknownError if others build on it."""
        try:
            done = take_back(self._table, own.prepared.snapshot, own.base)
        except PaimonError as error:
            raise self._broken(own, lost) from error
        if not done:
            raise self._broken(own, lost)

    def _broken(self, own: _Try, lost: Lost) -> OutcomeUnknownError:
        number = own.prepared.snapshot.id
        if own.prepared.snapshot not in self._unknown:
            self._unknown.append(own.prepared.snapshot)  # its metadata stays
        return OutcomeUnknownError(
            f"{self._table.paths.root}: snapshot {number} was committed after it had been held up, and a clean-up had "
            f"deleted files of it by then: {lost}. Others may build on it already: go back to snapshot {number - 1}, "
            "or give up its files with remove_unexisting_files, and run this again under another commit user"
        )
