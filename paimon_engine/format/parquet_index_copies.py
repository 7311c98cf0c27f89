"""Page indexes of column chunks that are copied, within a file or from another one.

An offset index has offsets in the file, so that one is written for each copy; a column index has bounds alone, and is
copied as it is. A row group of a file without page indexes gets offset indexes: where one column chunk has none,
arrow-rs uses no index of the file, or refuses it, if it was told to need them.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format, `PageIndex.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.format.parquet_fields import ColumnChunk, OffsetIndex, PageLocation
from paimon_engine.format.parquet_page_index import (
    ChunkIndex,
    PageLocated,
    begin_in_order,
    bounds_of_pages,
    located_pages,
)
from paimon_engine.format.thrift_compact import (
    I32,
    I64,
    LIST,
    STRUCT,
    Fields,
    NotAStructureError,
    changed,
    fields_of,
    integer,
    listed,
    number_of,
    structure,
)

_PLACES: Final = (
    (ColumnChunk.OFFSET_INDEX_OFFSET, ColumnChunk.OFFSET_INDEX_LENGTH),
    (ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH),
)
"""Fields of a column chunk with offset and size of its indexes."""


class IndexBytes:
    """The page indexes of a file, from an offset on, behind which more can be added."""

    def __init__(self, begin: int, data: bytes) -> None:
        self._begin = begin
        self._data = bytearray(data)

    def of(self, chunk: bytes) -> ChunkIndex:
        """The indexes of a column chunk of this file, by its description."""
        fields = {number: value for number, _, value in fields_of(chunk)}
        offset, column = (
            self._at(number_of(fields[place]), number_of(fields[size])) if place in fields else b""
            for place, size in _PLACES
        )
        return ChunkIndex(column, offset)

    def _at(self, offset: int, size: int) -> bytes:
        begin = offset - self._begin
        return bytes(self._data[begin : begin + size])

    def with_index(self, chunk: Fields, index: ChunkIndex) -> bytes:
        """The description of a column chunk with these indexes, which are added, in place of those that it names."""
        others = [field for field in chunk if all(field[0] not in place for place in _PLACES)]
        for (place, size), data in zip(_PLACES, (index.offset, index.column), strict=True):
            if data:
                at = self._begin + len(self._data)
                others += [(place, I64, integer(at)), (size, I32, integer(len(data)))]
                self._data += data
        return structure(others)

    def joined(self) -> bytes:
        """All of them, with what was added."""
        return bytes(self._data)


def moved_index(index: ChunkIndex, shift: int) -> ChunkIndex:
    """The indexes of a copy of a column chunk that is so many bytes further on."""
    return index._replace(offset=_placed(index.offset, located_pages(index.offset), shift)) if index.offset else index


def copied_index(index: ChunkIndex, pages: Sequence[PageLocated], shift: int, *, rows: int | None) -> ChunkIndex:
    """As `moved_index`, of a chunk with these pages; with an offset index, also if it had none.

    `rows`: how many there are, if the pages are not known to begin at the rows that they come with.

    Raises: `thrift_compact.DECODE_ERRORS` if the indexes are not those of these pages.
    """
    found = located_pages(index.offset) if index.offset else pages
    known = pages
    if rows is not None and begin_in_order(found, rows):
        known = [page._replace(row=other.row) for page, other in zip(pages, found, strict=False)]
    if [*found] != [*known]:
        raise NotAStructureError("the offset index is not that of its pages")
    if index.column and len(bounds_of_pages(index.column)) != len(pages):
        raise NotAStructureError("the column index has another number of pages")
    return index._replace(offset=_placed(index.offset, found, shift))


def _placed(before: bytes, pages: Sequence[PageLocated], shift: int) -> bytes:
    """An offset index, with what else is in the one before, if there is one; pages are so many bytes further on."""
    locations = listed(
        STRUCT,
        [
            structure(
                [
                    (PageLocation.OFFSET, I64, integer(page.begin + shift)),
                    (PageLocation.COMPRESSED_PAGE_SIZE, I32, integer(page.end - page.begin)),
                    (PageLocation.FIRST_ROW_INDEX, I64, integer(page.row)),
                ]
            )
            for page in pages
        ],
    )
    if before:
        return changed(before, {OffsetIndex.PAGE_LOCATIONS: lambda _: locations})
    return structure([(OffsetIndex.PAGE_LOCATIONS, LIST, locations)])
