"""Random histories of writes, tags, branches, expiries and rollbacks: the store always contains what is needed.

After every action each snapshot and tag of each branch has all its files, and no file is there that none of them needs.
One seed is one history; a failure shows the steps that led to it.
"""

from __future__ import annotations

import pytest

from tests.actions.random_life import RandomLife

SEEDS = range(25)
STEPS = 60


@pytest.mark.parametrize("seed", SEEDS)
def test_the_store_contains_exactly_what_is_needed(seed: int) -> None:
    life = RandomLife(seed)
    for _ in range(STEPS):
        try:
            life.step()
        except Exception as error:
            error.add_note(f"seed {seed}: {', '.join(life.steps)}")
            raise
