"""A store with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable

from paimon_engine.storage import MemoryStorage


class ClockedStorage(MemoryStorage):
    """A store in memory whose clock stands still at the begin of the epoch, so that its files are old; or shows `now`."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: max(1, self.now()))
        self.now: Callable[[], int] = lambda: 1
        """In epoch milliseconds."""
