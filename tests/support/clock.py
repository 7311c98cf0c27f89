"""The real clock, for tests of what is older than now."""

from __future__ import annotations

import time

from paimon_engine.env import now_ms


def next_ms() -> int:
    """Epoch milliseconds of now, after the clock has moved on: all that was written before the call is older."""
    begun_ms = now_ms()
    while (found_ms := now_ms()) <= begun_ms:
        time.sleep(0.0005)
    return found_ms
