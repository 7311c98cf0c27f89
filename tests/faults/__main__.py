"""The long run: `python -m tests.faults` fails every call of every scenario in every way, some thousand trials."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.faults.trial import run_trial
from tests.faults.trial import trials as trials_of
from tests.support.long_run import Trial, main
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import BY_NAME, SCENARIOS


def trials(scenario: str) -> Iterator[Trial]:
    """Each call of the scenario's action, failing in each way."""
    stage = Rehearsal(BY_NAME[scenario])
    for number, way in trials_of(stage):
        yield f"call {number} {stage.calls[number]}, {way}", partial(run_trial, stage, number, way)


if __name__ == "__main__":
    main("tests.faults", __doc__, [scenario.name for scenario in SCENARIOS], trials)
