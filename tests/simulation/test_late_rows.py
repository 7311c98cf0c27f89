"""Rows that are prepared and committed later, lost replies, and others who act while a step is about to be committed.

One seed is one history. A model has the rows that each snapshot and tag should show. Others may roll back, rescale,
overwrite or compact what a step is based on; some steps are taken by handles that were opened long ago. What is refused
must have changed nothing. `tests.life_cycle` has more actions and kinds of tables, whose actors can be stopped anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Table
from paimon_engine.errors import ConflictError, InvalidArgumentError, OutcomeUnknownError, UnsupportedError
from paimon_engine.meta.schema import BucketMode
from tests.support.key_places import assert_each_key_in_one_bucket
from tests.support.seeds import seeds
from tests.support.unreliable_storage import UnreliableStorage
from tests.support.world import Place
from tests.support.world.kinds import DATES, SCHEMA, Kind
from tests.support.world.model import Row, Rows

KINDS = (
    Kind("append", (), ("dt",), {"bucket": "-1", "row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}),
    Kind("append-bucketed", (), ("dt",), {"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"}),
    Kind("key", ("dt", "k"), ("dt",), {"bucket": "2", "sequence.field": "v"}),
    Kind(
        "dynamic", ("dt", "k"), ("dt",), {"bucket": "-1", "sequence.field": "v", "dynamic-bucket.target-row-num": "2"}
    ),
)
"""Those of which it is known what rows mean that come late."""
STEPS = 30
FAULTS = 0.3
REFUSED = (ConflictError, InvalidArgumentError, UnsupportedError)
Act = Callable[[Table], None]


class History:
    """A table, and what it should have been at each snapshot."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.chance = random.Random(seed)
        self.place = Place()
        self.store = UnreliableStorage(self.place.inner, random.Random(seed))
        self.store.fault_share = 0
        kind.make(self.place)
        self.place.through(self.store)
        self.handles: list[Table] = []
        self.writes = 0
        self.now = Rows(kind)
        self.then: dict[int, Rows] = {}
        self.tags: dict[str, tuple[int, Rows]] = {}
        self.prepared: list[tuple[Any, list[Row]]] = []
        self.weights: dict[Act, int] = {
            self.write: 8,
            self.overwrite: 2,
            self.delete: 2,
            self.compact: 4,
            self.cluster: 1,
            self.rescale: 2,
            self.drop: 1,
            self.expire: 2,
            self.prepare: 3,
            self.commit: 4,
            self.compact_manifests: 1,
            self.remove_orphans: 1,
            self.roll_back: 2,
            self.roll_back_to_tag: 1,
            self.tag: 1,
            self.roll_back_as_latest: 1,
            self.open: 1,
        }
        self.alone: Collection[Act] = self.weights.keys() & {
            *(self.tag, self.open, self.roll_back, self.roll_back_to_tag, self.roll_back_as_latest)
        }
        """What depends on versions that were chosen before, so that nobody acts in between."""

    # ── one step ────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """A step of ours: its replies may be lost, and others may act before it is committed."""
        act = self.chance.choices(list(self.weights), list(self.weights.values()))[0]
        self.store.fault_share = FAULTS
        self.store.rival = None if act in self.alone else self.act_between
        try:
            self.take(act, self.until_known)
        finally:
            self.store.rival, self.store.fault_share = None, 0

    def act_between(self) -> None:
        """A step of somebody else, unless the one that it comes into has been committed already."""
        if (self.place.table().latest_snapshot_id() or 0) <= max(self.then, default=0):
            never = {self.tag, self.open, self.roll_back_as_latest, self.remove_orphans}
            acts = {act: weight for act, weight in self.weights.items() if act not in never}
            print("meanwhile", end=" ")
            self.take(self.chance.choices(list(acts), list(acts.values()))[0], self.until_known)

    def take(self, act: Act, how: Callable[[Act, Table], None]) -> None:
        self.place.now_ms += 1000
        is_old = self.handles and self.chance.random() < 0.2
        print(act.__name__)
        try:
            how(act, self.chance.choice(self.handles) if is_old else self.place.table())
        except REFUSED as error:
            print("refused:", error)
        latest = self.place.table().latest_snapshot_id() or 0
        for number in range(max(self.then, default=0) + 1, latest + 1):
            self.then[number] = self.now
        assert self.rows() == self.now

    def until_known(self, act: Act, table: Table) -> None:
        """Does the same again as long as the outcome is not known."""
        state = self.chance.getstate()
        try:
            act(table)
        except OutcomeUnknownError as error:
            print("again:", error)
            self.chance.setstate(state)
            self.until_known(act, table)

    def rows(self, **version: Any) -> Rows:
        return Rows(self.kind, self.place.table().to_arrow(**version).to_pylist())

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def drawn(self) -> list[Row]:
        self.writes += 1
        found = {}
        for _ in range(self.chance.randint(1, 6)):
            dt, k = self.chance.choice(DATES), self.chance.randrange(8)
            found[dt, k] = {"dt": dt, "k": k, "v": self.writes, "w": self.chance.choice((None, "w"))}
        return list(found.values())

    def add(self, rows: list[Row]) -> None:
        """Rows with a later `v` stay, where there are keys."""
        if self.kind.primary_keys:
            newest = {(row["dt"], row["k"]): row["v"] for row in self.now.rows}
            rows = [row for row in rows if row["v"] >= newest.get((row["dt"], row["k"]), 0)]
        self.now = self.now.after([("+I", row) for row in rows])

    def write(self, table: Table) -> None:
        rows = self.drawn()
        table.write(as_arrow(rows))
        self.add(rows)

    def overwrite(self, table: Table) -> None:
        rows = self.drawn()
        gone, where = {row["dt"] for row in rows}, {}
        if self.chance.random() < 0.5:
            where = {"dt": rows[0]["dt"]}
            rows = [row for row in rows if row["dt"] == where["dt"]]
            gone = {where["dt"]}
        table.write(as_arrow(rows), overwrite=where)
        self.now = self.now.without(lambda row: row["dt"] in gone)
        self.add(rows)

    def delete(self, table: Table) -> None:
        if self.kind.marks_rows:
            k, before = self.chance.randrange(8), self.now.rows
            table.delete(f"k = {k} AND w IS NOT NULL")
            # What others write meanwhile is deleted, too, if the delete has to begin again.
            every = self.now.without(lambda row: row["k"] == k and row["w"] is not None)
            known = self.now.without(lambda row: row["k"] == k and row["w"] is not None and row in before)
            self.now = known if self.rows() == known else every

    def drop(self, table: Table) -> None:
        date = self.chance.choice(DATES)
        table.drop_partition({"dt": date})
        self.now = self.now.without(lambda row: row["dt"] == date)

    def prepare(self, table: Table) -> None:
        """Not where keys choose their buckets, which is refused."""
        rows = self.drawn()
        self.prepared.append((table.prepare_write(as_arrow(rows)), rows))

    def commit(self, table: Table) -> None:
        if self.prepared:
            messages, rows = self.prepared.pop(self.chance.randrange(len(self.prepared)))
            if self.chance.random() < 0.2:
                table.abort(messages)
            else:
                table.commit(messages, commit_user=f"user of {rows[0]['v']}")
                self.add(rows)

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def compact(self, table: Table) -> None:
        table.compact(full=self.chance.random() < 0.5)

    def cluster(self, table: Table) -> None:
        if not self.kind.primary_keys and not self.kind.is_fixed:
            table.cluster(["k"])

    def rescale(self, table: Table) -> None:
        if self.kind.is_fixed:
            table.alter([{"change": "set_option", "key": "bucket", "value": self.chance.choice("123")}])
            if self.chance.random() < 0.7:
                self.place.table().rescale()

    def compact_manifests(self, table: Table) -> None:
        table.compact_manifests()

    def remove_orphans(self, table: Table) -> None:
        table.remove_orphan_files(older_than="0 s")

    # ── versions ────────────────────────────────────────────────────────────────────────────────

    def kept(self) -> list[int]:
        return list(self.place.table().snapshots()["snapshot_id"].to_pylist())

    def open(self, table: Table) -> None:
        self.handles.append(self.place.table())

    def expire(self, table: Table) -> None:
        table.expire_snapshots(retain_max=self.chance.choice((1, 2, 3)), retain_min=1, older_than="0 s")

    def tag(self, table: Table) -> None:
        if kept := self.kept():
            number, name = self.chance.choice(kept), f"t{len(self.tags)}"
            table.create_tag(name, number)
            self.tags[name] = number, self.then[number]

    def roll_back(self, table: Table) -> None:
        if kept := self.kept():
            number = self.chance.choice(kept)
            table.rollback(number)
            self.back_to(number, self.then[number])

    def roll_back_to_tag(self, table: Table) -> None:
        if names := sorted(self.tags.keys() & set(table.tag_names())):
            name = self.chance.choice(names)
            table.rollback(tag=name)
            self.back_to(*self.tags[name])

    def back_to(self, number: int, rows: Rows) -> None:
        self.now = rows
        self.then = {one: found for one, found in self.then.items() if one <= number}

    def roll_back_as_latest(self, table: Table) -> None:
        if kept := self.kept():
            number = self.chance.choice(kept)
            table.rollback_to_as_latest(number)
            self.now = self.then[number]

    # ── at the end ──────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """All versions, what differs between two, and all files."""
        for number in self.kept():
            assert self.rows(snapshot=number) == self.then[number], number
        for name in self.tags.keys() & set(self.place.table().tag_names()):
            assert self.rows(tag=name) == self.tags[name][1], name
        if self.kind.primary_keys and len(self.kept()) > 1:
            self.check_difference(*sorted(self.chance.sample(self.kept(), 2)))
        assert self.place.table().verify("rows").problems == ()
        if self.place.handle.schema.bucket_mode is BucketMode.DYNAMIC:
            assert_each_key_in_one_bucket(self.place.handle)

    def check_difference(self, old: int, new: int) -> None:
        """What came or changed, each key once. Rows that only look changed, as their file is new, may be there, too."""
        modes = {"incremental-between-scan-mode": "diff"}
        found = Rows(self.kind, self.place.table().to_arrow(incremental=(old, new), options=modes).to_pylist())
        keys = [(row["dt"], row["k"]) for row in found.rows]
        assert len(set(keys)) == len(keys), (old, new)
        changed = [row for row in self.then[new].rows if row not in self.then[old].rows]
        assert all(row in found.rows for row in changed), (old, new)


def as_arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("seed", seeds(25))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_version_has_the_rows_that_it_should(kind: Kind, seed: int) -> None:
    history = History(kind, seed)
    for _ in range(STEPS):
        history.step()
    history.place.now_ms += 1000
    history.take(history.remove_orphans, lambda act, table: act(table))
    history.check()
