"""Calls of the store fail in the middle of every action; see `trial`. All calls in all ways: `python -m tests.faults`."""

from __future__ import annotations

import os
import random

import pytest

from tests.faults.trial import run_trial, trials
from tests.support.faulty_storage import DOWN
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import BY_NAME, SCENARIOS

SEED = random.randrange(1 << 30) if os.environ.get("PAIMON_TEST_EXPLORE") == "1" else 5
TRIALS = 3

# What the longer run has found, as (scenario, verb and part of the path, way).
FOUND = [
    ("append rows", "create snapshot", "error"),
    ("compact fully", "create snapshot", "error"),
    ("delete rows", "writer index", "no reply, done"),
    ("rewrite file indexes", "writer .index", "no reply, done"),
    ("analyze", "writer statistics", "no reply, done"),
    ("rescale", "list schema", "late"),
    ("fast-forward", "list branch-b/tag", "late"),
    ("expire snapshots", "list tag", "late"),
    ("expire changelogs", "list tag", "late"),
    ("purge", "list tag", "late"),
    ("restore quarantines", "open quarantine/", "short"),
    ("create a branch of a snapshot", "list schema", "late"),
    ("create a branch of a tag", "read schema", "short"),
    ("roll back to a tag that has expired", "create snapshot", DOWN),
]


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_a_call_that_fails_gives_a_typed_error_and_a_repeat_finishes(name: str):
    chance = random.Random(f"{name} {SEED}")
    stage = Rehearsal(BY_NAME[name])

    for number, way in chance.sample(list(trials(stage)), TRIALS):
        print(f"call {number} {stage.calls[number]}: {way}")
        run_trial(stage, number, way)


@pytest.mark.parametrize(("name", "call", "way"), FOUND)
def test_calls_that_once_did_harm_do_none(name: str, call: str, way: str):
    stage, (verb, part) = Rehearsal(BY_NAME[name]), call.split()

    chosen = [number for number, (made, path) in enumerate(stage.calls) if made == verb and part in path]

    assert chosen
    for number in chosen:
        run_trial(stage, number, way)
