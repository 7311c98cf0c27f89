"""Chain tables whose branches are written, compacted, expired, dropped from and rolled back in any order.

One seed is one history. A model has the rows of each day in each branch; a day is read from the first branch that has
it, or made of the last complete day before it and the changes since.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Table
from paimon_engine.errors import ConflictError, InvalidArgumentError
from tests.support.chain_tables import OPTIONS
from tests.support.seeds import seeds
from tests.support.world import Place

SCHEMA = pa.schema(
    [pa.field("dt", pa.string(), False), pa.field("k", pa.int64(), False), ("v", pa.int64()), ("w", pa.int64())]
)
BRANCHES = {"scan.fallback-snapshot-branch": "complete", "scan.fallback-delta-branch": "delta"}
DAYS = [f"202701{day:02}" for day in range(4, 12)]
STEPS = 40
ACTS = {
    "write": 10,
    "overwrite": 2,
    "compact": 4,
    "make complete": 4,
    "drop": 1,
    "expire snapshots": 3,
    "expire partitions": 1,
    "roll back": 2,
    "rescale": 3,
    "read": 2,
}

Version = tuple[int, str, int | None]
"""When a row was written, its kind, and its value."""
Days = Mapping[str, Mapping[int, Version]]
"""Rows of a branch by day and key, those that delete others included."""


class Chain:
    """A chain table, and what each of its branches should have."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.place = Place()
        options = {**OPTIONS, "file.format": self.chance.choice(("parquet", "orc"))}
        self.place.make(SCHEMA, ["dt", "k"], ["dt"], options)
        self.days: dict[str, Days] = {"main": {}, "complete": {}, "delta": {}}
        self.then: dict[str, dict[int, Days]] = {branch: {} for branch in self.days}
        self.writes = 0
        for branch in BRANCHES.values():
            self.place.table().create_branch(branch)
        for branch in self.days:
            changes = [{"change": "set_option", "key": key, "value": value} for key, value in BRANCHES.items()]
            self.place.table(branch).alter(changes)

    # ── the model ───────────────────────────────────────────────────────────────────────────────

    def merged(self, *parts: Mapping[int, Version]) -> dict[int, Version]:
        """The newest row of each key."""
        return dict(sorted((item for part in parts for item in part.items()), key=lambda item: item[1][0]))

    def of_day(self, day: str) -> dict[int, Version]:
        """What the day is made of, of complete days before it and changes."""
        complete, delta = self.days["complete"], self.days["delta"]
        anchor = max((one for one in complete if one < day), default="")
        changes = [rows for one, rows in delta.items() if anchor < one <= day]
        return self.merged(complete.get(anchor, {}), *changes)

    def expected(self) -> Iterator[tuple[str, int, int, int | None]]:
        main, complete, delta = self.days.values()
        for day in {*main, *complete, *delta}:
            rows = main.get(day) or complete.get(day) or self.of_day(day)
            yield from ((day, k, number, value) for k, (number, kind, value) in rows.items() if kind != "-D")

    def set(self, branch: str, day: str, rows: Mapping[int, Version] | None) -> None:
        kept = {one: found for one, found in self.days[branch].items() if one != day}
        self.days[branch] = {**kept, day: rows} if rows else kept

    # ── steps ───────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        self.place.now_ms += 1000
        act = self.chance.choices(list(ACTS), list(ACTS.values()))[0]
        branch = self.chance.choice(("main", "complete", "delta", "delta", "delta"))
        day, table = self.chance.choice(DAYS), self.place.table(branch)
        print(act, branch, day)
        try:
            self.take(act, branch, day, table)
        except (ConflictError, InvalidArgumentError) as error:
            print("refused:", error)
        for name in self.days:
            latest = self.place.table(name).latest_snapshot_id() or 0
            for number in range(max(self.then[name], default=0) + 1, latest + 1):
                self.then[name][number] = self.days[name]
        self.check()

    def take(self, act: str, branch: str, day: str, table: Table) -> None:
        match act:
            case "write":
                rows = self.put(branch, day, table)
                self.set(branch, day, self.merged(self.days[branch].get(day, {}), rows))
            case "overwrite":
                rows = self.put(branch, day, table, overwrite={"dt": day})
                self.set(branch, day, rows)
                if branch == "delta":
                    self.set("complete", day, None)
            case "compact":
                table.compact(full=self.chance.random() < 0.5)
            case "make complete" if self.days["delta"]:
                day = self.chance.choice(sorted(self.days["delta"]))
                rebuilds = self.chance.random() < 0.3
                table.compact_chain_table({"dt": day}, rebuild=rebuilds)
                if rebuilds or day not in self.days["complete"]:
                    made = {key: row for key, row in self.of_day(day).items() if row[1] != "-D"}
                    self.set("complete", day, made)
            case "drop" if branch != "delta":
                table.drop_partition({"dt": day})
                self.set(branch, day, None)
            case "expire snapshots":
                table.expire_snapshots(retain_max=self.chance.choice((1, 2)), retain_min=1, older_than="0 s")
            case "expire partitions":
                self.expire_partitions(table)
            case "roll back":
                known = [n for n in table.snapshots()["snapshot_id"].to_pylist() if n in self.then[branch]]
                if known:
                    number = self.chance.choice(known)
                    table.rollback(number)
                    self.days[branch] = self.then[branch][number]
                    self.then[branch] = {n: found for n, found in self.then[branch].items() if n <= number}
            case "rescale":
                table.alter([{"change": "set_option", "key": "bucket", "value": self.chance.choice("123")}])
                self.place.table(branch).rescale()

    def put(self, branch: str, day: str, table: Table, **more: Any) -> dict[int, Version]:
        self.writes += 1
        rows: dict[int, Version] = {}
        for key in self.chance.sample(range(6), 3):
            kind = self.chance.choice(("+I", "+I", "-D")) if branch == "delta" else "+I"
            rows[key] = (self.writes, kind, self.chance.choice((None, self.writes)))
        data = [{"dt": day, "k": key, "v": number, "w": value} for key, (number, _, value) in rows.items()]
        kinds = [kind for _, kind, _ in rows.values()]
        table.write(pa.Table.from_pylist(data, SCHEMA), row_kinds=kinds, **more)
        return rows

    def expire_partitions(self, table: Table) -> None:
        """Whatever goes, the days that are left have the same rows."""
        before = sorted(self.expected(), key=str)
        table.expire_partitions(f"{self.chance.randint(1, 10)} d", max_num=self.chance.choice((None, 1)))
        for name in BRANCHES.values():
            left = {entry["partition"] for entry in self.place.table(name).files().select(["partition"]).to_pylist()}
            self.days[name] = {day: rows for day, rows in self.days[name].items() if f"{{{day}}}" in left}
        days = {day for found in self.days.values() for day in found}
        assert sorted(self.expected(), key=str) == [row for row in before if row[0] in days]

    def check(self) -> None:
        expected = sorted(self.expected(), key=str)
        assert rows_of(self.place.table()) == expected
        day, key = self.chance.choice(DAYS), self.chance.randrange(6)
        found = rows_of(self.place.table(), where=f"dt = '{day}' AND k <= {key}")
        assert found == [row for row in expected if row[0] == day and row[1] <= key]


def rows_of(table: Table, **which: Any) -> list[Any]:
    return sorted((tuple(row.values()) for row in table.to_arrow(**which).to_pylist()), key=str)


@pytest.mark.parametrize("seed", seeds(12))
def test_days_have_the_rows_of_what_they_are_made_of(seed: int) -> None:
    chain = Chain(seed)
    for _ in range(STEPS):
        chain.step()
    for branch in chain.days:
        assert chain.place.table(branch).verify("rows").problems == ()
