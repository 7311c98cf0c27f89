"""Reads by a filter use the page index of a file: little is read, and damage in it loses no row without an error."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter, read_matching
from paimon_engine.format.parquet_chunk_check import StoredFooter
from paimon_engine.format.parquet_page_index import PageIndexes
from paimon_engine.format.parquet_page_sizes import begin_of
from paimon_engine.predicate import Predicate, col
from paimon_engine.storage.remote_file import RemoteFile
from tests.support.page_indexes import indexes_of

ROWS = 30_000
PAGE_ROWS = 1_000
TABLE = pa.table(
    {
        "k": pa.array(range(ROWS)),
        "text": [None if number % 9 == 0 else f"text {number}" for number in range(ROWS)],
        "few": [f"value {number % 7}" for number in range(ROWS)],
        "more": pa.array(np.random.default_rng(5).integers(0, 1 << 60, ROWS)),
    }
)
ONE = col("k") == 12_345
SOME = (col("k") >= 12_900) & (col("k") <= 13_100)


def written(table: pa.Table = TABLE) -> bytes:
    sink = io.BytesIO()
    pages = {"max_rows_per_page": PAGE_ROWS, "write_batch_size": PAGE_ROWS, "write_page_index": True}
    pq.write_table(table, sink, use_dictionary=["few"], write_page_checksum=True, **pages)
    return sink.getvalue()


def read(data: bytes, where: Predicate) -> list[int]:
    """The keys of the rows that come."""
    found = read_matching(pa.BufferReader(data), TABLE.schema, where, path="f.parquet")
    return [key for _, rows in found for key in rows["k"].to_pylist()]


def test_the_index_has_pages_rows_and_bounds() -> None:
    source = io.BytesIO(written())
    metadata = pq.read_metadata(source)
    indexes = indexes_of(source.getvalue())
    for index, name in enumerate(TABLE.column_names):
        chunk = metadata.row_group(0).column(index)
        end = begin_of(chunk) + chunk.total_compressed_size
        pages, bounds = indexes.pages(index, begin_of(chunk), end), indexes.bounds(index)
        assert pages is not None
        assert bounds is not None
        assert [page.row for page in pages] == [*range(0, ROWS, PAGE_ROWS)]
        assert (pages[0].begin, pages[-1].end) == (chunk.data_page_offset, end)
        assert indexes.pages(index, begin_of(chunk), end - 1) is None
        for page, bound in zip(pages, bounds, strict=True):
            values = TABLE[name].slice(page.row, PAGE_ROWS)
            assert bound is not None
            assert bound.null_count == values.null_count
            if name == "k":
                assert [int.from_bytes(one, "little") for one in bound[:2]] == [page.row, page.row + PAGE_ROWS - 1]
            if name == "text":
                assert bound.low.decode() == min(filter(None, values.to_pylist()))


@pytest.mark.parametrize("names", [TABLE.column_names, ["k", "few"]], ids=["all", "hardly more than the key"])
@pytest.mark.parametrize(("where", "count"), [(ONE, 1), (SOME, 201)])
def test_little_is_read_of_a_file_in_a_store(where: Predicate, count: int, names: list[str]) -> None:
    table = TABLE.select(names)
    data = written(table)
    requests: list[tuple[int, int]] = []

    def fetch(begin: int, size: int) -> bytes:
        requests.append((begin, size))
        return data[begin : begin + size]

    source = RemoteFile("f.parquet", len(data), fetch)
    source.hold_end()
    held = sum(size for _, size in requests)
    found = list(read_matching(source, table.schema, where, path="f.parquet"))

    assert sum(rows.num_rows for _, rows in found) == count
    # Two pages of each column at most, and those of the key once more.
    assert sum(size for _, size in requests) - held < len(data) / 6
    assert len(requests) < 12


def test_the_indexes_of_a_row_group_are_read_alone() -> None:
    """Those of its copied columns lie behind those of all row groups."""
    groups = 60
    schema = pa.schema([("k", pa.int64()), *((f"v{index}", pa.int64()) for index in range(40)), ("_KEY_k", pa.int64())])
    sink = io.BytesIO()
    writer = ParquetWriter(sink, schema, WriteOptions(copies={"_KEY_k": "k"}))
    for number in range(groups):
        writer.write(pa.record_batch([pa.array([number])] * len(schema), schema=schema))
        writer.close_row_group()
    writer.close()

    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            self.taken += len(data)
            return data

    metadata, source = pq.read_metadata(sink), Counted(sink.getvalue())
    footer = StoredFooter(io.BytesIO(sink.getvalue()), metadata, "f.parquet")
    for number in (0, groups // 2, groups - 1):
        source.taken = 0
        indexes = PageIndexes(source, partial(footer.of_group, number), metadata.row_group(number))
        for index in (0, len(schema) - 1):
            bounds = indexes.bounds(index)
            assert bounds == [(number.to_bytes(8, "little"), number.to_bytes(8, "little"), 0)]
        assert source.taken < len(index_bytes(sink.getvalue())) / 20


def index_bytes(data: bytes) -> range:
    """Where the page indexes are: between the last column chunk and the footer."""
    metadata = pq.read_metadata(io.BytesIO(data))
    group = metadata.row_group(metadata.num_row_groups - 1)
    chunks = [group.column(index) for index in range(metadata.num_columns)]
    end = max(begin_of(chunk) + chunk.total_compressed_size for chunk in chunks)
    return range(end, len(data) - 8 - metadata.serialized_size)


def test_damage_in_the_index_is_reported_or_loses_no_row() -> None:
    data = written()
    places = index_bytes(data)
    metadata = pq.read_metadata(io.BytesIO(data))
    indexes = indexes_of(data)
    bounds = [bound for index in range(metadata.num_columns) for bound in indexes.bounds(index) or () if bound]
    # Bounds are believed as those in footers are: where they are stored is left out.
    believed = {
        place
        for bound in bounds
        for value in bound[:2]
        for begin in _found(data, value, places)
        for place in range(begin, begin + len(value))
    }
    outcomes = set()
    for place in places:
        if place in believed:
            continue
        flipped, bit = bytearray(data), place % 8
        flipped[place] ^= 1 << bit
        try:
            keys = read(bytes(flipped), SOME)
        except CorruptTableError:
            outcomes.add("reported")
        else:
            assert {*range(12_900, 13_101)} <= {*keys}, (place - places.start, bit)
            assert len({*keys}) == len(keys)
            outcomes.add("complete")
    assert outcomes == {"reported", "complete"}


def _found(data: bytes, value: bytes, places: range) -> Iterator[int]:
    begin = data.find(value, places.start, places.stop)
    while begin >= 0:
        yield begin
        begin = data.find(value, begin + 1, places.stop)
