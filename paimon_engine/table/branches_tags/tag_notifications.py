"""Notifies the callbacks of a table of its tags, at least once, and keeps their success files.

1. Before tags are created, moved or deleted, a note of them is stored, `pending-notifications/<id>.json` of the branch.
2. When the tag is created or deleted, all callbacks are called; then its success file is written or removed.
3. When all callbacks have succeeded, the note is deleted. A note stays if a callback failed or the run died: the next
   action on tags of that branch then notifies of the state that it finds.

Tables without callbacks and success files have no notes.

Source: `TagManager`, `SuccessFileTagCallback` of the Java library. Differences: all are called though one fails;
missed notifications are sent later; tags that move, are removed by a rollback or restored by `restore` are notified
too. As in Java, callbacks are not called for renamed tags, nor for tags that are created or deleted with their branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import CallbackError, CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, integer_or_none, parse_object, required_integer
from paimon_engine.storage import FileInfo
from paimon_engine.table.branches_tags.tag_callbacks import TAG_CALLBACKS, TagCallback, TagEvent
from paimon_engine.table.commit.commit_callbacks import keep_iceberg
from paimon_engine.table.state.callbacks import NamedCallback, make_callbacks
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_tag
from paimon_engine.table.state.table_entry import TAG_PARTITION, TableEntry
from paimon_engine.units import DAY_MS

_OLD_AFTER_MS: Final = DAY_MS
"""Age of a note after which the run that wrote it is not active any more."""


@dataclass(frozen=True)
class _Failure:
    listener: NamedCallback[TagCallback]
    event: TagEvent
    is_there: bool
    error: Exception

    @property
    def text(self) -> str:
        state = "exists" if self.is_there else "was deleted"
        return (
            f"tag {self.event.tag!r} of {self.event.table} {state}, but {self.listener.name} "
            f"could not be notified ({self.listener.text_of(self.error)})"
        )


class TagNotifier:
    """Notifies of the tags of a table's branch during one action; made by `notifying`."""

    def __init__(
        self, table: TableHandle, listeners: Sequence[NamedCallback[TagCallback]], *, keeps_notes: bool
    ) -> None:
        self._table = table
        self._listeners = listeners
        is_heard = bool(listeners) or table.options.tag_create_success_file
        self._keeps_notes = keeps_notes and is_heard
        self._notes: dict[str, set[str]] = {}
        self._notified: set[str] = set()
        self._failures: list[_Failure] = []

    def expect(self, tags: Mapping[str, int | None], *, gone: bool = False) -> None:
        """Stores a note that these tags, with their snapshots' ids, are about to be created or deleted."""
        if self._keeps_notes and tags:
            note = self._table.paths.pending_notification(self._table.env.new_id())
            self._notes[note] = set(tags)
            self._notified -= set(tags)
            self._table.env.storage.overwrite(note, json.dumps({"gone": gone, "tags": dict(tags)}).encode())

    def made(self, tags: Mapping[str, int]) -> None:
        """Notifies that the tags are on these snapshots now."""
        notified = self._notify(tags, lambda callback, event: callback.tag_created(event), is_there=True)
        if self._table.options.tag_create_success_file:
            in_threads(self._table, _write_success, list(tags))
        self._forget(notified)

    def gone(self, tags: Mapping[str, int | None]) -> None:
        """Notifies that the tags, which were on these snapshots, do not exist any more."""
        notified = self._notify(tags, lambda callback, event: callback.tag_deleted(event), is_there=False)
        if self._table.options.tag_create_success_file:
            self._table.env.storage.delete([self._table.paths.tag_success(name) for name in tags])
        self._forget(notified)

    def undone(self, name: str) -> None:
        """Removes the tag from the notes: it was not created, so there is nothing to notify."""
        self._forget({name})

    def _notify(
        self, tags: Mapping[str, int | None], tell: Callable[[TagCallback, TagEvent], None], *, is_there: bool
    ) -> set[str]:
        """Calls all callbacks. Returns: the tags for which all succeeded."""
        notified = set(tags)
        for name, snapshot_id in tags.items():
            event = TagEvent(self._table.paths.root, self._table.paths.branch, name, snapshot_id)
            for listener in self._listeners:
                try:
                    tell(listener.callback, event)
                except Exception as error:  # noqa: BLE001 - whatever others raise waits until the work is done
                    self._failures.append(_Failure(listener, event, is_there, error))
                    notified.discard(name)
        return notified

    def _forget(self, notified: set[str]) -> None:
        """Deletes the notes whose tags have all been notified by now."""
        self._notified |= notified
        done = [note for note, tags in self._notes.items() if tags <= self._notified]
        if done:
            self._table.env.storage.delete(done)
        for note in done:
            del self._notes[note]

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    def notify_pending(self) -> None:
        """Sends the notifications that earlier runs missed, for the state of now."""
        if not self._keeps_notes:
            return
        storage = self._table.env.storage
        files = [info for path in self._table.paths.pending_notification_dirs for info in storage.list(path)]
        for info in files:
            if not info.is_dir and info.path.endswith(".json") and info.path not in self._notes:
                self._notify_from_note(info)

    def _notify_from_note(self, info: FileInfo) -> None:
        """Notifies of the tags in a note that an earlier run has left, by what is true of each tag now.

        A fresh note may belong to a run that is still at work: then only what it announced itself is reported.
        """
        table = self._table
        is_old = 0 < info.modified_ms < table.env.clock() - _OLD_AFTER_MS
        try:
            note = parse_object(table.env.storage.read(info.path), info.path)
            was_gone, tags = note["gone"] is True, {name: integer_or_none(note["tags"], name) for name in note["tags"]}
            now = {name: _snapshot_of(table, name) for name in tags}
        except NotFoundError:
            return
        except (CorruptTableError, InvalidArgumentError, *WRONG):
            # The note is incomplete, or its tag is damaged: the action that repairs the tag notifies of it.
            if is_old:
                table.env.storage.delete([info.path])
            return
        self._notes[info.path] = set(tags)
        there = {name: number for name, number in now.items() if number is not None and (is_old or not was_gone)}
        self.made({name: number for name, number in there.items() if name not in self._notified})
        gone = {name: tags[name] for name, number in now.items() if number is None and (is_old or was_gone)}
        self.gone({name: number for name, number in gone.items() if name not in self._notified})

    def close(self) -> None:
        """Closes the callbacks."""
        for listener in self._listeners:
            listener.close()

    def raise_failures(self) -> None:
        """Raises CallbackError for callbacks that failed."""
        if self._failures:
            raise self._error() from self._cause()

    def add_failures_to(self, error: BaseException) -> None:
        """Adds the callbacks that failed to an error that ended the action."""
        for failure in self._failures:
            error.add_note(failure.text)

    def _error(self) -> CallbackError:
        texts = dict.fromkeys(failure.text for failure in self._failures)
        return CallbackError(
            f"{'; '.join(texts)}; the action itself is done: repair the callback, and run the action again to notify it"
        )

    def _cause(self) -> Exception | None:
        """An error with its trace, unless its text contains the parameter, which may be a password."""
        first = self._failures[0]
        parameter = first.listener.parameter
        return None if parameter and parameter in str(first.error) else first.error


@dataclass(frozen=True)
class _ListedTags:
    """Keeps the tags that the catalog lists as partitions: a `TagCallback`."""

    table: TableHandle
    entry: TableEntry

    def tag_created(self, event: TagEvent) -> None:
        self.entry.add_tags(self.table, [event.tag])

    def tag_deleted(self, event: TagEvent) -> None:
        self.entry.drop_tags(self.table, [event.tag])


@contextmanager
def notifying(table: TableHandle, *, dry_run: bool = False, only_files: bool = False) -> Iterator[TagNotifier]:
    """A notifier for a `with` block; at its end it also sends the notifications that earlier runs missed.

    A dry run sends no notifications. With `only_files` there are success files, and a catalog that lists tags is told,
    but no callbacks are called.

    Raises: UnsupportedError if the table names a callback that no installed package provides, before the block begins;
    CallbackError after it if a callback failed.
    """
    listeners = [] if dry_run or only_files else make_callbacks(TAG_CALLBACKS, table.options)
    if not dry_run and table.entry is not None and TAG_PARTITION in table.options.raw:
        listeners.append(NamedCallback(f"the catalog ('{TAG_PARTITION}')", _ListedTags(table, table.entry)))
    notifier = TagNotifier(table, listeners, keeps_notes=not dry_run and not only_files)
    try:
        try:
            yield notifier
        except Exception as error:
            notifier.add_failures_to(error)
            raise
        notifier.notify_pending()
        if not dry_run:
            keep_iceberg(table)
    finally:
        notifier.close()
    notifier.raise_failures()


def _snapshot_of(table: TableHandle, name: str) -> int | None:
    """The snapshot that a tag is on, None if it does not exist. Raises: CorruptTableError, InvalidArgumentError."""
    try:
        return read_tag(table, name).snapshot.id
    except NotFoundError:
        return None


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def _write_success(table: TableHandle, name: str) -> None:
    """Writes a tag's success file; an older one keeps its time of creation."""
    path, now = table.paths.tag_success(name), table.env.clock()
    created = now
    try:
        created = required_integer(parse_object(table.env.storage.read(path), path), "creationTime", 0)
    except (NotFoundError, CorruptTableError, *WRONG):
        created = now  # missing or unreadable: it is written again
    text = pretty_json({"creationTime": created, "modificationTime": now})
    table.env.storage.overwrite(path, text.encode())
