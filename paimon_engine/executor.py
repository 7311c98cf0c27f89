"""Executor: the only interface to where tasks run. Here: the protocol, its outcomes, and local threads.

A task is a plain value; the work is a module-level function of `(env, task)`. A task that fails is a value too, so
one bad bucket never takes the others down: the caller sees `Done | Failed` per task and decides.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from paimon_engine import errors
from paimon_engine.arrow_pool import POOL_USE
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import PaimonError, kind_of, on_temporary_files

T = TypeVar("T")
R = TypeVar("R")
GroupOfRows = Callable[[pa.RecordBatch], pa.Array]
"""Gives the group of every row of a batch: int32, not negative, no nulls."""

BATCH_ROWS = 65_536
"""Rows per batch handed to a group: larger batches cost more in fresh memory than they save in calls."""
_BATCH_BYTES = 32 << 20
"""Bytes at which fewer rows than that make a batch."""
_AHEAD_BYTES = 8 << 20
"""Little, as a writer has nothing to do until the first items come, and is the last one at work."""


@dataclass(frozen=True)
class Done(Generic[R]):
    """A task that finished, with what its function returned."""

    value: R


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that raised: the error as text, since an exception object may not survive the way from a worker."""

    kind: str
    message: str
    trace: str = field(repr=False)

    @classmethod
    def of(cls, error: BaseException) -> Failed:
        """The failure that describes an exception."""
        trace = "".join(traceback.format_exception(error))
        what = str(error)
        if isinstance(error, MemoryError) and not isinstance(error, PaimonError):
            what = f"a task had not enough memory: {what or type(error).__name__}"
        return cls(kind_of(error), what, trace)

    def error(self) -> PaimonError:
        """An exception to raise: of the same class if it is one of ours, else a PaimonError that names the class."""
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, PaimonError):
            return kind(self.message)
        return PaimonError(f"A task failed with {self.kind}: {self.message}\n{self.trace}")


def values(outcomes: Iterable[Done[R] | Failed]) -> list[R]:
    """The values of outcomes that must all be done. Raises: the error of the first that failed."""
    found: list[R] = []
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            raise outcome.error()
        found.append(outcome.value)
    return found


def attempt(run: Callable[..., R], *arguments: object) -> Done[R] | Failed:
    """Call a function and give its outcome as a value; an interrupt or exit passes through."""
    try:
        return Done(run(*arguments))
    except Exception as error:  # noqa: BLE001 - whatever a task raises is its outcome
        return Failed.of(error)


@dataclass(frozen=True, slots=True)
class Returned:
    """The results of the tasks that had ended when the others were interrupted; they are not passed on otherwise.

    The interrupt has it among its `args`.
    """

    values: tuple[Any, ...] = field(repr=False)


class _StoppedError(BaseException):
    """Ends the thread of a task whose caller was interrupted; no task mistakes it for its own error."""


@dataclass(frozen=True)
class TaskRows(Generic[T]):
    """Rows that tasks read, as a source to be shuffled: those of the first task come first, each task's in order.

    `read` is a module-level function or a value that pickles, as the work of a task is; all batches are of one schema.
    """

    read: Callable[[Env, T], Iterator[pa.RecordBatch]]
    tasks: Sequence[T]


class SplitRows(Protocol):
    """Sees the rows of a part of the source and says where they go; a module-level function or a value that pickles.

    Rows go to groups, whose numbers are not negative. What needs no rows of other parts can be done on the way: a
    value that is given as `Done` is an outcome of the shuffle.
    """

    def __call__(
        self, env: Env, part: int, batches: Iterator[pa.RecordBatch], /
    ) -> Iterator[tuple[int, pa.RecordBatch] | Done[Any]]:
        """The rows of part number `part`, in their order."""
        ...


@dataclass(frozen=True)
class ByGroup:
    """Sends each row to its group."""

    group: GroupOfRows

    def __call__(
        self, _env: Env, _part: int, batches: Iterator[pa.RecordBatch], /
    ) -> Iterator[tuple[int, pa.RecordBatch] | Done[Any]]:
        for batch in batches:
            yield from _split(batch, self.group(batch))


class Executor(Protocol):
    """Runs independent tasks somewhere.

    - Outcomes are returned in task order (map), or those of parts first and then by ascending group (shuffle); one
      failure stops no other task.
    - A task may run more than once, also at the same time: executors repeat tasks of lost workers. So a task only
      writes new files under fresh names and returns what it wrote; only what is returned can be committed.
    - KeyboardInterrupt and SystemExit pass through, after queued tasks are dropped. Where the executor knows what tasks
      have returned by then, the interrupt has it as `Returned`, so that the caller can delete what they wrote.

    Legal: `executor.map(rewrite, tasks, config=config)` with `rewrite` at the top level of a module.
    Illegal: a lambda or method that closes over a `Table` or a `Storage`; it may not exist where the task runs.
    """

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time, as a hint for cutting work into tasks."""
        ...

    def map(
        self,
        run: Callable[[Env, T], R],
        tasks: Sequence[T],
        *,
        config: EnvConfig,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Done[R] | Failed]:
        """Run every task; `on_done` is called in the caller's thread with the number of tasks done so far.

        Tasks and results are plain values that pickle.
        """
        ...

    def shuffle(
        self,
        source: Any,
        *,
        split: SplitRows,
        run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
        config: EnvConfig,
    ) -> list[Done[R] | Failed]:
        """Bring all rows of one group to one call of `run`, as a stream in the order of the source.

        `source` is an Arrow table, `TaskRows`, or what else the executor knows, such as a DataFrame. `run` may stop
        reading early. An error while rows are read or split is a failed outcome, or raised: no group is whole then.
        """
        ...


class LocalExecutor:
    """Tasks in threads of this process. `env` replaces the Env that the configuration would build."""

    def __init__(self, parallelism: int | None = None, *, env: Env | None = None, spill_bytes: int = 256 << 20) -> None:
        self._parallelism = parallelism or os.cpu_count() or 1
        self._env = env
        self._spill_bytes = spill_bytes

    @property
    def parallelism(self) -> int:
        """The number of threads."""
        return self._parallelism

    def map(
        self,
        run: Callable[[Env, T], R],
        tasks: Sequence[T],
        *,
        config: EnvConfig,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Done[R] | Failed]:
        """Run every task in the pool; see `Executor.map`."""
        env = self._env or config.build()
        return self._all([(run, env, task) for task in tasks], on_done)

    def shuffle(
        self,
        source: pa.Table | TaskRows[Any] | Iterable[pa.RecordBatch],
        *,
        split: SplitRows,
        run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
        config: EnvConfig,
    ) -> list[Done[R] | Failed]:
        """Collect rows by group, spilling to temporary files, then run the groups; see `Executor.shuffle`.

        All rows are one part.
        """
        env = self._env or config.build()
        with tempfile.TemporaryDirectory(prefix="paimon-shuffle-") as directory:
            shelf = _Shelf(directory, self._spill_bytes)
            done: list[Done[R] | Failed] = []
            try:
                for item in split(env, 0, iter(_batches(source, env))):
                    if isinstance(item, Done):
                        done.append(item)
                    else:
                        shelf.add(*item)
                return done + self._all([(run, env, number, shelf.batches(number)) for number in shelf.groups()], None)
            except KeyboardInterrupt as interrupt:
                interrupt.args = (*interrupt.args, _returned(done))
                raise

    def _all(self, calls: Sequence[tuple[Any, ...]], on_done: Callable[[int], None] | None) -> list[Done[Any] | Failed]:
        """Make every call, in threads if there is more than one; outcomes in the order of the calls."""
        with POOL_USE:
            return self._outcomes(calls, on_done)

    def _outcomes(
        self, calls: Sequence[tuple[Any, ...]], on_done: Callable[[int], None] | None
    ) -> list[Done[Any] | Failed]:
        """Outcomes in order. After an interrupt running calls end first: no file may appear after the clean-up."""
        if min(len(calls), self._parallelism) <= 1:
            return _one_by_one(calls, on_done)
        threads = _Interruptible()
        pool = ThreadPoolExecutor(min(len(calls), self._parallelism), thread_name_prefix="paimon")
        futures: list[Future[Any]] = []
        try:
            futures += [pool.submit(threads.attempt, *call) for call in calls]
            _follow(futures, on_done)
            return [future.result() for future in futures]
        except KeyboardInterrupt as interrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            threads.interrupt()
            pool.shutdown(wait=True)
            ended = [future for future in futures if not future.cancelled() and future.exception() is None]
            interrupt.args = (_returned(future.result() for future in ended),)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _one_by_one(calls: Sequence[tuple[Any, ...]], on_done: Callable[[int], None] | None) -> list[Done[Any] | Failed]:
    outcomes: list[Done[Any] | Failed] = []
    try:
        for call in calls:
            outcomes.append(attempt(*call))
            if on_done:
                on_done(len(outcomes))
    except KeyboardInterrupt as interrupt:
        interrupt.args = (_returned(outcomes),)
        raise
    return outcomes


def _returned(outcomes: Iterable[Done[Any] | Failed]) -> Returned:
    return Returned(tuple(outcome.value for outcome in outcomes if isinstance(outcome, Done)))


class _Interruptible:
    """Tasks in threads that can be interrupted: each ends at its next step in Python."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._is_interrupted = False

    def attempt(self, *call: Any) -> Done[Any] | Failed:
        """As `attempt`; an interrupt passes through."""
        ident = threading.get_ident()
        with self._lock:
            if self._is_interrupted:
                raise _StoppedError
            self._running.add(ident)
        try:
            return attempt(*call)
        finally:
            with self._lock:
                self._running.discard(ident)

    def interrupt(self) -> None:
        """Interrupts what runs; what begins later is not begun."""
        with self._lock:
            self._is_interrupted = True
            for ident in self._running:
                # The only way into another thread; what it waits for outside of Python ends first.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(_StoppedError))


@contextmanager
def arrow_threads(count: int | None) -> Iterator[None]:
    """Lets Arrow compute with no more threads than this, for the length of a `with` block; None does not change it."""
    before = pa.cpu_count()
    if count is not None:
        pa.set_cpu_count(min(count, before))
    try:
        yield
    finally:
        pa.set_cpu_count(before)


def _follow(futures: Sequence[Future[Any]], on_done: Callable[[int], None] | None) -> None:
    """Wait for all futures, notifying progress; the first that raised (an interrupt) ends the waiting."""
    # Not `wait` again and again, which looks at all that are left each time.
    for count, future in enumerate(as_completed(futures), start=1):
        future.result()
        if on_done:
            on_done(count)


def _batches(source: pa.Table | TaskRows[Any] | Iterable[pa.RecordBatch], env: Env) -> Iterable[pa.RecordBatch]:
    if isinstance(source, pa.Table):
        batches: list[pa.RecordBatch] = source.to_batches(max_chunksize=BATCH_ROWS)
        return batches
    if isinstance(source, TaskRows):
        return (batch for task in source.tasks for batch in source.read(env, task))
    return source


def _split(batch: pa.RecordBatch, group: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each group in a batch, ascending by group, in the batch's order within a group."""
    numbers = group.to_numpy()
    if len(numbers) == 0:
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
    rows = batch.take(pa.array(order)) if len(starts) > 1 else batch
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), rows.slice(start, end - start)


class _Shelf:
    """Batches by group, in arrival order; written to a separate file whenever memory is full.

    Invariant: a group's rows are its batches in `_files` in file order, followed by those in `_buffered`.
    """

    def __init__(self, directory: str, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._buffered: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._buffered_bytes = 0
        self._files: list[tuple[str, Mapping[int, range]]] = []

    def add(self, group: int, rows: pa.RecordBatch) -> None:
        """Append rows to a group."""
        self._buffered[group].append(rows)
        self._buffered_bytes += rows.nbytes
        if self._buffered_bytes > self._bytes_max:
            self._spill()

    def groups(self) -> list[int]:
        """All groups, ascending."""
        spilled = {group for _, groups in self._files for group in groups}
        return sorted(spilled | self._buffered.keys())

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of one group in arrival order, in batches of about `BATCH_ROWS`; each file is opened when met."""
        return coalesce(self._pieces(group))

    def _pieces(self, group: int) -> Iterator[pa.RecordBatch]:
        for path, groups in self._files:
            if group in groups:
                with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
                    for index in groups[group]:
                        yield reader.get_batch(index)
        yield from self._buffered.get(group, ())

    def _spill(self) -> None:
        """Moves all batches from memory to a file; `_files` gets its path and the numbers of each group's batches."""
        path = os.path.join(self._directory, f"{len(self._files)}.arrow")
        groups: dict[int, range] = {}
        first, schema = 0, next(iter(self._buffered.values()))[0].schema
        with on_temporary_files(), pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for group, batches in sorted(self._buffered.items()):
                pieces = list(coalesce(batches))
                for piece in pieces:
                    writer.write_batch(piece)
                groups[group] = range(first, first + len(pieces))
                first += len(pieces)
        self._files.append((path, groups))
        self._buffered.clear()
        self._buffered_bytes = 0


def ahead(items: Iterator[T], size_of: Callable[[T], int]) -> Generator[T]:
    """The same items, made by a thread beside the caller's while it is busy with the ones before.

    It is ahead by a few times `_AHEAD_BYTES`, however many items that are.

    Raises: what making an item raises, at the latest where that item would come.
    """

    def some() -> list[T]:
        found: list[T] = []
        size_bytes = 0
        for item in items:
            found.append(item)
            size_bytes += size_of(item)
            if size_bytes >= _AHEAD_BYTES:
                break
        return found

    try:
        with ThreadPoolExecutor(1, thread_name_prefix="paimon-ahead") as pool:
            made = deque(pool.submit(some) for _ in range(2))
            while found := made.popleft().result():
                made.append(pool.submit(some))
                yield from found
    finally:
        # Only now: an iterator that is at work cannot be closed.
        if isinstance(items, Generator):
            items.close()


def coalesce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with small batches joined until they have `BATCH_ROWS` rows, or many bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        size_bytes += batch.nbytes
        if rows >= BATCH_ROWS or size_bytes >= _BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
