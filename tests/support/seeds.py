"""Which random cases a test tries."""

from __future__ import annotations

import os


def seeds(usual: int) -> range:
    """The first `usual` seeds, or those that `PAIMON_TEST_SEEDS=first-last` names."""
    chosen = os.environ.get("PAIMON_TEST_SEEDS")
    if not chosen:
        return range(usual)
    first, _, last = chosen.partition("-")
    return range(int(first), int(last or first) + 1)
