"""Random histories of a table in tasks of Spark: it has the rows, the changes and the buckets that one thread gives it.

`PAIMON_TEST_SEEDS=100-200` tries other seeds than the usual ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_engine import Catalog, Table
from paimon_engine.executor import LocalExecutor
from paimon_engine.spark.executor import SparkExecutor
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.key_places import assert_each_key_in_one_bucket
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

pytestmark = pytest.mark.spark

KIND = "kind"
SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        ("v", pa.int64()),
        ("s", pa.string()),
    ]
)
STEPS = 5
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.ignore-retract": "true"}


class Kind(NamedTuple):
    """What is created, and which kinds its rows may have."""

    options: Mapping[str, str]
    keys: tuple[str, ...] = ("p", "k")
    partitions: tuple[str, ...] = ("p",)
    row_kinds: tuple[str, ...] = ("+I", "+U", "-D")


KINDS = {
    "buckets": Kind({"bucket": "3"}),
    "one bucket": Kind({"bucket": "1", "num-sorted-run.compaction-trigger": "2"}, partitions=()),
    "dynamic buckets": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "15"}),
    "across partitions": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "15"}, keys=("k",)),
    "postponed": Kind({"bucket": "-2"}),
    "lookup": Kind({"bucket": "2", "changelog-producer": "lookup"}),
    "full compaction": Kind({"bucket": "2", "changelog-producer": "full-compaction"}),
    "input": Kind({"bucket": "2", "changelog-producer": "input"}),
    "vectors": Kind({"bucket": "2", "deletion-vectors.enabled": "true"}),
    "sequence": Kind({"bucket": "2", "sequence.field": "v"}),
    "partial": Kind({"bucket": "2", "merge-engine": "partial-update", "ignore-delete": "true"}),
    "sums": Kind({"bucket": "2", **SUMS}, row_kinds=("+I",)),
    "first row": Kind({"bucket": "2", "merge-engine": "first-row"}, row_kinds=("+I",)),
    "append": Kind({"bucket": "-1", "deletion-vectors.enabled": "true"}, keys=(), row_kinds=("+I",)),
    "append in buckets": Kind({"bucket": "3", "bucket-key": "k"}, keys=(), row_kinds=("+I",)),
}

USUAL = ("dynamic buckets", "across partitions", "postponed")
"""Those whose rows Spark's tasks give their buckets."""


class Pair:
    """A table that Spark's tasks change, and one that a thread changes, in the same way."""

    def __init__(self, session: SparkSession, folder: Path, kind: Kind, seed: int) -> None:
        self.session = session
        self.kind = kind
        self.chance = Random(seed)
        executors = {"spark": SparkExecutor(session), "here": LocalExecutor(1)}
        self.catalogs = {name: Catalog(str(folder / name), executor=one) for name, one in executors.items()}
        self.tables = {
            name: catalog.create_table(
                "db.t",
                schema=SCHEMA,
                primary_keys=kind.keys,
                partition_keys=kind.partitions,
                options={"target-file-size": "4 kb", **kind.options},
            )
            for name, catalog in self.catalogs.items()
        }

    def step(self) -> str:
        """Does something in both; what it was."""
        drawn = self.chance.random()
        if drawn < 0.6:
            return self.write()
        if drawn < 0.85:
            full = self.chance.random() < 0.5
            self.both(lambda table: table.compact(full=full))
            return f"compact full={full}"
        if self.kind.keys or "deletion-vectors.enabled" not in self.kind.options:
            return self.write()
        where = f"k < {self.chance.randrange(30)}"
        self.both(lambda table: table.delete(where))
        return f"delete {where}"

    def write(self) -> str:
        """Rows with different keys, since those of a DataFrame have no order."""
        chance = self.chance
        count = chance.choice([1, 5, 40])
        keys = chance.sample([(p, k) for p in "abc" for k in range(60)], count)
        if self.kind.keys == ("k",):
            keys = list({k: (p, k) for p, k in keys}.values())
        rows = pa.table(
            {
                "p": [p for p, _ in keys],
                "k": [k for _, k in keys],
                "v": [chance.choice([None, chance.randrange(100)]) for _ in keys],
                "s": [chance.choice([None, "", "x", "é" * 9]) for _ in keys],
            },
            SCHEMA,
        )
        if "sequence.field" in self.kind.options:
            # Equal ones would be put in the order of their arrival, which a DataFrame does not have.
            rows = rows.set_column(2, SCHEMA.field("v"), pa.array(chance.sample(range(10_000), len(keys)), pa.int64()))
        kinds = pa.array([chance.choice(self.kind.row_kinds) for _ in keys])
        overwrite = chance.choice([None] * 5 + [{}]) if set(kinds.to_pylist()) == {"+I"} else None
        frame = self.session.createDataFrame(rows.append_column(KIND, kinds)).repartition(chance.choice([1, 2, 5]))
        self.tables["spark"].write(frame, row_kinds=KIND, overwrite=overwrite)
        self.tables["here"].write(rows, row_kinds=kinds, overwrite=overwrite)
        return f"write {rows.append_column(KIND, kinds).to_pylist()} overwrite={overwrite}"

    def both(self, act: Any) -> None:
        for table in self.tables.values():
            act(table)

    def assert_alike(self, about: str) -> None:
        """Fails if their rows differ, or what their changelogs say; also if a key is in two buckets."""
        rows = {name: rows_of(table.to_arrow()) for name, table in self.tables.items()}
        assert_same_rows(rows["spark"], rows["here"], about)
        by_spark = self.tables["spark"]
        assert_same_rows(rows_of(by_spark.to_spark().toArrow()), rows["here"], f"read by Spark, {about}")
        if self.kind.options.get("changelog-producer", "none") != "none":
            logs = {name: rows_of(self.log(name)) for name in self.tables}
            assert_same_rows(logs["spark"], logs["here"], f"changes, {about}")

    def log(self, name: str) -> pa.Table:
        """All changes that the changelogs of a table's snapshots have."""
        log: Table = self.catalogs[name].table("db.t$audit_log")
        last = self.tables[name].latest_snapshot_id() or 0
        return log.to_arrow(incremental=(0, last), options={"incremental-between-scan-mode": "changelog"})


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    "kind", [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in KINDS]
)
def test_tasks_of_spark_do_what_a_thread_does(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str, seed: int
) -> None:
    pair = Pair(spark, tmp_path, KINDS[kind], seed)
    done: list[str] = []
    for _ in range(STEPS):
        done.append(pair.step())
        pair.assert_alike("\n".join(done))
    table = pair.tables["spark"]
    table.compact(full=True)
    pair.tables["here"].compact(full=True)
    pair.assert_alike("\n".join([*done, "compact full=True"]))

    assert table.verify("rows").problems == ()
    if kind == "dynamic buckets":
        assert_each_key_in_one_bucket(table)
    if kind != "postponed":
        oracle: JavaPaimon = request.getfixturevalue("oracle")
        assert_same_rows(rows_of(table.to_arrow()), oracle.read(table.path), schema=SCHEMA)
        oracle.assert_sound(table.path)
