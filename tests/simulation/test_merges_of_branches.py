"""Branches that are written, merged into each other, compacted, expired, renamed, deleted and made again, in any order.

One seed is one history. A merge adds all rows of the branch that the table lacks, and none twice, or is refused.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from tests.support.seeds import seeds

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])
STEPS = 30
ACTS = ("write", "write", "merge", "merge", "compact", "expire", "make", "delete", "rename", "forward", "go back")
NAMES = ("a", "b", "c")


class History:
    def __init__(self, root: Path, chance: random.Random) -> None:
        self.catalog = Catalog(str(root))
        self.chance = chance
        self.written = 0
        self.branches = ["main"]
        self.outcomes: Counter[str] = Counter()
        self.catalog.create_table("db.t", schema=SCHEMA, options={"bucket": -1})
        self.write("main")
        self.table().create_tag("fork")

    def table(self, branch: str = "main") -> Table:
        return self.catalog.table("db.t" if branch == "main" else f"db.t$branch_{branch}")

    def keys(self, branch: str) -> list[int]:
        return sorted(self.table(branch).to_arrow()["k"].to_pylist())

    def unused(self) -> str | None:
        return next((name for name in NAMES if name not in self.branches), None)

    def step(self) -> None:
        act, branch = self.chance.choice(ACTS), self.chance.choice(self.branches)
        print(act, branch)
        match act:
            case "write":
                self.write(branch)
            case "merge":
                self.merge(self.chance.choice(self.branches), branch)
            case "compact":
                self.table(branch).compact(full=True)
            case "expire":
                self.table(branch).expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
            case "make":
                self.make()
            case "forward" if branch != "main" and self.chance.random() < 0.5:
                self.forward(branch)
            case "go back" if self.chance.random() < 0.5:
                self.go_back(branch)
            case "delete" if branch != "main":
                self.table().delete_branch(branch)
                self.branches.remove(branch)
            case "rename" if branch != "main" and self.unused() is not None:
                self.table().rename_branch(branch, str(self.unused()))
                self.branches.append(str(self.unused()))
                self.branches.remove(branch)

    def write(self, branch: str) -> None:
        self.written += 1
        self.table(branch).write(pa.table({"k": [self.written]}, SCHEMA))

    def make(self) -> None:
        """A branch from the first commit, or from what the table is now."""
        name = self.unused()
        if name is None:
            return
        tag = "fork"
        if self.chance.random() < 0.3 or "fork" not in self.table().tags()["tag_name"].to_pylist():
            self.written += 1
            tag = f"tag-{self.written}"
            self.table().create_tag(tag)
        self.table().create_branch(name, tag=tag)
        self.branches.append(name)

    def forward(self, branch: str) -> None:
        theirs = self.keys(branch)
        try:
            self.table().fast_forward(branch)
        except (ConflictError, InvalidArgumentError, NotFoundError):
            return
        assert self.keys("main") == theirs

    def go_back(self, branch: str) -> None:
        kept = self.table(branch).snapshots()["snapshot_id"].to_pylist()
        # Tags that branches were made from stay.
        with suppress(InvalidArgumentError):
            self.table(branch).rollback(snapshot=self.chance.choice(kept))

    def merge(self, source: str, into: str) -> None:
        if source == into:
            return
        before, theirs = self.keys(into), self.keys(source)
        try:
            done = self.table(into).merge_branch(source)
        except (ConflictError, InvalidArgumentError) as refused:
            print("refused:", refused)
            self.outcomes["refused"] += 1
            assert self.keys(into) == before
            return
        print(source, "merged into", into)
        self.outcomes[done.status] += 1
        assert self.keys(into) == sorted({*before, *theirs})


@pytest.mark.parametrize("seed", seeds(60))
def test_a_merge_brings_all_rows_once_or_is_refused(seed: int, tmp_path: Path) -> None:
    history = History(tmp_path, random.Random(seed))
    history.make()
    for _ in range(STEPS):
        history.step()
    print(history.outcomes)
