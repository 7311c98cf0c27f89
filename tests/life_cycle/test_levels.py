"""A history in which compactions write to middle levels: random histories write too little for more than one level.

The oldest run is larger than all later ones together, so a compaction that is not full stops above it. Deletes must
then be kept, since they apply to rows of the oldest run.
"""

from __future__ import annotations

import random

import pytest

from paimon_engine.actions.compact import Compact
from tests.life_cycle.world import Call, World
from tests.support.world import HOUR_MS, MAIN, verbs
from tests.support.world.kinds import of_name
from tests.support.world.verbs import Put

ROWS, STEPS = 60, 5
KINDS = ("key", "changelog-input")


@pytest.mark.parametrize("name", KINDS)
def test_deletes_of_rows_in_a_lower_run_survive_compactions_to_a_middle_level(name: str) -> None:
    world = World(of_name(name))
    chance = random.Random(name)

    def act(verb: verbs.Verb) -> None:
        world.now_ms += HOUR_MS
        table = world.table(MAIN)
        world.begin(Call(verb.name, MAIN, lambda: world.do(verb, table), writes=True), None)

    def row(key: int) -> dict[str, object]:
        return {"dt": "2024-01-01", "k": key, "v": chance.randrange(100), "w": chance.randbytes(300).hex()}

    def put(row_kind: str, keys: list[int]) -> None:
        changes = [(row_kind, row(key)) for key in keys]
        act(verbs.write(world.kind, Put(changes, tells_kinds=True)))

    put("+I", list(range(ROWS)))
    act(verbs.same_rows("compact", Compact(full=True), shows_all=True))
    levels: set[int] = set()
    for _ in range(STEPS):
        put("-D", chance.sample(range(ROWS), 2))
        put("+I", chance.sample(range(ROWS), 2))
        act(verbs.same_rows("compact", Compact()))
        levels.update(world.table(MAIN).files().column("level").to_pylist())

    assert levels & {1, 2, 3, 4}, levels
    world.finish()
