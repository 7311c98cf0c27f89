"""Sequence fields with nulls anywhere: the rows are those that Java 0.9 reads and compacts, for every merge engine."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, open_table
from tests.support.canonical import Row, assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

SCHEMA = pa.schema([
    pa.field("k", pa.int32(), nullable=False),
    *(pa.field(name, pa.int32()) for name in ("a", "b", "c", "v", "w")),
])  # fmt: skip
FIELDS = [["k", "INT NOT NULL"], *([name, "INT"] for name in ("a", "b", "c", "v", "w"))]
ORDERED = {"sequence.field": "a,b,c"}
AGGREGATION = {"merge-engine": "aggregation", **ORDERED}
PARTIAL_UPDATE = {"merge-engine": "partial-update"}
GROUPS = {**PARTIAL_UPDATE, "fields.a,b.sequence-group": "v", "fields.c.sequence-group": "w"}
RETRACTING = ["+I", "+I", "+U", "-D"]
ADDING = ["+I", "+U"]
ENGINES: dict[str, tuple[dict[str, str], list[str]]] = {
    "deduplicate": ({"merge-engine": "deduplicate", **ORDERED}, RETRACTING),
    "aggregation": (AGGREGATION, RETRACTING),
    "aggregation, some functions": ({**AGGREGATION, "fields.v.aggregate-function": "sum"}, RETRACTING),
    "aggregation, newest values": ({**AGGREGATION, "fields.default-aggregate-function": "last_value"}, RETRACTING),
    "aggregation, retracts ignored": ({**AGGREGATION, "fields.b.ignore-retract": "true"}, RETRACTING),
    "partial-update": ({**PARTIAL_UPDATE, **ORDERED}, ADDING),
    "partial-update, groups": (GROUPS, RETRACTING),
    "partial-update, groups that add up": ({**GROUPS, "fields.v.aggregate-function": "sum"}, ADDING),
    "partial-update, one group of three": ({**PARTIAL_UPDATE, "fields.a,b,c.sequence-group": "v,w"}, RETRACTING),
}


def history(random: Random, kinds: list[str], *, once: bool) -> list[list[list[Any]]]:
    """Writes of rows, each with its kind; few values, so that ages are often equal in front and null behind.

    With `once`, all keys are added first and then come once per write at most: a sequence group that gets nothing but
    retracts of a key in one merge makes Java 0.9 write a file that it cannot read.
    """
    writes = []
    for step in range(4):
        count = random.choice([1, 6, 12])
        keys = random.choices(range(6), k=count)
        if once:
            keys = list(range(6)) if step == 0 else random.sample(range(6), k=min(count, 6))
        chosen = ["+I"] if once and step == 0 else kinds
        writes.append([
            [random.choice(chosen), key, *random.choices([None, 1, 2], k=3), *random.choices([None, 3, 4], k=2)]
            for key in keys
        ])  # fmt: skip
    return writes


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("seed", seeds(2))
def test_nulls_in_sequence_fields_order_as_in_java(tmp_path: Path, oracle: JavaPaimon, name: str, seed: int) -> None:
    engine, kinds = ENGINES[name]
    options = {"bucket": "1", "write-only": "true", **engine}
    ours = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    theirs = str(tmp_path / "java" / "db.db" / "t")
    create = {"fields": FIELDS, "primary_keys": ["k"], "partition_keys": [], "options": options}
    oracle.call("create_table", table=theirs, **create)
    once = engine["merge-engine"] == "partial-update" and kinds is RETRACTING
    for step, rows in enumerate(history(Random(f"{name} {seed}"), kinds, once=once)):
        columns = zip(*(row[1:] for row in rows), strict=True)
        arrays = [pa.array(column, pa.int32()) for column in columns]
        ours.write(pa.table(arrays, schema=SCHEMA), row_kinds=[row[0] for row in rows])
        oracle.call("write", table=theirs, rows=rows, kinds=True)
        if step == 2:
            ours.compact(full=True)
            oracle.call("compact", table=theirs)

        expected: list[Row] = oracle.read(theirs)
        assert_same_rows(rows_of(ours.to_arrow()), expected, f"what we read after step {step}")
        assert_same_rows(oracle.read(ours.path), expected, f"what Java reads of ours after step {step}")


@pytest.mark.parametrize("function", ["sum", "product", "max", "min"])
def test_a_default_function_leaves_sequence_fields_alone(tmp_path: Path, function: str) -> None:
    """Unlike 0.9, which adds up sequence fields too, so that the row gets an age that none of its versions had."""
    options = {"bucket": "1", **AGGREGATION, "fields.default-aggregate-function": function}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    for row in ((1, 5, 2, 3), (2, 3, None, 4)):
        table.write(pa.table([[value] for value in (1, *row[:3], row[3], None)], schema=SCHEMA))

    (row,) = table.to_arrow().to_pylist()

    assert (row["a"], row["b"], row["c"]) == (2, 3, 2)


ZEROS_AND_NAN = [[0.0, -0.0], [-0.0, 0.0], ["NaN", "Infinity"], ["Infinity", "NaN"], ["NaN", None], ["NaN", "NaN"]]


@pytest.mark.parametrize("options", [{"sequence.field": "s"}, {**PARTIAL_UPDATE, "fields.s.sequence-group": "v"}])
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_zeros_and_nan_are_as_old_as_in_java_2(
    paimon2: JavaPaimon, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    path = tmp_path / "db.db" / "t"
    fields = [["k", "INT NOT NULL"], ["s", kind], ["v", "STRING"]]
    paimon2.call("create_table", table=str(path), fields=fields, primary_keys=["k"], options={"bucket": "1", **options})
    for number in range(2):
        rows = [[key, values[number], "older" if number == 0 else "later"] for key, values in enumerate(ZEROS_AND_NAN)]
        paimon2.call("write", table=str(path), rows=rows, options={"write-only": "true"})
    expected = {row[0]: row[2] for row in paimon2.read(path)}

    table = open_table(str(path))
    assert dict(zip(*table.to_arrow(["k", "v"]).to_pydict().values(), strict=True)) == expected
    table.compact(full=True)

    assert dict(zip(*table.to_arrow(["k", "v"]).to_pydict().values(), strict=True)) == expected
    assert {row[0]: row[2] for row in paimon2.read(path)} == expected
