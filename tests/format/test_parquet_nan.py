"""Bounds of floating-point columns with NaN are left out of Parquet files: readers in Java take NaN for the largest."""

from __future__ import annotations

import io
import math
from math import inf, nan

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter, layout_of
from paimon_engine.format.parquet_row_groups import stored_row_groups
from tests.support.page_indexes import assert_indexes_fit

SCHEMA = pa.schema(
    [
        ("k", pa.float64()),
        ("n", pa.int64()),
        ("x", pa.float32()),
        ("row", pa.struct([("a", pa.float64()), ("b", pa.int32()), ("c", pa.list_(pa.float32()))])),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("_KEY_k", pa.float64()),
    ]
)
LEAVES = ["k", "n", "x", "row.a", "row.b", "row.c", "map.key", "map.value", "_KEY_k"]
OPTIONS = WriteOptions(copies={"_KEY_k": "k"})
NO_NAN: dict[str, pa.Array] = {
    "k": pa.array([1.0, 2.0, inf]),
    "n": pa.array([1, 2, 3]),
    "x": pa.array([0.5, None, -inf], pa.float32()),
    "row": pa.array(
        [{"a": 1.0, "b": 1, "c": [1.0, 2.0]}, None, {"a": None, "b": None, "c": []}], SCHEMA.field("row").type
    ),
    "map": pa.array([[("a", 1.0)], None, [("b", None), ("c", 3.0)]], SCHEMA.field("map").type),
}
HIDDEN = pa.Array.from_buffers(pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([1.0, nan, 2.0]))])
"""NaN below a null."""
WITH_NAN: dict[str, tuple[dict[str, pa.Array], set[str]]] = {
    "none": ({}, set()),
    "below a null": ({"k": HIDDEN}, set()),
    "a key and its copy": ({"k": pa.array([nan, 1.0, 2.0])}, {"k", "_KEY_k"}),
    "beside a null": ({"x": pa.array([None, 1.0, nan], pa.float32())}, {"x"}),
    "nothing else": ({"x": pa.array([nan, nan, nan], pa.float32())}, {"x"}),
    "in a row": ({"row": pa.array([{"a": nan, "b": 1, "c": None}, None, None], SCHEMA.field("row").type)}, {"row.a"}),
    "in a list": ({"row": pa.array([{"a": 1.0, "b": 1, "c": [1.0, nan]}] * 3, SCHEMA.field("row").type)}, set()),
}


def rows_with(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    found = NO_NAN | columns
    return pa.RecordBatch.from_arrays([*found.values(), found["k"]], schema=SCHEMA)


def unbounded(data: bytes, group: int) -> set[str]:
    """The columns of a row group without bounds, and without bounds of pages, although they have values."""
    footer = pq.read_metadata(io.BytesIO(data))
    found = set()
    for index, name in enumerate(LEAVES):
        chunk = footer.row_group(group).column(index)
        assert chunk.has_offset_index
        assert chunk.statistics.has_null_count
        if not chunk.has_column_index:
            assert not chunk.statistics.has_min_max
            found.add(name)
        else:
            assert chunk.statistics.has_min_max == (chunk.statistics.null_count < chunk.num_values)
    return found


@pytest.mark.parametrize(("columns", "expected"), WITH_NAN.values(), ids=WITH_NAN.keys())
def test_columns_with_nan_have_no_bounds(columns: dict[str, pa.Array], expected: set[str]) -> None:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, OPTIONS)
    batches = [rows_with({}), rows_with(columns), rows_with({})]
    for batch in batches:
        writer.write(batch)
        writer.close_row_group()
    writer.close()
    data = sink.getvalue()

    assert repr(pq.read_table(sink).to_pylist()) == repr(pa.Table.from_batches(batches).to_pylist())
    assert_indexes_fit(data)
    assert unbounded(data, 0) == unbounded(data, 2) == set()
    assert unbounded(data, 1) == expected
    assert {"k", "n", "x", "_KEY_k"} - writer.stored_bounds.keys() == expected & set(SCHEMA.names)


def test_copied_row_groups_keep_what_they_have() -> None:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, OPTIONS)
    for columns in ({}, {"k": pa.array([nan, 1.0, 2.0])}):
        writer.write(rows_with(columns))
        writer.close_row_group()
    writer.close()
    copy = io.BytesIO()
    writer = ParquetWriter(copy, SCHEMA, OPTIONS)
    first, second = stored_row_groups(sink, "f", layout_of(SCHEMA, OPTIONS), 6)
    assert first is not None
    assert second is not None
    writer.copy(second, sink)
    writer.write(rows_with({"x": pa.array([nan, None, 1.0], pa.float32())}))
    writer.copy(first, sink)
    writer.close()

    data = copy.getvalue()
    assert_indexes_fit(data)
    assert [unbounded(data, number) for number in range(3)] == [{"k", "_KEY_k"}, {"x"}, set()]
    assert writer.stored_bounds == {"n": (1, 3)}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_bounds_of_floats_are_those_of_all_rows(kind: pa.DataType) -> None:
    parts = [[1.5, None, -2.0], [None, None, None], [-inf, 0.0, 1e-40], [-0.0, 7.25, None]]
    sink = io.BytesIO()
    schema = pa.schema([("x", kind), ("zero", kind)])
    writer = ParquetWriter(sink, schema, WriteOptions())
    for part in parts:
        writer.write(pa.record_batch([pa.array(part, kind), pa.array([0.0, None, 0.0], kind)], schema))
        writer.close_row_group()
    writer.close()

    assert writer.stored_bounds["x"] == (-inf, 7.25)
    # As Java has them: a reader may take either zero for the smaller one.
    assert [math.copysign(1, bound) for bound in writer.stored_bounds["zero"]] == [-1, 1]
