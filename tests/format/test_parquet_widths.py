"""Batches of Parquet files keep to a limit of bytes, also where long texts lie in dictionaries, and have the same rows."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches, read_matching

LIMIT = BatchLimit(4_096, 200_000)
LONG = 30_000
ROWS = 5_000


def written(column: pa.Array, **options: Any) -> io.BytesIO:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(range(len(column))), "v": column}), sink, row_group_size=2_000, **options)
    return sink


def some(words: list[Any], seed: int = 1) -> pa.Array:
    return pa.array(words).take(pa.array(np.random.default_rng(seed).integers(0, len(words), ROWS)))


COLUMNS: dict[str, pa.Array] = {
    "long ones everywhere": some(["a", "b" * LONG, None, "c", ""]),
    "one long one": pa.concat_arrays([some(["a", "c", None]), pa.array(["b" * LONG])]),
    "only long ones": some(["b" * LONG, "c" * LONG]),
    "bytes": some([b"a", b"b" * LONG, None]),
    "nothing": pa.nulls(ROWS, pa.string()),
    "nothing at first": pa.concat_arrays([pa.nulls(ROWS, pa.string()), some(["a", "b" * LONG])]),
    "short ones": some(["a", "bb", None]),
    "many": pa.array([f"{number:0200}" for number in range(ROWS)]),
    "lists": pa.ListArray.from_arrays(pa.array(range(0, ROWS + 1, 2), pa.int32()), some(["a", "b" * LONG])),
    "rows": pa.StructArray.from_arrays([some(["a", "b" * LONG, None])], ["w"]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("dictionary_bytes", [1 << 20, 1_000], ids=["dictionaries", "dictionaries that end"])
def test_batches_keep_to_the_limit_and_rows_stay(name: str, dictionary_bytes: int) -> None:
    source = written(COLUMNS[name], dictionary_pagesize_limit=dictionary_bytes)
    expected = pq.read_table(source)

    batches = list(read_batches(source, expected.schema, path="f.parquet", limit=LIMIT))

    assert pa.Table.from_batches(batches).equals(expected)
    assert all(batch.schema == expected.schema for batch in batches)
    assert max(batch.get_total_buffer_size() for batch in batches) < 4 * LIMIT.size_bytes
    found = list(read_matching(source, expected.schema, None, path="f.parquet", limit=LIMIT))
    assert pa.Table.from_batches([rows for _, rows in found]).equals(expected)
    assert [first for first, _ in found] == [rows["n"][0].as_py() for _, rows in found]


def test_dictionaries_of_long_texts_do_not_stay_dictionaries() -> None:
    for words, stays in (["a", "b"], True), (["a", "b" * LONG], False):
        source = written(some(words))
        schema = pq.read_schema(source)
        batches = read_batches(source, schema, path="f.parquet", limit=LIMIT, dictionary_columns=["v"])
        assert {pa.types.is_dictionary(batch.schema.field("v").type) for batch in batches} == {stays}


def test_dictionaries_that_the_arrow_schema_asks_for_are_read() -> None:
    for values in (pa.array([1, 2, None]), pa.array(["a", "b" * LONG, None], pa.large_string())):
        column = values.take(pa.array([0, 1, 2] * 500)).dictionary_encode()
        source = written(column)
        batches = list(read_batches(source, pq.read_schema(source), path="f.parquet", limit=LIMIT))
        found = pa.concat_arrays([batch["v"] for batch in batches])
        assert found.to_pylist() == column.to_pylist()
