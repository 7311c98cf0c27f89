"""Deletes the files of messages that will not be committed, whatever has become of these.

Nobody knows for sure that the messages were not committed: the answer to a commit may have been lost, or another
process may be about to publish it. So these files are treated like orphans that are known by name: what any version
names stays, and a fence (`table.removal.fence`) makes a commit that is about to be published fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.executor import Executor
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.files.external import store_of
from paimon_engine.table.reach.reachability import missing_versions, observe_branches
from paimon_engine.table.removal.deletion_plan import DeletedFile
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.orphan_removal import remove_behind_a_fence
from paimon_engine.table.removal.orphans import NameScan, Orphans
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads


@dataclass(frozen=True, slots=True)
class DeletedPrepared:
    """The files that went, the number of those that a version has, and why others are left."""

    deleted: tuple[DeletedFile, ...] = ()
    committed: int = 0
    problems: tuple[str, ...] = ()


def delete_prepared(table: TableHandle, paths: Sequence[str], executor: Executor) -> DeletedPrepared:
    """Deletes those of the paths that no version of the table names; nothing where that cannot be known for sure.

    Files outside the table must be where the caller allows to delete.

    Raises: StorageError.
    """
    there = [info for info in in_threads(table, _info, paths) if info is not None]
    if not there:
        return DeletedPrepared()
    look = NameScan()
    look.update(table, executor)
    look.update(table, executor)
    doubts = [*look.doubts, *_unseen_versions(table)]
    if doubts:
        return DeletedPrepared(problems=tuple(f"nothing is deleted: {doubt}" for doubt in dict.fromkeys(doubts)))
    files = tuple(info for info in there if _name(info) not in look.names)
    if not files:
        return DeletedPrepared(committed=len(there))
    found = Orphans(look, there, files)
    deleted, _, problems = remove_behind_a_fence(table, found, Disposal(), executor)
    kept = 0 if problems else len(there) - len(deleted)
    return DeletedPrepared(tuple(deleted), kept, tuple(problems))


def _info(table: TableHandle, path: str) -> FileInfo | None:
    storage = store_of(table, path)
    return storage.stat(path) if storage.exists(path) else None


def _name(info: FileInfo) -> str:
    return info.path.rpartition("/")[2]


def _unseen_versions(table: TableHandle) -> list[str]:
    """Why versions of the table may exist that the listings do not show."""
    return [doubt.reason for doubt in missing_versions(observe_branches(table))]
