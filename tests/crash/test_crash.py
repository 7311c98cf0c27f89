"""Processes are killed in the middle of all kinds of jobs; see `campaign`. The longer run: `python -m tests.crash`."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from tests.crash.campaign import KINDS, Campaign, Worker, worker
from tests.support.world import verbs
from tests.support.world.verbs import Put, Verb

SEED = random.randrange(1 << 30) if os.environ.get("PAIMON_TEST_EXPLORE") == "1" else 11
KILLS = 8


@pytest.fixture(scope="module")
def forking() -> Iterator[Worker]:
    with worker() as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_killed_jobs_lose_nothing_and_are_finished_when_repeated(kind: str, tmp_path: Path, forking: Worker):
    print(f"seed {SEED}")

    tally = Campaign(tmp_path, kind, SEED, forking).run(KILLS)

    assert tally.kills.total() >= KILLS


def test_an_expiry_may_be_killed_before_every_other_of_its_changes(tmp_path: Path, forking: Worker):
    campaign = Campaign(tmp_path, "keyed", SEED, forking)
    rows = [("+I", {"p": "a", "k": 1, "v": 1})]
    for change in itertools.count(0, 2):
        for _ in range(3):
            campaign.carry_out(verbs.write(KINDS["keyed"], Put(rows)), dict)
        kills = campaign.tally.kills.total()
        deaths = iter([{"at": change}])
        campaign.carry_out(
            Verb("expire", ExpireSnapshots(1, 1, int(time.time() * 1000))), lambda found=deaths: next(found, {})
        )
        if campaign.tally.kills.total() == kills:
            break

    assert campaign.tally.kills["expire"] > 5
    campaign.clean()
