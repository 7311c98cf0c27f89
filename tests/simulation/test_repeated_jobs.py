"""Jobs, repeated without end among writers, expiries, rollbacks and kills: the rows of each are there once, or not at all.

One seed is one history, all in one thread: attempts and upkeep die at any of their changes to the store, and others act
in the middle of them. Where no other engine expires snapshots, an attempt that is left alone always ends; where one
does, an attempt may refuse, and never commits twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from paimon_engine.errors import ConflictError, NotFoundError, OutcomeUnknownError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.killed_storage import Killed
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History
from tests.support.world.world import QUICK

SEEDS = range(50)
STEPS = 30
CHANGES_MAX = 14
"""More changes than an attempt makes."""


class Play:
    """The table, the job, and what else happens."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.storage = EventStorage()
        self.history = History(QUICK, storage=self.storage).write("begin")
        self.has_foreigners = seed % 2 == 1
        self.others = [self.write, self.write, self.expire, self.tag]
        self.others += [self.expire_elsewhere] if self.has_foreigners else []
        self.jobs = ["job0"]
        self.job = "job0"
        self._attempts = 0

    def attempt(self) -> str:
        """What every named job does."""
        handle, identifier = self.history.handle, identifier_of(Maker.JOB)
        self._attempts += 1
        own = find_own_commit(handle, self.job, CommitKind.APPEND, identifier)
        if own.snapshot is not None:
            return "already_done"
        file = self.history.file(f"{self.job}-{self._attempts}")
        message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(file,))
        self.history.now_ms += 1
        request = CommitRequest([message], CommitKind.APPEND, self.job, identifier, checked_up_to=own.checked_up_to)
        outcome = commit(handle, request)
        assert isinstance(outcome, Committed)
        return "already_done" if outcome.by_other_attempt else "committed"

    def times(self) -> Counter[str]:
        """How often the rows of each job are in the table."""
        table = self.history.handle
        names = (entry.file.name.partition("-") for entry in live_entries(table, latest_snapshot(table)))
        return Counter(job for job, dash, _ in names if dash)

    # ── the others ──────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.history.write()

    def expire(self) -> None:
        self.history.expire(retain_max=self.chance.randint(1, 3), retain_min=1, older_than=self.history.now_ms)

    def expire_elsewhere(self) -> None:
        """As another engine does it."""
        ids = self.history.ids()
        gone = ids[: self.chance.randint(0, len(ids) - 1)]
        paths = self.history.handle.paths
        self.storage.delete([paths.snapshot(number) for number in gone])
        self.storage.overwrite(paths.earliest_hint, str(self.history.ids()[0]).encode())

    def tag(self) -> None:
        name = f"t{self.chance.randrange(4)}"
        if name in self.history.tags():
            self.history.delete_tag(name)
        else:
            self.history.tag(name)

    def roll_back(self) -> None:
        tags = self.history.tags()
        with suppress(ConflictError):
            if tags and self.chance.random() < 0.5:
                self.history.rollback(tag=self.chance.choice(tags))
            else:
                self.history.rollback(snapshot=self.chance.choice(self.history.ids()))

    # ── one after the other ─────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        self.job = self.chance.choice(self.jobs[-3:])
        match self.chance.choice(["attempt"] * 3 + ["kill"] * 4 + ["rival"] * 2 + ["others"] * 6 + ["back"]):
            case "attempt":
                self.alone()
            case "kill":
                self.killed(self.attempt)
            case "rival":
                rival = self.chance.choice([self.attempt, *self.others])
                self.storage.at(self.chance.randrange(CHANGES_MAX), rival, after=self.chance.random() < 0.5)
                with suppress(OutcomeUnknownError, ConflictError, NotFoundError):
                    assert self.attempt() in ("committed", "already_done")
                self.storage.disarm()
            case "others":
                other = self.chance.choice(self.others)
                self.killed(other) if self.chance.random() < 0.2 else other()
            case "back":
                if self.chance.random() < 0.3:
                    self.killed(self.roll_back)
                self.roll_back()
        assert set(self.times().values()) <= {1}

    def alone(self) -> None:
        """An attempt that nothing disturbs."""
        try:
            assert self.attempt() in ("committed", "already_done")
        except OutcomeUnknownError as error:
            assert self.has_foreigners, error
            assert "nothing was written" in str(error)
        else:
            assert self.times()[self.job] == 1
            self.jobs.append(f"job{len(self.jobs)}")

    def killed(self, act: Callable[[], Any]) -> None:
        def die() -> None:
            raise Killed

        self.storage.at(self.chance.randrange(CHANGES_MAX), die, after=self.chance.random() < 0.5)
        with suppress(Killed, OutcomeUnknownError, ConflictError):
            act()
        self.storage.disarm()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_is_done_once_no_matter_what_happens_between_its_attempts(seed: int) -> None:
    play = Play(seed)

    for _ in range(STEPS):
        play.step()
    play.alone()
