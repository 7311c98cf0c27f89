"""Plans and carries out the deletion of files that only removed roots (snapshots, tags, changelogs) needed.

1. `Candidates` collects the files that the roots to be removed reach.
2. `plan_deletion` keeps of these only the files that no other root reaches. A dry run ends here.
3. `prepare` stores what will be deleted: a record, so that the next run can finish an interrupted one, and the list of
   a quarantine if one is requested.
4. The caller removes the root files, so that no reader can start from them.
5. `carry_out` first brings Iceberg metadata up to date, if the table has any, so that it shows no removed root; if that
   fails, nothing is deleted. It lists the roots again. It keeps files that a root created since then needs. It adds
   files that the plan kept for a root that was removed since then. Then it deletes or moves everything: data files
   first, then metadata, so that after a crash the data files can still be found from the metadata.

Two deletions at the same time, example: snapshots 1 and 2 share a file. One run expires 1 and keeps the file, because
2 needs it; another run removes 2 (a purge) and keeps the file, because 1 needs it. The run that removes its roots last
sees in step 5 that the root of the other one was removed, and deletes the file.

A crash leaves files that no root reaches, never a root with missing files; the next deletion finishes the work. In
doubt files stay:

- if a root that stays, or one of its manifests, cannot be read, or one of its manifest lists may belong to another
  snapshot (`table.reach.list_check`), or snapshots are missing in between: no file is deleted that existed at the time
  of that commit (`table.reach.doubts`);
- if a manifest of a root to be removed cannot be read: the files that only this manifest names stay;
- if a file is outside the table's directory where deletion is not allowed, or behind a link out of the table: it stays.

`stopped` has a message for each case.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_engine.errors import NotFoundError, PaimonError, StorageError
from paimon_engine.executor import Executor
from paimon_engine.table.commit.commit_callbacks import keep_iceberg
from paimon_engine.table.files.external import delete_outside, is_outside, store_of
from paimon_engine.table.reach.deletion_records import (
    Record,
    forget_record,
    is_over,
    open_records,
    record_path,
    versions_among,
    write_record,
)
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
from paimon_engine.table.removal.candidates import Candidates, DataCandidate, unneeded_lists
from paimon_engine.table.removal.file_removal import Disposal, delete_files, move_files
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

logger = logging.getLogger(__name__)

SHOWN_BY_ICEBERG: Final = "the Iceberg metadata may still show them"
"""Why files stay that the table does not need any more."""

R = TypeVar("R", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that is deleted, and why."""

    path: str
    size_bytes: int
    why: str


@dataclass(frozen=True)
class SparedFiles:
    """Candidates that stay because a root needs them, by path."""

    data: Mapping[str, DataCandidate] = field(default_factory=dict)
    metadata: Mapping[str, tuple[int | None, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DeletionPlan:
    """The files that may be deleted: `data` and `metadata`, by path.

    - `roots`: the roots that were checked; `holders`: the number of candidates that each of them keeps.
    - `stopped`: messages about files that stay because of a doubt; `doubts`: these doubts.
    - `unknown`: reasons why nothing should be deleted now, since a later run may know more.
    - `born`: the snapshot id of the commit that created a file, if known.
    - `spared`: candidates that stay since a root reaches them, or may reach them. `carry_out` checks them again after
      the roots are removed.
    - `unread`: collects, if `carry_out` needs them, candidates of further removed roots that were not read for the
      plan, because other roots reach all of their files.
    - `unchecked`: roots that were not checked, since they certainly need none of the files.
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
    spared: SparedFiles = field(default_factory=SparedFiles)
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
        return replace(self, data={}, metadata={}, spared=SparedFiles(), unread=None, stopped=stopped, unknown=unknown)


def plan_deletion(
    table: TableHandle,
    candidates: Candidates,
    kept: Sequence[Root],
    executor: Executor,
    *,
    lost: Sequence[Doubt] = (),
) -> DeletionPlan:
    """The candidates that no kept root reaches, and that no root in doubt (those of `lost` included) may need."""
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
    """The plan without files that one of the roots reaches or, if a root cannot be read, may reach."""
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
    """Fields of the plan in which the paths of `stay` are moved from `data` and `metadata` to `spared`."""
    data = {path: item for path, item in plan.data.items() if path in stay}
    metadata = {path: item for path, item in plan.metadata.items() if path in stay}
    return {
        "data": {path: item for path, item in plan.data.items() if path not in stay},
        "metadata": {path: item for path, item in plan.metadata.items() if path not in stay},
        "spared": SparedFiles({**plan.spared.data, **data}, {**plan.spared.metadata, **metadata}),
    }


def _without_doubtful(table: TableHandle, plan: DeletionPlan, doubts: Sequence[Doubt]) -> DeletionPlan:
    """The plan without files that a root in doubt may need; its `stopped` names the doubts."""
    paths = [*plan.data, *plan.metadata]
    doubts = [doubt for doubt in doubts if paths or not doubt.lasts]
    if not doubts:
        return plan
    branch = table.paths.branch
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
    """The plan with sizes from storage where metadata does not have them, and without files that do not exist."""
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
    """The files that were deleted; messages about files that are left; the quarantine, if files were moved to one."""

    files: tuple[DeletedFile, ...] = ()
    stopped: tuple[str, ...] = ()
    quarantine: str | None = None

    @property
    def size_bytes(self) -> int:
        """Total size of the files."""
        return sum(file.size_bytes for file in self.files)


def with_deletion(result: R, deletion: Deletion) -> R:
    """An action's result with what was deleted, in the fields that all such results have."""
    fields: dict[str, Any] = {
        "files_deleted": len(deletion.files),
        "bytes_deleted": deletion.size_bytes,
        "deleted": deletion.files,
        "quarantine": deletion.quarantine,
        "stopped": deletion.stopped,
    }
    return replace(result, **fields)


@dataclass(frozen=True)
class PreparedDeletion:
    """A deletion whose record and quarantine, as far as there are any, are stored; `id` is the name of both."""

    id: str
    how: Disposal
    quarantine: Quarantine | None = None
    record: Record | None = None
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
    """Stores the record and the list of the quarantine, before any root is removed.

    The record lets a later run finish the deletion, the list lets `restore` undo it. `what` names the action, `roots`
    are the root files that it will remove, `neighbours` the files of the snapshots next to them.
    """
    prepared = PreparedDeletion(table.env.new_id(), how, roots=tuple(roots))
    if how.quarantine and (plan.data or plan.metadata or roots):
        sizes = {file.path: file.size_bytes for file in plan.files if not is_outside(table, file.path)}
        quarantine = write_quarantine(table, prepared.id, what, sizes, roots=roots, neighbours=neighbours)
        prepared = replace(prepared, quarantine=quarantine)
    if plan.data or plan.metadata or versions_among(roots):
        return _recorded(table, plan, prepared)
    return prepared


def _recorded(table: TableHandle, plan: DeletionPlan, prepared: PreparedDeletion) -> PreparedDeletion:
    names = {path: item.name for path, item in plan.data.items() if not is_outside(table, path)}
    is_aside = prepared.quarantine is not None
    record = Record(prepared.id, names, tuple(plan.metadata), prepared.roots, quarantine=is_aside)
    write_record(table, record)
    return replace(prepared, record=record)


def carry_out(
    table: TableHandle, plan: DeletionPlan, executor: Executor, prepared: PreparedDeletion | None = None
) -> Deletion:
    """Deletes the plan's files, except those that a root created since then needs. The roots must be removed by now.

    Also finishes earlier deletions that were interrupted.
    """
    prepared = prepared or PreparedDeletion("", Disposal())
    aside = None if prepared.quarantine is None else prepared.quarantine.name
    if not keep_iceberg(table):
        return Deletion((), (*plan.stopped, f"nothing is deleted: {SHOWN_BY_ICEBERG}"), aside)
    try:
        seen = all_roots(table, plan.roots | plan.unchecked)
    except PaimonError as error:
        return Deletion((), (*plan.stopped, f"nothing is deleted: {error}"), aside)
    if plan.data or plan.metadata:
        plan = _without_doubtful(table, plan, [doubt for doubt in seen.doubts if doubt not in plan.doubts])
    fresh = [root for root in seen if root.identity not in plan.roots]
    if fresh:
        plan = _without_reached(table, replace(plan, lists=()), fresh, executor)
    # A root that the plan checked was removed, or a doubt may have ended: files kept for it may be deleted now.
    may_release = any(doubt.may_pass for doubt in plan.doubts) or not plan.roots <= {root.identity for root in seen}
    if prepared.id and may_release:
        plan, prepared = _with_released(table, plan, seen, executor, prepared)
    plan, outside, problems = _without_outside(table, plan, is_aside=prepared.quarantine is not None)
    if problems:
        return Deletion((), (*plan.stopped, *problems), aside)
    first = unneeded_lists(table, seen)
    done, problems = _dispose(table, plan, prepared.how, prepared.quarantine, executor, first=first)
    done = [*outside, *done]
    if prepared.record is not None and not problems and not (plan.doubts and prepared.record.has_files):
        forget_record(table, prepared.record)
    logger.info("deleted %d of %d files of %s", len(done), len(plan.files), table.paths.root)
    known = {*plan.roots, *plan.unchecked, *(root.identity for root in seen)}
    earlier = finish_interrupted(table, executor, prepared.how, known)
    stopped = (*plan.stopped, *problems, *earlier.stopped)
    return Deletion((*done, *earlier.files), stopped, aside)


def _with_released(
    table: TableHandle, plan: DeletionPlan, seen: Roots, executor: Executor, prepared: PreparedDeletion
) -> tuple[DeletionPlan, PreparedDeletion]:
    """The plan with those of the kept files that no root needs any more: their roots were removed meanwhile.

    They are added to the record and to the quarantine's list before they are deleted.
    """
    more = DeletionPlan(plan.spared.data, plan.spared.metadata, born=plan.born, lists=plan.lists)
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
    lost = dict.fromkeys([*lost_roots(table, seen), *(doubt for doubt in plan.doubts if doubt.lasts)])
    more = _sized(table, _without_reached(table, _without_doubtful(table, more, list(lost)), asked, executor))
    # Messages about the old doubts are replaced: `more` was checked against all doubts again.
    old_doubts = tuple(f": {doubt.reason}" for doubt in plan.doubts)
    stopped = (*(text for text in plan.stopped if not text.endswith(old_doubts)), *more.stopped)
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
    return plan, _recorded(table, plan, prepared)


def _without_outside(
    table: TableHandle, plan: DeletionPlan, *, is_aside: bool
) -> tuple[DeletionPlan, list[DeletedFile], list[str]]:
    """Deletes the plan's files outside the table: the rest of the plan, the deleted files, and problems.

    They are not moved to a quarantine, which is inside the table: then they stay, and the plan's `stopped` says so.
    """
    outside = {path: item for path, item in plan.data.items() if is_outside(table, path)}
    if not outside:
        return plan, [], []
    inside = replace(plan, data={path: item for path, item in plan.data.items() if path not in outside})
    if is_aside:
        left = (f"{path} is outside the table; it is not moved to the quarantine and stays" for path in outside)
        return replace(inside, stopped=(*plan.stopped, *left)), [], []
    try:
        delete_outside(table, tuple(outside))
    except StorageError as error:
        return inside, [], [f"{len(plan.files)} files are left: {error}"]
    return inside, [file for file in plan.files if file.path in outside], []


def _dispose(
    table: TableHandle,
    plan: DeletionPlan,
    how: Disposal,
    quarantine: Quarantine | None,
    executor: Executor,
    *,
    first: Collection[str] = (),
) -> tuple[list[DeletedFile], list[str]]:
    """Deletes or moves the plan's files: those that are done, and messages about files that are left.

    Metadata files among `first` go before all others.
    """
    done: set[str] = set()
    problems: list[str] = []
    urgent = tuple(path for path in plan.metadata if path in first)
    rest = tuple(path for path in plan.metadata if path not in first)
    # Data files before the metadata that names them: after a crash, metadata still leads to them.
    for paths in (urgent, tuple(plan.data), rest):
        if problems:
            problems += [f"{len(paths)} more files are left, too"] if paths else []
            continue
        if quarantine is None:
            gone, problems = delete_files(table, paths, how, executor)
        else:
            # A restore deletes the record first, and so does emptying the quarantine.
            moves = quarantine.quarantine_moves(table, paths, only_while=record_path(table, quarantine.name))
            moves, problems = move_files(table, moves, how, executor)
            gone = [move.source for move in moves]
        done.update(gone)
    if table.options.clean_empty_directories:
        clean_directories(table, {item.directory for item in plan.data.values()})
    return [file for file in plan.files if file.path in done], problems


def finish_interrupted(
    table: TableHandle, executor: Executor, how: Disposal | None = None, known: Collection[RootIdentity] = ()
) -> Deletion:
    """Finishes interrupted deletions: deletes the files of their records that no root reaches.

    `known` are roots that the caller has seen, in case that the listings lack them now (`all_roots`).
    """
    found, stopped = open_records(table)
    done: list[DeletedFile] = []
    if found and not keep_iceberg(table):
        return Deletion((), (*stopped, f"files of an interrupted deletion stay: {SHOWN_BY_ICEBERG}"))
    for record in found:
        plan = _left_over(table, record)
        if not plan.data and not plan.metadata:
            if is_over(table, record):
                forget_record(table, record)
            continue
        try:
            seen = all_roots(table, known)
            plan = _without_reached(table, _without_doubtful(table, plan, seen.doubts), seen, executor)
            quarantine = read_quarantine(table, record.id) if record.quarantine else None
        except PaimonError as error:
            stopped.append(f"files of an interrupted deletion stay: {error}")
            continue
        first = unneeded_lists(table, seen)
        gone, problems = _dispose(table, plan, how or Disposal(), quarantine, executor, first=first)
        done += gone
        stopped += [*plan.stopped, *problems]
        if not problems and not plan.doubts and is_over(table, record):
            forget_record(table, record)
    return Deletion(tuple(done), tuple(stopped))


def _left_over(table: TableHandle, record: Record) -> DeletionPlan:
    """The files of a record that still exist."""
    paths = (*record.data, *record.metadata)
    sizes = dict(zip(paths, in_threads(table, _size_bytes, paths), strict=True))
    why = "left by an interrupted deletion"
    data = {
        path: DataCandidate(name, sizes[path], why, path.rpartition("/")[0])
        for path, name in record.data.items()
        if sizes[path] is not None
    }
    metadata = {path: (sizes[path], why) for path in record.metadata if sizes[path] is not None}
    return DeletionPlan(data, metadata)


def clean_directories(table: TableHandle, directories: Iterable[str]) -> None:
    """Removes bucket directories that became empty, and then partition directories above them."""
    for directory in sorted(directories):
        path = directory
        # Only directories inside the table; `delete_dir` leaves those that are not empty.
        while path.startswith(f"{table.paths.root}/"):
            table.env.storage.delete_dir(path)
            path = path.rpartition("/")[0]
