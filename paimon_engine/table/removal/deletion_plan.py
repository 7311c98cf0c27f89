"""Deleting what only vanished snapshots and tags needed.

1. `Candidates` gathers the files that the roots to be removed reach.
2. `plan_deletion` leaves those that no other root reaches. A dry run ends here.
3. `prepare` writes down what is about to go: a record for the next run, should this one be cut short, and the list of
   a quarantine where one is asked for.
4. The caller hides the roots (removes their snapshot or tag files), so that no reader can start from them.
5. `carry_out` lists the roots again, leaves out what a root made in the meantime needs, takes along what was left for
   a root that has gone in the meantime, and deletes all that or moves it aside: data first, then metadata from which
   the data could still be found. Of two deletions side by side, the one that hides its roots last sees that those of
   the other are gone, too, so that what both kept for each other goes.

A crash in between leaves files that nobody reaches, never a root with files missing; the next deletion finishes it.
What is in doubt stays:

- a snapshot, tag or changelog that stays cannot be read, or one of its manifests cannot, or a manifest list of it may
  be another's (`table.reach.list_check`), or snapshots are missing in between: no file is deleted that was there at the
  time of that commit (`table.reach.doubts`);
- a manifest of a root to be removed cannot be read: the files only it names stay;
- a file lies outside the table's directory, where nobody allows to delete, or behind a link out of it: it stays.

Each case is said in `stopped`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_engine.errors import NotFoundError, PaimonError, StorageError
from paimon_engine.executor import Executor
from paimon_engine.table.files.external import delete_outside, is_outside, store_of
from paimon_engine.table.reach.deletion_records import Record, forget_record, is_over, open_records, write_record
from paimon_engine.table.reach.doubts import Doubt
from paimon_engine.table.reach.list_check import Lists
from paimon_engine.table.reach.quarantine import Quarantine, extend_quarantine, read_quarantine, write_quarantine
from paimon_engine.table.reach.reachability import (
    Root,
    RootIdentity,
    Roots,
    all_roots,
    lost_roots,
)
from paimon_engine.table.reach.still_needed import protected
from paimon_engine.table.removal.candidates import Candidates, DataCandidate
from paimon_engine.table.removal.file_removal import Disposal, delete_files, move_files
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that goes, and what it was for."""

    path: str
    size_bytes: int
    why: str


@dataclass(frozen=True)
class SparedFiles:
    """Candidates that roots keep, by path."""

    data: Mapping[str, DataCandidate] = field(default_factory=dict)
    metadata: Mapping[str, tuple[int | None, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DeletionPlan:
    """What may go: `data` and `metadata` by path. `roots` are those that were asked.

    `doubts` are what kept files from going that may be needed, `unknown` the reasons not to forget anything for now.
    `born` tells which commit of the table's branch made a file, where that is known.

    `held` are candidates that stay since some root reaches them or might, and `unread` finds those of roots for which
    another one stands: they go if no root needs them once this deletion has hidden its own. `unchecked` are roots that
    need none.
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
    held: SparedFiles = field(default_factory=SparedFiles)
    unread: Callable[[], Candidates] | None = None
    unchecked: frozenset[RootIdentity] = frozenset()

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
        return replace(self, data={}, metadata={}, held=SparedFiles(), unread=None, stopped=stopped, unknown=unknown)


def plan_deletion(
    table: TableHandle,
    candidates: Candidates,
    kept: Sequence[Root],
    executor: Executor,
    *,
    lost: Sequence[Doubt] = (),
) -> DeletionPlan:
    """The candidates that none of the kept roots reaches, and that nothing in doubt, or `lost`, might."""
    everything = _of(candidates)
    return _sized(table, _without_reached(table, _without_doubtful(table, everything, lost), kept, executor))


def _of(candidates: Candidates) -> DeletionPlan:
    return DeletionPlan(
        candidates.data,
        candidates.metadata,
        stopped=tuple(dict.fromkeys(candidates.stopped)),
        born=candidates.born,
        lists=tuple(candidates.lists),
    )


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
        **_parted(plan, protection.paths),
        roots=plan.roots | {root.identity for root in roots},
        holders={**plan.holders, **protection.holders},
    )
    return _without_doubtful(table, plan, protection.unknown)


def _parted(plan: DeletionPlan, stay: Collection[str]) -> dict[str, Any]:
    """The fields of a plan in which these paths stay, and are held."""
    data = {path: item for path, item in plan.data.items() if path in stay}
    metadata = {path: item for path, item in plan.metadata.items() if path in stay}
    return {
        "data": {path: item for path, item in plan.data.items() if path not in stay},
        "metadata": {path: item for path, item in plan.metadata.items() if path not in stay},
        "held": SparedFiles({**plan.held.data, **data}, {**plan.held.metadata, **metadata}),
    }


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
        **_parted(plan, left),
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
class PreparedDeletion:
    """A deletion of which the store knows: `id` names its record."""

    id: str
    how: Disposal
    quarantine: Quarantine | None = None
    is_recorded: bool = False
    roots: tuple[str, ...] = ()


def prepare(
    table: TableHandle,
    plan: DeletionPlan,
    how: Disposal,
    what: str,
    *,
    roots: Sequence[str],
    neighbours: Sequence[str] = (),
) -> PreparedDeletion:
    """Writes down what is about to go, before anything is hidden: for whoever finishes it, and whoever undoes it.

    `what` names the action, `roots` the files that it is going to hide, `neighbours` those of the snapshots beside.
    """
    is_recorded = bool(plan.data or plan.metadata)
    prepared = PreparedDeletion(table.env.new_id(), how, is_recorded=is_recorded, roots=tuple(roots))
    if how.quarantine and (plan.data or plan.metadata or roots):
        sizes = {file.path: file.size_bytes for file in plan.files if not is_outside(table, file.path)}
        quarantine = write_quarantine(table, prepared.id, what, sizes, roots=roots, neighbours=neighbours)
        prepared = replace(prepared, quarantine=quarantine)
    if prepared.is_recorded:
        _write_down(table, plan, prepared)
    return prepared


def _write_down(table: TableHandle, plan: DeletionPlan, prepared: PreparedDeletion) -> None:
    names = {path: item.name for path, item in plan.data.items() if not is_outside(table, path)}
    is_aside = prepared.quarantine is not None
    write_record(table, Record(prepared.id, names, tuple(plan.metadata), prepared.roots, quarantine=is_aside))


def carry_out(
    table: TableHandle, plan: DeletionPlan, executor: Executor, prepared: PreparedDeletion | None = None
) -> Deletion:
    """Delete the plan's files, except those that a root made since the plan needs. The roots must be hidden by now.

    Also finishes what earlier runs that were cut short have left.
    """
    prepared = prepared or PreparedDeletion("", Disposal())
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
    is_past = any(doubt.may_pass for doubt in plan.doubts) or not plan.roots <= {root.identity for root in seen}
    if prepared.id and is_past:
        plan, prepared = _with_what_was_held(table, plan, seen, executor, prepared)
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


def _with_what_was_held(
    table: TableHandle, plan: DeletionPlan, seen: Roots, executor: Executor, prepared: PreparedDeletion
) -> tuple[DeletionPlan, PreparedDeletion]:
    """The plan with what was left for roots that others have removed meanwhile, or in doubt, and no root needs now.

    Written down like the rest, for whoever finishes or undoes it.
    """
    more = DeletionPlan(plan.held.data, plan.held.metadata, born=plan.born, lists=plan.lists)
    if plan.unread is not None:
        found = _of(plan.unread())
        more = replace(
            more,
            data={**found.data, **more.data},
            metadata={**found.metadata, **more.metadata},
            born={**found.born, **more.born},
            lists=(*found.lists, *more.lists),
            stopped=found.stopped,
        )
    asked = [root for root in seen if root.identity not in plan.unchecked]
    lost = lost_roots(table, seen)
    more = _sized(table, _without_reached(table, _without_doubtful(table, more, lost), asked, executor))
    past = tuple(f": {doubt.reason}" for doubt in plan.doubts)
    stopped = (*(text for text in plan.stopped if not text.endswith(past)), *more.stopped)
    plan = replace(
        plan,
        data={**plan.data, **more.data},
        metadata={**plan.metadata, **more.metadata},
        stopped=tuple(dict.fromkeys(stopped)),
        doubts=more.doubts,
    )
    if not more.data and not more.metadata:
        return plan, prepared
    if prepared.quarantine is not None:
        sizes = {file.path: file.size_bytes for file in plan.files if not is_outside(table, file.path)}
        prepared = replace(prepared, quarantine=extend_quarantine(table, prepared.quarantine, sizes))
    prepared = replace(prepared, is_recorded=True)
    _write_down(table, plan, prepared)
    return plan, prepared


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
