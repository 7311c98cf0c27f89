"""Headers of pages and footers are in no checksum: a bit that flips in a header is reported, or changes nothing.

In the footer, bounds that cannot be are not believed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from paimon_engine import col
from paimon_engine.errors import CorruptTableError
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches, read_matching
from paimon_engine.format.parquet_page_sizes import ChunkPages, header_at
from tests.hostile.parquet_bombs import Page, file_of

ROWS = 240
TABLE = pa.table(
    {
        "plain": pa.array(range(ROWS)),
        "few": [f"{number % 7}" for number in range(ROWS)],
        "nulls": [None if number % 3 == 0 else number * 0.5 for number in range(ROWS)],
        "lists": [[number, number + 1] if number % 4 else [] for number in range(ROWS)],
    }
)
LIMIT = BatchLimit(50)


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pages = {"row_group_size": 130, "max_rows_per_page": 60, "write_batch_size": 20, "write_page_checksum": True}
    pq.write_table(table, sink, use_dictionary=["few", "nulls"], **pages, **options)
    return sink.getvalue()


def headers_in(data: bytes) -> Iterator[range]:
    """Offsets of the bytes of each page's header."""
    metadata = pq.read_metadata(io.BytesIO(data))
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            pages = ChunkPages(metadata, group, index, "f.parquet")
            while not pages.is_complete:
                begin = pages.at
                head, behind = header_at(io.BytesIO(data), begin, pages.end)
                pages.add(head, behind)
                yield range(begin, behind)


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
@pytest.mark.parametrize("name", TABLE.column_names)
def test_any_bit_of_a_header_that_flips_is_reported_or_changes_nothing(name: str, opened: type) -> None:
    table = TABLE.select([name])
    data = written(table)
    outcomes = set()
    for place in (place for header in headers_in(data) for place in header):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            try:
                found = list(read_batches(opened(bytes(flipped)), table.schema, path="f.parquet", limit=LIMIT))
            except CorruptTableError:
                outcomes.add("reported")
            else:
                assert pa.Table.from_batches(found, table.schema).equals(table), (place, bit)
                outcomes.add("the same")
    assert outcomes == {"reported", "the same"}


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
@pytest.mark.parametrize(("kind", "what"), [(1, "kind 1"), (2, "field 7"), (5, "kind 5")])
def test_pages_that_arrow_passes_over_are_refused(kind: int, what: str, opened: type) -> None:
    table = TABLE.select(["plain"])
    whole = written(table)
    for header in [*headers_in(whole)][::2]:
        data = bytearray(whole)
        assert data[header.start : header.start + 2] == b"\x15\x00"
        data[header.start + 1] = kind << 1
        with pytest.raises(CorruptTableError, match=f"a page whose header cannot be read: .*{what}"):
            list(read_batches(opened(bytes(data)), table.schema, path="f.parquet", limit=LIMIT))
        with pytest.raises(CorruptTableError):
            list(read_matching(opened(bytes(data)), table.schema, col("plain") >= 0, path="f.parquet", limit=LIMIT))


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
def test_pages_with_more_values_than_the_footer_says_are_refused(opened: type) -> None:
    one = Page(100, zstd.compress(bytes(800)), 800)
    data = file_of([one, one], rows=150, values=150)
    with pytest.raises(CorruptTableError, match="pages with 200 values, the footer says 150"):
        list(read_batches(opened(data), pq.read_schema(io.BytesIO(data)), path="f.parquet"))


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
def test_pages_with_fewer_rows_than_the_footer_says_are_refused(opened: type) -> None:
    data = file_of([Page(100, zstd.compress(bytes(800)), 800)], rows=150, values=150)
    assert pq.read_table(io.BytesIO(data)).num_rows < 150, "Arrow says nothing"
    with pytest.raises(CorruptTableError, match="header cannot be read: field 2 is missing|end after 100 of 150 rows"):
        list(read_batches(opened(data), pq.read_schema(io.BytesIO(data)), path="f.parquet"))


@pytest.mark.parametrize(
    ("of_group", "wrong"), [((0, 129), (0, -129)), ((130, 239), (1 << 40, 239)), ((130, 239), (130, -1))]
)
def test_bounds_of_a_row_group_that_cannot_be_leave_no_row_out(
    of_group: tuple[int, int], wrong: tuple[int, int]
) -> None:
    table = TABLE.select(["plain"])
    data = written(table)
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[begin:]
    for bound, changed in zip(of_group, wrong, strict=True):
        # Behind its length.
        before, after = (b"\x08" + one.to_bytes(8, "little", signed=True) for one in (bound, changed))
        assert footer.count(before) >= 2
        footer = footer.replace(before, after)

    where = (col("plain") >= 0) & (col("plain") <= 239)
    found = list(read_matching(io.BytesIO(data[:begin] + footer), table.schema, where, path="f.parquet"))

    assert pa.Table.from_batches([rows for _, rows in found]).equals(table)
