"""Deleting what only vanished snapshots and tags needed.

1. `Candidates` gathers the files that the roots to be removed reach.
2. `plan_deletion` leaves those that no other root reaches. A dry run ends here.
3. The caller hides the roots (removes their snapshot or tag files), so that no reader can start from them.
4. `carry_out` lists the roots again, leaves out what a root made in the meantime needs, and deletes the rest: data
   first, then metadata from which the data could still be found.

A crash in between leaves files that nobody reaches, never a root with files missing. In doubt nothing is deleted:

- a snapshot or tag that stays cannot be read, or one of its manifests cannot: no file at all is deleted;
- a manifest of a root to be removed cannot be read: the files only it names stay;
- a file lies outside the table's directory, where nobody allows to delete, or behind a link out of it: it stays.

Each case is said in `stopped`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_engine.errors import NotFoundError, PaimonError, StorageError, UnsupportedError
from paimon_engine.executor import Executor
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.storage.places import leads_out
from paimon_engine.table.external import deletable_path, delete_files, store_of
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.reachability import (
    DataPaths,
    Root,
    RootFiles,
    RootIdentity,
    all_roots,
    in_threads,
    protected,
    refuse_long_lived_changelogs,
    try_root_files,
)

logger = logging.getLogger(__name__)

_DELETE_CHUNK: Final = 500
"""Files per request: below the 1000 that object stores take, and small enough to tell which chunk failed."""
_UNKNOWN_PLACES: Final = ("data-file.path-directory", "index-file-in-data-file-dir")


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that goes, and what it was for."""

    path: str
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class DataCandidate:
    """What is known of a data, changelog or extra file: `name` is that of the data file it belongs to."""

    name: str
    size_bytes: int | None
    why: str
    directory: str


def check_places(table: TableHandle) -> None:
    """Raises UnsupportedError if the table's options put files where we would not find them."""
    for key in _UNKNOWN_PLACES:
        if table.options.raw.get(key, "false").lower() != "false":
            raise UnsupportedError(f"deleting files of a table with '{key}' is not supported yet")


class Candidates:
    """Files that roots to be removed reach, by path.

    Raises: UnsupportedError if the table's options put files where we would not find them, or if there are changelogs
    that outlive their snapshots.
    """

    def __init__(self, table: TableHandle) -> None:
        check_places(table)
        refuse_long_lived_changelogs(table)
        self._table = table
        self._paths = DataPaths(table)
        self.data: dict[str, DataCandidate] = {}
        self.metadata: dict[str, tuple[int | None, str]] = {}
        self.stopped: list[str] = []
        self._outside: dict[str, bool] = {}

    def add_live(self, root: Root, why: str) -> None:
        """The files live in a root."""
        self._add(self._read(live_entries, root), why)

    def add_added(self, root: Root, why: str) -> None:
        """The files that the root's commit added."""
        self._add((entry for entry in self._read(delta_entries, root) if entry.kind is FileKind.ADD), why)

    def add_removed(self, root: Root, why: str) -> None:
        """The files that the root's commit removed for good: one that is added again was only upgraded."""
        for entry in self._read(delta_entries, root):
            if entry.kind is FileKind.DELETE:
                self._add([entry], why)
            else:
                for path, _ in self._paths.of(entry):
                    self.data.pop(path, None)

    def add_changelog(self, root: Root) -> None:
        """The root's changelog files."""
        self._add(self._read(_changelog_entries, root), f"changelog of {root.label}")

    def add_metadata(self, roots: Sequence[Root]) -> None:
        """The metadata files of roots."""
        for root, files in zip(roots, in_threads(self._table, try_root_files, roots), strict=True):
            if not isinstance(files, RootFiles):
                self.stopped.append(f"metadata of {root.label} is left: {files.reason}")
                continue
            for path, size_bytes in files.metadata.items():
                if self._leads_out(path.rpartition("/")[0]):
                    self.stopped.append(f"{path} lies behind a link that leads out of the table and is left")
                    continue
                self.metadata[path] = (size_bytes, f"metadata of {root.label}")

    def _read(self, read: Callable[[TableHandle, Snapshot], list[ManifestEntry]], root: Root) -> list[ManifestEntry]:
        try:
            return read(self._table, root.snapshot)
        except PaimonError as error:
            self.stopped.append(f"files that only {root.label} names are left: {error}")
            return []

    def _leads_out(self, directory: str) -> bool:
        if directory not in self._outside:
            self._outside[directory] = leads_out(f"{directory}/.", self._table.paths.root)
        return self._outside[directory]

    def _add(self, entries: Iterable[ManifestEntry], why: str) -> None:
        for entry in entries:
            outside = entry.file.external_path
            if outside is not None and deletable_path(self._table, outside, entry.file.name) is None:
                self.stopped.append(f"{outside} lies outside the table and is left")
                continue
            directory = self._paths.directory(entry)
            if outside is None and self._leads_out(directory):
                self.stopped.append(f"{directory} is a link that leads out of the table; {entry.file.name} is left")
                continue
            for path, size_bytes in self._paths.of(entry):
                self.data[path] = DataCandidate(entry.file.name, size_bytes, why, directory)


def _changelog_entries(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """A changelog list that is gone names nothing."""
    try:
        return changelog_entries(table, snapshot)
    except NotFoundError:
        return []


@dataclass(frozen=True)
class DeletionPlan:
    """What may go: `data` and `metadata` by path. `roots` are those that were asked."""

    data: Mapping[str, DataCandidate]
    metadata: Mapping[str, tuple[int | None, str]]
    roots: frozenset[RootIdentity] = frozenset()
    holders: Mapping[RootIdentity, int] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[DeletedFile, ...]:
        """All files of the plan, data first."""
        return (
            *(DeletedFile(path, item.size_bytes or 0, item.why) for path, item in self.data.items()),
            *(DeletedFile(path, size_bytes or 0, why) for path, (size_bytes, why) in self.metadata.items()),
        )


def plan_deletion(table: TableHandle, candidates: Candidates, kept: Sequence[Root], executor: Executor) -> DeletionPlan:
    """The candidates that none of the kept roots reaches; nothing if a kept root cannot be read (`unknown`)."""
    everything = DeletionPlan(candidates.data, candidates.metadata, stopped=tuple(dict.fromkeys(candidates.stopped)))
    return _sized(table, _without_reached(table, everything, kept, executor))


def _without_reached(table: TableHandle, plan: DeletionPlan, roots: Sequence[Root], executor: Executor) -> DeletionPlan:
    protection = protected(
        table,
        roots,
        metadata=plan.metadata.keys(),
        data={path: item.name for path, item in plan.data.items()},
        executor=executor,
    )
    asked = plan.roots | {root.identity for root in roots}
    if protection.unknown:
        reasons = tuple(f"nothing is deleted: {reason}" for reason in protection.unknown)
        return DeletionPlan({}, {}, asked, plan.holders, plan.stopped + reasons, plan.unknown + reasons)
    return replace(
        plan,
        data={path: item for path, item in plan.data.items() if path not in protection.paths},
        metadata={path: item for path, item in plan.metadata.items() if path not in protection.paths},
        roots=asked,
        holders={**plan.holders, **protection.holders},
    )


def _sized(table: TableHandle, plan: DeletionPlan) -> DeletionPlan:
    """The plan with sizes looked up where no metadata tells them."""
    unsized = [path for path, item in plan.data.items() if item.size_bytes is None]
    unsized += [path for path, (size_bytes, _) in plan.metadata.items() if size_bytes is None]
    sizes = dict(zip(unsized, in_threads(table, _size_bytes, unsized), strict=True))
    data = {path: replace(item, size_bytes=sizes[path]) if path in sizes else item for path, item in plan.data.items()}
    metadata = {path: (sizes.get(path, size_bytes), why) for path, (size_bytes, why) in plan.metadata.items()}
    return replace(plan, data=data, metadata=metadata)


def _size_bytes(table: TableHandle, path: str) -> int:
    try:
        return store_of(table, path).stat(path).size_bytes
    except NotFoundError:
        return 0


@dataclass(frozen=True)
class Deletion:
    """What was deleted, and what was left and why."""

    files: tuple[DeletedFile, ...]
    stopped: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Sum over the files."""
        return sum(file.size_bytes for file in self.files)


def carry_out(table: TableHandle, plan: DeletionPlan, executor: Executor) -> Deletion:
    """Delete the plan's files, except those that a root made since the plan needs. The roots must be hidden by now."""
    try:
        fresh = [root for root in all_roots(table) if root.identity not in plan.roots]
    except PaimonError as error:
        return Deletion((), (*plan.stopped, f"nothing is deleted: {error}"))
    if fresh:
        plan = _without_reached(table, plan, fresh, executor)
    files = plan.files
    chunks = [files[start : start + _DELETE_CHUNK] for start in range(0, len(files), _DELETE_CHUNK)]
    deleted: list[DeletedFile] = []
    stopped = list(plan.stopped)
    # One after the other: data files must be gone before the metadata that names them.
    for chunk in chunks:
        try:
            delete_files(table, [file.path for file in chunk])
        except StorageError as error:
            stopped.append(f"{len(files) - len(deleted)} files are left: {error}")
            break
        deleted += chunk
    if table.options.clean_empty_directories:
        clean_directories(table, {item.directory for item in plan.data.values()})
    logger.info("deleted %d of %d files of %s", len(deleted), len(files), table.paths.root)
    return Deletion(tuple(deleted), tuple(stopped))


def clean_directories(table: TableHandle, directories: Iterable[str]) -> None:
    """Remove bucket directories that became empty, and then partition directories above them."""
    for directory in sorted(directories):
        path = directory
        # Only directories strictly inside the table; those that are not empty stay by themselves.
        while path.startswith(f"{table.paths.root}/"):
            table.env.storage.delete_dir(path)
            path = path.rpartition("/")[0]
