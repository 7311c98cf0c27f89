"""Random actions on one table, with a check of all its files after each."""

from __future__ import annotations

import random

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.paths import MAIN_BRANCH
from tests.support.world.made_up import History

BRANCHES = ("dev", "test")
TAGS = "abcd"


class RandomLife:
    """Takes random steps; weights make interesting sequences likely: a tag, its files removed, then an expiry."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.history = History({"snapshot.num-retained.min": "1"}).write().write()
        self.steps: list[str] = []

    def step(self) -> None:
        branch = self.chance.choice([MAIN_BRANCH, MAIN_BRANCH, *self.branches()])
        weights = {
            self.write: 3,
            self.compact: 4,
            self.overwrite: 1,
            self.tag: 3,
            self.delete_tag: 2,
            self.expire: 3,
            self.roll_back: 1,
            self.roll_back_to_tag: 1,
            self.branch: 1,
        }
        action = self.chance.choices(list(weights), list(weights.values()))[0]
        self.steps.append(f"{action.__name__} {branch}")
        try:
            action(branch)
        except InvalidArgumentError as error:
            # A tag that a branch was made from must stay.
            assert "delete the branch first" in str(error)
        self.check()

    def check(self) -> None:
        self.history.assert_exact()

    def branches(self) -> list[str]:
        directory = self.history.handle.paths.branch_dir
        return [name for name in BRANCHES if self.history.storage.exists(f"{directory}/branch-{name}")]

    def snapshot_of(self, branch: str) -> int:
        return self.chance.choice(self.history.ids(branch)[-5:])

    def write(self, branch: str) -> None:
        self.history.write(branch=branch)

    def compact(self, branch: str) -> None:
        self.history.compact(branch=branch)

    def overwrite(self, branch: str) -> None:
        self.history.overwrite(f"o{len(self.steps)}", branch=branch)

    def tag(self, branch: str) -> None:
        mode = self.chance.choice(["ignore", "replace"])
        self.history.tag(self.chance.choice(TAGS), self.snapshot_of(branch), branch, if_exists=mode)

    def delete_tag(self, branch: str) -> None:
        self.history.delete_tag(self.chance.choice(self.history.tags(branch) or ["none"]), branch)

    def expire(self, branch: str) -> None:
        keep = self.chance.choice([1, 1, 2, 3])
        planned = self.history.expire(branch, retain_max=keep, dry_run=True)

        done = self.history.expire(branch, retain_max=keep)

        assert done.deleted == planned.deleted
        assert done.expired_snapshots == planned.expired_snapshots
        assert done.stopped == ()
        assert len(self.history.ids(branch)) <= keep

    def roll_back(self, branch: str) -> None:
        target = self.snapshot_of(branch)
        self.history.rollback(branch, snapshot=target)
        assert self.history.latest(branch) == target

    def roll_back_to_tag(self, branch: str) -> None:
        if self.history.tags(branch):
            done = self.history.rollback(branch, tag=self.chance.choice(self.history.tags(branch)))
            assert self.history.latest(branch) == done.snapshot_id

    def branch(self, _branch: str) -> None:
        free = [name for name in BRANCHES if name not in self.branches()]
        if free and self.history.tags():
            self.history.branch(free[0], self.chance.choice(self.history.tags()))
