"""The long run: `python -m tests.lies` runs every action with every lie of a store, some thousand trials."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.lies.trial import Stage, run_again, run_careless, run_trial
from tests.support.long_run import Trial, main
from tests.support.world.scenarios import BY_NAME


def trials(scenario: str) -> Iterator[Trial]:
    """The scenario's action over a store that ignores create-if-absent, and over each lie, once and repeated."""
    stage = Stage(BY_NAME[scenario])
    yield "careless", partial(run_careless, stage)
    for lie in stage.lies():
        yield lie.name, partial(run_trial, stage, lie)
        yield f"again: {lie.name}", partial(run_again, stage, lie)


if __name__ == "__main__":
    main("tests.lies", __doc__, list(BY_NAME), trials)
