"""Limits on what the pages of a Parquet file unpack to, checked before anything is unpacked.

A reader needs memory for a whole page at a time, and each page says its unpacked size itself, up to 2 GiB. Pages are
meant to have about 1 MiB, more only where single values are larger. So a page that is large, and at the same time many
times as large as its stored bytes, is refused. A large page of large values stays readable: the file is large as well.
Likewise rows that have more values of a repeated column than any memory holds.

The footer says how large all pages of a column chunk are. Only where that exceeds the limit of one page, the headers of
its pages are read.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow.parquet as pq

from paimon_engine.errors import damaged
from paimon_engine.format.thrift_compact import Reader, number_of

PAGE_BYTES_MAX: Final = 256 << 20
"""Of a page unpacked, if it is that much larger than stored. Writers end a page at about 1 MiB."""
ROW_BYTES_MAX: Final = 1 << 30
"""Of a row in one repeated column on average, with 4 bytes for each value, if it is that much larger than stored."""
_EXPANSION_MAX: Final = 64
"""Unpacked size per stored size, up to which size alone is no reason to refuse."""
_VALUE_BYTES: Final = 4
_HEADER_BYTES: Final = 256
"""To be read for the header of a page at first; those with long bounds in them take more."""
_UNPACKED, _STORED = 2, 3
"""Numbers of fields of the header of a page."""
_NO_STRUCTURE: Final = (LookupError, AssertionError, RecursionError)
"""What comes of decoding bytes that are no structure."""


def check_page_sizes(
    source: BinaryIO,
    metadata: pq.FileMetaData,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
    trusts_footer: bool = True,
) -> None:
    """Checks the chunks of these columns, paths of leaves or of what they are part of, in these row groups; or of all.

    With `trusts_footer` only pages are looked at which the footer lets expect to be too large; otherwise all pages.

    Raises: CorruptTableError that names the column, if a page or a row is too large, or much larger than the footer
    says.
    """
    for number in range(metadata.num_row_groups) if row_groups is None else row_groups:
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            leaf = chunk.path_in_schema
            if columns is not None and not any(leaf == name or leaf.startswith(f"{name}.") for name in columns):
                continue
            where = f"column {leaf!r} of row group {number}"
            row_bytes = chunk.num_values * _VALUE_BYTES // max(1, group.num_rows)
            if row_bytes > ROW_BYTES_MAX and row_bytes > chunk.total_compressed_size * _EXPANSION_MAX:
                raise damaged(path, f"{where} has {chunk.num_values} values in {group.num_rows} rows, too many to read")
            if not trusts_footer or chunk.total_uncompressed_size > PAGE_BYTES_MAX:
                _check_chunk(source, chunk, path, where)


def _check_chunk(source: BinaryIO, chunk: pq.ColumnChunkMetaData, path: str, where: str) -> None:
    total = 0
    try:
        for unpacked, stored in _pages(source, chunk):
            if unpacked > PAGE_BYTES_MAX and unpacked > stored * _EXPANSION_MAX:
                what = f"a page of {stored} bytes that unpacks to {unpacked}; at most {PAGE_BYTES_MAX} are allowed"
                raise damaged(path, f"{where} has {what}")
            total += unpacked
    except _NO_STRUCTURE as error:
        raise damaged(path, f"{where} has a page whose header cannot be read: {error}") from error
    said = chunk.total_uncompressed_size
    if total > PAGE_BYTES_MAX and total > 2 * said:
        raise damaged(path, f"{where} has pages that unpack to {total} bytes, the footer says {said}")


def _pages(source: BinaryIO, chunk: pq.ColumnChunkMetaData) -> Iterator[tuple[int, int]]:
    """Unpacked and stored size of each page, without headers."""
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    at, end = begin, begin + chunk.total_compressed_size
    while at < end:
        fields, size = _header(source, at, end)
        unpacked, stored = number_of(fields[_UNPACKED]), number_of(fields[_STORED])
        if unpacked < 0 or stored < 0:
            raise LookupError("a size is negative")
        yield unpacked, stored
        at += size + stored


def _header(source: BinaryIO, begin: int, end: int) -> tuple[dict[int, bytes], int]:
    """Fields of the header of the page that begins there, and its size.

    Raises: IndexError if the chunk ends before it.
    """
    asked = _HEADER_BYTES
    while True:
        source.seek(begin)
        data = source.read(min(asked, end - begin))
        reader = Reader(data)
        try:
            fields = {number: value for number, _, value in reader.structure()}
        except IndexError:
            if len(data) < asked:
                raise
            asked *= 16
        else:
            return fields, reader.at
