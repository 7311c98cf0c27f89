"""How files go: for good or moved aside, how fast, and where the work runs.

Every action that deletes is asked in the same words, `Disposal`, and hands its files to `delete_files` or
`move_files`. Both cut them into shares; a share is done by one thread of this process or, where files are many, by one
task of the executor, so `parallelism` bounds what runs at the same time. Within its share a worker sends requests of
many files and pauses after each, so that all workers together keep to `files_per_second`.

A share may be done twice, wholly or in part: what is gone already is fine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, TypedDict, TypeVar

from paimon_engine.env import Env
from paimon_engine.errors import NotFoundError, PaimonError, StorageError
from paimon_engine.executor import Executor, Failed, LocalExecutor
from paimon_engine.specs import Amount, Count, Quarantine, Spec
from paimon_engine.table.reach.quarantine import Move
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import READER_THREADS

T = TypeVar("T")

FILES_PER_REQUEST: Final = 500
"""Below the 1000 that object stores take, and small enough to tell how far a share has come."""
LOCAL_FILES_MAX: Final = 32_000
"""Up to so many files this process sees to by itself: handing them to a cluster would take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposal(Spec):
    """How what is deleted goes.

    With `quarantine` files are moved to `quarantine/<name>` of the table, and `restore` brings them back. At most
    `parallelism` workers are at it at the same time, and all together take at most `files_per_second`.
    """

    quarantine: Quarantine = False
    files_per_second: Annotated[Amount | None, "delete no more files than this in a second"] = None
    parallelism: Annotated[Count | None, "delete with no more workers than this"] = None


class DisposalWords(TypedDict, total=False):
    """The fields of `Disposal`, as the verbs of a table take them."""

    quarantine: bool
    files_per_second: float | None
    parallelism: int | None


@dataclass(frozen=True)
class _Share:
    items: tuple[Any, ...]
    files_per_second: float | None


def delete_files(
    table: TableHandle, paths: Sequence[str], how: Disposal, executor: Executor
) -> tuple[list[str], list[str]]:
    """Deletes files: the paths that are gone now, and texts that say what was left and why."""
    gone: list[str] = []
    problems: list[str] = []
    for share, outcome in _outcomes(table, _delete_share, paths, how, executor, at_least=FILES_PER_REQUEST):
        count, problem = (0, outcome.message) if isinstance(outcome, Failed) else outcome
        gone += share.items[:count]
        if problem is not None:
            problems.append(f"{len(share.items) - count} files are left: {problem}")
    return gone, problems


def move_files(
    table: TableHandle, moves: Sequence[Move], how: Disposal, executor: Executor
) -> tuple[list[Move], list[str]]:
    """Moves files: the moves that this call made, and texts that say what was left and why.

    A file whose source is not there counts as neither: it was moved before, or never there.
    """
    done: list[Move] = []
    problems: list[str] = []
    # Each file is copied by itself, so that a few are worth another worker.
    for share, outcome in _outcomes(table, _move_share, moves, how, executor, at_least=1):
        if isinstance(outcome, Failed):
            problems.append(f"{len(share.items)} files are left: {outcome.message}")
            continue
        for move, moved in zip(share.items, outcome, strict=True):
            if isinstance(moved, str):
                problems.append(f"{move.source} is left: {moved}")
            elif moved:
                done.append(move)
    return done, problems


def _outcomes(
    table: TableHandle, run: Any, items: Sequence[Any], how: Disposal, executor: Executor, *, at_least: int
) -> Iterator[tuple[_Share, Any]]:
    if len(items) <= LOCAL_FILES_MAX:
        executor = LocalExecutor(how.parallelism or READER_THREADS, env=table.env)
    shares = cut(items, how, executor.parallelism, at_least=at_least)
    for share, outcome in zip(shares, executor.map(run, shares, config=table.config), strict=True):
        yield share, outcome if isinstance(outcome, Failed) else outcome.value


def cut(items: Sequence[Any], how: Disposal, workers: int, *, at_least: int = FILES_PER_REQUEST) -> list[_Share]:
    """The work of each worker, in order, `at_least` so many files where there are more; and its part of the rate."""
    most = min(workers, how.parallelism or workers)
    count = max(1, min(most, -(-len(items) // at_least))) if items else 0
    rate = None if how.files_per_second is None else how.files_per_second / max(1, count)
    bounds = [len(items) * place // count for place in range(count + 1)] if count else [0]
    return [_Share(tuple(items[begin:end]), rate) for begin, end in pairwise(bounds)]


def paced(items: Sequence[T], files_per_second: float | None) -> Iterator[tuple[Sequence[T], float]]:
    """Requests of a share, each with the seconds to wait after it; none after the last."""
    size = FILES_PER_REQUEST
    if files_per_second is not None:
        size = max(1, min(size, int(files_per_second)))
    for begin in range(0, len(items), size):
        chunk = items[begin : begin + size]
        is_last = begin + size >= len(items)
        yield chunk, 0.0 if files_per_second is None or is_last else len(chunk) / files_per_second


def _delete_share(env: Env, share: _Share) -> tuple[int, str | None]:
    """How many of the share's files are gone, and what ended it early."""
    count = 0
    for paths, pause_s in paced(share.items, share.files_per_second):
        try:
            env.storage.delete(paths)
        except PaimonError as error:
            return count, str(error)
        count += len(paths)
        if pause_s:
            time.sleep(pause_s)
    return count, None


def _move_share(env: Env, share: _Share) -> list[bool | str]:
    """For each move whether this call made it, or why not."""
    found: list[bool | str] = []
    for moves, pause_s in paced(share.items, share.files_per_second):
        for move in moves:
            try:
                found.append(_move(env, move))
            except (PaimonError, OSError) as error:
                found.append(str(error))
        if pause_s:
            time.sleep(pause_s)
    return found


def _move(env: Env, move: Move) -> bool:
    """True if this call moved the file, False if its source is not there."""
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
