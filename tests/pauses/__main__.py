"""The long run: `python -m tests.pauses` pauses every writing action at every call, during every clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.pauses.trial import WRITING, pauses, run_pause
from tests.support.long_run import Trial, main
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import BY_NAME


def trials(scenario: str) -> Iterator[Trial]:
    """Each call of the scenario's action, paused during each clean-up."""
    stage = Rehearsal(BY_NAME[scenario])
    for pause in pauses(stage):
        yield f"{pause} {stage.calls[pause.number]}", partial(run_pause, stage, pause)


if __name__ == "__main__":
    main("tests.pauses", __doc__, WRITING, trials)
