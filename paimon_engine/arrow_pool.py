"""Lets Arrow and the C library keep memory for the next batch while tasks run here; why says `arrow_memory`."""

from __future__ import annotations

import os
import threading
from functools import cache

import pyarrow as pa

from paimon_engine.arrow_memory import POOL, POOL_VARIABLE

_KEPT_BLOCK_BYTES = 31 << 20
"""A little less than the largest block from which the C library learns (`DEFAULT_MMAP_THRESHOLD_MAX`)."""


class _PoolUse:
    """Lets Arrow take memory from `POOL` while tasks run in this process, unless the environment chooses another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: pa.MemoryPool | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1 and os.environ.get(POOL_VARIABLE, POOL) == POOL:
                self._before = pa.default_memory_pool()
                is_there = POOL == "jemalloc" and POOL in pa.supported_memory_backends()
                pa.set_memory_pool(pa.jemalloc_memory_pool() if is_there else pa.system_memory_pool())
                _keep_freed_memory()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._before is not None:
                pa.set_memory_pool(self._before)
                self._before = None


POOL_USE = _PoolUse()
"""One for the process: the pool is the process's own."""


@cache
def _keep_freed_memory() -> None:
    """Lets the C library keep freed memory for later use, up to twice the size of the block freed here.

    NumPy's arrays come from there, whatever pool Arrow takes. It learns from the largest block that is given back;
    until then it would return memory to the operating system after each batch, and pay for every page of the next
    one. No page of the block itself is ever touched. Source: `M_TRIM_THRESHOLD`, `M_MMAP_THRESHOLD` in mallopt(3).

    Once in a process, since the library does not forget. Each further block could leave a gap in its addresses that is
    too small for the next one.
    """
    pa.allocate_buffer(_KEPT_BLOCK_BYTES, memory_pool=pa.system_memory_pool())
