"""Files reached by roots that will be removed; they may be deleted if no other root needs them (`deletion_plan`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paimon_engine.errors import NotFoundError, PaimonError
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.storage.locations import leads_out
from paimon_engine.table.files.external import deletable_path
from paimon_engine.table.reach.list_check import Lists, lists_of
from paimon_engine.table.reach.reachability import (
    DataPaths,
    Root,
    RootFiles,
    Unreadable,
    changelog_files,
    try_root_files,
)
from paimon_engine.table.reach.reading_ahead import ReadingAhead
from paimon_engine.table.state.changelogs import is_change
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.state.side_by_side import in_threads


@dataclass(frozen=True, slots=True)
class DataCandidate:
    """A data, changelog or extra file; `name` is that of the data file that it belongs to, `why` is for people."""

    name: str
    size_bytes: int | None
    why: str
    directory: str


class Candidates:
    """Files that roots to be removed reach, by path. Roots in `ahead` are read ahead in this order."""

    def __init__(self, table: TableHandle, ahead: Sequence[Root] = ()) -> None:
        self._table, self._entries = table, ReadingAhead(table, ahead)
        self._paths = DataPaths(table)
        self.data: dict[str, DataCandidate] = {}
        self.metadata: dict[str, tuple[int | None, str]] = {}
        self.born: dict[str, int] = {}
        self.stopped: list[str] = []
        self.lists: list[Lists] = []
        self._outside: dict[str, bool] = {}

    def add_live(self, root: Root, why: str) -> None:
        """Adds the files live in a root."""
        self._add(self._read(live_entries, root), why)

    def add_tagged(self, tags: Sequence[Root], snapshots: Sequence[Root]) -> None:
        """Adds the files live in tags, unless one of `snapshots` has the same commit: its files are added already.

        If a commit could not be read, for example because it expired meanwhile, all tags are read.
        """
        commits = set() if self.stopped else {root.snapshot.delta_manifest_list for root in snapshots}
        for root in tags:
            if root.snapshot.delta_manifest_list not in commits:
                self.add_live(root, f"only in {root.label}")
                self.add_changelog(root)

    def add_added(self, root: Root, why: str) -> None:
        """Adds the files that the root's commit added."""
        entries = self._read(delta_entries, root)
        self._record_creations(root, entries)
        self._add((entry for entry in entries if entry.kind is FileKind.ADD), why)

    def add_removed(self, root: Root, why: str, *, but_changes: bool = False) -> None:
        """Adds the files that the root's commit removed; a file that it also adds was only moved to another level.

        With `but_changes`, files stay that are themselves the changelog of the commit that added them.
        """
        entries = self._read(_changelog_delta if root.is_changelog else delta_entries, root)
        self._record_creations(root, entries)
        for entry in entries:
            if entry.kind is FileKind.DELETE:
                if not (but_changes and is_change(entry)):
                    self._add([entry], why, may_miss=root.is_changelog)
            else:
                for path, _ in self._paths.of(entry):
                    self.data.pop(path, None)

    def add_changelog(self, root: Root) -> None:
        """Adds the root's changelog files."""
        why = f"named by {root.label}" if root.is_changelog else f"changelog of {root.label}"
        self._add(self._read(_changelog_entries, root), why)

    def add_named(self, root: Root) -> None:
        """Adds all files that the delta of a changelog names."""
        self._add(self._read(_changelog_delta, root), f"named by {root.label}", may_miss=True)

    def add_metadata(self, roots: Sequence[Root]) -> None:
        """Adds the metadata files of roots; for changelogs also what an interrupted expiry has left of them."""
        for root, files in zip(roots, in_threads(self._table, _metadata_of, roots), strict=True):
            if not isinstance(files, RootFiles):
                self.stopped.append(f"metadata of {root.label} stays: {files.reason}")
                continue
            if not root.is_changelog:
                self.lists.append(lists_of(root, files))
            for path, size_bytes in files.metadata.items():
                if self._leads_out(path.rpartition("/")[0]):
                    self.stopped.append(f"{path} is behind a link that leads out of the table and stays")
                    continue
                self.metadata[path] = (size_bytes, f"metadata of {root.label}")
            if root.branch == self._table.paths.branch:
                lists = root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list
                self.born.update({self._table.paths.manifest(name): root.snapshot.id for name in lists})

    def _record_creations(self, root: Root, delta: Sequence[ManifestEntry]) -> None:
        """Notes in `born` which files the commit created: those that it added and did not only move to another level.

        Not for an OVERWRITE, which may add files again that existed before.
        """
        if root.branch != self._table.paths.branch or root.snapshot.commit_kind is CommitKind.OVERWRITE:
            return
        removed = {path for entry in delta if entry.kind is FileKind.DELETE for path, _ in self._paths.of(entry)}
        added = {path for entry in delta if entry.kind is FileKind.ADD for path, _ in self._paths.of(entry)}
        self.born.update(dict.fromkeys(added - removed, root.snapshot.id))

    def _read(self, read: Callable[[TableHandle, Snapshot], list[ManifestEntry]], root: Root) -> list[ManifestEntry]:
        try:
            return self._entries(read, root)
        except PaimonError as error:
            self.stopped.append(f"files that only {root.label} names stay: {error}")
            return []

    def _leads_out(self, directory: str) -> bool:
        if directory not in self._outside:
            self._outside[directory] = leads_out(f"{directory}/.", self._table.paths.root)
        return self._outside[directory]

    def _add(self, entries: Iterable[ManifestEntry], why: str, *, may_miss: bool = False) -> None:
        for entry in entries:
            outside = entry.file.external_path
            if outside is not None and deletable_path(self._table, outside, entry.file.name) is None:
                self.stopped.append(f"{outside} is outside the table and stays")
                continue
            directory = self._paths.directory(entry)
            if outside is None and self._leads_out(directory):
                self.stopped.append(f"{directory} is a link that leads out of the table; {entry.file.name} stays")
                continue
            for path, size_bytes in self._paths.of(entry):
                # If a file may not exist any more, its size is left open: looking it up later shows that.
                known = None if may_miss else size_bytes
                self.data[path] = DataCandidate(entry.file.name, known, why, directory)


def _metadata_of(table: TableHandle, root: Root) -> RootFiles | Unreadable:
    if not root.is_changelog:
        return try_root_files(table, root)
    try:
        return changelog_files(table, root, left_behind=True)
    except PaimonError as error:
        return Unreadable(f"{root.label} cannot be read: {error}")


def _changelog_delta(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """Entries of the delta of an expired snapshot; none if its list does not exist any more."""
    try:
        return delta_entries(table, snapshot)
    except NotFoundError:
        return []


def _changelog_entries(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """Entries of the changelog list; none if it does not exist any more."""
    try:
        return changelog_entries(table, snapshot)
    except NotFoundError:
        return []


def unneeded_lists(table: TableHandle, roots: Iterable[Root]) -> set[str]:
    """Paths of the base and delta lists that changelogs among the roots name and do not need.

    Java expires a changelog together with every manifest that such a list names, if the list exists, unless a list of
    the next changelog names it, too; it does not look at the lists of snapshots. So these are deleted before others.
    """
    return {
        table.paths.manifest(name)
        for root in roots
        if root.is_changelog and not root.keeps_delta
        for name in (root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list)
    }
