"""Telling of tags: to the callbacks of a table, and by its success files, at least once.

1. Before tags are made, moved or taken away, a note of them is stored, `pending-notifications/<id>.json` of the branch.
2. When the tag is there, or gone, all callbacks are called; then its success file is written or removed, as in Java.
3. When all have heard of it the note goes. One that stays, since a callback failed or the run died, is seen to by the
   next action on tags of that branch, which tells what is true by then.

Tables that nobody listens to have no notes.

Source: `TagManager`, `SuccessFileTagCallback` of the Java library. Differences: all are called though one fails; what
was not told is told later; a tag that moves, goes with a rollback or comes out of a quarantine is told too. As in Java
callbacks hear nothing of tags that only get another name, or that come and go with their whole branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import CallbackError, CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, parse_object, whole, whole_or_none
from paimon_engine.storage import FileInfo
from paimon_engine.table.branches_tags.tag_callbacks import NamedCallback, TagCallback, TagEvent, make_callbacks
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_tag
from paimon_engine.units import DAY_MS

_OLD_AFTER_MS: Final = DAY_MS
"""Age at which nobody is still about to make true what a note says."""


@dataclass(frozen=True)
class _Failure:
    listener: NamedCallback
    event: TagEvent
    is_there: bool
    error: Exception

    @property
    def text(self) -> str:
        state = "is there" if self.is_there else "is gone"
        return (
            f"tag {self.event.tag!r} of {self.event.table} {state}, but {self.listener.name} "
            f"could not be told ({self.listener.text_of(self.error)})"
        )


class TagNews:
    """What is told of the tags of a table's branch during one action; made by `telling`."""

    def __init__(self, table: TableHandle, listeners: Sequence[NamedCallback], *, keeps_notes: bool) -> None:
        self._table = table
        self._listeners = listeners
        is_heard = bool(listeners) or table.options.tag_create_success_file
        self._keeps_notes = keeps_notes and is_heard
        self._notes: dict[str, set[str]] = {}
        self._told: set[str] = set()
        self._failures: list[_Failure] = []

    def expect(self, tags: Mapping[str, int | None], *, gone: bool = False) -> None:
        """Notes that these tags are about to be made or taken away; they are told of their snapshots' ids."""
        if self._keeps_notes and tags:
            note = self._table.paths.pending_notification(self._table.env.new_id())
            self._notes[note] = set(tags)
            self._told -= set(tags)
            self._table.env.storage.overwrite(note, json.dumps({"gone": gone, "tags": dict(tags)}).encode())

    def made(self, tags: Mapping[str, int]) -> None:
        """Tells that the tags are on these snapshots now."""
        told = self._tell(tags, lambda callback, event: callback.tag_created(event), is_there=True)
        if self._table.options.tag_create_success_file:
            in_threads(self._table, _write_success, list(tags))
        self._forget(told)

    def gone(self, tags: Mapping[str, int | None]) -> None:
        """Tells that there are no such tags any more, which were on these snapshots."""
        told = self._tell(tags, lambda callback, event: callback.tag_deleted(event), is_there=False)
        if self._table.options.tag_create_success_file:
            self._table.env.storage.delete([self._table.paths.tag_success(name) for name in tags])
        self._forget(told)

    def undone(self, name: str) -> None:
        """Says that a tag which was to be made was not: there is nothing to tell."""
        self._forget({name})

    def _tell(
        self, tags: Mapping[str, int | None], tell: Callable[[TagCallback, TagEvent], None], *, is_there: bool
    ) -> set[str]:
        """Calls everybody; the tags that all have heard of."""
        told = set(tags)
        for name, snapshot_id in tags.items():
            event = TagEvent(self._table.paths.root, self._table.paths.branch, name, snapshot_id)
            for listener in self._listeners:
                try:
                    tell(listener.callback, event)
                except Exception as error:  # noqa: BLE001 - whatever others raise waits until the work is done
                    self._failures.append(_Failure(listener, event, is_there, error))
                    told.discard(name)
        return told

    def _forget(self, told: set[str]) -> None:
        """Removes the notes at hand all of whose tags have been told by now."""
        self._told |= told
        done = [note for note, tags in self._notes.items() if tags <= self._told]
        if done:
            self._table.env.storage.delete(done)
        for note in done:
            del self._notes[note]

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    def tell_left(self) -> None:
        """Tells what earlier runs have not, as it is by now."""
        if not self._keeps_notes:
            return
        storage = self._table.env.storage
        files = [info for path in self._table.paths.pending_notification_dirs for info in storage.list(path)]
        for info in files:
            if not info.is_dir and info.path.endswith(".json") and info.path not in self._notes:
                self._tell_noted(info)

    def _tell_noted(self, info: FileInfo) -> None:
        table = self._table
        is_old = 0 < info.modified_ms < table.env.clock() - _OLD_AFTER_MS
        try:
            note = parse_object(table.env.storage.read(info.path), info.path)
            was_gone, tags = note["gone"] is True, {name: whole_or_none(note["tags"], name) for name in note["tags"]}
            now = {name: _snapshot_of(table, name) for name in tags}
        except NotFoundError:
            return
        except (CorruptTableError, InvalidArgumentError, *WRONG):
            # A note that is half written, or of a tag that whoever mends it will tell of.
            if is_old:
                table.env.storage.delete([info.path])
            return
        self._notes[info.path] = set(tags)
        there = {name: number for name, number in now.items() if number is not None and (is_old or not was_gone)}
        self.made({name: number for name, number in there.items() if name not in self._told})
        gone = {name: tags[name] for name, number in now.items() if number is None and (is_old or was_gone)}
        self.gone({name: number for name, number in gone.items() if name not in self._told})

    def close(self) -> None:
        """Closes the callbacks."""
        for listener in self._listeners:
            listener.close()

    def raise_failures(self) -> None:
        """Raises CallbackError for those who could not be told."""
        if self._failures:
            raise self._error() from self._cause()

    def note_failures(self, error: BaseException) -> None:
        """Adds to an error that ended the work who could not be told before."""
        for failure in self._failures:
            error.add_note(failure.text)

    def _error(self) -> CallbackError:
        texts = dict.fromkeys(failure.text for failure in self._failures)
        return CallbackError(
            f"{'; '.join(texts)}; the work itself is done: mend the callback, and run it again to tell"
        )

    def _cause(self) -> Exception | None:
        """An error with its trace, unless its text holds the parameter, which may be a password."""
        first = self._failures[0]
        parameter = first.listener.parameter
        return None if parameter and parameter in str(first.error) else first.error


@contextmanager
def telling(table: TableHandle, *, dry_run: bool = False, only_files: bool = False) -> Iterator[TagNews]:
    """What to tell of tags with, for the length of a `with` block; at its end also what earlier runs have not told.

    A dry run tells nobody. With `only_files` there are success files but no callbacks.

    Raises: UnsupportedError if the table names a callback that nothing here stands for, before the block begins;
    CallbackError after it if a callback failed.
    """
    listeners = [] if dry_run or only_files else make_callbacks(table.options)
    news = TagNews(table, listeners, keeps_notes=not dry_run and not only_files)
    try:
        try:
            yield news
        except Exception as error:
            news.note_failures(error)
            raise
        news.tell_left()
    finally:
        news.close()
    news.raise_failures()


def _snapshot_of(table: TableHandle, name: str) -> int | None:
    """The snapshot that a tag is on, None if there is no such tag. Raises: CorruptTableError, InvalidArgumentError."""
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
        created = whole(parse_object(table.env.storage.read(path), path), "creationTime", 0)
    except (NotFoundError, CorruptTableError, *WRONG):
        created = now  # none there, or one that nobody understands: it is written anew
    text = pretty_json({"creationTime": created, "modificationTime": now})
    table.env.storage.overwrite(path, text.encode())
