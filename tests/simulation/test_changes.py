"""What a table says has changed, applied to the rows before, gives the rows after.

One seed is one history of writes, overwrites, deletes, compactions, rescales and dropped partitions. The rows of each
snapshot are known; each way to read changes is held against them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from tests.support.seeds import seeds
from tests.support.world.kinds import DATES, SCHEMA, Kind
from tests.support.world.model import Row

STEPS = 14
Key = tuple[Any, ...]
State = dict[Key, Row]
KINDS = (
    Kind("deltas", ("dt", "k"), ("dt",), {"bucket": "2"}),
    Kind("deltas-dynamic", ("dt", "k"), ("dt",), {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    Kind("input", ("dt", "k"), ("dt",), {"bucket": "2", "changelog-producer": "input"}),
    Kind("lookup", ("dt", "k"), ("dt",), {"bucket": "2", "changelog-producer": "lookup"}),
    Kind(
        "lookup-vectors",
        ("dt", "k"),
        ("dt",),
        {"bucket": "2", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    ),
    Kind("vectors", ("dt", "k"), ("dt",), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    Kind("full-compaction", ("dt", "k"), ("dt",), {"bucket": "2", "changelog-producer": "full-compaction"}),
    Kind("sequence", ("dt", "k"), ("dt",), {"bucket": "2", "sequence.field": "v"}),
    Kind("partial-update", ("dt", "k"), ("dt",), {"bucket": "2", "merge-engine": "partial-update"}, "partial-update"),
    Kind(
        "aggregation",
        ("dt", "k"),
        ("dt",),
        {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        "aggregation",
    ),
    Kind(
        "first-row",
        ("dt", "k"),
        ("dt",),
        {"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"},
        "first-row",
    ),
)


class History:
    """A table of a kind, its rows at each snapshot, and which snapshots changed rows other than by new rows."""

    def __init__(self, kind: Kind, seed: int, folder: Path) -> None:
        self.kind, self.chance = kind, random.Random(seed)
        self.catalog = Catalog(str(folder))
        kind.create(self.catalog)
        self.writes = 0
        self.states: dict[int, State] = {0: {}}
        self.replacing: set[int] = set()
        """Overwrites, which are in no delta and no changelog."""
        self.complete = {0}
        """Snapshots behind which no record waits in level 0."""

    def step(self) -> None:
        act = self.chance.choices(
            [self.write, self.compact, self.compact_fully, self.overwrite, self.drop, self.rescale], [8, 2, 4, 1, 1, 1]
        )[0]
        before = self.latest
        print(act.__name__)
        try:
            replaces = act(self.table)
        except (InvalidArgumentError, UnsupportedError) as error:
            print("refused:", error)
            return
        for number in range(before + 1, self.latest + 1):
            self.states[number] = self.rows(snapshot=number)
            if replaces:
                self.replacing.add(number)
        if act == self.compact_fully:
            self.complete.add(self.latest)

    @property
    def hides(self) -> bool:
        """Whether rows are seen only when they have been compacted."""
        return "deletion-vectors.enabled" in self.kind.options

    def replaces(self, old: int, new: int) -> bool:
        """Whether there was an overwrite after the one and up to the other."""
        return not self.replacing.isdisjoint(range(old + 1, new + 1))

    @property
    def table(self) -> Table:
        return self.catalog.table("db.t")

    @property
    def latest(self) -> int:
        return self.table.latest_snapshot_id() or 0

    def rows(self, **version: Any) -> State:
        return keyed(self.table.to_arrow(**version).to_pylist())

    def write(self, table: Table) -> bool:
        kinds, rows = [], []
        for _ in range(self.chance.randint(1, 6)):
            self.writes += 1
            dt, k = self.chance.choice(DATES), self.chance.randrange(6)
            value = self.chance.randrange(20) if "sequence.field" in self.kind.options else self.writes
            rows.append({"dt": dt, "k": k, "v": value, "w": self.chance.choice((None, "w"))})
            kinds.append(self.chance.choice(("+I", "+I", "-D") if self.kind.takes_deletes else ("+I",)))
        table.write(pa.Table.from_pylist(rows, SCHEMA).append_column("rowkind", pa.array(kinds)), row_kinds="rowkind")
        return False

    def overwrite(self, table: Table) -> bool:
        self.writes += 1
        row = {"dt": self.chance.choice(DATES), "k": self.chance.randrange(6), "v": self.writes, "w": None}
        table.write(pa.Table.from_pylist([row], SCHEMA), overwrite={"dt": row["dt"]})
        return True

    def drop(self, table: Table) -> bool:
        table.drop_partition({"dt": self.chance.choice(DATES)})
        return True

    def rescale(self, table: Table) -> bool:
        table.alter([{"change": "set_option", "key": "bucket", "value": self.chance.choice("123")}])
        self.table.rescale()
        return True

    def compact(self, table: Table) -> bool:
        table.compact()
        return False

    def compact_fully(self, table: Table) -> bool:
        table.compact(full=True)
        return False

    # ── what it says ────────────────────────────────────────────────────────────────────────────

    def changes(self, old: int, new: int, mode: str) -> list[Row]:
        log = self.catalog.table("db.t$audit_log")
        options = {"incremental-between-scan-mode": mode}
        return list(log.to_arrow(incremental=(old, new), options=options).to_pylist())


def keyed(rows: Iterable[Row]) -> State:
    found: State = {}
    for row in rows:
        key = (row["dt"], row["k"])
        assert key not in found, f"{key} is there twice"
        found[key] = row
    return found


def applied(state: State, changes: Iterable[Row]) -> State:
    now = dict(state)
    for change in changes:
        kind, row = change["rowkind"], {name: change[name] for name in SCHEMA.names}
        key = (row["dt"], row["k"])
        if kind in ("-D", "-U"):
            now.pop(key, None)
        else:
            now[key] = row
    return now


def latest_of(changes: Iterable[Row]) -> State:
    """The last change of each key."""
    return {(change["dt"], change["k"]): change for change in changes}


def assert_deltas(history: History, old: int, new: int) -> None:
    found = history.changes(old, new, "delta")
    one_by_one = [change for number in range(old, new) for change in history.changes(number, number + 1, "delta")]
    assert latest_of(found) == latest_of(one_by_one), (old, new)
    if not history.replaces(old, new):
        assert applied(history.states[old], found) == history.states[new], (old, new)


def assert_differences(history: History, old: int, new: int) -> None:
    found = history.changes(old, new, "diff")
    assert applied(history.states[old], found) == history.states[new], (old, new)


def assert_changelogs(history: History, old: int, new: int) -> None:
    """One after another: several at once are merged as Java does, which is odd."""
    if history.kind.options.get("changelog-producer") and not history.replaces(old, new):
        state = history.states[old]
        for number in range(old, new):
            state = applied(state, history.changes(number, number + 1, "changelog"))
        assert state == history.states[new], (old, new)


def pairs(history: History, among: Iterable[int]) -> list[tuple[int, int]]:
    every = [(old, new) for old, new in itertools.combinations(sorted(among), 2) if old]
    return history.chance.sample(every, min(10, len(every)))


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_changes_lead_from_the_rows_before_to_those_after(kind: Kind, seed: int, tmp_path: Path) -> None:
    history = History(kind, seed, tmp_path)
    for _ in range(STEPS):
        history.step()
    for old, new in pairs(history, range(1, history.latest + 1)):
        assert_differences(history, old, new)
        if not history.hides and kind.engine == "deduplicate" and "sequence.field" not in kind.options:
            assert_deltas(history, old, new)
    for old, new in pairs(history, history.complete):
        assert_changelogs(history, old, new)
