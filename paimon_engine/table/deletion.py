"""Deleting what only vanished snapshots and tags needed.

1. `Candidates` gathers the files that the roots to be removed reach.
2. `plan_deletion` leaves those that no other root reaches. A dry run ends here.
3. `prepare` writes down what is about to go: a record for the next run, should this one be cut short, and the list of
   a quarantine where one is asked for.
4. The caller hides the roots (removes their snapshot or tag files), so that no reader can start from them.
5. `carry_out` lists the roots again, leaves out what a root made in the meantime needs, and deletes the rest or moves
   it aside: data first, then metadata from which the data could still be found.

A crash in between leaves files that nobody reaches, never a root with files missing; the next deletion finishes it.
In doubt nothing is deleted:

- a snapshot or tag that stays cannot be read, or one of its manifests cannot: no file at all is deleted;
- a manifest of a root to be removed cannot be read: the files only it names stay;
- a file lies outside the table's directory: it stays.

Each case is said in `stopped`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_engine.errors import NotFoundError, PaimonError, UnsupportedError
from paimon_engine.executor import Executor
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.disposal import Disposal, delete_files, move_files
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.quarantine import Quarantine, read_quarantine, write_quarantine
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
from paimon_engine.table.unfinished import Record, forget_record, is_over, records, write_record

logger = logging.getLogger(__name__)

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
                self.metadata[path] = (size_bytes, f"metadata of {root.label}")

    def _read(self, read: Callable[[TableHandle, Snapshot], list[ManifestEntry]], root: Root) -> list[ManifestEntry]:
        try:
            return read(self._table, root.snapshot)
        except PaimonError as error:
            self.stopped.append(f"files that only {root.label} names are left: {error}")
            return []

    def _add(self, entries: Iterable[ManifestEntry], why: str) -> None:
        for entry in entries:
            if entry.file.external_path is not None:
                self.stopped.append(f"{entry.file.external_path} lies outside the table and is left")
                continue
            for path, size_bytes in self._paths.of(entry):
                self.data[path] = DataCandidate(entry.file.name, size_bytes, why, self._paths.directory(entry))


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

    def without_files(self, reasons: Sequence[str]) -> DeletionPlan:
        """The plan that deletes nothing, for these reasons."""
        stopped, unknown = (*self.stopped, *reasons), (*self.unknown, *reasons)
        return replace(self, data={}, metadata={}, stopped=stopped, unknown=unknown)


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
        return table.env.storage.stat(path).size_bytes
    except NotFoundError:
        return 0


@dataclass(frozen=True)
class Deletion:
    """What went, and what was left and why; `quarantine` names where it lies now, if it was moved aside."""

    files: tuple[DeletedFile, ...] = ()
    stopped: tuple[str, ...] = ()
    quarantine: str | None = None

    @property
    def size_bytes(self) -> int:
        """Sum over the files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True)
class Prepared:
    """A deletion of which the store knows: `id` names its record."""

    id: str
    how: Disposal
    quarantine: Quarantine | None = None
    is_recorded: bool = False


def prepare(
    table: TableHandle,
    plan: DeletionPlan,
    how: Disposal,
    what: str,
    *,
    roots: Sequence[str],
    neighbours: Sequence[str] = (),
) -> Prepared:
    """Writes down what is about to go, before anything is hidden: for whoever finishes it, and whoever undoes it.

    `what` names the action, `roots` the files that it is going to hide, `neighbours` those of the snapshots beside.
    """
    prepared = Prepared(table.env.new_id(), how, is_recorded=bool(plan.data or plan.metadata))
    if how.quarantine and (plan.data or plan.metadata or roots):
        sizes = {file.path: file.size_bytes for file in plan.files}
        quarantine = write_quarantine(table, prepared.id, what, sizes, roots=roots, neighbours=neighbours)
        prepared = replace(prepared, quarantine=quarantine)
    if prepared.is_recorded:
        names = {path: item.name for path, item in plan.data.items()}
        is_aside = prepared.quarantine is not None
        write_record(table, Record(prepared.id, names, tuple(plan.metadata), tuple(roots), quarantine=is_aside))
    return prepared


def carry_out(table: TableHandle, plan: DeletionPlan, executor: Executor, prepared: Prepared | None = None) -> Deletion:
    """Delete the plan's files, except those that a root made since the plan needs. The roots must be hidden by now.

    Also finishes what earlier runs that were cut short have left.
    """
    prepared = prepared or Prepared("", Disposal())
    aside = None if prepared.quarantine is None else prepared.quarantine.name
    try:
        fresh = [root for root in all_roots(table) if root.identity not in plan.roots]
    except PaimonError as error:
        return Deletion((), (*plan.stopped, f"nothing is deleted: {error}"), aside)
    if fresh:
        plan = _without_reached(table, plan, fresh, executor)
    done, problems = _dispose(table, plan, prepared.how, prepared.quarantine, executor)
    if prepared.is_recorded and not problems and not plan.unknown:
        forget_record(table, prepared.id)
    logger.info("deleted %d of %d files of %s", len(done), len(plan.files), table.paths.root)
    earlier = finish_interrupted(table, executor, prepared.how)
    stopped = (*plan.stopped, *problems, *earlier.stopped)
    return Deletion((*done, *earlier.files), stopped, aside)


def _dispose(
    table: TableHandle, plan: DeletionPlan, how: Disposal, quarantine: Quarantine | None, executor: Executor
) -> tuple[list[DeletedFile], list[str]]:
    """The files of the plan that went, and what was left and why."""
    known = {file.path: file for file in plan.files}
    done: list[DeletedFile] = []
    problems: list[str] = []
    # Data files must be gone before the metadata that names them.
    for paths in (tuple(plan.data), tuple(plan.metadata)):
        if problems:
            problems.append(f"{len(paths)} metadata files are left with them")
            break
        if quarantine is None:
            gone, problems = delete_files(table, paths, how, executor)
        else:
            moves, problems = move_files(table, quarantine.moves_in(table, paths), how, executor)
            gone = [move.source for move in moves]
        done += [known[path] for path in gone]
    if table.options.clean_empty_directories:
        clean_directories(table, {item.directory for item in plan.data.values()})
    return done, problems


def finish_interrupted(table: TableHandle, executor: Executor, how: Disposal | None = None) -> Deletion:
    """Deletes what runs that were cut short had left to do, as far as nothing reaches it."""
    found, stopped = records(table)
    done: list[DeletedFile] = []
    for record in found:
        plan = _left_over(table, record)
        try:
            plan = _without_reached(table, plan, all_roots(table), executor)
            quarantine = read_quarantine(table, record.id) if record.quarantine else None
        except PaimonError as error:
            stopped.append(f"what a run that was cut short has left stays: {error}")
            continue
        gone, problems = _dispose(table, plan, how or Disposal(), quarantine, executor)
        done += gone
        stopped += [*plan.stopped, *problems]
        if not problems and not plan.unknown and is_over(table, record):
            forget_record(table, record.id)
    return Deletion(tuple(done), tuple(stopped))


def _left_over(table: TableHandle, record: Record) -> DeletionPlan:
    """The files of a record that are still there."""
    paths = (*record.data, *record.metadata)
    sizes = dict(zip(paths, in_threads(table, _size_or_none, paths), strict=True))
    why = "left by a run that was cut short"
    data = {
        path: DataCandidate(name, sizes[path], why, path.rpartition("/")[0])
        for path, name in record.data.items()
        if sizes[path] is not None
    }
    metadata = {path: (sizes[path], why) for path in record.metadata if sizes[path] is not None}
    return DeletionPlan(data, metadata)


def _size_or_none(table: TableHandle, path: str) -> int | None:
    try:
        return table.env.storage.stat(path).size_bytes
    except NotFoundError:
        return None


def clean_directories(table: TableHandle, directories: Iterable[str]) -> None:
    """Remove bucket directories that became empty, and then partition directories above them."""
    for directory in sorted(directories):
        path = directory
        # Only directories strictly inside the table; those that are not empty stay by themselves.
        while path.startswith(f"{table.paths.root}/"):
            table.env.storage.delete_dir(path)
            path = path.rpartition("/")[0]
