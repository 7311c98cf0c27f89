"""Undo a deletion that quarantined its files; list quarantines; and empty them permanently.

Restoring has this order, so that no reader finds an incomplete version:

1. Obstacles are searched: a tag, branch or snapshot that was replaced by another one, a sequence of snapshots that
   would have a gap, a version of which files were deleted later. With any of it nothing is moved.
2. Data, index and metadata files are restored.
3. Then what readers start from: schemas, tags, changelogs and consumers, and snapshots from where the table's are on.
   Before step 2, before this one and after it, it is looked again whether all files are there, of which the versions
   share some with others, and whether a deletion that is running is about to delete any. If so, they are not restored,
   or removed again.

What each action's undo means: after `expire_snapshots`, `delete_tag`, `expire_tags` and `delete_branch` the table is as
it was before. After `rollback` its newer snapshots exist again, the newest of them as the latest one. After
`purge_files` the older snapshots, tags and branches exist again before the empty one: roll back to the one that you
want. Where a tag was moved, or main was fast-forwarded, the older state has no name any more, and can be
given one: `as_tags` restores snapshots and tags under the names `restored-<snapshot>` and `restored-<tag>`. A
version that lacks files is not restored; it stays in the list, so that it can be restored once they exist.

A deletion that is paused between two of its steps cannot be distinguished from one that died. Where files or versions
are both in the quarantine and at their own paths, and are younger than a day, a restore keeps the quarantine, and
emptying keeps these copies; both say so, and can be repeated a day later. One sequence of events is not covered: a
deletion is paused after it has copied a file, a second run finishes it and a restore brings the file back; when the
first one continues, it deletes the file at its path, and no copy is left. It takes a pause at just this step, and
three runs on one quarantine.

An incomplete quarantine of an interrupted run is listed, restored and emptied like any other, and never blocks
another one (`table.removal.quarantine_state`). Without a list, files are moved to the table's directory by their
paths; which versions they belonged to is not known any more, so an orphan clean-up deletes those that nothing needs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError, PaimonError
from paimon_engine.executor import Executor
from paimon_engine.specs import Amount, Count, DryRun, Moment, Name, Spec
from paimon_engine.table.branches_tags.tag_notifications import notifying
from paimon_engine.table.reach.deletion_records import delete_record
from paimon_engine.table.reach.quarantine import (
    Move,
    Quarantine,
    find_quarantine,
    forget_restored,
    no_quarantine,
    note_restored,
    read_quarantine,
    restored_before,
)
from paimon_engine.table.reach.reachability import with_branch_paths
from paimon_engine.table.removal.file_removal import Disposal, move_files
from paimon_engine.table.removal.quarantine_state import (
    QuarantineState,
    StoredQuarantine,
    close,
    empty,
    plan_return,
    stored_quarantine,
    stored_quarantines,
)
from paimon_engine.table.removal.restore_roots import RootsToRestore, plan_roots, roots_in_use, take_back, write_roots
from paimon_engine.table.removal.retention import check_older_than
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.vanished import check_is_there
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_EMPTIED_AFTER_MS: Final = 30 * DAY_MS
_UNKNOWN_ACTION: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Spec):
    """Restore what the quarantine of that name contains; a dry run says what.

    With `as_tags` snapshots and tags are restored as tags `restored-<snapshot>` and `restored-<tag>`. `parallelism` and
    `files_per_second` are limits as for deletions.
    """

    quarantine: Annotated[Name, "name that the deletion gave"]
    as_tags: Annotated[bool, "restore versions as tags restored-…, even if others have replaced them"] = False
    dry_run: DryRun = False
    files_per_second: Annotated[Amount | None, "move at most this many files per second"] = None
    parallelism: Annotated[Count | None, "move with at most this many workers"] = None


@dataclass(frozen=True, slots=True)
class RestoreResult(Result):
    """What was restored; `status` is `restored`, `dry_run` or `stopped`: run it again then, `stopped` says why.

    It is `already_done` if the quarantine was restored before and nothing of it is left; the rest says what was
    restored then. That is known for as long as the records of commits are kept (`commit-record.time-retained`).

    `action` names what is undone. `files` counts the files that are back; `missing` names those that are neither in the
    quarantine nor at their paths. `snapshots`, `tags` and `branches` are what readers can start from again; `left` says
    which versions `as_tags` has not restored, since files of theirs were deleted later or are not visible: the
    quarantine keeps its list for them, until it is restored completely or emptied. `left` also says if the list stays
    because the deletion may still be running: restore the quarantine again a day later then, or empty it.
    """

    status: str
    quarantine: str
    action: str
    files: int = 0
    bytes: int = 0
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    left: tuple[str, ...] = ()


@action
def restore(context: Context, spec: Restore) -> RestoreResult:
    """Brings a quarantine back. Safe to repeat until its status is `restored`.

    Raises: InvalidArgumentError if there is no such quarantine; CorruptTableError if its list is damaged; ConflictError
    if something else has the path of what should be restored; StorageError; UnsupportedError, CallbackError as in
    `table.branches_tags.tag_notifications`, where tags are restored.
    """
    table, executor = context.table, context.executor
    if find_quarantine(table, spec.quarantine) is None:
        stored, before = stored_quarantine(table, spec.quarantine), _restored_before(table, spec.quarantine)
        if before is not None and (stored is None or not stored.files):
            if stored is not None and not spec.dry_run:
                # That attempt died before it had removed the directory.
                close(table, spec.quarantine)
            return before
        if stored is not None:
            return _returned(table, spec, executor, stored)
    quarantine = read_quarantine(table, spec.quarantine)
    roots = plan_roots(table, quarantine, as_tags=spec.as_tags)
    if roots.conflicts:
        raise ConflictError(f"quarantine {spec.quarantine} cannot be restored: {'; '.join(roots.conflicts)}")
    if spec.dry_run:
        return _result("dry_run", quarantine, roots)
    with ExitStack() as stack:
        notifiers = {}
        for branch in roots.tagged:
            notifiers[branch] = stack.enter_context(notifying(with_branch_paths(table, branch)))
            notifiers[branch].expect(roots.tagged[branch])
        result = _brought_back(table, spec, executor, quarantine, roots)
        if result.status == "restored":
            for branch, tags in roots.tagged.items():
                notifiers[branch].made(tags)
    return result


def _brought_back(
    table: TableHandle, spec: Restore, executor: Executor, quarantine: Quarantine, roots: RootsToRestore
) -> RestoreResult:
    """Moves the files back, then writes the versions; again for files that a clean-up has quarantined meanwhile."""
    if dangers := roots.dangers():
        return _result("stopped", quarantine, RootsToRestore(), stopped=tuple(dangers))
    # A process that finishes the deletion meanwhile would quarantine the files again. Its versions are about to come
    # back, so the hints may go on naming them.
    delete_record(table, quarantine.name)
    in_use = roots_in_use(table, quarantine)
    how = Disposal(files_per_second=spec.files_per_second, parallelism=spec.parallelism)
    moves = quarantine.restore_moves(table)
    _, problems = move_files(table, moves, how, executor)
    if problems:
        return _result("stopped", quarantine, RootsToRestore(), stopped=tuple(problems))
    if absent := _absent(table, moves):
        # A clean-up that did not see the versions yet has quarantined files again, or deleted them.
        roots = plan_roots(table, quarantine, as_tags=spec.as_tags)
        lost = roots.conflicts or tuple(f"{move.target} was quarantined again" for move in _not_restored(table, absent))
        if lost:
            reason = f"a clean-up moved restored files away again, run it again: {'; '.join(lost)}"
            return _result("stopped", quarantine, RootsToRestore(), stopped=(reason,))
    if dangers := roots.dangers():
        return _result("stopped", quarantine, RootsToRestore(), stopped=tuple(dangers))
    created = write_roots(table, roots)
    absent = _absent(table, moves)
    if again := _not_restored(table, absent):
        # From now on clean-ups see the versions.
        _, problems = move_files(table, again, how, executor)
        if problems:
            return _result("stopped", quarantine, RootsToRestore(), stopped=tuple(problems))
        absent = _absent(table, moves)
    if dangers := roots.dangers():
        take_back(table, roots, created)
        return _result("stopped", quarantine, RootsToRestore(), stopped=tuple(dangers))
    missing = tuple(move.target for move in absent)
    result = _result("restored", quarantine, roots, missing=missing)
    # Versions that are left can be restored from the list, once their files exist again.
    if in_use:
        not_closed: Sequence[str] = [
            (
                f"{in_use[0]} was still at its path, and a deletion that is still running may be about to remove it: "
                "restore the quarantine again a day later, or empty it then"
            )
        ]
    else:
        not_closed = () if roots.left else _closed(table, result)
    logger.info("restored quarantine %s of %s", quarantine.name, table.paths.root)
    return replace(result, left=(*roots.left, *not_closed))


def _closed(table: TableHandle, result: RestoreResult) -> list[str]:
    """Removes the restored quarantine, after its result was noted, which a repeated attempt then finds."""
    note_restored(table, result.quarantine, result.to_dict())
    return close(table, result.quarantine)


def _restored_before(table: TableHandle, name: str) -> RestoreResult | None:
    """The result of the restore that has removed the quarantine of that name, if that is noted."""
    noted = restored_before(table, name)
    try:
        return None if noted is None else replace(RestoreResult(**_tuples(noted)), status="already_done", seconds=0.0)
    except TypeError:
        # A note by a release with other fields still says that it was restored.
        return RestoreResult("already_done", name, _UNKNOWN_ACTION)


def _tuples(noted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in noted.items()}


def _absent(table: TableHandle, moves: Sequence[Move]) -> list[Move]:
    """The moves whose files are not at their paths."""
    present = {info.path for directory in {_parent(move.target) for move in moves} for info in _list(table, directory)}
    return [move for move in moves if move.target not in present]


def _not_restored(table: TableHandle, moves: Sequence[Move]) -> list[Move]:
    """Those of the moves whose files are in the quarantine."""
    return [move for move in moves if table.env.storage.exists(move.source)]


def _returned(table: TableHandle, spec: Restore, executor: Executor, stored: StoredQuarantine) -> RestoreResult:
    """Restores the files of a quarantine without a list."""
    moves, problems = plan_return(table, stored)
    left = ("without a list only files are restored; an orphan clean-up deletes those that nothing needs",)
    status, files = "dry_run", moves
    if not spec.dry_run:
        how = Disposal(files_per_second=spec.files_per_second, parallelism=spec.parallelism)
        files, more = move_files(table, moves, how, executor)
        problems += more
        status = "stopped" if problems else "restored"
    result = RestoreResult(
        status,
        stored.name,
        _UNKNOWN_ACTION,
        files=len(files),
        bytes=sum(move.size_bytes for move in files),
        stopped=tuple(problems),
        left=left if files else (),
    )
    if status != "restored":
        return result
    return replace(result, left=(*result.left, *_closed(table, result)))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _list(table: TableHandle, directory: str) -> list[Any]:
    return list(table.env.storage.list(directory))


def _result(
    status: str,
    quarantine: Quarantine,
    roots: RootsToRestore,
    *,
    missing: tuple[str, ...] = (),
    stopped: tuple[str, ...] = (),
) -> RestoreResult:
    """The result; files and bytes are 0 if it `stopped`, since a later run moves all of them."""
    return RestoreResult(
        status,
        quarantine.name,
        quarantine.what,
        files=0 if stopped else len(quarantine.files) - len(missing),
        bytes=0 if stopped else quarantine.size_bytes,
        snapshots=roots.snapshots,
        tags=roots.tags,
        branches=roots.branches,
        missing=missing,
        stopped=stopped,
        left=roots.left,
    )


# ── emptying ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EmptyQuarantine(Spec):
    """Delete permanently what quarantines contain: the one of that name, or all made before `older_than`.

    Not both. Without either, those older than 30 days. One whose list cannot be parsed is deleted only by its name.
    """

    quarantine: Annotated[Name | None, "name of one quarantine"] = None
    older_than: Annotated[Moment | None, "all that are older: a time, or an age such as 7 d; 30 days by default"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class EmptyQuarantineResult(Result):
    """What went; `status` is `deleted`, `noop`, `dry_run`, or `stopped` if something was left: run it again then.

    `quarantines` describes each as `list_quarantines` does, `stopped` what was left and why.
    """

    status: str
    quarantines: tuple[Mapping[str, Any], ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    seconds: float = 0.0
    stopped: tuple[str, ...] = ()


@action
def empty_quarantine(context: Context, spec: EmptyQuarantine) -> EmptyQuarantineResult:
    """Deletes quarantines; safe to repeat, which also finishes a run that was interrupted.

    Files that an interrupted run has not moved yet stay at their paths. One that cannot be emptied prevents no other
    from it.

    Raises: InvalidArgumentError if there is no quarantine of that name, for a name and a time together, or for a time
    in the future; StorageError.
    """
    table = context.table
    check_older_than(table, spec)
    if spec.quarantine is not None and spec.older_than is not None:
        raise InvalidArgumentError(
            f"quarantine={spec.quarantine!r} and older_than={spec.older_than}: one of that name is emptied "
            "whatever its age; give the name, or the time for all that are older"
        )
    found, left = _chosen(table, spec)
    if not spec.dry_run:
        forget_restored(table, table.env.clock() - table.options.commit_record_retained_ms)
    stopped = [f"quarantine {item.name} is left: {item.problem} (give its name to delete it)" for item in left]
    files = sum(len(item.files) for item in found)
    size_bytes = sum(sum(item.files.values()) for item in found)
    if not spec.dry_run:
        files = size_bytes = 0
        for item in found:
            try:
                count, count_bytes, problems = empty(table, item)
            except PaimonError as error:
                stopped.append(f"quarantine {item.name} is left in part: {error}")
                continue
            files, size_bytes = files + count, size_bytes + count_bytes
            stopped += [f"quarantine {item.name}: {problem}" for problem in problems]
    status = "dry_run" if spec.dry_run else "stopped" if len(stopped) > len(left) else "deleted" if found else "noop"
    described = tuple(item.to_dict() for item in found)
    return EmptyQuarantineResult(status, described, files, size_bytes, stopped=tuple(stopped))


def _chosen(table: TableHandle, spec: EmptyQuarantine) -> tuple[list[StoredQuarantine], list[StoredQuarantine]]:
    """The quarantines to be emptied, and those old enough whose lists cannot be read."""
    if spec.quarantine is not None:
        stored = stored_quarantine(table, spec.quarantine)
        if stored is None:
            raise no_quarantine(table, spec.quarantine)
        return [stored], []
    limit = table.env.clock() - _EMPTIED_AFTER_MS if spec.older_than is None else spec.older_than
    old = [item for item in stored_quarantines(table) if item.time_ms < limit]
    left = [item for item in old if item.state is QuarantineState.UNREADABLE_LIST]
    return [item for item in old if item not in left], left


def list_quarantines(table: TableHandle) -> list[Mapping[str, Any]]:
    """Every quarantine of the table, oldest first, whatever state it is in.

    Each has `quarantine` (its name), `action`, `time_ms`, `files`, `bytes`, `roots`, and its state: `state` as in
    `table.removal.quarantine_state`, `files_there`, and `problem` if its list cannot be parsed.

    Raises: StorageError; NotFoundError, ConflictError if others have dropped the table since it was opened.
    """
    found = [item.to_dict() for item in stored_quarantines(table)]
    if not found:
        check_is_there(table)
    return found
