"""Pages are checked by their headers, each before Arrow comes to it; of files that Arrow reads itself not much earlier."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches
from paimon_engine.format.parquet_page_sizes import ChunkPages, headers
from paimon_engine.format.parquet_stored import StoredFile

ROWS, GROUP_ROWS, PAGE_ROWS = 2_600, 1_000, 300
BATCH_ROWS = 700
"""Neither row groups nor pages end where batches do."""


def written(rows: pa.Table) -> bytes:
    """Of texts without dictionaries, at which nothing looks in advance."""
    sink, pages = io.BytesIO(), {"max_rows_per_page": PAGE_ROWS, "write_batch_size": 100}
    pq.write_table(rows, sink, row_group_size=GROUP_ROWS, use_dictionary=["n"], **pages)
    return sink.getvalue()


def some_rows() -> pa.Table:
    return pa.table({"n": range(ROWS), "t": [f"{number}" * 20 for number in range(ROWS)], "d": [0.5] * ROWS})


def pages_of(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each page begins in the file, and its first row."""
    metadata = pq.read_metadata(io.BytesIO(data))
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            pages = ChunkPages(metadata, group, index, "f.parquet")
            at, row = pages.at, 0
            for head in headers(io.BytesIO(data), pages):
                yield at, group * GROUP_ROWS + row
                at, row = pages.at, row + head.values


@pytest.mark.parametrize("opened", [io.BytesIO, pa.BufferReader])
def test_each_page_is_checked_before_it_is_read_and_rows_in_front_of_it_come(opened: type) -> None:
    rows = some_rows()
    data = written(rows)
    limit = BatchLimit(BATCH_ROWS)
    assert pa.Table.from_batches(read_batches(opened(data), rows.schema, path="f.parquet", limit=limit)).equals(rows)
    found = list(pages_of(data))
    assert len(found) == 3 * (4 + 4 + 2) + 3
    for at, row in found:
        damaged = data[:at] + b"\xff" + data[at + 1 :]
        come = 0
        with pytest.raises(CorruptTableError, match="a page whose header cannot be read"):
            for batch in read_batches(opened(damaged), rows.schema, path="f.parquet", limit=limit):
                come += batch.num_rows
        # All pages of a row group are checked when a batch comes to it.
        assert come == row // GROUP_ROWS * GROUP_ROWS // BATCH_ROWS * BATCH_ROWS


def test_the_page_is_checked_into_which_the_last_of_equal_batches_reaches() -> None:
    rows = some_rows().select(["n"])
    data = written(rows)
    [damaged_at] = [at for at, row in pages_of(data) if row == PAGE_ROWS]
    damaged = data[:damaged_at] + b"\xff" + data[damaged_at + 1 :]
    # Seven batches of 43 rows, which are one more.
    limit, end = BatchLimit(43), PAGE_ROWS

    def read(data: bytes) -> list[pa.RecordBatch]:
        return list(StoredFile(pa.BufferReader(data), "f.parquet", limit, ()).read(rows.schema, [0], end=end))

    assert pa.Table.from_batches(read(data)).equals(rows.slice(0, end))
    with pytest.raises(CorruptTableError, match="a page whose header cannot be read"):
        read(damaged)
