"""Timestamps before 1970 in ORC files that we write: Java, pypaimon and pypaimon-rust read them as they are."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

ROWS = 600
EDGES_NS = [
    0,
    1,
    -1_000_000_000,
    -1_000_000_000 + 999_999,
    -1_000_000_001,
    -1_999_000_001,
    -2_000_000_000,
    -9_223_372_036_000_000_000,
    2**63 - 1,
]
"""Around the first millisecond of the last second before 1970, and the first and last nanosecond that ORC holds."""


def nanos(random: Random, precision: int) -> int:
    """A timestamp of that many digits, before 1970 more often than after."""
    step = 10 ** (9 - precision)
    drawn = random.choice([*EDGES_NS, random.randint(-(2**61), 2**60), random.randint(-(10**11), 10**10)])
    value = drawn // step * step
    # ORC cannot distinguish the last second before 1970 from the first one after it.
    return value if not -1_000_000_000 + 999_999 < value < 0 else value - 3_600_000_000_000


def unit_of(precision: int) -> tuple[str, int]:
    """The unit of Arrow's timestamps for a precision, and how many nanoseconds it has."""
    return next(
        (unit, 10 ** (9 - digits))
        for unit, digits in [("s", 0), ("ms", 3), ("us", 6), ("ns", 9)]
        if precision <= digits
    )


def table_of(catalog: Catalog, options: dict[str, str], seed: int) -> tuple[Table, pa.Table]:
    """A table with timestamps of every precision, and its rows."""
    random = Random(seed)
    fields, columns = [], []
    for precision in range(10):
        unit, size = unit_of(precision)
        for zone in (None, "UTC"):
            plain = pa.timestamp(unit, zone)
            kind = [
                plain,
                pa.list_(plain),
                pa.map_(plain, pa.int32()),
                pa.struct([pa.field("x", pa.int32()), pa.field("t", plain)]),
            ][(precision + bool(zone)) % 4]
            name = f"t{precision}{'z' if zone else ''}"
            fields.append(pa.field(name, kind))
            columns.append(pa.array([nested(random, kind, precision, size) for _ in range(ROWS)], kind))
    rows = pa.table(
        [pa.array(range(ROWS), pa.int32()), *columns],
        schema=pa.schema([pa.field("k", pa.int32(), nullable=False), *fields]),
    )
    table = catalog.create_table("db.t", schema=rows.schema, primary_keys=["k"], options=options)
    table.write(rows)
    return table, rows


def nested(random: Random, kind: pa.DataType, precision: int, size: int) -> Any:
    def one() -> int:
        return nanos(random, precision) // size

    if random.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [one() if random.random() < 0.8 else None for _ in range(random.randrange(4))]
    if pa.types.is_map(kind):
        return [(key, random.randrange(9)) for key in {one() for _ in range(random.randrange(4))}]
    if pa.types.is_struct(kind):
        return {"x": 1, "t": one() if random.random() < 0.8 else None}
    return one()


OPTIONS = [{"file.format": "orc", "bucket": "1", "file.compression": codec} for codec in ("zstd", "none")]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options["file.compression"])
def test_all_readers_agree(tmp_path: Path, oracle: JavaPaimon, pypaimon: PyPaimon, options: dict[str, str]):
    table, rows = table_of(Catalog(str(tmp_path)), options, seed=OPTIONS.index(options))

    assert_same_rows(rows_of(table.to_arrow()), rows_of(rows), "read by us")
    assert_same_rows(rows_of(rows), oracle.read(table.path), "read by Java")
    for client in ("python", "rust"):
        # pypaimon returns points in time in microseconds.
        names = [field.name for field in rows.schema if "ns, tz" not in str(field.type)]
        theirs = pypaimon.read(table.path, client=client)
        assert_same_rows(rows_of(rows.select(names)), rows_of(theirs.select(names)), f"read by {client}")
    early = "1969-12-31T00:00:00"
    found = oracle.read(table.path, filter=["<", "t8", early])
    assert_same_rows(found, rows_of(table.to_arrow(where=f"t8 < TIMESTAMP '{early}'")), "filtered by Java")
    assert 0 < len(found) < ROWS
    oracle.assert_sound(table.path)


FAR = [
    [
        1,
        "9999-12-31T23:59:59.999",
        "0001-01-01T00:00:00.123456Z",
        ["9999-12-31T23:59:59", None],
        [["2024-01-01T00:00:00.5", [1, "9999-12-31T23:59:59.9", [["a", "1700-01-01T00:00:00.000001"]]]]],
    ],
    [2, None, None, None, None],
    [3, "1969-12-31T12:00:00.123", "1950-01-01T00:00:00.123456Z", [], [["1970-01-01T00:00:00", None]]],
    [4, "2300-01-01T00:00:00", "9999-12-31T23:59:59.999999Z", ["1600-01-01T00:00:00"], []],
]
FAR_FIELDS = [
    ["k", "INT"],
    ["a", "TIMESTAMP(3)"],
    ["b", "TIMESTAMP(6) WITH LOCAL TIME ZONE"],
    ["c", "ARRAY<TIMESTAMP(0)>"],
    ["d", "MAP<TIMESTAMP(6), ROW<x INT, t TIMESTAMP(1), m MAP<STRING, TIMESTAMP(6)>>>"],
]


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_timestamps_of_java_that_arrow_cannot_count(tmp_path: Path, oracle: JavaPaimon, codec: str):
    options = {"file.format": "orc", "file.compression": codec}
    many = [[100 + k, f"{2000 + k}-01-01T00:00:00.{k:03}", None, None, None] for k in range(1_000)]
    oracle.run(
        tmp_path / "t",
        [{"op": "create_table", "fields": FAR_FIELDS, "options": options}, {"op": "write", "rows": FAR + many}],
    )

    table = open_table(str(tmp_path / "t"))
    expected = oracle.read(tmp_path / "t")
    assert_same_rows(table.to_arrow(), expected)
    assert_same_rows(table.to_arrow(["a"]), [[row[1]] for row in expected])
    assert table.to_arrow(["c"], where="a > TIMESTAMP '9999-01-01'").num_rows == 1


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_java_reads_timestamps_that_arrow_cannot_count(tmp_path: Path, oracle: JavaPaimon, codec: str):
    options = {"file.format": "orc", "file.compression": codec}
    rows = _far_rows()
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, primary_keys=["k"], options=options)
    table.write(rows.slice(0, 700))
    table.write(rows.slice(500))
    expected = oracle.read(table.path)
    assert_same_rows(rows_of(rows), expected)

    assert table.compact(full=True).status == "committed"

    assert_same_rows(rows_of(rows), rows_of(table.to_arrow()))
    assert_same_rows(rows_of(rows), oracle.read(table.path))
    oracle.assert_sound(table.path)


def _far_rows() -> pa.Table:
    """Timestamps of each unit that Arrow has but nanoseconds, from the year 1 to 9999."""
    random = Random(9)
    begin_s, end_s = -62_135_596_800, 253_402_300_799

    def one(per_second: int) -> int:
        seconds = random.choice([random.randint(begin_s, end_s), random.randint(-10, 10), begin_s, end_s])
        found = seconds * per_second + random.choice([0, random.randrange(per_second)])
        return found if not -per_second < found < 0 else per_second

    columns: dict[str, pa.Array] = {"k": pa.array(range(1_200), pa.int32())}
    for precision in (0, 1, 3, 6):
        unit, nanos = unit_of(precision)
        for zone in (None, "UTC"):
            kind = pa.timestamp(unit, zone)
            values = [None if random.random() < 0.1 else one(10**9 // nanos) for _ in range(1_200)]
            columns[f"t{precision}{zone or ''}"] = pa.array(values, kind)
    lists = [[one(1_000_000) for _ in range(random.randrange(3))] for _ in range(1_200)]
    columns["l"] = pa.array(lists, pa.list_(pa.timestamp("us")))
    table = pa.table(columns)
    return table.cast(table.schema.set(0, pa.field("k", pa.int32(), nullable=False)))
