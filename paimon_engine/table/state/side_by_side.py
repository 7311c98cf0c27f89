"""Requests that do not need each other's answers, made at the same time where a store takes long to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from paimon_engine.env import Env
from paimon_engine.errors import PaimonError
from paimon_engine.executor import Done, Failed, LocalExecutor, values
from paimon_engine.storage.create import CONDITIONAL_PUT
from paimon_engine.storage.requests import REQUESTS_AT_ONCE
from paimon_engine.table.state.handle import TableHandle

T = TypeVar("T")
R = TypeVar("R")

_AHEAD_MAX: Final = 32
"""Requests that `reading_ahead` may make without need when its caller stops early."""
_TRIED: Final = 4
"""Items that `in_threads` does one after another before it looks whether they wait."""
_WAIT_S: Final = 0.0005
"""An item that waits as long gains from threads; one that does not loses half of its time to the lock of Python."""


def is_on_object_store(table: TableHandle) -> bool:
    """Whether requests take so long that several should be under way at the same time."""
    return table.paths.root.partition("://")[0] in CONDITIONAL_PUT


def side_by_side(table: TableHandle, calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, in their order: in threads on object stores, one after another elsewhere.

    Raises: what the first call that failed raises, once all have ended.
    """
    if len(calls) < 2 or not is_on_object_store(table):
        return [call() for call in calls]
    with ThreadPoolExecutor(min(len(calls), REQUESTS_AT_ONCE), thread_name_prefix="paimon-requests") as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def some_at_a_time(table: TableHandle, run: Callable[[TableHandle, T], R], items: Iterable[T]) -> Iterator[R]:
    """`run(table, item)` for one item after another; on object stores some are under way at the same time.

    Raises: what an item raises, at the latest where its value would come.
    """
    left = iter(items)
    while some := list(islice(left, REQUESTS_AT_ONCE)):
        yield from side_by_side(table, [partial(run, table, item) for item in some])


def in_threads(table: TableHandle, run: Callable[[TableHandle, T], R], items: Sequence[T]) -> list[R]:
    """`run(table, item)` for every item, in this process: some at a time where a store makes them wait.

    A local disk seldom does, a directory of another machine may: so elsewhere than on object stores items are done one
    after another as long as they do not wait.

    Raises: the error of the first item that failed, once all have ended.
    """

    def one(_env: Env, item: T) -> R:
        return run(table, item)

    def done(some: Sequence[T], threads: int) -> list[Done[R] | Failed]:
        return LocalExecutor(threads, env=table.env).map(one, some, config=table.config)

    outcomes: list[Done[R] | Failed] = []
    waits = is_on_object_store(table)
    while not waits and len(outcomes) < len(items):
        some, before = items[len(outcomes) : len(outcomes) + _TRIED], _waited_s()
        outcomes += done(some, 1)
        waits = _waited_s() - before > _WAIT_S * len(some)
    return values(outcomes + done(items[len(outcomes) :], table.env.reader_threads))


def _waited_s() -> float:
    """Seconds that this thread has waited, but for a constant."""
    return time.monotonic() - time.thread_time()


def reading_ahead(
    table: TableHandle, read: Callable[[TableHandle, T], R], items: Sequence[T]
) -> Iterator[R | PaimonError]:
    """`read(table, item)` for one item after another, or the error that it raised.

    On object stores some are read ahead in threads: none for the first item, then up to twice as many each time, so
    that a caller who stops early has caused few requests that it did not need.
    """
    begin, size = 0, 1
    while begin < len(items):
        calls = [partial(_outcome, table, read, item) for item in items[begin : begin + size]]
        yield from side_by_side(table, calls)
        begin += size
        size = min(2 * size, _AHEAD_MAX) if is_on_object_store(table) else 1


def _outcome(table: TableHandle, read: Callable[[TableHandle, T], R], item: T) -> R | PaimonError:
    try:
        return read(table, item)
    except PaimonError as error:
        return error
