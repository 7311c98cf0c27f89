"""Tags of days over a store that lies or fails: none names another snapshot than that of its day's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine.action_table import Action
from paimon_engine.actions.create_day_tags import CreateDayTags
from paimon_engine.actions.tags import CreateTag
from paimon_engine.errors import PaimonError
from tests.faults.trial import trials
from tests.lies.trial import Lie, Stage
from tests.support.world import HOUR_MS, START_MS, World
from tests.support.world.check import assert_sound
from tests.support.world.scenarios import Scenario

DAY_MS = 24 * HOUR_MS
FIRST_DAY_MS = START_MS // DAY_MS * DAY_MS
DAYS = ["2027-01-15", "2027-01-16", "2027-01-17", "2027-01-18"]


def _written_on_some_days(world: World) -> None:
    """Two commits on each of the days but the third; the last day has ended."""
    world.create(keys=("p", "k"), bucket=1)
    for day in (0, 1, 3):
        for hour in (9, 23):
            world.now_ms = FIRST_DAY_MS + day * DAY_MS + (hour - 1) * HOUR_MS
            world.write({day: hour})
    world.now_ms = FIRST_DAY_MS + 4 * DAY_MS


def _run(spec: Action) -> Callable[[World], Any]:
    return lambda world: world.run(spec)


ACTS: dict[str, tuple[Action, dict[str, int]]] = {
    "all days": (CreateDayTags(), dict(zip(DAYS, (2, 4, 4, 6), strict=True))),
    "one day": (CreateTag("2027-01-16", as_of="2027-01-17 00:00"), {"2027-01-16": 4}),
}


def _stage(name: str) -> Stage:
    return Stage(Scenario(f"tag {name}", _written_on_some_days, _run(ACTS[name][0])))


def _tags(stage: Stage) -> dict[str, int]:
    tags = stage.world.table().tags()
    return dict(zip(tags["tag_name"].to_pylist(), tags["snapshot_id"].to_pylist(), strict=True))


def _assert_right(stage: Stage, expected: dict[str, int], disturbed: object) -> None:
    """No tag is wrong, and a second run, undisturbed, makes those that are missing."""
    assert_sound(stage.world.handle)
    assert _tags(stage).items() <= expected.items(), disturbed
    stage.scenario.act(stage.world)
    assert _tags(stage) == expected, disturbed


@pytest.mark.parametrize("name", ACTS)
def test_no_lie_makes_a_tag_of_another_day(name: str) -> None:
    stage, expected = _stage(name), ACTS[name][1]
    assert _tags(stage) == expected
    outcomes = set()

    for lie in stage.lies():
        stage.reset()
        outcomes.add(_outcome(stage, lie))
        _assert_right(stage, expected, lie)

    assert "succeeded" in outcomes


def _outcome(stage: Stage, lie: Lie) -> str:
    try:
        stage.scenario.act(stage.world.through(lie.over(stage.world.inner)))
    except PaimonError as error:
        return type(error).__name__
    finally:
        stage.world.through(stage.world.inner)
    return "succeeded"


@pytest.mark.parametrize("name", ACTS)
def test_no_failure_makes_a_tag_of_another_day(name: str) -> None:
    stage, expected = _stage(name), ACTS[name][1]

    for number, way in trials(stage):
        stage.reset()
        outcome, result = stage.attempt(fail_at=number, way=way)
        _assert_right(stage, expected, (number, way, outcome, result))
