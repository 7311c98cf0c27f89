"""Callbacks for a table's commits: Python counterparts of the classes that `commit.callbacks` names.

They are found as those of tags (`table.state.callbacks`): a package that provides a counterpart of the Java class
`com.acme.NotifyCommit` declares

    [project.entry-points."paimon_engine.commit_callbacks"]
    "com.acme.NotifyCommit" = "acme_paimon:NotifyCommit"

and `acme_paimon.NotifyCommit` is called with the table's `commit.callback.com.acme.NotifyCommit.param` (None without
one) to make a `CommitCallback`.

1. Before a commit, a note of its name is stored, `pending-commits/<id>.json` of the branch.
2. When the snapshot exists, all callbacks are called. What they raise cannot undo the commit, and must not be taken for
   its failure: it waits until the action is done.
3. When all have succeeded, the note is deleted. A note stays if a callback failed or the run died: the next commit to
   that branch, or a second attempt of the same job, then calls them. Notes of commits that never happened are deleted
   after a day.

Tables without callbacks have no notes.

Source: `CommitCallback`, `FileStoreCommitImpl` of the Java library. Differences: all are called though one fails, and
missed calls are made later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from paimon_engine.errors import CallbackError, CorruptTableError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_engine.format.stored import WRONG, parse_object
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.storage import FileInfo
from paimon_engine.table.commit.request import CommitRequest, Committed, Conflict
from paimon_engine.table.iceberg.publication import check_iceberg, keeps_iceberg, publish
from paimon_engine.table.state.callbacks import CallbackKind, NamedCallback, callback_names, make_callbacks
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot_id, snapshots_of_user
from paimon_engine.table.state.unneeded import delete_unneeded
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_AT_WORK_MS: Final = 600_000
"""Age of a note up to which the run that wrote it is probably about to call the callbacks itself."""

_failures: ContextVar[list[str] | None] = ContextVar("commit_callback_failures", default=None)


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """A commit: `table` is the table's directory, `branch` is `main` for the table itself.

    `user`, `identifier` and `kind` (such as `APPEND`) name the commit. `is_repeated` says that the callback was
    possibly called for it before.
    """

    table: str
    branch: str
    snapshot_id: int
    kind: str
    user: str
    identifier: int
    is_repeated: bool


@runtime_checkable
class CommitCallback(Protocol):
    """Is called for commits once their snapshot exists.

    It is called for each commit at least once, and not necessarily in the order of the snapshots: a second attempt of
    the same job, or the next commit after a job that died, calls again. So a second call must do no harm. An error
    stops neither the job nor other callbacks, and is raised as `CallbackError` at the end. A method `close`, if there
    is one, is called after the last call.
    """

    def committed(self, event: CommitEvent) -> None:
        """The snapshot exists now."""


COMMIT_CALLBACKS: Final[CallbackKind[CommitCallback]] = CallbackKind(
    "commit", "commit.callbacks", "commit.callback.#.param", CommitCallback, "committed"
)


@contextmanager
def waiting_failures() -> Iterator[None]:
    """Raises CallbackError after the block, an action, for callbacks that failed within it; not if it fails itself."""
    found: list[str] = []
    token = _failures.set(found)
    try:
        try:
            yield
        except Exception as error:
            for text in dict.fromkeys(found):
                error.add_note(text)
            raise
    finally:
        _failures.reset(token)
    if found:
        raise CallbackError(
            f"{'; '.join(dict.fromkeys(found))}; the action itself is done: repair the callback, and the next commit, "
            "or the same job again, notifies it"
        )


class CommitNotifier:
    """Calls the callbacks of one commit; made by `announcing`."""

    def __init__(
        self, table: TableHandle, request: CommitRequest, listeners: Sequence[NamedCallback[CommitCallback]]
    ) -> None:
        self._table = table
        self._request = request
        self._listeners = listeners
        self._note: str | None = None

    def begin(self) -> None:
        """Calls what earlier runs missed, and stores the note of this commit."""
        if not self._listeners:
            return
        table, request = self._table, self._request
        call_pending(table, self._listeners, request.commit_user)
        self._note = f"{table.paths.pending_commit_dir}/{table.env.new_id()}.json"
        latest = latest_snapshot_id(table) if request.checked_up_to is None else request.checked_up_to
        note = {
            "user": request.commit_user,
            "identifier": request.commit_identifier,
            "kind": request.kind.value,
            "after": latest or 0,
        }
        table.env.storage.overwrite(self._note, json.dumps(note).encode())

    def end(self, outcome: Committed | Conflict) -> None:
        """Calls the callbacks if there is a snapshot."""
        if isinstance(outcome, Committed):
            keep_iceberg(self._table)
        if self._note is None:
            return
        if isinstance(outcome, Conflict) or _call(self._table, self._listeners, outcome.snapshot, is_repeated=False):
            self.forget()

    def forget(self) -> None:
        """Deletes the note, if that is possible: there is nothing to call for any more.

        An error here must not look like one of the commit, whose files would be deleted.
        """
        if self._note is not None:
            delete_unneeded(self._table.env.storage, [self._note])


@contextmanager
def announcing(table: TableHandle, request: CommitRequest) -> Iterator[CommitNotifier]:
    """For a `with` block that commits, and tells the outcome by `end`.

    Raises: UnsupportedError if the table names a callback that no installed package provides, before the block begins.
    """
    listeners = make_callbacks(COMMIT_CALLBACKS, table.options)
    notifier = CommitNotifier(table, request, listeners)
    try:
        notifier.begin()
        try:
            yield notifier
        except OutcomeUnknownError:
            raise
        except PaimonError:
            notifier.forget()
            raise
    finally:
        for listener in listeners:
            listener.close()


def check_commit_callbacks(table: TableHandle) -> None:
    """Raises UnsupportedError if a commit to the table could not call its callbacks."""
    for listener in make_callbacks(COMMIT_CALLBACKS, table.options):
        listener.close()
    check_iceberg(table)


def keep_iceberg(table: TableHandle) -> bool:
    """Brings Iceberg metadata up to date, if the table has any; a failure waits until the action is done.

    False if it failed: the metadata may show what the table does not have any more.
    """
    if not keeps_iceberg(table):
        return True
    try:
        publish(table)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a failed commit
        _fail(f"the Iceberg metadata of {table.paths.root} is not up to date ({type(error).__name__}: {error})")
        return False
    return True


def _fail(text: str) -> None:
    found = _failures.get()
    if found is None:
        logger.warning("%s", text)
    else:
        found.append(text)


def call_again(table: TableHandle, done: Snapshot) -> None:
    """Calls the callbacks for the commit of an earlier attempt of the same job. Raises: UnsupportedError."""
    keep_iceberg(table)
    if not callback_names(COMMIT_CALLBACKS, table.options):
        return
    listeners = make_callbacks(COMMIT_CALLBACKS, table.options)
    try:
        _call(table, listeners, done, is_repeated=True)
        call_pending(table, listeners, done.commit_user)
    finally:
        for listener in listeners:
            listener.close()


def call_pending(table: TableHandle, listeners: Sequence[NamedCallback[CommitCallback]], user: str) -> None:
    """Calls the callbacks for commits whose notes earlier runs have left; those of `user` at once, others when old."""
    for info in table.env.storage.list(table.paths.pending_commit_dir):
        if not info.is_dir and info.path.endswith(".json"):
            _call_for_note(table, listeners, info, user)


def _call_for_note(
    table: TableHandle, listeners: Sequence[NamedCallback[CommitCallback]], info: FileInfo, user: str
) -> None:
    """Calls for one note, if its run is not at work any more; deletes the note if nothing is left to be called."""
    age_ms = table.env.clock() - info.modified_ms if info.modified_ms > 0 else 0
    try:
        note = parse_object(table.env.storage.read(info.path), info.path)
        owner, identifier, kind, after = note["user"], note["identifier"], CommitKind(note["kind"]), int(note["after"])
    except NotFoundError:
        return
    except (CorruptTableError, *WRONG):
        if age_ms > DAY_MS:
            table.env.storage.delete([info.path])
        return
    if owner != user and age_ms < _AT_WORK_MS:
        return
    made = (
        item
        for item in snapshots_of_user(table, owner, newer_than=after)
        if (item.commit_identifier, item.commit_kind) == (identifier, kind)
    )
    snapshot = next(made, None)
    # Without a snapshot it is not there yet, or never; or it has expired, and nothing can be said about it.
    is_old = age_ms > DAY_MS
    if is_old if snapshot is None else _call(table, listeners, snapshot, is_repeated=True):
        table.env.storage.delete([info.path])


def _call(
    table: TableHandle, listeners: Sequence[NamedCallback[CommitCallback]], snapshot: Snapshot, *, is_repeated: bool
) -> bool:
    """Calls all callbacks; whether all succeeded."""
    event = CommitEvent(
        table.paths.root,
        table.paths.branch,
        snapshot.id,
        snapshot.commit_kind.value,
        snapshot.commit_user,
        snapshot.commit_identifier,
        is_repeated,
    )
    failed = False
    for listener in listeners:
        try:
            listener.callback.committed(event)
        except Exception as error:  # noqa: BLE001 - whatever others raise must not look like a failed commit
            failed = True
            text = (
                f"snapshot {snapshot.id} of {table.paths.root} is committed, but {listener.name} could not be notified "
                f"({listener.text_of(error)})"
            )
            _fail(text)
    return not failed
