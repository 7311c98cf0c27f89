"""Processes are killed in the middle of all kinds of jobs; see `campaign`. The longer run: `python -m tests.crash`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.campaign import KINDS, Campaign, Worker, worker

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
