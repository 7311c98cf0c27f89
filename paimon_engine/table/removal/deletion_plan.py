"""Deleting what only vanished snapshots and tags needed.

1. `Candidates` gathers the files that the roots to be removed reach.
2. `plan_deletion` leaves those that no other root reaches. A dry run ends here.
3. `prepare` writes down what is about to go: a record for the next run, should this one be cut short, and the list of
   a quarantine where one is asked for.
4. The caller hides the roots (removes their snapshot or tag files), so that no reader can start from them.
5. `carry_out` lists the roots again, leaves out what a root made in the meantime needs, and deletes the rest or moves
   it aside: data first, then metadata from which the data could still be found.

A crash in between leaves files that nobody reaches, never a root with files missing; the next deletion finishes it.
What is in doubt stays:

- a snapshot, tag or changelog that stays cannot be read, or one of its manifests cannot, or a manifest list of it may
  be another's (`table.reach.succession`), or snapshots are missing in between: no file is deleted that was there at the
  time of that commit (`table.reach.doubts`);
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
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.storage.places import leads_out
from paimon_engine.table.files.external import deletable_path, delete_outside, is_outside, store_of
from paimon_engine.table.reach.doubts import Doubt
from paimon_engine.table.reach.quarantine import Quarantine, read_quarantine, write_quarantine
from paimon_engine.table.reach.reachability import (
    DataPaths,
    Root,
    RootFiles,
    RootIdentity,
    Unreadable,
    all_roots,
    changelog_files,
    try_root_files,
)
from paimon_engine.table.reach.reading_ahead import ReadingAhead
from paimon_engine.table.reach.still_needed import protected
from paimon_engine.table.reach.succession import Lists, lists_of
from paimon_engine.table.reach.unfinished import Record, forget_record, is_over, open_records, write_record
from paimon_engine.table.removal.file_removal import Disposal, delete_files, move_files
from paimon_engine.table.state.changelogs import is_change
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.state.side_by_side import in_threads

logger = logging.getLogger(__name__)

_UNKNOWN_PLACES: Final = ("index-file-in-data-file-dir",)


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
    """Files that roots to be removed reach, by path; those `ahead` will be asked for in this order.

    Raises: UnsupportedError if the table's options put files where we would not find them.
    """

    def __init__(self, table: TableHandle, ahead: Sequence[Root] = ()) -> None:
        check_places(table)
        self._table, self._entries = table, ReadingAhead(table, ahead)
        self._paths = DataPaths(table)
        self.data: dict[str, DataCandidate] = {}
        self.metadata: dict[str, tuple[int | None, str]] = {}
        self.born: dict[str, int] = {}
        self.stopped: list[str] = []
        self.lists: list[Lists] = []
        self._outside: dict[str, bool] = {}

    def add_live(self, root: Root, why: str) -> None:
        """The files live in a root."""
        self._add(self._read(live_entries, root), why)

    def add_added(self, root: Root, why: str) -> None:
        """The files that the root's commit added."""
        entries = self._read(delta_entries, root)
        self._note_births(root, entries)
        self._add((entry for entry in entries if entry.kind is FileKind.ADD), why)

    def add_removed(self, root: Root, why: str, *, but_changes: bool = False) -> None:
        """The files that the root's commit removed for good: one that is added again was only upgraded.

        With `but_changes` those stay that are the changelog of the commits that added them.
        """
        entries = self._read(_changelog_delta if root.is_changelog else delta_entries, root)
        self._note_births(root, entries)
        for entry in entries:
            if entry.kind is FileKind.DELETE:
                if not (but_changes and is_change(entry)):
                    self._add([entry], why, may_miss=root.is_changelog)
            else:
                for path, _ in self._paths.of(entry):
                    self.data.pop(path, None)

    def add_changelog(self, root: Root) -> None:
        """The root's changelog files."""
        why = f"named by {root.label}" if root.is_changelog else f"changelog of {root.label}"
        self._add(self._read(_changelog_entries, root), why)

    def add_named(self, root: Root) -> None:
        """All files that the delta of a changelog names."""
        self._add(self._read(_changelog_delta, root), f"named by {root.label}", may_miss=True)

    def add_metadata(self, roots: Sequence[Root]) -> None:
        """The metadata files of roots; of changelogs also what an expiry that was cut short has left of them."""
        for root, files in zip(roots, in_threads(self._table, _metadata_of, roots), strict=True):
            if not isinstance(files, RootFiles):
                self.stopped.append(f"metadata of {root.label} is left: {files.reason}")
                continue
            if not root.is_changelog:
                self.lists.append(lists_of(root, files))
            for path, size_bytes in files.metadata.items():
                if self._leads_out(path.rpartition("/")[0]):
                    self.stopped.append(f"{path} lies behind a link that leads out of the table and is left")
                    continue
                self.metadata[path] = (size_bytes, f"metadata of {root.label}")
            if root.branch == self._table.paths.branch:
                lists = root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list
                self.born.update({self._table.paths.manifest(name): root.snapshot.id for name in lists})

    def _note_births(self, root: Root, delta: Sequence[ManifestEntry]) -> None:
        """Which files the commit made: those that it added, and did not only move to another level.

        An overwrite may bring back what was there before.
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
            self.stopped.append(f"files that only {root.label} names are left: {error}")
            return []

    def _leads_out(self, directory: str) -> bool:
        if directory not in self._outside:
            self._outside[directory] = leads_out(f"{directory}/.", self._table.paths.root)
        return self._outside[directory]

    def _add(self, entries: Iterable[ManifestEntry], why: str, *, may_miss: bool = False) -> None:
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
                # Where a file may be gone already, its size is looked up, which tells.
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
    """Entries of the delta of an expired snapshot, as far as it is still there."""
    try:
        return delta_entries(table, snapshot)
    except NotFoundError:
        return []


def _changelog_entries(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """A changelog list that is gone names nothing."""
    try:
        return changelog_entries(table, snapshot)
    except NotFoundError:
        return []


@dataclass(frozen=True)
class DeletionPlan:
    """What may go: `data` and `metadata` by path. `roots` are those that were asked.

    `doubts` are what kept files from going that may be needed, `unknown` the reasons not to forget anything for now.
    `born` tells which commit of the table's branch made a file, where that is known.
    """

    data: Mapping[str, DataCandidate]
    metadata: Mapping[str, tuple[int | None, str]]
    roots: frozenset[RootIdentity] = frozenset()
    holders: Mapping[RootIdentity, int] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    born: Mapping[str, int] = field(default_factory=dict)
    lists: tuple[Lists, ...] = ()

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


def plan_deletion(
    table: TableHandle,
    candidates: Candidates,
    kept: Sequence[Root],
    executor: Executor,
    *,
    lost: Sequence[Doubt] = (),
) -> DeletionPlan:
    """The candidates that none of the kept roots reaches, and that nothing in doubt, or `lost`, might."""
    everything = DeletionPlan(
        candidates.data,
        candidates.metadata,
        stopped=tuple(dict.fromkeys(candidates.stopped)),
        born=candidates.born,
        lists=tuple(candidates.lists),
    )
    return _sized(table, _without_reached(table, _without_doubtful(table, everything, lost), kept, executor))


def _without_reached(table: TableHandle, plan: DeletionPlan, roots: Sequence[Root], executor: Executor) -> DeletionPlan:
    protection = protected(
        table,
        roots,
        metadata=plan.metadata.keys(),
        data={path: item.name for path, item in plan.data.items()},
        executor=executor,
        beside=plan.lists,
    )
    plan = replace(
        plan,
        data={path: item for path, item in plan.data.items() if path not in protection.paths},
        metadata={path: item for path, item in plan.metadata.items() if path not in protection.paths},
        roots=plan.roots | {root.identity for root in roots},
        holders={**plan.holders, **protection.holders},
    )
    return _without_doubtful(table, plan, protection.unknown)


def _without_doubtful(table: TableHandle, plan: DeletionPlan, doubts: Sequence[Doubt]) -> DeletionPlan:
    if not doubts:
        return plan
    branch = table.paths.branch
    paths = [*plan.data, *plan.metadata]
    left = {path for path in paths if any(doubt.might_need(branch, plan.born.get(path)) for doubt in doubts)}
    what = "nothing is deleted" if len(left) == len(paths) else f"{len(left)} files are left"
    reasons = tuple(f"{what}: {reason}" for reason in dict.fromkeys(doubt.reason for doubt in doubts))
    return replace(
        plan,
        data={path: item for path, item in plan.data.items() if path not in left},
        metadata={path: item for path, item in plan.metadata.items() if path not in left},
        stopped=plan.stopped + reasons,
        unknown=plan.unknown + tuple(doubt.reason for doubt in doubts if doubt.may_pass),
        doubts=(*plan.doubts, *doubts),
    )


def _sized(table: TableHandle, plan: DeletionPlan) -> DeletionPlan:
    """The plan with sizes looked up where no metadata tells them, without files that are not there any more."""
    unsized = [path for path, item in plan.data.items() if item.size_bytes is None]
    unsized += [path for path, (size_bytes, _) in plan.metadata.items() if size_bytes is None]
    sizes = dict(zip(unsized, in_threads(table, _size_bytes, unsized), strict=True))
    gone = {path for path, size_bytes in sizes.items() if size_bytes is None}
    data = {
        path: replace(item, size_bytes=sizes[path]) if path in sizes else item
        for path, item in plan.data.items()
        if path not in gone
    }
    metadata = {
        path: (sizes.get(path, size_bytes), why)
        for path, (size_bytes, why) in plan.metadata.items()
        if path not in gone
    }
    return replace(plan, data=data, metadata=metadata)


def _size_bytes(table: TableHandle, path: str) -> int | None:
    try:
        return store_of(table, path).stat(path).size_bytes
    except NotFoundError:
        return None


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
        sizes = {file.path: file.size_bytes for file in plan.files if not is_outside(table, file.path)}
        quarantine = write_quarantine(table, prepared.id, what, sizes, roots=roots, neighbours=neighbours)
        prepared = replace(prepared, quarantine=quarantine)
    if prepared.is_recorded:
        names = {path: item.name for path, item in plan.data.items() if not is_outside(table, path)}
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
        seen = all_roots(table)
    except PaimonError as error:
        return Deletion((), (*plan.stopped, f"nothing is deleted: {error}"), aside)
    if plan.data or plan.metadata:
        plan = _without_doubtful(table, plan, [doubt for doubt in seen.doubts if doubt not in plan.doubts])
    fresh = [root for root in seen if root.identity not in plan.roots]
    if fresh:
        plan = _without_reached(table, replace(plan, lists=()), fresh, executor)
    plan, outside, problems = _without_outside(table, plan, is_aside=prepared.quarantine is not None)
    if problems:
        return Deletion((), (*plan.stopped, *problems), aside)
    done, problems = _dispose(table, plan, prepared.how, prepared.quarantine, executor)
    done = [*outside, *done]
    if prepared.is_recorded and not problems and not plan.doubts:
        forget_record(table, prepared.id)
    logger.info("deleted %d of %d files of %s", len(done), len(plan.files), table.paths.root)
    earlier = finish_interrupted(table, executor, prepared.how)
    stopped = (*plan.stopped, *problems, *earlier.stopped)
    return Deletion((*done, *earlier.files), stopped, aside)


def _without_outside(
    table: TableHandle, plan: DeletionPlan, *, is_aside: bool
) -> tuple[DeletionPlan, list[DeletedFile], list[str]]:
    """The plan without files outside the table, which go first; those that went, and what kept them from going.

    They are not moved aside, as a quarantine lies in the table: then they are left, and the plan says so.
    """
    outside = {path: item for path, item in plan.data.items() if is_outside(table, path)}
    if not outside:
        return plan, [], []
    inside = replace(plan, data={path: item for path, item in plan.data.items() if path not in outside})
    if is_aside:
        left = (f"{path} lies outside the table; it is not moved aside but left" for path in outside)
        return replace(inside, stopped=(*plan.stopped, *left)), [], []
    try:
        delete_outside(table, tuple(outside))
    except StorageError as error:
        return inside, [], [f"{len(plan.files)} files are left: {error}"]
    return inside, [file for file in plan.files if file.path in outside], []


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
    found, stopped = open_records(table)
    done: list[DeletedFile] = []
    for record in found:
        plan = _left_over(table, record)
        try:
            seen = all_roots(table)
            plan = _without_reached(table, _without_doubtful(table, plan, seen.doubts), seen, executor)
            quarantine = read_quarantine(table, record.id) if record.quarantine else None
        except PaimonError as error:
            stopped.append(f"what a run that was cut short has left stays: {error}")
            continue
        gone, problems = _dispose(table, plan, how or Disposal(), quarantine, executor)
        done += gone
        stopped += [*plan.stopped, *problems]
        if not problems and not plan.doubts and is_over(table, record):
            forget_record(table, record.id)
    return Deletion(tuple(done), tuple(stopped))


def _left_over(table: TableHandle, record: Record) -> DeletionPlan:
    """The files of a record that are still there."""
    paths = (*record.data, *record.metadata)
    sizes = dict(zip(paths, in_threads(table, _size_bytes, paths), strict=True))
    why = "left by a run that was cut short"
    data = {
        path: DataCandidate(name, sizes[path], why, path.rpartition("/")[0])
        for path, name in record.data.items()
        if sizes[path] is not None
    }
    metadata = {path: (sizes[path], why) for path in record.metadata if sizes[path] is not None}
    return DeletionPlan(data, metadata)


def clean_directories(table: TableHandle, directories: Iterable[str]) -> None:
    """Remove bucket directories that became empty, and then partition directories above them."""
    for directory in sorted(directories):
        path = directory
        # Only directories strictly inside the table; those that are not empty stay by themselves.
        while path.startswith(f"{table.paths.root}/"):
            table.env.storage.delete_dir(path)
            path = path.rpartition("/")[0]
