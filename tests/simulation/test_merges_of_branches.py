"""Branches that are written, merged into each other, compacted, expired, renamed, deleted and made again, in any order.

One seed is one history. A merge into an append table adds all rows of the branch that the table lacks, and none twice.
In a table with keys, each partition is then what one of both had made of what the other one has; a merge of two that
both went on from there is refused.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from tests.support.seeds import seeds

SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("p", "k", "v")])
PARTITIONS = (0, 1)
STEPS = 30
ACTS = ("write", "write", "merge", "merge", "compact", "expire", "make", "delete", "rename", "forward", "go back")
NAMES = ("a", "b", "c")
FORK = "fork"


@dataclass(frozen=True)
class Version:
    """What a partition has: values by key, and the versions that it was made from."""

    values: Mapping[int, int] = field(default_factory=dict)
    before: tuple[Version, ...] = ()

    def is_from(self, other: Version) -> bool:
        return self is other or any(one is other for one in self.before)


State = Mapping[int, Version]
"""Of each partition."""


class History:
    """Branches of a table, and what each of them should have."""

    def __init__(self, root: Path, chance: random.Random, keys: tuple[str, ...], options: Mapping[str, Any]) -> None:
        self.catalog = Catalog(str(root))
        self.chance = chance
        self.is_keyed = bool(keys)
        self.written = 0
        self.tags: dict[str, State] = {}
        self.now: dict[str, State] = {"main": {partition: Version() for partition in PARTITIONS}}
        self.then: dict[str, dict[int, State]] = {"main": {}}
        """States by snapshot, where they are known."""
        self.catalog.create_table(
            "db.t", schema=SCHEMA, primary_keys=keys, partition_keys=["p"], options={"write-only": "true", **options}
        )
        self.write("main")
        self.tag(FORK)

    def table(self, branch: str = "main") -> Table:
        return self.catalog.table("db.t" if branch == "main" else f"db.t$branch_{branch}")

    def unused(self) -> str | None:
        return next((name for name in NAMES if name not in self.now), None)

    def note(self, branch: str, state: State) -> None:
        self.now[branch] = state
        latest = self.table(branch).latest_snapshot_id()
        assert latest is not None
        self.then.setdefault(branch, {})[latest] = state

    def check(self, branch: str) -> None:
        rows = self.table(branch).to_arrow().to_pylist()
        found = sorted((row["p"], row["k"], row["v"]) for row in rows)
        state = self.now[branch]
        assert found == sorted((p, k, v) for p, version in state.items() for k, v in version.values.items())

    def step(self) -> None:
        act, branch = self.chance.choice(ACTS), self.chance.choice([*self.now])
        print(act, branch)
        match act:
            case "write":
                self.write(branch)
            case "merge":
                self.merge(self.chance.choice([*self.now]), branch)
            case "compact":
                self.table(branch).compact(full=True)
                self.note(branch, self.now[branch])
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
                del self.now[branch], self.then[branch]
            case "rename" if branch != "main":
                self.rename(branch)

    def write(self, branch: str) -> None:
        self.written += 1
        partition, state = self.chance.choice(PARTITIONS), self.now[branch]
        old = state[partition]
        key = self.chance.randrange(5) if self.is_keyed else self.written
        new = Version({**old.values, key: self.written}, (*old.before, old))
        self.table(branch).write(pa.table({"p": [partition], "k": [key], "v": [self.written]}, SCHEMA))
        self.note(branch, {**state, partition: new})

    def tag(self, name: str) -> None:
        self.table().create_tag(name)
        self.tags[name] = self.now["main"]

    def make(self) -> None:
        """A branch from the first commit, or from what the table is now."""
        name, tag = self.unused(), FORK
        if name is None:
            return
        if self.chance.random() < 0.3 or FORK not in self.table().tags()["tag_name"].to_pylist():
            self.written += 1
            tag = f"tag-{self.written}"
            self.tag(tag)
        self.table().create_branch(name, tag=tag)
        self.note(name, self.tags[tag])

    def rename(self, branch: str) -> None:
        name = self.unused()
        if name is not None:
            self.table().rename_branch(branch, name)
            self.now[name], self.then[name] = self.now.pop(branch), self.then.pop(branch)

    def forward(self, branch: str) -> None:
        with suppress(ConflictError, InvalidArgumentError, NotFoundError):
            self.table().fast_forward(branch)
            first = min(self.then[branch])
            older = {number: state for number, state in self.then["main"].items() if number < first}
            self.then["main"] = {**older, **self.then[branch]}
            self.note("main", self.now[branch])

    def go_back(self, branch: str) -> None:
        kept = self.table(branch).snapshots()["snapshot_id"].to_pylist()
        known = [number for number in kept if number in self.then[branch]]
        if not known:
            return
        number = self.chance.choice(known)
        # Tags that branches were made from stay.
        with suppress(InvalidArgumentError):
            self.table(branch).rollback(snapshot=number)
            self.then[branch] = {one: state for one, state in self.then[branch].items() if one <= number}
            self.now[branch] = self.then[branch][number]

    def merge(self, source: str, into: str) -> None:
        if source == into:
            return
        try:
            done = self.table(into).merge_branch(source)
        except (ConflictError, InvalidArgumentError) as refused:
            print("refused:", refused)
            self.check(into)
            return
        print(source, "merged into", into, done.status)
        ours, theirs = self.now[into], self.now[source]
        self.note(into, {partition: self.merged(ours[partition], theirs[partition]) for partition in PARTITIONS})
        self.check(into)

    def merged(self, ours: Version, theirs: Version) -> Version:
        if ours.is_from(theirs):
            return ours
        if theirs.is_from(ours):
            return theirs
        assert not self.is_keyed, "both went on from what they had in common"
        return Version({**ours.values, **theirs.values}, (*ours.before, ours, *theirs.before, theirs))


@pytest.mark.parametrize("seed", seeds(60))
def test_a_merge_of_an_append_table_brings_all_rows_once_or_is_refused(seed: int, tmp_path: Path) -> None:
    live(History(tmp_path, random.Random(seed), (), {"bucket": -1}))


@pytest.mark.parametrize("seed", seeds(60))
def test_a_merge_of_a_table_with_keys_loses_no_change_or_is_refused(seed: int, tmp_path: Path) -> None:
    options = {"bucket": 1, "changelog-producer": random.Random(seed).choice(("none", "input"))}
    live(History(tmp_path, random.Random(seed), ("p", "k"), options))


def live(history: History) -> None:
    history.make()
    for _ in range(STEPS):
        history.step()
    for branch in history.now:
        history.check(branch)
