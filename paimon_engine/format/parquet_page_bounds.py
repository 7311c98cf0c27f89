"""Smallest and largest values in the pages of a Parquet column, as far as the page index or their headers tell.

Arrow puts them into headers. Other writers have page indexes instead, or neither; to look at all of their headers for
nothing would take time. Both are believed as a footer is, and within what the footer says of the column chunk.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.format.parquet_bounds import ChunkBounds
from paimon_engine.format.parquet_fields import ChunkStatistics, DataPageHeader, DataPageHeaderV2, PageHeader
from paimon_engine.format.parquet_page_index import StoredBounds
from paimon_engine.format.parquet_pages import Page
from paimon_engine.format.thrift_compact import DECODE_ERRORS, content_of, fields_of, number_of, value_of

_WRITTEN_BY: Final = "parquet-cpp-arrow "
_STATISTICS: Final = {
    PageHeader.DATA_PAGE_HEADER: DataPageHeader.STATISTICS,
    PageHeader.DATA_PAGE_HEADER_V2: DataPageHeaderV2.STATISTICS,
}
"""Field of the header that describes the page → the field of its statistics in that."""


def headers_have_bounds(metadata: pq.FileMetaData) -> bool:
    """Whether the headers of pages may have bounds, by the name of the writer."""
    return str(metadata.created_by).startswith(_WRITTEN_BY)


class PageBounds:
    """Bounds of the pages of one column in a row group, for `may_match`."""

    def __init__(self, source: BinaryIO, schema: pq.ColumnSchema, within: ChunkBounds, arrow_type: pa.DataType) -> None:
        """`within` is what the footer says of the column chunk, whose values have that type in Arrow."""
        self._source = source
        self._has_nulls = schema.max_definition_level > 0
        self._within = within
        self._decode = _decoder(schema.physical_type, arrow_type)

    @property
    def are_known(self) -> bool:
        """Whether bounds of pages would be of use."""
        return self._decode is not None and self._within.min is not None and self._within.max is not None

    def over(self, pages: Iterable[Page]) -> ChunkBounds | None:
        """Of the values in some pages, of which none is null; None if not known, or some are null."""
        assert self._decode is not None
        low: Any = None
        high: Any = None
        for page in pages:
            found = self._bounds(page, self._decode)
            if found is None:
                return None
            low = found[0] if low is None else min(low, found[0])
            high = found[1] if high is None else max(high, found[1])
        return None if low is None else ChunkBounds(low, high, 0)

    def _bounds(self, page: Page, decode: Callable[[bytes], Any]) -> tuple[Any, Any] | None:
        found = page.bounds or self._in_header(page)
        if found is None or (self._has_nulls and found.null_count):
            return None
        try:
            low, high = decode(found.low), decode(found.high)
        except UnicodeDecodeError:
            # Cut within a character.
            return None
        return (low, high) if self._within.min <= low <= high <= self._within.max else None

    def _in_header(self, page: Page) -> StoredBounds | None:
        if page.data_begin is None:
            return None
        self._source.seek(page.begin)
        try:
            found = _statistics(self._source.read(page.data_begin - page.begin))
            low, high = (content_of(found[number]) for number in (ChunkStatistics.MIN_VALUE, ChunkStatistics.MAX_VALUE))
            return StoredBounds(low, high, number_of(found[ChunkStatistics.NULL_COUNT]) if self._has_nulls else 0)
        except DECODE_ERRORS:
            # They are missing.
            return None


def _statistics(header: bytes) -> dict[int, bytes]:
    """The fields of the statistics in the header of a page. Raises: `thrift_compact.DECODE_ERRORS`."""
    for number, _, described in fields_of(header):
        if number in _STATISTICS:
            found = fields_of(value_of(described, _STATISTICS[number]))
            return {field: value for field, _, value in found}
    return {}


def _decoder(physical: str, arrow_type: pa.DataType) -> Callable[[bytes], Any] | None:
    """What makes values of a column, as `parquet_bounds` has them, of bytes in a header; None for other types."""
    if physical in ("INT32", "INT64"):
        is_number = pa.types.is_signed_integer(arrow_type) or pa.types.is_temporal(arrow_type)
        return _integer if is_number else None
    return bytes.decode if physical == "BYTE_ARRAY" and pa.types.is_string(arrow_type) else None


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)
