"""Two actions at once, one stopped before some of its calls of the store; `python -m tests.life_cycle --pairs` takes all.

Which calls differs from pair to pair, and so does the kind of the table, and whether its earlier snapshots have expired.
"""

from __future__ import annotations

import itertools

import pytest

from tests.life_cycle.pairs import FIRST, SECOND, sweep
from tests.support.world.kinds import of_name

KINDS = ("key-partitioned", "append-vectors", "changelog-full-compaction")
EVERY = 41


@pytest.mark.parametrize("first", FIRST)
def test_an_action_that_is_stopped_while_another_runs_does_no_harm(first: str) -> None:
    for number, second in enumerate(SECOND, start=7 * list(FIRST).index(first)):
        calls = itertools.count(5 * number % EVERY, EVERY)
        sweep(of_name(KINDS[number % len(KINDS)]), first, second, calls, expired=number % 4 == 0)
