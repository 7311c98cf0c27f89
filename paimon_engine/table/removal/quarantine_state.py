"""The state of a quarantine after an interrupted run; restoring one without a list; emptying.

| State | What the directory holds | Reason |
|---|---|---|
| `complete` | the list and all its files | no run was interrupted |
| `unfinished` | the list; some files are at their original paths | a move or restore is running, or died |
| `incomplete` | the list; some files exist neither here nor there | emptying died, or others deleted them |
| `without_list` | files, or nothing, but no list | writing the list died, or emptying by an earlier release |
| `unreadable_list` | a list that cannot be parsed | damage, or a later release |

Example: a list names files a, b and c. A run that dies after it moved a and copied half of b leaves a here, an
incomplete b here and the complete b and c at their original paths: `unfinished`. The incomplete b is recognised by its
size. If c is then deleted by another engine, the state is `incomplete`.

A quarantine in any state does not prevent that others are listed, restored or emptied.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.locations import is_local, leads_out
from paimon_engine.table.reach.deletion_records import delete_record, forget_record, records
from paimon_engine.table.reach.quarantine import (
    LIST_NAME,
    Move,
    Quarantine,
    find_quarantine,
    quarantine_directory,
    quarantine_names,
)
from paimon_engine.table.removal.file_removal import LONGEST_PAUSE_MS, Disposal, delete_files, is_in_use, move_files
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads

logger = logging.getLogger(__name__)

_TEMPORARY: Final = re.compile(r"\..+\.tmp")
"""Name of a file on local disk before it is completely written."""
_SHARED_DIRECTORIES: Final = ("manifest", "index", "statistics")


class QuarantineState(StrEnum):
    """The states of the table above."""

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    INCOMPLETE = "incomplete"
    WITHOUT_LIST = "without_list"
    UNREADABLE_LIST = "unreadable_list"


@dataclass(frozen=True)
class StoredQuarantine:
    """A quarantine as it is stored: `files` maps the existing files, by paths relative to the table, to sizes in bytes.

    `quarantine` is its list, None if there is none that can be parsed; `problem` says why it cannot. `time_ms` (epoch
    milliseconds) is the time in the list, or else of the newest file.
    """

    name: str
    state: QuarantineState
    time_ms: int
    quarantine: Quarantine | None = None
    files: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    def to_dict(self) -> Mapping[str, Any]:
        """Plain JSON values for `quarantines()`: if there is a list, `files` and `bytes` are those of the list."""
        listed = self.quarantine
        files = self.files if listed is None else listed.files
        return {
            "quarantine": self.name,
            "action": None if listed is None else listed.what,
            "time_ms": self.time_ms,
            "files": len(files),
            "bytes": sum(files.values()),
            "roots": () if listed is None else tuple(listed.roots),
            "state": self.state.value,
            "files_there": len(self.files),
            "problem": self.problem,
        }


def stored_quarantine(table: TableHandle, name: str) -> StoredQuarantine | None:
    """The quarantine of that name; None if there is no directory.

    Raises: InvalidArgumentError if the name is not valid; StorageError.
    """
    problem, listed = None, None
    try:
        listed = find_quarantine(table, name)
    except CorruptTableError as error:
        problem = str(error)
    stored = list(_files_in(table, quarantine_directory(table, name)))
    files = {_relative(table, name, info): info.size_bytes for info in stored if not _is_list(info)}
    if listed is not None:
        return StoredQuarantine(name, _state(table, listed, files), listed.time_ms, listed, files)
    if not stored and name not in quarantine_names(table):
        return None
    state = QuarantineState.WITHOUT_LIST if problem is None else QuarantineState.UNREADABLE_LIST
    return StoredQuarantine(name, state, _newest_ms(table, name, stored), None, files, problem)


def stored_quarantines(table: TableHandle) -> list[StoredQuarantine]:
    """Every quarantine of the table, oldest first."""
    found = (stored_quarantine(table, name) for name in quarantine_names(table))
    return sorted((item for item in found if item is not None), key=lambda item: (item.time_ms, item.name))


def quarantined_paths(table: TableHandle, name: str) -> Collection[str]:
    """Paths, relative to the table, of a quarantine's files: those in its list; without a list, those that exist."""
    try:
        listed = find_quarantine(table, name)
    except CorruptTableError:
        listed = None
    if listed is not None:
        return listed.files.keys()
    directory = quarantine_directory(table, name)
    return {_relative(table, name, info) for info in _files_in(table, directory) if not _is_list(info)}


def _state(table: TableHandle, listed: Quarantine, files: Mapping[str, int]) -> QuarantineState:
    """The state of a quarantine with a list, given the files that exist in it."""
    # A file that is shorter than listed is an interrupted copy.
    missing = {path for path, size in listed.files.items() if files.get(path) != size}
    if not missing:
        return QuarantineState.COMPLETE
    directories = sorted({f"{table.paths.root}/{path.rpartition('/')[0]}".rstrip("/") for path in missing})
    root = f"{table.paths.root}/"
    at_original_path = {
        info.path.removeprefix(root)
        for found in in_threads(table, _listed, directories)
        for info in found
        if listed.files.get(info.path.removeprefix(root)) == info.size_bytes
    }
    return QuarantineState.UNFINISHED if missing <= at_original_path else QuarantineState.INCOMPLETE


def _listed(table: TableHandle, directory: str) -> list[FileInfo]:
    return [info for info in table.env.storage.list(directory) if not info.is_dir]


def _files_in(table: TableHandle, directory: str) -> Iterator[FileInfo]:
    """All files below a directory; links that lead out of it are not followed: their files have another owner."""
    if not is_local(directory):
        yield from table.env.storage.walk(directory)
        return
    open_directories = [directory]
    while open_directories:
        for info in table.env.storage.list(open_directories.pop()):
            if not info.is_dir:
                yield info
            elif not leads_out(f"{info.path}/.", directory):
                open_directories.append(info.path)


def _is_list(info: FileInfo) -> bool:
    """Whether a file is the list, or a temporary file of it, directly in the quarantine's directory."""
    parts = info.path.rsplit("/", 3)
    name = parts[-1]
    if parts[-3] != "quarantine":
        return False
    return name == LIST_NAME or (_TEMPORARY.fullmatch(name) is not None and LIST_NAME in name)


def _relative(table: TableHandle, name: str, info: FileInfo) -> str:
    return info.path.removeprefix(f"{quarantine_directory(table, name)}/")


def _newest_ms(table: TableHandle, name: str, stored: Sequence[FileInfo]) -> int:
    """The time of the newest file, or of the directory if it is empty; now, if the storage does not give times."""
    if stored:
        times = [info.modified_ms for info in stored]
        return max(times) if all(times) else table.env.clock()
    try:
        return table.env.storage.stat(quarantine_directory(table, name)).modified_ms or table.env.clock()
    except NotFoundError:
        return table.env.clock()


# ── emptying ────────────────────────────────────────────────────────────────────────────────────


def empty(table: TableHandle, stored: StoredQuarantine) -> tuple[int, int, list[str]]:
    """Deletes the files of a quarantine, and its list last: number of files, bytes, and messages about files left.

    Safe to repeat, also after an interruption at any point. Writes a hint at most, if it can, so it works on a full
    disk.
    """
    # Delete the record first: as long as it is there, a later run would move the remaining files of the deletion into
    # this quarantine, which does not exist any more then.
    for record in records(table)[0]:
        if record.id == stored.name:
            forget_record(table, record)
    # It may be damaged.
    delete_record(table, stored.name)
    directory = quarantine_directory(table, stored.name)
    in_use = _in_use(table, stored)
    paths = {f"{directory}/{path}": size for path, size in stored.files.items() if path not in in_use}
    gone, problems = delete_files(
        table, tuple(paths), Disposal(), LocalExecutor(table.env.reader_threads, env=table.env)
    )
    if in_use:
        problems.append(f"{_why_in_use(in_use)}: empty it again a day later")
    if not problems:
        _remove_directory(table, stored.name)
        logger.info("emptied quarantine %s of %s", stored.name, table.paths.root)
    return len(gone), sum(paths[path] for path in gone), problems


def _in_use(table: TableHandle, stored: StoredQuarantine) -> list[str]:
    """The paths, relative to the table, of copies that must stay (`file_removal.is_in_use`).

    Example: a deletion copied `a` into the quarantine and was paused before it deleted the original `a`. If the copy is
    deleted now and the deletion continues, it deletes the original: `a` is lost.
    """
    now_ms = table.env.clock()
    # Only young copies: originals are then looked up for few files, not for all of a quarantine.
    copies = {
        _relative(table, stored.name, info): info
        for info in _files_in(table, quarantine_directory(table, stored.name))
        if not info.modified_ms or now_ms - info.modified_ms < LONGEST_PAUSE_MS
    }
    young = [path for path in copies if path in stored.files]
    originals = in_threads(table, _info_of, [f"{table.paths.root}/{path}" for path in young])
    return [
        path
        for path, original in zip(young, originals, strict=True)
        if original is not None
        and original.size_bytes == copies[path].size_bytes
        and is_in_use(table.env, copies[path], original)
    ]


def _why_in_use(paths: Sequence[str]) -> str:
    return (
        f"{len(paths)} files, such as {paths[0]}, are both in the quarantine and at their original paths, and a "
        "deletion that is still running may be about to delete the originals; their copies stay"
    )


def close(table: TableHandle, name: str) -> list[str]:
    """Removes a quarantine whose files were restored. Returns messages about files that are in it nevertheless.

    A run may still be moving files into it. After it has copied a file, and before it deletes the original, such a run
    checks that the record of its deletion exists (which a restore has deleted), or that this list does.
    """
    directory = quarantine_directory(table, name)
    listed = quarantined_paths(table, name)
    stored = list(_files_in(table, directory))
    copies = [_relative(table, name, info) for info in stored if not _is_list(info)]
    if in_use := [path for path in copies if path in listed]:
        return [f"{_why_in_use(in_use)}: restore the quarantine again a day later, or empty it then"]
    # So the list is deleted first. A run that checks afterwards deletes no original. One that checked before may have
    # deleted it: its copy is found by listing again, and can be restored by its path, without a list.
    table.env.storage.delete([f"{directory}/{LIST_NAME}", *(info.path for info in stored if _is_list(info))])
    left = [info.path for info in _files_in(table, directory)]
    if not left:
        _remove_empty_directories(table, directory)
    return [f"{path} is not in the list; restore the quarantine again to move it back" for path in left]


def _remove_empty_directories(table: TableHandle, directory: str) -> None:
    for info in table.env.storage.list(directory):
        if info.is_dir and not leads_out(f"{info.path}/.", directory):
            _remove_empty_directories(table, info.path)
    table.env.storage.delete_dir(directory)


def _remove_directory(table: TableHandle, name: str) -> None:
    directory = quarantine_directory(table, name)
    table.env.storage.delete([f"{directory}/{LIST_NAME}"])
    table.env.storage.delete_tree(directory)


# ── restoring without a list ────────────────────────────────────────────────────────────────────


def plan_return(table: TableHandle, stored: StoredQuarantine) -> tuple[list[Move], list[str]]:
    """Moves of files of a quarantine without a list, to the original paths given by their relative paths.

    Also messages about files that stay in the quarantine.
    """
    home, aside = f"{table.paths.root}/", f"{quarantine_directory(table, stored.name)}/"
    left = [
        f"{aside}{path} is not a data, index or metadata file and stays"
        for path in stored.files
        if not _is_of_commits(path)
    ]
    moves = [
        Move(aside + path, home + path, size, is_back=True)
        for path, size in stored.files.items()
        if _is_of_commits(path)
    ]
    sizes = dict(zip(moves, in_threads(table, _size_of, [move.target for move in moves]), strict=True))
    # One of the two files is an interrupted copy; only the list, with its sizes, would say which.
    differing = [move for move, size in sizes.items() if size is not None and size != move.size_bytes]
    left += [f"{move.target} exists with {sizes[move]} bytes; {move.source} stays" for move in differing]
    return [move for move in moves if move not in differing], left


def _is_of_commits(path: str) -> bool:
    """Whether the path is that of a data, index or metadata file, or of a temporary file."""
    *directories, name = path.split("/")
    directory = directories[-1] if directories else ""
    is_shared = directories in [[shared] for shared in _SHARED_DIRECTORIES]
    return directory.startswith("bucket-") or is_shared or _TEMPORARY.fullmatch(name) is not None


def _size_of(table: TableHandle, path: str) -> int | None:
    info = _info_of(table, path)
    return None if info is None else info.size_bytes


def _info_of(table: TableHandle, path: str) -> FileInfo | None:
    try:
        return table.env.storage.stat(path)
    except NotFoundError:
        return None


# ── finishing an interrupted move ───────────────────────────────────────────────────────────────


def move_as_listed(
    table: TableHandle, paths: Sequence[str], how: Disposal, executor: Executor
) -> tuple[dict[str, str], dict[str, str]]:
    """Moves those of the files that the list of a quarantine names into that quarantine.

    A run that dies while it moves files leaves some at their original paths. The quarantine promises that they can be
    restored, so they must not be deleted. The paths must be of files that no root reaches; those that
    `also_in_quarantine` gives stay. Returns the names of the quarantines by path of moved files, and messages by path
    of files that are left.
    """
    owners = _owners(table, paths)
    twice = _with_copy(table, owners)
    moved: dict[str, str] = {}
    problems: list[str] = []
    for name in dict.fromkeys(quarantine.name for quarantine in owners.values()):
        ours = [path for path, owner in owners.items() if owner.name == name and path not in twice]
        if ours:
            done, left = move_files(table, owners[ours[0]].quarantine_moves(table, ours), how, executor)
            moved |= {move.source: name for move in done}
            problems += left
    why = "; ".join(problems) or "it does not exist any more"
    left_why = {path: f"quarantine {owners[path].name} has a copy of it" if path in twice else why for path in owners}
    return moved, {path: f"{path} is left: {left_why[path]}" for path in owners if path not in moved}


def also_in_quarantine(table: TableHandle, paths: Sequence[str]) -> dict[str, str]:
    """Those of the files of which the quarantine that lists them has a complete copy too, with its name.

    A move copies a file and then deletes the source. Between these steps two cases look the same: a restore that is
    running, and will delete the copy in the quarantine; and a deletion that died, whose other file is at the original
    path. So neither of the two files may be deleted. Restoring or emptying the quarantine resolves this.
    """
    owners = _owners(table, paths)
    return {path: owners[path].name for path in _with_copy(table, owners)}


def _owners(table: TableHandle, paths: Sequence[str]) -> dict[str, Quarantine]:
    """By path, the quarantine whose list names the file; the newest one, if there are several."""
    home = f"{table.paths.root}/"
    owners: dict[str, Quarantine] = {}
    for quarantine in sorted(_listed_quarantines(table), key=lambda item: (item.time_ms, item.name)):
        owners |= {path: quarantine for path in paths if path.removeprefix(home) in quarantine.files}
    return owners


def _with_copy(table: TableHandle, owners: Mapping[str, Quarantine]) -> set[str]:
    moves = [move for path, owner in owners.items() for move in owner.quarantine_moves(table, [path])]
    sizes = in_threads(table, _size_of, [move.target for move in moves])
    return {move.source for move, size in zip(moves, sizes, strict=True) if size == move.size_bytes}


def _listed_quarantines(table: TableHandle) -> Iterator[Quarantine]:
    for name in quarantine_names(table):
        try:
            found = find_quarantine(table, name)
        except (CorruptTableError, NotFoundError):
            continue
        if found is not None:
            yield found
