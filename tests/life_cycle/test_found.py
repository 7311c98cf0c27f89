"""What histories have found, told shortly."""

from __future__ import annotations

import pytest

from paimon_engine import ConflictError, InvalidArgumentError, SetOption
from tests.life_cycle.kinds import of_name
from tests.life_cycle.pairs import write
from tests.life_cycle.world import HOUR_MS, MAIN, Call, World, one_thread


@pytest.mark.parametrize("early_waits", [True, False], ids=["the early handle waits", "the late handle waits"])
def test_two_first_writes_with_other_numbers_of_buckets_do_not_mix(early_waits: bool) -> None:
    with one_thread():
        world = World(of_name("key-partitioned"))
        early = world.table(MAIN, 1)
        world.table(MAIN).alter([SetOption("bucket", "3")])
        late = world.table(MAIN)
        waits, goes = (early, late) if early_waits else (late, early)
        call = Call("write", MAIN, lambda: write(world, waits, 1, 2, 3, 4), writes=True, exclusive=False)
        world.begin(call, 12)
        assert world.paused
        world.now_ms += HOUR_MS
        world.begin(Call("write", MAIN, lambda: write(world, goes, 1, 2, 3, 4), writes=True, exclusive=False), None)

        world.resume(0, None)

        assert call.actor is not None
        assert isinstance(call.actor.error, ConflictError | InvalidArgumentError)
        world.finish()
