"""Batches of Parquet files keep to a limit of bytes, also where long texts are stored in dictionaries, and have the same rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches, read_matching
from paimon_engine.format.parquet_page_sizes import ChunkPages, PageHead
from paimon_engine.format.parquet_widths import StoredRows, reading_of

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
    at_hand = pa.BufferReader(source.getvalue())
    found = list(read_matching(at_hand, expected.schema, None, path="f.parquet", limit=LIMIT))
    assert pa.Table.from_batches([rows for _, rows in found]).equals(expected)
    assert [first for first, _ in found] == [rows["n"][0].as_py() for _, rows in found]


@pytest.mark.parametrize("column", [pa.nulls(ROWS, pa.string()), pa.array(["word"] * ROWS)], ids=["nulls", "a word"])
@pytest.mark.parametrize("as_dictionaries", [False, True])
def test_batches_of_many_texts_that_are_stored_in_next_to_nothing_keep_to_the_limit(
    column: pa.Array, as_dictionaries: bool
) -> None:
    rows, source = pa.table({f"c{number}": column for number in range(200)}), io.BytesIO()
    pq.write_table(rows, source)
    dictionary_columns = rows.column_names if as_dictionaries else ()

    batches = list(
        read_batches(source, rows.schema, path="f.parquet", limit=LIMIT, dictionary_columns=dictionary_columns)
    )

    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(batch.get_total_buffer_size() for batch in batches) < 4 * LIMIT.size_bytes


def test_dictionaries_of_long_texts_do_not_stay_dictionaries() -> None:
    for words, stays in (["a", "b"], True), (["a", "b" * LONG], False):
        source = written(some(words))
        schema = pq.read_schema(source)
        batches = read_batches(source, schema, path="f.parquet", limit=LIMIT, dictionary_columns=["v"])
        assert {pa.types.is_dictionary(batch.schema.field("v").type) for batch in batches} == {stays}


def test_dictionaries_that_the_arrow_schema_requires_are_read() -> None:
    for values in (pa.array([1, 2, None]), pa.array(["a", "b" * LONG, None], pa.large_string())):
        column = values.take(pa.array([0, 1, 2] * 500)).dictionary_encode()
        source = written(column)
        batches = list(read_batches(source, pq.read_schema(source), path="f.parquet", limit=LIMIT))
        found = pa.concat_arrays([batch["v"] for batch in batches])
        assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("words", "plain", "as_dictionary"),
    [
        ([f"{number:0400}" for number in range(ROWS)], True, False),
        ([*["b" * LONG, "a"] * 1_000, *(f"{number:0400}" for number in range(ROWS))], False, True),
    ],
    ids=["few rows use the dictionary", "many do"],
)
def test_a_dictionary_that_ended_is_kept_only_where_many_rows_have_long_values_of_it(
    words: list[str], plain: bool, as_dictionary: bool
) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": words}), sink, dictionary_pagesize_limit=100_000, data_page_size=50_000)
    file = pq.ParquetFile(sink)

    def to_look(_: int, leaves: Mapping[str, int]) -> pq.ParquetFile:
        return pq.ParquetFile(sink, read_dictionary=[*leaves])

    stored = StoredRows(file, sink, "f.parquet", {"v": 0}, [0], to_look)
    reading = reading_of(stored, BatchLimit(4_096, 1_000_000))

    assert ("v" in reading.dictionaries) == as_dictionary
    assert ("v" in reading.longest_bytes) == plain
    assert reading.rows > 1_000


def test_long_values_of_a_dictionary_after_a_plain_page_are_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": ["a" * LONG, "b", "c"] * ROWS}), sink)
    pages = ChunkPages(pq.read_metadata(sink), 0, 0, "f.parquet", batch_rows=65_536, longest_bytes=LONG)
    places, plain = PageHead(100, 100, 1_500, 8, False), PageHead(100, 100, 400, 0, False)
    for head in (places, plain, places):
        pages.add(head, 0)
    for _ in range(4):
        pages.add(places, 0)
    with pytest.raises(CorruptTableError, match="behind a page without it"):
        pages.add(places, 0)


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
def test_work_for_a_batch_does_not_depend_on_the_size_of_its_file(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[[bytes], BinaryIO]
) -> None:
    begun = []
    monkeypatch.setattr(ChunkPages, "begin_batch", lambda pages: begun.append(pages.begin))
    rows = pa.table({"n": range(10_000), "v": [str(number) for number in range(10_000)]})
    source = io.BytesIO()
    pq.write_table(rows, source, row_group_size=100)

    data = opened(source.getvalue())

    batches = list(read_batches(data, rows.schema, path="f.parquet", limit=BatchLimit(50, 200_000)))

    assert pa.Table.from_batches(batches).equals(rows)
    assert len(batches) == 200
    # Each of the two columns of a row group: its dictionary and its pages.
    assert len(begun) <= 100 * 2 * 4
