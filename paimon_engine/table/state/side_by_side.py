"""Requests that do not need each other's answers, made at the same time where a store takes long to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from paimon_engine.env import Env
from paimon_engine.executor import LocalExecutor, values
from paimon_engine.storage.create import CONDITIONAL_PUT
from paimon_engine.table.state.handle import TableHandle

T = TypeVar("T")
R = TypeVar("R")

READER_THREADS: Final = 8
"""Requests in flight when this process reads many small files: enough to hide a store's latency."""
_REQUESTS_AT_ONCE: Final = 16


def side_by_side(table: TableHandle, calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, in their order: in threads on object stores, one after another elsewhere.

    Raises: what the first call that failed raises, once all have ended.
    """
    if len(calls) < 2 or table.paths.root.partition("://")[0] not in CONDITIONAL_PUT:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(len(calls), _REQUESTS_AT_ONCE), thread_name_prefix="paimon-requests") as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def in_threads(table: TableHandle, run: Callable[[TableHandle, T], R], items: Sequence[T]) -> list[R]:
    """`run(table, item)` for every item, some at a time, in this process.

    Raises: the error of the first item that failed.
    """

    def one(_env: Env, item: T) -> R:
        return run(table, item)

    return values(LocalExecutor(READER_THREADS, env=table.env).map(one, items, config=table.config))
