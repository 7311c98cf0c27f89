"""The long run: `python -m tests.partial_views` tries every action on every part of every table.

A scenario is a table and an action, such as "interrupted, compact".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.partial_views.subjects import SUBJECTS, whole
from tests.partial_views.trial import DEEDS, can_know, run_trial
from tests.partial_views.views import View, views
from tests.support.long_run import Trial, main

_SEEDS = 100
"""Random parts of each table, in addition to its prefixes, suffixes and all but one file."""
SCENARIOS = {f"{subject}, {deed}": (subject, deed) for subject in SUBJECTS for deed in DEEDS}


def trials(scenario: str) -> Iterator[Trial]:
    """The action on each part of the table."""
    subject, deed = SCENARIOS[scenario]
    paths = sorted(whole(subject).files)
    for view in views(paths, seeds=range(_SEEDS)):
        if can_know(deed, view, paths):
            yield view.name, partial(_outcome, subject, view, deed)


def _outcome(subject: str, view: View, deed: str) -> str:
    outcome = run_trial(subject, view, deed)
    assert not outcome.lost, f"lost {outcome.lost}; it said {outcome.message}"
    return "nothing lost"


if __name__ == "__main__":
    main("tests.partial_views", __doc__, list(SCENARIOS), trials)
