"""Checks that a version (snapshot, tag, changelog) to be restored has all its files: existing, or in the quarantine.

Versions in a quarantine may share files with versions that stayed when it was made. If these were deleted later, the
shared files are missing or in another quarantine. Then the version must not be restored: readers would miss files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.storage.base import Storage
from paimon_engine.table.reach.deletion_records import record_path, records
from paimon_engine.table.reach.quarantine import Move, Quarantine, quarantine_names
from paimon_engine.table.reach.reachability import (
    DataPaths,
    Root,
    changelog_files,
    changelog_root,
    root_files,
    with_branch_paths,
)
from paimon_engine.table.removal.file_removal import LONGEST_PAUSE_MS
from paimon_engine.table.removal.quarantine_state import quarantined_paths
from paimon_engine.table.state.changelogs import is_change
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import (
    changelog_entries,
    delta_entries,
    live_entries,
    read_manifest_list,
    read_manifests,
)
from paimon_engine.table.state.side_by_side import in_threads

_NAMED_MAX: Final = 3


@dataclass(frozen=True)
class _WithQuarantine:
    """The storage as it will be after the restore: files in the quarantine are read at their original paths."""

    inner: Storage
    aside: dict[str, Move] = field(repr=False)

    def read(self, path: str) -> bytes:
        move = self.aside.get(path)
        if move is None:
            return self.inner.read(path)
        try:
            data = self.inner.read(path)
            if len(data) == move.size_bytes:
                return data
        except NotFoundError:
            pass
        # A shorter file is an interrupted copy.
        return self.inner.read(move.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class RestoreCheck:
    """Checks the files of versions that one quarantine would restore."""

    def __init__(self, table: TableHandle, quarantine: Quarantine) -> None:
        aside = {move.target: move for move in quarantine.restore_moves(table)}
        together: Any = _WithQuarantine(table.env.storage, aside)
        self._table = replace(table, env=replace(table.env, storage=together))
        self._name = quarantine.name
        self._aside = aside
        self._listed: dict[str, dict[str, int]] = {}
        self._needed: set[str] = set()

    def lacking(self, roots: Sequence[Root]) -> list[str | None]:
        """For each version the reason why it must not be restored; None if it may."""
        found = in_threads(self._table, _needs, roots)
        reasons = [self._why(root, needs) for root, needs in zip(roots, found, strict=True)]
        for needs, reason in zip(found, reasons, strict=True):
            if reason is None:
                self._needed.update(needs)
        return reasons

    def dangers(self) -> list[str]:
        """Why the versions that lacked nothing may not be whole: files that are gone by now, or are about to go.

        A deletion that looked for versions before these were there deletes what it has recorded. One that looks later
        sees them.
        """
        self._listed.clear()
        lost = sorted(path for path in self._needed if not self._exists(path))
        found = [f"{path} was deleted meanwhile" for path in lost[:_NAMED_MAX]]
        now_ms = self._table.env.clock()
        for record in records(self._table)[0]:
            named = self._needed.intersection((*record.data, *record.metadata))
            if named and record.id != self._name and now_ms - record.modified_ms < LONGEST_PAUSE_MS:
                what = f"a deletion that may still be running is about to delete {min(named)}"
                found.append(f"{what}: wait until {record_path(self._table, record.id)} is gone, or for a day")
        return found

    def history_conflict(self, older: Root, newer: Root) -> str | None:
        """Why the newer snapshot cannot follow the older one: its base must be the live files of the older one."""
        on_branch = with_branch_paths(self._table, older.branch)
        try:
            before = {entry.identity for entry in live_entries(on_branch, older.snapshot)}
            same = before == _begin(on_branch, newer.snapshot)
        except NotFoundError as error:
            return f"it cannot be checked whether {newer.label} builds on {older.label}: {error}"
        return None if same else f"{newer.label} does not build on {older.label}"

    def _why(self, root: Root, needs: Sequence[str] | str) -> str | None:
        if isinstance(needs, str):
            return f"{root.label} cannot be read any more: {needs}{self._elsewhere([needs])}"
        lost = sorted({path for path in needs if not self._exists(path)})
        if not lost:
            return None
        more = f" and {len(lost) - _NAMED_MAX} more" if len(lost) > _NAMED_MAX else ""
        return f"{root.label} lacks {', '.join(lost[:_NAMED_MAX])}{more}{self._elsewhere(lost)}"

    def _exists(self, path: str) -> bool:
        if path not in self._aside:
            return self._stored_bytes(path) is not None
        # An interrupted move may have left an incomplete file on either side.
        move = self._aside[path]
        return move.size_bytes in (self._stored_bytes(path), self._stored_bytes(move.source))

    def _stored_bytes(self, path: str) -> int | None:
        directory, _, name = path.rpartition("/")
        if directory not in self._listed:
            listed = self._table.env.storage.list(directory)
            self._listed[directory] = {info.path.rpartition("/")[2]: info.size_bytes for info in listed}
        return self._listed[directory].get(name)

    def _elsewhere(self, lost: Sequence[str]) -> str:
        """Text for a message: another quarantine that has any of the files, or that they were deleted."""
        home = f"{self._table.paths.root}/"
        for name in reversed(quarantine_names(self._table)):
            paths = quarantined_paths(self._table, name) if name != self._name else ()
            if any(home + path in text for path in paths for text in lost):
                return f" (quarantine {name} holds files of it: restore that one first)"
        return " (it was deleted since)"


def _begin(on_branch: TableHandle, snapshot: Snapshot) -> set[Any]:
    """Identities of the files that were live before the commit of a snapshot."""
    manifests = read_manifest_list(on_branch, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    entries = (entry for some in read_manifests(on_branch, manifests) for entry in some)
    return {entry.identity for entry in live_files(entries)}


def _needs(table: TableHandle, root: Root) -> list[str] | str:
    """Paths of the files inside the table that the version needs; or a message about metadata that is missing."""
    on_branch = with_branch_paths(table, root.branch)
    try:
        return list(_changelog_needs(on_branch, root) if root.is_changelog else _snapshot_needs(on_branch, root))
    except NotFoundError as error:
        return str(error)


def _snapshot_needs(on_branch: TableHandle, root: Root) -> Iterator[str]:
    snapshot = root.snapshot
    optional = on_branch.paths.manifest(snapshot.changelog_manifest_list) if snapshot.changelog_manifest_list else None
    yield from (path for path in root_files(on_branch, snapshot).metadata if path != optional)
    yield from _data(on_branch, live_entries(on_branch, snapshot))
    try:
        yield from _data(on_branch, changelog_entries(on_branch, snapshot))
    except NotFoundError:
        # Java's expiry deletes the changelog of a snapshot although a tag still names it.
        if root.tag is None:
            raise


def _changelog_needs(on_branch: TableHandle, root: Root) -> Iterator[str]:
    snapshot = root.snapshot
    yield from _data(on_branch, changelog_entries(on_branch, snapshot))
    try:
        found = changelog_root(on_branch, snapshot)
    except NotFoundError:
        # The branch was deleted, and its schema with it.
        return
    yield from changelog_files(on_branch, found).metadata
    if found.keeps_delta and snapshot.changelog_manifest_list is None:
        delta = delta_entries(on_branch, snapshot)
        yield from _data(on_branch, [entry for entry in delta if entry.kind is FileKind.ADD and is_change(entry)])


def _data(on_branch: TableHandle, entries: Sequence[ManifestEntry]) -> Iterator[str]:
    paths = DataPaths(on_branch)
    for entry in entries:
        if entry.file.external_path is None:
            yield from (path for path, _ in paths.of(entry))
