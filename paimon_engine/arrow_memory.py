"""Where Arrow takes memory from.

Arrow's own default, mimalloc, hands freed memory back so soon that a compaction spends up to a fifth of its processor
time on touching it again. With the C library's allocator or jemalloc it is a tenth of that; jemalloc takes less memory.

Arrow reads the environment once, when it first needs memory. The engine's own processes can choose the pool for all of
it; in others, `arrow_pool` does for Python's buffers while tasks run, and buffers inside of Parquet do not change.
"""

from __future__ import annotations

import os
import sys
from typing import Final

POOL_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"
"""Environment variable that chooses where Arrow's memory comes from."""
POOL: Final = "jemalloc" if sys.platform in ("linux", "darwin") else "system"
"""The name of what we choose, unless the environment does. Arrow has no jemalloc on Windows."""
SETTINGS: Final = {
    POOL_VARIABLE: POOL,
    "JE_ARROW_MALLOC_CONF": "background_thread:false,dirty_decay_ms:-1,muzzy_decay_ms:-1",
}
"""Environment of processes that carry out work and end. What they have freed waits for their next batch: Arrow's
jemalloc gives it back within a second, which costs 4 % of a compaction, and no less memory at its peak. The thread that
gives it back must go too: if it waits without an end, it takes a tenth of a processor (measured)."""


def choose_for_process() -> None:
    """Lets Arrow take all memory from `POOL`, unless the environment chooses, or Arrow is already loaded."""
    if "pyarrow" not in sys.modules:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
