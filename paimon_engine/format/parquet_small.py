"""Row groups of a few rows, all of whose pages are looked at in one pass.

A row group of ten rows has as many column chunks as one of a million: what is done for each chunk is what its read
takes. To know that it fits into memory whatever it contains, a few sums are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import BinaryIO, Final

import pyarrow.parquet as pq

from paimon_engine.format.parquet_page_sizes import begin_of, bytes_at, page_head
from paimon_engine.format.thrift_compact import DECODE_ERRORS

_STORED_BYTES_MAX: Final = 1 << 18
_FIXED_BYTES: Final = 8
"""What a number or the place of a text takes in Arrow."""


def is_small(
    source: BinaryIO, metadata: pq.FileMetaData, indices: Collection[int], row_groups: Sequence[int], size_bytes: int
) -> bool:
    """Whether flat columns in these row groups are well formed, and small: they fit even with the longest values.

    The longest that a column may have is all that it unpacks to; `size_bytes` is what all may take in Arrow. What is
    wrong is not said here: `parquet_page_sizes` looks at all that is not small. Raises: OSError.
    """
    return bool(indices) and all(_is_small(source, metadata, indices, number, size_bytes) for number in row_groups)


def _is_small(source: BinaryIO, metadata: pq.FileMetaData, indices: Collection[int], number: int, most: int) -> bool:
    """As `is_small`, of one row group."""
    group = metadata.row_group(number)
    rows = group.num_rows
    if group.num_columns != metadata.num_columns or rows * len(indices) * _FIXED_BYTES > most:
        return False
    unpacked = 0
    places: list[tuple[int, int, int]] = []
    for index in indices:
        chunk = group.column(index)
        begin, said = begin_of(chunk), chunk.total_uncompressed_size
        if chunk.num_values != rows:
            return False
        unpacked += said + _FIXED_BYTES
        places.append((begin, begin + chunk.total_compressed_size, said))
    places.sort()
    first, last = places[0][0], places[-1][1]
    if rows * unpacked > most or first < 0 or not 0 < last - first <= _STORED_BYTES_MAX:
        return False
    data = bytes_at(source, first, last - first)
    behind = 0
    for begin, end, said in places:
        if begin - first < behind:
            return False
        behind = end - first
        if not _has_pages(data, begin - first, behind, said, rows):
            return False
    return True


def _has_pages(data: bytes, at: int, end: int, said_bytes: int, values: int) -> bool:
    """Whether the pages from an offset on have so many values in all, end there, and unpack to what the footer says."""
    seen = unpacked = 0
    while seen < values:
        try:
            head, behind = page_head(data, at)
        except DECODE_ERRORS:
            return False
        seen += head.values
        unpacked += head.unpacked_bytes
        at = behind + head.stored_bytes
        if at > end or unpacked > said_bytes:
            return False
    return seen == values
