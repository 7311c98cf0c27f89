"""Requests to a store that takes long to answer: how many are under way at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final

REQUESTS_AT_ONCE: Final = 16
"""Of one piece of work, such as a deletion of many files or a read ahead."""


def for_each(act: Callable[[str], None], paths: Iterable[str]) -> None:
    """`act(path)` for every path once, some at a time.

    Raises: the error of the first path that failed, once all have ended.
    """
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="paimon-requests") as pool:
        for _ in pool.map(act, dict.fromkeys(paths)):
            pass


def request_pool() -> ThreadPoolExecutor:
    """The threads of this process for requests that wait for no others."""
    return _pool(os.getpid())


@lru_cache(maxsize=1)
def _pool(_process: int) -> ThreadPoolExecutor:
    # A forked process has none of its parent's threads.
    return ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="paimon-ranges")
