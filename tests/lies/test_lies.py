"""Actions and reads over a store that lies; see `trial`. Every action over every lie: `python -m tests.lies`."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from paimon_engine.action_table import ACTIONS, Action, name_of
from paimon_engine.errors import PaimonError
from tests.lies.trial import READS, Lie, Stage, lies_for, run_again, run_careless, run_trial
from tests.support.faulty_storage import FaultyStorage
from tests.support.world import World
from tests.support.world.scenarios import BY_NAME, branched
from tests.support.world.world import ROOT

SEED = random.randrange(1 << 30) if os.environ.get("PAIMON_TEST_EXPLORE") == "1" else 3
TRIALS = 1

# What the longer run has found.
FOUND = [
    ("append rows", "a snapshot is denied: error"),
    ("compact fully", "a snapshot is denied: error"),
    ("expire snapshots", "snapshot: in other parts"),
    ("expire changelogs", "all lists: in part"),
    ("roll back to a snapshot", "snapshot: without the newest 5"),
    ("roll back to a snapshot", "snapshot: in other parts"),
    ("restore quarantines", "snapshot: not there"),
    ("cluster", "all lists: in part"),
]


@pytest.mark.parametrize("name", BY_NAME)
def test_an_action_over_a_lying_store_notices_or_does_no_harm(name: str) -> None:
    stage = Stage(BY_NAME[name])

    for lie in random.Random(f"{name} {SEED}").sample(stage.lies(), TRIALS):
        print(lie)
        run_trial(stage, lie)
        run_again(stage, lie)
    run_careless(stage)


@pytest.mark.parametrize(("name", "lie"), FOUND)
def test_lies_that_once_did_harm_do_none(name: str, lie: str) -> None:
    stage = Stage(BY_NAME[name])

    chosen = next(one for one in stage.lies() if one.name == lie)
    run_trial(stage, chosen)
    run_again(stage, chosen)


class _Noting:
    """Replaces a world, and records the actions that it is to run."""

    now_ms, root = 0, ROOT

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def run(self, spec: Action, user: str = "job") -> None:
        self.asked.add(name_of(spec))


def test_every_action_has_a_scenario() -> None:
    """Actions that these tests never pause, fail or lie to must be found."""
    noting: Any = _Noting()
    for scenario in BY_NAME.values():
        with suppress(AttributeError):
            scenario.act(noting)

    # Scenarios that write go by the facade, those of quarantines and partitions look for them first. Scenarios begin
    # with a table, so that none creates it (`faults/test_create_table`); and tags of days are made one by one, so that a
    # trial finds neither what was before nor what is after (`test_day_tags`).
    by_table = {"write", "restore", "empty_quarantine", "create_table", "create_day_tags"}
    assert noting.asked | by_table == ACTIONS.keys()


@cache
def _table() -> tuple[World, frozenset[str]]:
    """A table with branches and tags, and the directories that reads of it list."""
    world = World()
    branched(world)
    counted = FaultyStorage(world.inner)
    counted.arm(None)
    for read in READS.values():
        read(world.through(counted))
    world.through(world.inner)
    return world, frozenset(path for verb, path in counted.calls if verb in ("list", "walk"))


@pytest.mark.parametrize("name", READS)
def test_a_read_over_a_lying_store_is_right_or_refused(name: str) -> None:
    world, listed = _table()
    read = READS[name]
    right = read(world)
    directories = {path.rstrip("/").removeprefix(world.root).strip("/") for path in listed}

    outcomes = [_result_of(world, name, lie) for lie in lies_for(iter(sorted(directories)))]

    assert right in outcomes
    wrong = [result for result in outcomes if result is not None and result != right]
    assert wrong == []


def _result_of(world: World, name: str, lie: Lie) -> object:
    try:
        return READS[name](world.through(lie.over(world.inner)))
    except PaimonError:
        return None
    finally:
        world.through(world.inner)
