"""Limits on what the pages of a Parquet file unpack to, checked before anything is unpacked.

A reader needs memory for a complete page at a time, and each page declares its unpacked size, up to 2 GiB. Pages are
meant to have about 1 MiB, more only where single values are larger. So a page that is large, and at the same time many
times as large as its stored bytes, is refused. A large page of large values stays readable: the file is large as well.
The same applies to lists: a few bytes can claim more values than fit into memory.

The footer declares the same for whole column chunks, but it may be wrong. So `parquet_watch` checks each page as it
is read, `parquet_ahead` before it is read, and `check_page_sizes` at their headers alone.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import damaged, unreadable
from paimon_engine.format.parquet_fields import DataPageHeader, DataPageHeaderV2, PageEncoding, PageHeader, PageType
from paimon_engine.format.thrift_compact import DECODE_ERRORS, NOTHING_WITHIN, NotAStructureError, integers_of

PAGE_BYTES_MAX: Final = 256 << 20
"""Of a page unpacked, if it is that much larger than stored. Writers end a page at about 1 MiB."""
LIST_VALUES_MAX: Final = PAGE_BYTES_MAX // 4
"""Values of a repeated column in a page, or in the rows that are decoded at once, if they are that much larger than
stored, with 4 bytes for each."""
DELTA_TEXTS: Final = PageEncoding.DELTA_BYTE_ARRAY
"""Number of the encoding in which a text repeats the begin of the one before."""
_PLACES: Final = (PageEncoding.PLAIN_DICTIONARY, PageEncoding.RLE_DICTIONARY)
"""Numbers of the encodings in which values are indices in a dictionary."""
_EXPANSION_MAX: Final = 64
"""Unpacked size per stored size, up to which a page is not refused for its size alone."""
_VALUE_BYTES: Final = 4
_HEADER_BYTES: Final = 256
"""To be read for the header of a page at first; those with long bounds in them take more."""
_SIZES: Final = (PageHeader.TYPE, PageHeader.UNCOMPRESSED_PAGE_SIZE, PageHeader.COMPRESSED_PAGE_SIZE)
_VALUES: Final = DataPageHeader.NUM_VALUES
"""The same in pages of both versions."""
_DICTIONARY: Final = PageType.DICTIONARY_PAGE
_DETAILS: Final = {
    PageType.DATA_PAGE: (PageHeader.DATA_PAGE_HEADER, DataPageHeader.ENCODING),
    PageType.DATA_PAGE_V2: (PageHeader.DATA_PAGE_HEADER_V2, DataPageHeaderV2.ENCODING),
}
"""Kind of a page with values → field of the header that describes them, and the field of their encoding in that."""
_DETAILS_FIELDS: Final = dict.fromkeys(
    [PageHeader.DICTIONARY_PAGE_HEADER, *(index for index, _ in _DETAILS.values())], NOTHING_WITHIN
)
_PADDING_BYTES: Final = 100
"""Some old writers count a column chunk without the header of its dictionary, so readers look that far behind it."""


class PageHead(NamedTuple):
    """What the header of a page says: sizes unpacked and stored, number of values (0: a dictionary), encoding.

    `checksum` is the CRC-32 of the stored bytes, if there is one.
    """

    unpacked_bytes: int
    stored_bytes: int
    values: int
    encoding: int
    is_dictionary: bool
    checksum: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it stores values itself, not indices into a dictionary."""
        return self.values > 0 and self.encoding not in _PLACES


def page_head(data: bytes, at: int = 0) -> tuple[PageHead, int]:
    """The header of the page that begins at that offset of the bytes, and the offset behind it.

    No checksum covers it. Of a page of another kind, or of a dictionary that is none, Arrow says nothing, and takes the
    values of the next page in its place; writers make none.
    Raises: `thrift_compact.DECODE_ERRORS`; IndexError if it does not end in these bytes.
    """
    fields, behind = integers_of(data, at, _DETAILS_FIELDS)
    try:
        head = _described(fields)
    except KeyError as error:
        raise NotAStructureError(f"field {error} is missing") from error
    return head, behind


def _described(fields: Mapping[int, Any]) -> PageHead:
    """The header with these fields. Raises: NotAStructureError; KeyError with the number of a missing field."""
    values = encoding = 0
    kind, unpacked, stored = (fields[number] for number in _SIZES)
    if kind in _DETAILS:
        index, encoding_index = _DETAILS[kind]
        details = fields[index]
        if not isinstance(details, dict):
            raise NotAStructureError(f"field {index} is not a structure")
        values, encoding = details[_VALUES], details[encoding_index]
    elif kind != _DICTIONARY:
        raise NotAStructureError(f"it is of kind {kind}")
    elif not isinstance(fields.get(PageHeader.DICTIONARY_PAGE_HEADER), dict):
        raise NotAStructureError(f"field {PageHeader.DICTIONARY_PAGE_HEADER} is not a structure")
    if min(unpacked, stored, values) < 0:
        raise NotAStructureError("a size is negative")
    checksum = fields.get(PageHeader.CRC)
    return PageHead(
        unpacked, stored, values, encoding, kind == _DICTIONARY, None if checksum is None else checksum & 0xFFFFFFFF
    )


def begin_of(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the first page of a column chunk begins."""
    begin: int = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    return begin


def has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether the footer names a dictionary."""
    return bool(chunk.has_dictionary_page) or any("DICTIONARY" in encoding for encoding in chunk.encodings)


class ChunkPages:
    """The pages of one column chunk, in order, checked against the limits.

    `at` is where the next header begins, and `seen` how many values are in front of it.
    """

    def __init__(
        self,
        metadata: pq.FileMetaData,
        row_group: int,
        index: int,
        path: str,
        *,
        batch_rows: int | None = None,
        longest_bytes: int = 0,
    ) -> None:
        """The column at an index of a row group, of which `batch_rows` are decoded at once.

        `longest_bytes`: of the values in its dictionary, where pages behind a plain one are not expected to use it.
        """
        chunk = metadata.row_group(row_group).column(index)
        column = metadata.schema.column(index)
        self.path = path
        self.index = index
        self._row_group, self._column = row_group, column
        self._values: int = chunk.num_values
        self._said_bytes: int = chunk.total_uncompressed_size
        self._repeats: bool = column.max_repetition_level > 0
        is_bytes = chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        self._checked_encodings = not is_bytes or has_dictionary(chunk), not is_bytes or is_delta(chunk)
        self.begin = begin_of(chunk)
        self.end = self.begin + chunk.total_compressed_size
        if self.begin < 0:
            self._refuse("pages in front of the file")
        self.restart(self._values if batch_rows is None else batch_rows, longest_bytes)

    def restart(self, batch_rows: int, longest_bytes: int) -> None:
        """No page has been seen, and this many rows are decoded at once."""
        self._batch_rows = batch_rows
        self._longest_bytes = longest_bytes
        self.seen = self._unpacked = 0
        self._batch_values = self._batch_stored = self._batch_late = 0
        self._has_plain = False
        self.at = self.begin

    @property
    def is_complete(self) -> bool:
        """Whether all values were seen, so that readers look no further."""
        return self.seen >= self._values

    def begin_batch(self) -> None:
        """Pages from now on are decoded separately from earlier ones."""
        self._batch_values = self._batch_stored = self._batch_late = 0

    def add(self, head: PageHead, behind: int) -> None:
        """Takes in the header of the next page, which ends at `behind`.

        Raises: CorruptTableError.
        """
        self.at = behind + head.stored_bytes
        unpacked, stored = head.unpacked_bytes, head.stored_bytes
        if unpacked > PAGE_BYTES_MAX and unpacked > stored * _EXPANSION_MAX:
            self._refuse(f"a page of {stored} bytes that unpacks to {unpacked}; at most {PAGE_BYTES_MAX} are allowed")
        self._unpacked += unpacked
        if self._unpacked > PAGE_BYTES_MAX and self._unpacked > 2 * self._said_bytes:
            self._refuse(f"pages that unpack to {self._unpacked} bytes, the footer says {self._said_bytes}")
        self.seen += head.values
        if self.seen > self._values:
            self.refuse_values()
        if self._repeats:
            self._add_lists(head)
        if self._longest_bytes:
            self._check_late_dictionary(head)
        at_once = min(self._batch_rows, head.values or self._batch_rows) * unpacked
        with_dictionary, with_delta = self._checked_encodings
        is_declared = with_dictionary if head.is_dictionary else with_delta or head.encoding != DELTA_TEXTS
        if not is_declared and at_once > PAGE_BYTES_MAX:
            self._refuse(f"a page of {unpacked} bytes in an encoding that the footer does not name")

    def _add_lists(self, head: PageHead) -> None:
        self._batch_values += head.values
        self._batch_stored += head.stored_bytes
        for values, stored, what in (
            (head.values, head.stored_bytes, "a page"),
            (self._batch_values - head.values, self._batch_stored, "rows"),
        ):
            if values > LIST_VALUES_MAX and values * _VALUE_BYTES > stored * _EXPANSION_MAX:
                self._refuse(f"{what} of {stored} bytes with {values} values in lists, too many to read")

    def _check_late_dictionary(self, head: PageHead) -> None:
        """Holds values of the dictionary against the limit that come behind a plain page: writers do not go back."""
        self._has_plain |= head.is_plain
        if self._has_plain and not head.is_plain:
            self._batch_late += head.values
            late = self._batch_late if self._repeats else min(self._batch_rows, self._batch_late)
            if late * self._longest_bytes > PAGE_BYTES_MAX:
                longest = self._longest_bytes
                self._refuse(f"{late} values of a dictionary, of up to {longest} bytes each, behind a page without it")

    def refuse_header(self, error: Exception) -> None:
        """Raises CorruptTableError for a header that cannot be decoded."""
        self._refuse(f"a page whose header cannot be read: {error}")

    def refuse_values(self) -> None:
        """Raises CorruptTableError for pages with more or fewer values than the footer says."""
        self._refuse(f"pages with {self.seen} values, the footer says {self._values}")

    def _refuse(self, what: str) -> None:
        where = f"column {self._column.path!r} of row group {self._row_group}"
        raise damaged(self.path, f"{where} has {what}")


def chunks_to_read(
    metadata: pq.FileMetaData, row_groups: Sequence[int], indices: Collection[int], path: str, *, batch_rows: int
) -> list[list[ChunkPages]]:
    """The chunks of the columns at these indices, for each row group.

    Raises: CorruptTableError if they overlap.
    """
    found = [
        [ChunkPages(metadata, number, index, path, batch_rows=batch_rows) for index in indices] for number in row_groups
    ]
    for one, other in pairwise(sorted((pages for group in found for pages in group), key=lambda pages: pages.begin)):
        if other.begin < one.end:
            raise damaged(path, f"column chunks overlap at byte {other.begin}")
    return found


def is_delta(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether the footer names texts that repeat the begin of the one before."""
    return "DELTA_BYTE_ARRAY" in chunk.encodings


def check_row_counts(
    metadata: pq.FileMetaData, path: str, indices: Sequence[int] | None = None, groups: Sequence[int] | None = None
) -> None:
    """Checks that row groups have as many values as rows in the columns at these indices, or in all.

    In lists they have more, but no more than fit into memory.
    Arrow believes a number of rows, and aborts the process if they do not fit into memory.
    Raises: CorruptTableError that names the column.
    """
    for number in range(metadata.num_row_groups) if groups is None else groups:
        group = metadata.row_group(number)
        rows = group.num_rows
        if group.num_columns != metadata.num_columns:
            raise damaged(path, f"row group {number} has {group.num_columns} columns, the file {metadata.num_columns}")
        for index in range(group.num_columns) if indices is None else indices:
            chunk, column = group.column(index), metadata.schema.column(index)
            values, where = chunk.num_values, f"column {column.path!r} of row group {number}"
            if not column.max_repetition_level:
                if values != rows:
                    raise damaged(path, f"{where} has {values} values, the row group {rows} rows")
                continue
            if rows < 0 or values < rows:
                raise damaged(path, f"{where} has {values} values in {rows} rows")
            row_bytes = values * _VALUE_BYTES // max(1, rows)
            if row_bytes > PAGE_BYTES_MAX and row_bytes > chunk.total_compressed_size * _EXPANSION_MAX:
                raise damaged(path, f"{where} has {values} values in {rows} rows, too many to read")


def check_page_sizes(source: BinaryIO, metadata: pq.FileMetaData, path: str, *, trusts_footer: bool) -> None:
    """Checks all column chunks of a file by the headers of their pages.

    With `trusts_footer` only pages that may be too large by the footer are checked; otherwise all pages.

    Raises: CorruptTableError that names the column, if a page or a row is too large, or much larger than the footer
    says; StorageError.
    """
    check_row_counts(metadata, path)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            if not trusts_footer or group.column(index).total_uncompressed_size > PAGE_BYTES_MAX:
                # Each page is decoded separately, as far as can be known here.
                pages = ChunkPages(metadata, number, index, path, batch_rows=1)
                for _ in headers(source, pages):
                    pages.begin_batch()


def headers(source: BinaryIO, pages: ChunkPages, *, values: float = inf) -> Iterator[PageHead]:
    """The headers of the next pages of a chunk, until all have passed, or those with its first `values`.

    Raises: CorruptTableError, StorageError.
    """
    while not pages.is_complete and pages.seen < values:
        try:
            head, behind = header_at(source, pages.at, pages.end + _PADDING_BYTES)
        except DECODE_ERRORS as error:
            pages.refuse_header(error)
        except OSError as error:
            raise unreadable(pages.path, "a Parquet file", error) from error
        pages.add(head, behind)
        yield head


def header_at(source: BinaryIO, begin: int, end: int) -> tuple[PageHead, int]:
    """The header of the page that begins there, and the offset behind it.

    Raises: `thrift_compact.DECODE_ERRORS`; IndexError if the chunk ends before it.
    """
    asked = _HEADER_BYTES
    while True:
        if begin >= end:
            raise IndexError("the column chunk ends before it")
        data = bytes_at(source, begin, min(asked, end - begin))
        try:
            head, size = page_head(data)
        except IndexError:
            if len(data) < asked:
                raise
            asked *= 16
        else:
            return head, begin + size


def bytes_at(source: BinaryIO, begin: int, count: int) -> bytes:
    """So many bytes of a file, or fewer where it ends. Raises: OSError."""
    if isinstance(source, pa.NativeFile):
        found: bytes = source.read_at(count, begin)
        return found
    source.seek(begin)
    return source.read(count)
