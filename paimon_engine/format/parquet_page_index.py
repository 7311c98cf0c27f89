"""The page index of a Parquet file: where the pages of a column chunk are, their first rows and their bounds.

Java and Rust write it in front of the footer, as Arrow does on request. Without it the pages of a column are found only
by going from header to header. It is believed as a footer is; the pages that are taken are compared with it.

Why no library does it: `thrift_compact`. pyarrow tells whether there is one, and no more.

Source: `parquet.thrift` of the Parquet format, `PageIndex.md`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow.parquet as pq

from paimon_engine.format.parquet_fields import ColumnChunk, ColumnIndex, OffsetIndex, PageLocation, RowGroup
from paimon_engine.format.thrift_compact import (
    DECODE_ERRORS,
    NotAStructureError,
    Reader,
    content_of,
    elements,
    fields_of,
    integers_of,
    number_of,
)

_KINDS: Final = {
    ColumnChunk.OFFSET_INDEX_OFFSET: ColumnChunk.OFFSET_INDEX_LENGTH,
    ColumnChunk.COLUMN_INDEX_OFFSET: ColumnChunk.COLUMN_INDEX_LENGTH,
}
_INDEXES_BYTES_MAX: Final = 16 << 20
"""Of a kind, of all columns of a row group. Pages have 20,000 rows or 1 MiB, and bounds of texts are cut."""
_GAP_BYTES_MAX: Final = 4_096
"""Indexes of copies are behind those of all row groups (`parquet_index_copies`)."""
_TRUE: Final = 1
"""In a list of booleans; false is 2, or 0."""


class PageLocated(NamedTuple):
    """Offsets in the file where a page begins, with its header, and ends; its first row in the row group."""

    begin: int
    end: int
    row: int


class StoredBounds(NamedTuple):
    """Bytes of the smallest and largest value of a page, and how many of its values are null."""

    low: bytes
    high: bytes
    null_count: int


class ChunkIndex(NamedTuple):
    """Bytes of the column index, which has bounds, and the offset index of a column chunk; none where there is none."""

    column: bytes
    offset: bytes


class PageIndexes:
    """The page indexes of a row group, which are read when the first one is needed, and decoded one by one."""

    def __init__(
        self, source: BinaryIO, described: Callable[[], tuple[bytes, int]], group: pq.RowGroupMetaData
    ) -> None:
        """`described` gives the bytes of the footer, and the offset in them where it describes the row group."""
        self._source = source
        self._where = described
        self._described = group
        self._stored: Mapping[int, Sequence[bytes]] | None = None

    def pages(self, index: int, begin: int, end: int) -> list[PageLocated] | None:
        """The pages of the column at an index, whose chunk is there in the file, without its dictionary.

        None if there is no such index, or it does not fit the chunk.
        """
        if not self._described.column(index).has_offset_index:
            return None
        try:
            found = located_pages(self._read(ColumnChunk.OFFSET_INDEX_OFFSET)[index])
        except DECODE_ERRORS:
            return None
        is_whole = all(one.end == other.begin for one, other in pairwise(found)) and found[-1:] != []
        fits = is_whole and begin <= found[0].begin < found[-1].end == end
        return found if fits and begin_in_order(found, self._described.num_rows) else None

    def bounds(self, index: int) -> list[StoredBounds | None] | None:
        """Bounds of the pages of the column at an index, None for each that has none; None if there are no such."""
        if not self._described.column(index).has_column_index:
            return None
        try:
            return bounds_of_pages(self._read(ColumnChunk.COLUMN_INDEX_OFFSET)[index])
        except DECODE_ERRORS:
            return None

    def stored(self) -> list[ChunkIndex]:
        """The indexes of all columns, as they are. Raises: `thrift_compact.DECODE_ERRORS`; OSError."""
        column, offset = map(self._read, (ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.OFFSET_INDEX_OFFSET))
        return [*map(ChunkIndex, column, offset)]

    def _read(self, kind: int) -> Sequence[bytes]:
        """The indexes of a kind, named by the field with their offsets, of all columns; empty where there is none.

        Raises: `thrift_compact.DECODE_ERRORS`; OSError.
        """
        if self._stored is None:
            # Once, whatever comes of it: later no index is found.
            self._stored = {}
            # Both kinds together: a file of an object store holds a little around the place of the last read.
            places = _places(*self._where())
            self._stored = {
                offset: self._spans([(place.get(offset, 0), place.get(length, 0)) for place in places])
                for offset, length in _KINDS.items()
            }
        return self._stored[kind]

    def _spans(self, places: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Bytes at these offsets, of these lengths; those near each other are read at once."""
        if any(offset < 0 or size < 0 for offset, size in places):
            raise NotAStructureError("an index is in front of the file")
        runs: list[tuple[int, int]] = []
        for begin, end in sorted((offset, offset + size) for offset, size in places if size):
            if runs and begin - runs[-1][1] <= _GAP_BYTES_MAX:
                runs[-1] = runs[-1][0], max(end, runs[-1][1])
            else:
                runs.append((begin, end))
        if sum(end - begin for begin, end in runs) > _INDEXES_BYTES_MAX:
            raise NotAStructureError("indexes are too large")
        data = {begin: self._bytes(begin, end) for begin, end in runs}
        found = []
        for offset, size in places:
            begin = runs[bisect_right(runs, (offset, inf)) - 1][0] if size else offset
            found.append(data[begin][offset - begin : offset - begin + size] if size else b"")
        return found

    def _bytes(self, begin: int, end: int) -> bytes:
        self._source.seek(begin)
        return self._source.read(end - begin)


def _places(footer: bytes, begin: int) -> Sequence[Mapping[int, int]]:
    """Integers of each column chunk of the row group that is described at an offset. Raises: `DECODE_ERRORS`."""
    found: list[dict[int, Any]] = []

    def of_columns(at: Reader) -> bytes:
        for _ in range(at.list_head()[0]):
            chunk, at.at = integers_of(footer, at.at)
            found.append(chunk)
        return b""

    for field, _, _ in Reader(footer, begin).fields({RowGroup.COLUMNS: of_columns}):
        if field == RowGroup.COLUMNS:
            break
    return found


def located_pages(data: bytes) -> list[PageLocated]:
    """The pages in an offset index. Raises: `DECODE_ERRORS`."""
    found = []

    def of_locations(at: Reader) -> bytes:
        for _ in range(at.list_head()[0]):
            page, at.at = integers_of(data, at.at)
            begin, size = page[PageLocation.OFFSET], page[PageLocation.COMPRESSED_PAGE_SIZE]
            found.append(PageLocated(begin, begin + size, page[PageLocation.FIRST_ROW_INDEX]))
        return b""

    for _ in Reader(data).fields({OffsetIndex.PAGE_LOCATIONS: of_locations}):
        pass
    return found


def begin_in_order(pages: Sequence[PageLocated], rows: int) -> bool:
    """Whether pages begin at other rows, ascending, from 0 on, as those of a row group with so many rows do."""
    begins = [page.row for page in pages]
    return begins[:1] == [0] and all(one < other for one, other in pairwise([*begins, rows]))


def bounds_of_pages(data: bytes) -> list[StoredBounds | None]:
    """Bounds of the pages in a column index. Raises: `DECODE_ERRORS`."""
    fields = {number: value for number, _, value in fields_of(data)}
    low, high = (
        [*map(content_of, elements(fields[number]))] for number in (ColumnIndex.MIN_VALUES, ColumnIndex.MAX_VALUES)
    )
    at = Reader(fields[ColumnIndex.NULL_PAGES])
    count = at.list_head()[0]
    is_null = fields[ColumnIndex.NULL_PAGES][at.at :]
    nulls = [*map(number_of, elements(fields[ColumnIndex.NULL_COUNTS]))] if ColumnIndex.NULL_COUNTS in fields else None
    if not count == len(is_null) == len(low) == len(high) or (nulls is not None and len(nulls) != count):
        raise NotAStructureError("lists of pages differ in length")
    return [
        None if is_null[page] == _TRUE or nulls is None else StoredBounds(low[page], high[page], nulls[page])
        for page in range(count)
    ]
