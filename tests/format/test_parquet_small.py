"""Row groups of a few rows are looked at in one pass; what is wrong with one is found as in large ones."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches
from paimon_engine.format.parquet_page_sizes import begin_of, page_head
from paimon_engine.format.parquet_small import is_small

ROWS = pa.table({"n": range(12), "t": [f"text {number % 3}" for number in range(12)], "u": [None, "a"] * 6})
LIMIT = BatchLimit()


def written(rows: pa.Table = ROWS, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def small(data: bytes, size_bytes: int = LIMIT.size_bytes, footer: bytes | None = None) -> bool:
    """Whether the file is, with the footer of another one."""
    metadata = pq.read_metadata(io.BytesIO(footer or data))
    groups = range(metadata.num_row_groups)
    return is_small(pa.BufferReader(data), metadata, range(metadata.num_columns), groups, size_bytes)


def read(data: bytes, rows: pa.Table = ROWS) -> pa.Table:
    found = read_batches(pa.BufferReader(data), rows.schema, path="f.parquet")
    return pa.Table.from_batches(found, rows.schema)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"row_group_size": 5},
        {"data_page_version": "2.0"},
        {"write_page_index": True, "write_page_checksum": True},
        {"compression": "zstd", "max_rows_per_page": 4, "write_batch_size": 1},
        {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
    ],
    ids=str,
)
def test_what_writers_make_of_a_few_rows_is_small_and_read(options: dict[str, Any]) -> None:
    data = written(**options)

    assert small(data)
    assert read(data).equals(ROWS)


def test_a_value_that_many_rows_may_have_is_not_small() -> None:
    """In a dictionary it is stored once: as many rows as there are, times its length, is what it may come to."""
    rows = pa.table({"t": ["long " * 2_000] * 1_000})
    data = written(rows)
    assert len(data) < 2_000

    assert not small(data, size_bytes=9_000_000)
    assert small(data, size_bytes=12_000_000)
    limit = BatchLimit(size_bytes=1_000_000)
    batches = list(read_batches(pa.BufferReader(data), rows.schema, path="f.parquet", limit=limit))
    assert pa.Table.from_batches(batches).equals(rows)
    assert max(batch.nbytes for batch in batches) < 1_500_000


def test_many_rows_or_lists_are_not_small() -> None:
    assert not small(written(pa.table({"n": range(1_000_000)})))
    assert not small(written(pa.table({"l": [[1, 2], [3]]})))


def test_a_footer_that_says_something_else_is_not_believed() -> None:
    data = written(use_dictionary=False)
    fewer = written(ROWS.slice(0, 11), use_dictionary=False)
    shorter = written(ROWS.set_column(1, "t", pa.array(["t"] * 12)), use_dictionary=False)
    assert small(data, footer=data)
    assert not small(data, footer=fewer)
    assert not small(data, footer=shorter)


@pytest.mark.parametrize("column", range(3))
def test_a_damaged_header_is_named_as_in_a_large_file(column: int) -> None:
    data = written()
    at = begin_of(pq.read_metadata(io.BytesIO(data)).row_group(0).column(column))
    damaged = data[:at] + b"\xff" + data[at + 1 :]

    assert not small(damaged)
    with pytest.raises(CorruptTableError, match="a page whose header cannot be read"):
        read(damaged)


def test_no_bit_of_a_header_makes_a_page_larger_than_the_footer_says() -> None:
    data = written(use_dictionary=False, compression="zstd")
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(1)
    begin = begin_of(chunk)
    _, behind = page_head(data, begin)
    for at in range(begin, behind):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            if small(changed):
                assert page_head(changed, begin)[0].unpacked_bytes <= chunk.total_uncompressed_size
