"""Removes orphan files once they are found: behind a fence, looked at again, deleted or quarantined."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from paimon_engine.errors import PaimonError, StorageError
from paimon_engine.executor import Executor
from paimon_engine.storage import FileInfo
from paimon_engine.table.commit.commit_callbacks import keep_iceberg
from paimon_engine.table.files.external import delete_outside, is_outside
from paimon_engine.table.reach.clean_up_plan import forget_plan, write_plan
from paimon_engine.table.reach.quarantine import write_quarantine
from paimon_engine.table.removal.deletion_plan import SHOWN_BY_ICEBERG, DeletedFile
from paimon_engine.table.removal.fence import raise_fences
from paimon_engine.table.removal.file_removal import Disposal, delete_files, move_files
from paimon_engine.table.removal.orphans import Orphans, orphans_among
from paimon_engine.table.removal.quarantine_state import move_as_listed
from paimon_engine.table.state.handle import TableHandle

_WHY: Final = "no snapshot, tag, branch or changelog names it"
_WHY_DEAD: Final = "it was removed, and no snapshot, tag, branch or changelog needs it any more"


def as_deleted(files: Sequence[FileInfo], dead: Collection[str]) -> list[DeletedFile]:
    """The files as a result names them; `dead` are the paths of those that commits have removed."""
    return [DeletedFile(info.path, info.size_bytes, _WHY_DEAD if info.path in dead else _WHY) for info in files]


def remove_behind_a_fence(
    table: TableHandle, found: Orphans, how: Disposal, executor: Executor
) -> tuple[list[DeletedFile], str | None, list[str]]:
    """Removes the files after a fence was committed, so that commits of them fail.

    Returns those that went, the name of the quarantine that has them, and what was left and why.
    """
    plan = write_plan(table, [info.path for info in found.files])
    try:
        problems = raise_fences(table, plan)
        if not problems and not keep_iceberg(table):
            problems = [f"nothing is deleted: {SHOWN_BY_ICEBERG}"]
        if not problems:
            found.look.update(table, executor)
            problems = [f"nothing is deleted: {doubt}" for doubt in dict.fromkeys(found.look.doubts)]
        still = [] if problems else as_deleted(*orphans_among(table, found.look, found.old, executor))
    except PaimonError:
        with suppress(StorageError):
            forget_plan(table, plan.id)
        raise
    if problems:
        forget_plan(table, plan.id)
        return [], None, problems
    planned = set(plan.paths)
    still = [file for file in still if file.path in planned]
    done, quarantine, problems = _dispose(table, still, how, executor)
    if not problems:
        # Else a request that was given up may still be carried out.
        forget_plan(table, plan.id)
    return done, quarantine, problems


def _dispose(
    table: TableHandle, files: Sequence[DeletedFile], how: Disposal, executor: Executor
) -> tuple[list[DeletedFile], str | None, list[str]]:
    """The files that went, the quarantine that has them, and what was left and why."""
    known = {file.path: file for file in files}
    moved, left = move_as_listed(table, tuple(known), how, executor)
    done = [replace(known.pop(path), why=f"quarantine {name} waits for it") for path, name in moved.items()]
    for path in left:
        known.pop(path)
    problems = list(left.values())
    if not how.quarantine:
        outside = [path for path in known if is_outside(table, path)]
        try:
            delete_outside(table, outside)
        except StorageError as error:
            problems.append(f"{len(outside)} files outside the table are left: {error}")
            return done, None, problems
        deleted, more = delete_files(table, tuple(path for path in known if path not in outside), how, executor)
        return [*done, *(known[path] for path in (*outside, *deleted))], None, [*problems, *more]
    if not known:
        return done, None, problems
    sizes = {path: file.size_bytes for path, file in known.items()}
    quarantine = write_quarantine(table, table.env.new_id(), "remove_orphan_files", sizes)
    moves, more = move_files(table, quarantine.quarantine_moves(table, known), how, executor)
    return [*done, *(known[move.source] for move in moves)], quarantine.name, [*problems, *more]
