"""Filters on the values of keys of MAP columns."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, col, open_table
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.predicate import Condition, parse_where, to_arrow_expression
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.snapshots import latest_snapshot

INNER = pa.struct([("x", pa.int32()), ("tags", pa.map_(pa.string(), pa.int32()))])
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("r", INNER),
        pa.field("n", pa.map_(pa.int64(), pa.map_(pa.string(), INNER))),
        pa.field("m['plain']", pa.int32()),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {"k": 1, "m": [("a", 1), ("it's ['b']", 2)], "r": {"x": 1, "tags": [("a", 5)]}, "m['plain']": 7},
        {"k": 2, "m": [("a", None)], "r": {"x": 2, "tags": None}, "n": [(-3, [("q", {"x": 9, "tags": [("t", 1)]})])]},
        {"k": 3, "m": [], "r": None, "n": []},
        {"k": 4, "m": None, "n": [(-3, [])], "m['plain']": 8},
        {"k": 5, "m": [("a", 3), ("", 0)], "r": {"x": 5, "tags": [("a", 6), ("b", 7)]}},
    ],
    schema=SCHEMA,
)

CASES: list[tuple[str, Condition, list[int]]] = [
    ("m['a'] = 1", col("m")["a"] == 1, [1]),
    ("m['a'] > 0", col("m")["a"] > 0, [1, 5]),
    ("NOT m['a'] = 1", ~(col("m")["a"] == 1), [5]),
    ("m['a'] IS NULL", col("m")["a"].is_null(), [2, 3, 4]),
    ("m['a'] IS NOT NULL", col("m")["a"].is_not_null(), [1, 5]),
    ("m[''] IN (0, 1)", col("m")[""].is_in([0, 1]), [5]),
    ("element_at(m, 'a') BETWEEN 2 AND 4", col("m")["a"].between(2, 4), [5]),
    (r"m['it\'s [\'b\']'] = 2", col("m")["it's ['b']"] == 2, [1]),
    ("r.tags['a'] >= 6", col("r.tags")["a"] >= 6, [5]),
    ("r.tags['a'] = 5 OR r.x = 2", (col("r.tags")["a"] == 5) | (col("r.x") == 2), [1, 2]),
    ("n[-3]['q'].x = 9", col("n[-3]['q'].x") == 9, [2]),
    ("n[-3]['q'].tags['t'] = 1", col("n[-3]['q'].tags")["t"] == 1, [2]),
    ("n[-3] IS NOT NULL", col("n")[-3].is_not_null(), [2, 4]),
    ("`m['plain']` = 8", col("m['plain']") == 8, [4]),
]


def keys(rows: pa.Table) -> list[int]:
    return sorted(rows["k"].to_pylist())


@pytest.mark.parametrize(("text", "condition", "expected"), CASES, ids=[text for text, _, _ in CASES])
def test_values_of_maps_are_compared(text: str, condition: Condition, expected: list[int]):
    assert parse_where(text) == condition
    assert parse_where(str(condition)) == condition
    assert keys(ROWS.filter(to_arrow_expression(parse_where(text), ROWS.schema))) == expected


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        (pa.bool_(), True, "TRUE"),
        (pa.int8(), -128, "-128"),
        (pa.binary(), b"\0]", "X'005d'"),
        (pa.date32(), date(1, 1, 1), "DATE '0001-01-01'"),
        (pa.decimal128(38, 2), Decimal("-1.50"), "-1.50"),
        (pa.timestamp("us"), 1, "TIMESTAMP '1970-01-01 00:00:00.000001'"),
        (pa.time32("ms"), 7, "TIME '00:00:00.007'"),
    ],
)
def test_keys_of_every_type(kind: pa.DataType, key: Any, text: str):
    rows = pa.table({"k": [1, 2], "m": pa.array([[(key, "x")], []], pa.map_(kind, pa.string()))})

    assert keys(rows.filter(to_arrow_expression(parse_where(f"m[{text}] = 'x'"), rows.schema))) == [1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("r['a'] = 1", "does not exist|no column"),
        ("k[0] = 1", "no column"),
        ("m[1] = 1", "does not fit"),
        ("n[1.5] IS NULL", "does not fit"),
        ("m = 1", "a key of a MAP"),
        ("m['a'] = 'x'", "does not fit"),
        ("m[k] = 1", "cannot use 'k'"),
        ("m['a', 'b'] = 1", "cannot use"),
    ],
)
def test_what_cannot_be_looked_up_is_said(text: str, problem: str):
    with pytest.raises(InvalidArgumentError, match=problem):
        to_arrow_expression(parse_where(text), SCHEMA)


def test_a_column_is_no_sequence_of_its_keys():
    with pytest.raises(TypeError, match="not iterable"):
        list(col("m"))  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="has no key"):
        to_arrow_expression(col("m[oops]") == 1, SCHEMA)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_tables_are_filtered_by_values_of_maps(tmp_path: Path, form: str):
    options = {"file.format": form, "bucket": "2", "metadata.stats-mode": "full"}
    # Names in Avro files are plain.
    columns = SCHEMA.names[:-1] if form == "avro" else SCHEMA.names
    rows = ROWS.select(columns)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, primary_keys=["k"], options=options)
    table.write(rows)
    table.write(rows.slice(4))
    table.compact(full=True)

    for text, condition, expected in CASES[: -1 if form == "avro" else None]:
        assert keys(table.to_arrow(where=text)) == expected
        assert keys(table.to_arrow(["k"], where=condition)) == expected
        assert table.to_arrow(["r.x"], where=f"k > 0 AND ({text})").num_rows == len(expected)


def test_an_index_of_a_key_leaves_files_out(tmp_path: Path):
    options = {"file-index.bitmap.columns": "m[a]", "file-index.in-manifest-threshold": "1 mb"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options=options)
    table.write(ROWS)
    table.write(ROWS.slice(2, 1))

    for text, expected, files in [
        ("m['a'] = 3", [5], 1),
        ("m['a'] = 4", [], 0),
        ("m['a'] IN (3, 1)", [1, 5], 1),
        ("m['a'] > 0", [1, 5], 2),
        ("m['a'] IS NULL", [2, 3, 3, 4], 2),
        ("m['b'] = 3", [], 2),
    ]:
        assert keys(table.to_arrow(where=text)) == expected
        handle = open_table(table.path)._handle
        splits = plan_splits(handle, latest_snapshot(handle), parse_where(text))
        assert sum(len(split.sections) for split in splits) == files
