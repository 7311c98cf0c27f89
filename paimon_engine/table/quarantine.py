"""Moving files aside instead of deleting them, so that it can be undone.

A quarantine is a directory `quarantine/<id>` of the table with a file `moved.json` that tells where each file came
from. It is written before the first file is moved, so that a run that dies half-way can be undone too: what is not
in the quarantine is still in its place, or was moved back already. No reader and no other engine looks in there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.env import Env
from paimon_engine.errors import InvalidArgumentError, NotFoundError, StorageError, damaged
from paimon_engine.executor import Done, Failed, LocalExecutor
from paimon_engine.format.stored import WRONG, checked_name, parse_object, reason, whole
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.reachability import READER_THREADS

LIST_NAME: Final = "moved.json"
_DIRECTORY: Final = "quarantine"


@dataclass(frozen=True, slots=True)
class Move:
    """A file to be moved; `size_bytes` tells a whole copy from the begin of one."""

    source: str
    target: str
    size_bytes: int


def new_quarantine(table: TableHandle, sizes: Mapping[str, int]) -> tuple[str, list[Move]]:
    """A directory of its own with the list of what will be moved there, paths with sizes in bytes; and the moves."""
    directory = f"{table.paths.root}/{_DIRECTORY}/{table.env.new_id()}"
    relative = {path.removeprefix(f"{table.paths.root}/"): size_bytes for path, size_bytes in sizes.items()}
    table.env.storage.overwrite(f"{directory}/{LIST_NAME}", json.dumps({"files": relative}, indent=1).encode())
    return directory, [
        Move(f"{table.paths.root}/{item}", f"{directory}/{item}", size_bytes) for item, size_bytes in relative.items()
    ]


def restore_moves(table: TableHandle, name: str) -> tuple[str, list[Move]]:
    """The directory of a quarantine, named by its id, and the moves that bring its files back.

    Raises: InvalidArgumentError if there is no such quarantine; CorruptTableError if its list is damaged.
    """
    if not name or "/" in name or name in (".", ".."):
        raise InvalidArgumentError(f"{name!r} is no name of a quarantine; give the directory's name alone")
    directory = f"{table.paths.root}/{_DIRECTORY}/{name}"
    path = f"{directory}/{LIST_NAME}"
    try:
        listed = parse_object(table.env.storage.read(path), path)["files"]
        sizes = {_checked_path(item): whole(listed, item, 0) for item in listed}
    except NotFoundError as error:
        have = [info.path.rpartition("/")[2] for info in table.env.storage.list(directory.rpartition("/")[0])]
        some = ", ".join(have[-5:]) if have else "none"
        raise InvalidArgumentError(f"no quarantine {name!r} in {table.paths.root}; there are: {some}") from error
    except WRONG as error:
        raise damaged(path, f"no valid list of moved files: {reason(error)}") from error
    return directory, [Move(f"{directory}/{item}", f"{table.paths.root}/{item}", size) for item, size in sizes.items()]


def _checked_path(path: str) -> str:
    """The relative path, if it stays inside the table. Raises: ValueError."""
    return "/".join(checked_name(part, "files") for part in path.split("/"))


def carry_out_moves(table: TableHandle, moves: Sequence[Move]) -> list[Done[bool] | Failed]:
    """Moves files, some at a time; True where this call moved it, False where its source was gone."""
    return LocalExecutor(READER_THREADS, env=table.env).map(_move, moves, config=table.config)


def _move(env: Env, move: Move) -> bool:
    storage = env.storage
    source_bytes, target_bytes = (_size_bytes(env, path) for path in (move.source, move.target))
    if source_bytes is None:
        return False
    # A run that died while it copied left a part of the file, on one side or the other.
    if target_bytes != move.size_bytes:
        if source_bytes != move.size_bytes:
            raise StorageError(f"{move.source} has {source_bytes} bytes, and should have {move.size_bytes}; it stays")
        storage.delete([move.target])
        with storage.open(move.source) as source, storage.writer(move.target) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    storage.delete([move.source])
    return True


def _size_bytes(env: Env, path: str) -> int | None:
    try:
        return env.storage.stat(path).size_bytes
    except NotFoundError:
        return None
