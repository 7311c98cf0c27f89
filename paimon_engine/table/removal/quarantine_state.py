"""What a quarantine is in by now, whatever was cut short in it: how it is told, brought back without a list, emptied.

| State | What is there | How it came about |
|---|---|---|
| `complete` | the list and all its files | nothing was cut short |
| `unfinished` | the list; some files still lie in their old places | moving or restoring is under way, or died |
| `incomplete` | the list; some files are neither here nor there | emptying died, or others deleted them |
| `without_list` | files, or nothing, but no list | writing the list died, or emptying by an earlier release |
| `unreadable_list` | a list that cannot be understood | damage, or a later release |

None of them keeps the others from being told, brought back or emptied.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, NotFoundError, PaimonError
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.places import is_local, leads_out
from paimon_engine.table.reach.deletion_records import forget_record
from paimon_engine.table.reach.quarantine import (
    LIST_NAME,
    Move,
    Quarantine,
    find_quarantine,
    quarantine_directory,
    quarantine_names,
)
from paimon_engine.table.removal.file_removal import Disposal, delete_files, move_files
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import READER_THREADS, in_threads

logger = logging.getLogger(__name__)

_TEMPORARY: Final = re.compile(r"\..+\.tmp")
"""What a file of the local disk is called before it is whole."""
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
    """A quarantine as it is stored: `files` maps what lies in it, by paths relative to the table, to sizes in bytes.

    `quarantine` is what its list says, None without one; `problem` why the list cannot be understood. `time_ms` is the
    time of the list, or else of the newest file.
    """

    name: str
    state: QuarantineState
    time_ms: int
    quarantine: Quarantine | None = None
    files: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    def to_dict(self) -> Mapping[str, Any]:
        """Plain JSON values for `quarantines()`: where there is a list, files and bytes are those of the list."""
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


def look_at(table: TableHandle, name: str) -> StoredQuarantine | None:
    """The quarantine of that name; None if there is not even a directory.

    Raises: InvalidArgumentError if nothing can be called so; StorageError.
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


def all_held(table: TableHandle) -> list[StoredQuarantine]:
    """Every quarantine of the table, oldest first."""
    found = (look_at(table, name) for name in quarantine_names(table))
    return sorted((item for item in found if item is not None), key=lambda item: (item.time_ms, item.name))


def names_held(table: TableHandle, name: str) -> Collection[str]:
    """Paths, relative to the table, of what a quarantine holds by its list; without a list, of what lies in it."""
    try:
        listed = find_quarantine(table, name)
    except CorruptTableError:
        listed = None
    if listed is not None:
        return listed.files.keys()
    directory = quarantine_directory(table, name)
    return {_relative(table, name, info) for info in _files_in(table, directory) if not _is_list(info)}


def _state(table: TableHandle, listed: Quarantine, files: Mapping[str, int]) -> QuarantineState:
    # What is shorter than it should be is the begin of a copy.
    missing = {path for path, size in listed.files.items() if files.get(path) != size}
    if not missing:
        return QuarantineState.COMPLETE
    places = sorted({f"{table.paths.root}/{path.rpartition('/')[0]}".rstrip("/") for path in missing})
    root = f"{table.paths.root}/"
    there = {
        info.path.removeprefix(root)
        for found in in_threads(table, _listed, places)
        for info in found
        if listed.files.get(info.path.removeprefix(root)) == info.size_bytes
    }
    return QuarantineState.UNFINISHED if missing <= there else QuarantineState.INCOMPLETE


def _listed(table: TableHandle, directory: str) -> list[FileInfo]:
    return [info for info in table.env.storage.list(directory) if not info.is_dir]


def _files_in(table: TableHandle, directory: str) -> Iterator[FileInfo]:
    """All files below a directory; links out of it are not followed, and belong to somebody else."""
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
    """Whether a file is the list, or what was written of it; it lies in the quarantine itself."""
    parts = info.path.rsplit("/", 3)
    name = parts[-1]
    if parts[-3] != "quarantine":
        return False
    return name == LIST_NAME or (_TEMPORARY.fullmatch(name) is not None and LIST_NAME in name)


def _relative(table: TableHandle, name: str, info: FileInfo) -> str:
    return info.path.removeprefix(f"{quarantine_directory(table, name)}/")


def _newest_ms(table: TableHandle, name: str, stored: Sequence[FileInfo]) -> int:
    """The time of the newest file, or of the directory where there is none; where no store tells, it is new."""
    if stored:
        times = [info.modified_ms for info in stored]
        return max(times) if all(times) else table.env.clock()
    try:
        return table.env.storage.stat(quarantine_directory(table, name)).modified_ms or table.env.clock()
    except NotFoundError:
        return table.env.clock()


# ── emptying ────────────────────────────────────────────────────────────────────────────────────


def empty(table: TableHandle, held: StoredQuarantine) -> tuple[int, int, list[str]]:
    """Deletes what lies in a quarantine, and its list last: number of files, their bytes, and what was left and why.

    Safe to repeat, and after a run that was cut short at any point. Needs no space in the store.
    """
    # Who finished the deletion later would find nowhere to move the rest.
    forget_record(table, held.name)
    directory = quarantine_directory(table, held.name)
    paths = {f"{directory}/{path}": size for path, size in held.files.items()}
    gone, problems = delete_files(table, tuple(paths), Disposal(), LocalExecutor(READER_THREADS, env=table.env))
    if not problems:
        _remove_directory(table, held.name)
        logger.info("emptied quarantine %s of %s", held.name, table.paths.root)
    return len(gone), sum(paths[path] for path in gone), problems


def close(table: TableHandle, name: str) -> list[str]:
    """Removes a quarantine whose files are back; texts about files that its list did not name and that are left."""
    directory = quarantine_directory(table, name)
    strange = [info.path for info in _files_in(table, directory) if not _is_list(info)]
    if strange:
        table.env.storage.delete([f"{directory}/{LIST_NAME}"])
        return [f"{path} was in no list; restore the quarantine once more to bring it back" for path in strange]
    _remove_directory(table, name)
    return []


def _remove_directory(table: TableHandle, name: str) -> None:
    directory = quarantine_directory(table, name)
    table.env.storage.delete([f"{directory}/{LIST_NAME}"])
    table.env.storage.delete_tree(directory)


# ── bringing back without a list ────────────────────────────────────────────────────────────────


def plan_return(table: TableHandle, held: StoredQuarantine) -> tuple[list[Move], list[str]]:
    """How files without a list get back to where their paths say that they lay; and what stays here and why."""
    home, aside = f"{table.paths.root}/", f"{quarantine_directory(table, held.name)}/"
    left = [f"{aside}{path} is no file of commits and stays" for path in held.files if not _is_of_commits(path)]
    moves = [Move(aside + path, home + path, size) for path, size in held.files.items() if _is_of_commits(path)]
    sizes = dict(zip(moves, in_threads(table, _size_there, [move.target for move in moves]), strict=True))
    # One of the two is the begin of a copy, and nothing tells which.
    differing = [move for move, size in sizes.items() if size is not None and size != move.size_bytes]
    left += [f"{move.target} is there with {sizes[move]} bytes; {move.source} stays" for move in differing]
    return [move for move in moves if move not in differing], left


def _is_of_commits(path: str) -> bool:
    """Whether the path is one of a data, index or metadata file, or of one that was being written."""
    *directories, name = path.split("/")
    place = directories[-1] if directories else ""
    is_shared = directories in [[shared] for shared in _SHARED_DIRECTORIES]
    return place.startswith("bucket-") or is_shared or _TEMPORARY.fullmatch(name) is not None


def _size_there(table: TableHandle, path: str) -> int | None:
    try:
        return table.env.storage.stat(path).size_bytes
    except NotFoundError:
        return None


# ── finishing ───────────────────────────────────────────────────────────────────────────────────


def move_as_listed(
    table: TableHandle, paths: Sequence[str], how: Disposal, executor: Executor
) -> tuple[dict[str, str], dict[str, str]]:
    """Moves those of the files that the list of a quarantine names into it, as who wrote the list was about to.

    Who moves files aside and dies leaves some in their old places. They are promised to be there for a restore, so
    nobody may delete them for good. Gives by path the names of the quarantines, and why files were left. The paths
    must be of files that nothing reaches. Those that `held_twice` names stay, and are told as left.
    """
    owners = _owners(table, paths)
    twice = _with_copy(table, owners)
    moved: dict[str, str] = {}
    problems: list[str] = []
    for name in dict.fromkeys(quarantine.name for quarantine in owners.values()):
        ours = [path for path, owner in owners.items() if owner.name == name and path not in twice]
        if ours:
            done, left = move_files(table, owners[ours[0]].moves_in(table, ours), how, executor)
            moved |= {move.source: name for move in done}
            problems += left
    why = "; ".join(problems) or "it vanished meanwhile"
    left_why = {path: f"quarantine {owners[path].name} has its copy" if path in twice else why for path in owners}
    return moved, {path: f"{path} is left: {left_why[path]}" for path in owners if path not in moved}


def held_twice(table: TableHandle, paths: Sequence[str]) -> set[str]:
    """Those of the files that lie in their old places and, whole, in the quarantine whose list names them.

    Who moves a file copies it and then deletes it where it was. In between nothing tells a restore at work, which is
    about to delete the copy in the quarantine, from a deletion that died: so neither of the two may be taken. They are
    one again once the quarantine is restored or emptied.
    """
    return _with_copy(table, _owners(table, paths))


def _owners(table: TableHandle, paths: Sequence[str]) -> dict[str, Quarantine]:
    """By path, the quarantines whose lists name the files; of several the latest deletion, which decided last."""
    home = f"{table.paths.root}/"
    owners: dict[str, Quarantine] = {}
    for quarantine in sorted(_listed_quarantines(table), key=lambda item: (item.time_ms, item.name)):
        owners |= {path: quarantine for path in paths if path.removeprefix(home) in quarantine.files}
    return owners


def _with_copy(table: TableHandle, owners: Mapping[str, Quarantine]) -> set[str]:
    moves = [move for path, owner in owners.items() for move in owner.moves_in(table, [path])]
    sizes = in_threads(table, _size_there, [move.target for move in moves])
    return {move.source for move, size in zip(moves, sizes, strict=True) if size == move.size_bytes}


def _listed_quarantines(table: TableHandle) -> Iterator[Quarantine]:
    for name in quarantine_names(table):
        try:
            found = find_quarantine(table, name)
        except PaimonError:
            continue
        if found is not None:
            yield found
