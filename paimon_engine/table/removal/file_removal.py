"""Deletes files, or moves them to a quarantine, with a limited rate and number of workers.

All actions that delete have the same options, `Disposal`, and pass their files to `delete_files` or `move_files`. Both
split the files into shares. A share is handled by one thread of this process or, if there are many files, by one task
of the executor, so `parallelism` limits what runs at the same time. A worker sends one request for many files and then
waits, so that all workers together keep to `files_per_second`.

A share may be handled twice, completely or in part: files that do not exist any more are not an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, TypedDict, TypeVar

from paimon_engine.env import Env
from paimon_engine.errors import NotFoundError, PaimonError, StorageError
from paimon_engine.executor import Executor, Failed, LocalExecutor
from paimon_engine.specs import Amount, Count, Spec, ToQuarantine
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.reach.quarantine import Move
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.units import DAY_MS

T = TypeVar("T")

FILES_PER_REQUEST: Final = 500
"""Less than the 1000 that object stores accept, and small enough to know how far a share has come after an error."""
LOCAL_FILES_MAX: Final = 32_000
"""Up to this number of files, this process handles them itself: starting tasks on a cluster would take longer."""
LONGEST_PAUSE_MS: Final = DAY_MS
"""A run that moves a file is not paused longer than this between copying the file and deleting it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposal(Spec):
    """How files are deleted.

    With `quarantine` files are moved to `quarantine/<name>` of the table, and `restore` moves them back. At most
    `parallelism` workers run at the same time, and all together handle at most `files_per_second`.
    """

    quarantine: ToQuarantine = False
    files_per_second: Annotated[Amount | None, "delete at most this many files per second"] = None
    parallelism: Annotated[Count | None, "delete with at most this many workers"] = None


class DisposalWords(TypedDict, total=False):
    """The fields of `Disposal`, as keyword arguments of methods of `Table`."""

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
    """Deletes files. Returns the paths that do not exist any more, and messages about files that are left."""
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
    """Moves files. Returns the moves that this call made, and messages about files that are left.

    A file whose source does not exist is in neither: it was moved before, or never existed. The source stays, with
    a message, if the file `Move.only_while` does not exist any more: the quarantine was restored or emptied meanwhile.
    A copy in a quarantine that a deletion may be about to rely on stays, too (`is_in_use`), without a message.
    """
    done: list[Move] = []
    problems: list[str] = []
    # Each file is copied by a separate request, so several workers help even with a few files.
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
        executor = LocalExecutor(how.parallelism or table.env.reader_threads, env=table.env)
    shares = cut(items, how, executor.parallelism, at_least=at_least)
    for share, outcome in zip(shares, executor.map(run, shares, config=table.config), strict=True):
        yield share, outcome if isinstance(outcome, Failed) else outcome.value


def cut(items: Sequence[Any], how: Disposal, workers: int, *, at_least: int = FILES_PER_REQUEST) -> list[_Share]:
    """The share of each worker: at least `at_least` files, in order, and its part of the rate."""
    most = min(workers, how.parallelism or workers)
    count = max(1, min(most, -(-len(items) // at_least))) if items else 0
    rate = None if how.files_per_second is None else how.files_per_second / max(1, count)
    bounds = [len(items) * number // count for number in range(count + 1)] if count else [0]
    return [_Share(tuple(items[begin:end]), rate) for begin, end in pairwise(bounds)]


def paced(items: Sequence[T], files_per_second: float | None) -> Iterator[tuple[Sequence[T], float]]:
    """The requests of a share, each with the seconds to wait after it (0 after the last)."""
    size = FILES_PER_REQUEST
    if files_per_second is not None:
        size = max(1, min(size, int(files_per_second)))
    for begin in range(0, len(items), size):
        chunk = items[begin : begin + size]
        is_last = begin + size >= len(items)
        yield chunk, 0.0 if files_per_second is None or is_last else len(chunk) / files_per_second


def _delete_share(env: Env, share: _Share) -> tuple[int, str | None]:
    """How many of the share's files are deleted, and the error that ended it early, if any."""
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
    """True if this call moved the file, False if its source is not there, or stays as a copy in use."""
    storage = env.storage
    source, target = (_info(env, path) for path in (move.source, move.target))
    if source is None:
        return False
    # A run that died during a copy may have left an incomplete file: at the target, or (restoring) at the source.
    if target is None or target.size_bytes != move.size_bytes:
        if source.size_bytes != move.size_bytes:
            raise StorageError(
                f"{move.source} has {source.size_bytes} bytes, expected {move.size_bytes}; it is not moved"
            )
        storage.delete([move.target])
        _copy(env, move)
    elif move.is_back and source.size_bytes == move.size_bytes and is_in_use(env, source, target):
        return False
    # A run that is paused between this question and the deletion has left a young copy: a restore leaves it.
    if move.only_while is not None and not storage.exists(move.only_while):
        raise StorageError(f"{move.source} is not moved: {move.only_while} does not exist any more")
    storage.delete([move.source])
    return True


def _copy(env: Env, move: Move) -> None:
    """Copies a file. Raises: StorageError; also if a stream ends early, as a broken connection may look like."""
    with env.storage.open(move.source) as read, env.storage.writer(move.target) as written:
        copied = 0
        while chunk := read.read(1 << 20):
            written.write(chunk)
            copied += len(chunk)
        if copied != move.size_bytes:
            raise StorageError(
                f"{move.source}: only {copied} of {move.size_bytes} bytes could be read; it is not moved, run it again"
            )


def is_in_use(env: Env, copy: FileInfo, home: FileInfo) -> bool:
    """Whether a file's complete copy in a quarantine must stay, although the file is complete at its path, too.

    A deletion copies a file and then deletes it at its path. If it is paused in between and the copy is deleted
    meanwhile, the file is lost when the deletion continues. A restore that died between copying and deleting leaves two
    files as well, but then the copy in the quarantine is the older one. If the storage gives no times, it stays.
    """
    if not copy.modified_ms:
        return True
    return copy.modified_ms >= home.modified_ms and env.clock() - copy.modified_ms < LONGEST_PAUSE_MS


def _info(env: Env, path: str) -> FileInfo | None:
    try:
        return env.storage.stat(path)
    except NotFoundError:
        return None
