"""Some pages of a row group: a Parquet file of these pages alone, in memory, which Arrow reads as any other.

Arrow decodes row groups from their first row on, all columns of them, however few rows match a filter. So the columns
of the filter are decoded alone (`parquet_choice`), and of all columns then only the pages with rows that match. Pages
are independent of each other, apart from the dictionary in front of them. Where one ends is in the page index, if the
file has one (`parquet_page_index`); else only in its header, so that all headers of the columns are read first, without
unpacking the pages.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from paimon_engine.errors import damaged
from paimon_engine.format.parquet_chunk_check import StoredFooter
from paimon_engine.format.parquet_fields import (
    ColumnChunk,
    ColumnMetaData,
    CompressionCodec,
    FileMetaData,
    KeyValue,
    PageEncoding,
    PhysicalType,
    RowGroup,
)
from paimon_engine.format.parquet_footer import MAGIC
from paimon_engine.format.parquet_page_index import PageIndexes, StoredBounds
from paimon_engine.format.parquet_page_sizes import ChunkPages, headers, page_head
from paimon_engine.format.parquet_watch import Ranged
from paimon_engine.format.thrift_compact import (
    BINARY,
    DECODE_ERRORS,
    I32,
    I64,
    LIST,
    STRUCT,
    NotAStructureError,
    integer,
    listed,
    structure,
    text,
    value_of,
    varint,
)

_PART_BYTES_MAX: Final = 32 << 20
"""Stored bytes of the pages that are taken: all of them are in memory at once."""
_SHARE_MAX: Final = 0.5
"""Share of the rows of a row group up to which only their pages are read, beyond it all of it."""
_SHARE_OF_ONE_RUN_MAX: Final = 0.9
"""The same where the rows follow each other: their pages are copied at once, and all other ones are spared."""


class Run(NamedTuple):
    """Rows of a row group from `begin` to `end`, which are whole pages in each column."""

    begin: int
    end: int


class Part(NamedTuple):
    """A Parquet file with a row group for the rows of each of these runs, in order."""

    file: bytes
    runs: Sequence[Run]


class Page(NamedTuple):
    """Offsets in the file where a page begins, with its header, and ends.

    Of a page whose header was read `data_begin` is where that ends; of one in a page index `bounds` may be known.
    """

    begin: int
    end: int
    data_begin: int | None = None
    bounds: StoredBounds | None = None


class PagedChunk(NamedTuple):
    """A column chunk: its dictionary if it has one, and its pages by their first row, ascending."""

    dictionary: Page | None
    pages: Mapping[int, Page]

    def within(self, begin: int, end: int) -> list[Page]:
        """The pages that begin at these rows."""
        rows = [*self.pages]
        return [*self.pages.values()][bisect_left(rows, begin) : bisect_left(rows, end)]

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Begin and end, in the file, of the dictionary, if there is one, and of all pages that begin at these rows."""
        pages = self.within(begin, end)
        dictionary = [] if self.dictionary is None else [(self.dictionary.begin, self.dictionary.end)]
        return [*dictionary, (pages[0].begin, pages[-1].end)]


class GroupPages:
    """The pages of the columns of a row group, each column of which is looked through when it is needed, and once."""

    def __init__(
        self,
        source: BinaryIO,
        metadata: pq.FileMetaData,
        group: int,
        path: str,
        *,
        footer: StoredFooter | None = None,
        bounded: Collection[int] = (),
    ) -> None:
        """Of the columns at the indices `bounded` the pages come with their bounds, if the page index has them.

        `footer` is that of the file, for several row groups; else it is read for this one.
        """
        self._source = source
        self._metadata = metadata
        self._group = group
        self._bounded = bounded
        self._described = metadata.row_group(group)
        self._path = path
        self._footer = footer or StoredFooter(source, metadata, path)
        self._indexes = PageIndexes(source, partial(self._footer.of_group, group), self._described)
        self._found: dict[int, PagedChunk | None] = {}

    @property
    def rows(self) -> int:
        """Number of rows of the row group."""
        return int(self._described.num_rows)

    def of(self, index: int) -> PagedChunk | None:
        """The pages of the column at an index; None if they are unusual. Raises: CorruptTableError."""
        if index not in self._found:
            self._found[index] = (self._indexed(index) or self._paged(index)) if self._is_known(index) else None
        return self._found[index]

    def is_indexed(self, index: int) -> bool:
        """Whether the page index says where the pages of the column at an index are, and their bounds."""
        chunk = self._described.column(index)
        return bool(chunk.has_offset_index and chunk.has_column_index)

    def within(self, index: int, begin: int, end: int) -> list[Page]:
        """The pages of the column at an index that begin at these rows; none if they are unusual."""
        leaf = self.of(index)
        return [] if leaf is None else leaf.within(begin, end)

    def cuts(self, leaves: Collection[int]) -> list[int] | None:
        """Rows, ascending, at which each of these columns begins a page; None if one is unusual.

        Raises: CorruptTableError.
        """
        # What the footer says is looked at first, without a look at pages.
        if not all(map(self._is_known, leaves)):
            return None
        cuts: set[int] | None = None
        for index in leaves:
            leaf = self.of(index)
            if leaf is None:
                return None
            cuts = {*leaf.pages} if cuts is None else cuts & leaf.pages.keys()
        return sorted(cuts or ())

    def part_of(self, leaves: Sequence[int], positions: npt.NDArray[np.int64]) -> Part | None:
        """The pages with rows at these positions, ascending, of the columns at these indices; None: read all instead.

        Raises: CorruptTableError for a page that is too large, or whose header cannot be read.
        """
        cuts = self.cuts(leaves)
        if cuts is None:
            return None
        runs = _runs(cuts, self.rows, positions)
        share_max = _SHARE_OF_ONE_RUN_MAX if len(runs) == 1 else _SHARE_MAX
        if rows_in(runs) > share_max * self.rows:
            return None
        found = {index: leaf for index in leaves if (leaf := self.of(index)) is not None}
        sizes = [page.end - page.begin for leaf in found.values() for run in runs for page in leaf.within(*run)]
        if sum(sizes) > _PART_BYTES_MAX:
            return None
        try:
            return Part(self._file(found, runs), runs)
        except DECODE_ERRORS as error:
            raise damaged(self._path, f"pages of row group {self._group} are not as its index says: {error}") from error
        finally:
            self._expect([])

    def _file(self, leaves: Mapping[int, PagedChunk], runs: Sequence[Run]) -> bytes:
        """A file with a row group for each run.

        Raises: `thrift_compact.DECODE_ERRORS` for pages that are not as known.
        """
        schema = value_of(self._footer.data, FileMetaData.SCHEMA)
        self._expect([[piece for leaf in leaves.values() for piece in leaf.pieces(*run)] for run in runs])
        out = _Pieces()
        out.add(MAGIC)
        groups = []
        for run in runs:
            chunks, total = [], 0
            for index in range(self._metadata.num_columns):
                described = _NewChunk(self._metadata, self._group, index, run.end - run.begin)
                if index in leaves:
                    described.copy(self._source, out, leaves[index].pieces(*run))
                    total += described.unpacked_bytes
                chunks.append(described.description())
            groups.append(
                structure(
                    [
                        (RowGroup.COLUMNS, LIST, listed(STRUCT, chunks)),
                        (RowGroup.TOTAL_BYTE_SIZE, I64, integer(total)),
                        (RowGroup.NUM_ROWS, I64, integer(run.end - run.begin)),
                    ]
                )
            )
        footer = structure(
            [
                (FileMetaData.VERSION, I32, integer(2)),
                (FileMetaData.SCHEMA, LIST, schema),
                (FileMetaData.NUM_ROWS, I64, integer(rows_in(runs))),
                (FileMetaData.ROW_GROUPS, LIST, listed(STRUCT, groups)),
                (FileMetaData.KEY_VALUE_METADATA, LIST, _key_values(self._metadata)),
                (FileMetaData.CREATED_BY, BINARY, text(self._metadata.created_by or "")),
            ]
        )
        out.add(footer + len(footer).to_bytes(4, "little") + MAGIC)
        return out.joined()

    def _expect(self, groups: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Tells a file of a store that takes long to answer what is read next."""
        if isinstance(self._source, Ranged):
            self._source.expect(groups, _PART_BYTES_MAX)

    def _is_known(self, index: int) -> bool:
        """Whether a column is of a type and in encodings whose pages can be taken, each row a value or null."""
        chunk = self._described.column(index)
        if chunk.physical_type not in _TYPES or chunk.compression not in _CODECS:
            return False
        is_flat = not self._metadata.schema.column(index).max_repetition_level
        return is_flat and _ENCODINGS.keys() >= set(chunk.encodings)

    def _indexed(self, index: int) -> PagedChunk | None:
        """The pages of a known column, by the page index; None if it has none that can be used."""
        chunk = ChunkPages(self._metadata, self._group, index, self._path)
        found = self._indexes.pages(index, chunk.begin, chunk.end)
        if found is None:
            return None
        bounds = self._indexes.bounds(index) if index in self._bounded else None
        if bounds is None or len(bounds) != len(found):
            bounds = [None] * len(found)
        first = found[0].begin
        dictionary = Page(chunk.begin, first) if first > chunk.begin else None
        pages = {one.row: Page(one.begin, one.end, bounds=of_page) for one, of_page in zip(found, bounds, strict=True)}
        return PagedChunk(dictionary, pages)

    def _paged(self, index: int) -> PagedChunk | None:
        """The pages of a known column, by their headers; None if they are unusual."""
        pages = ChunkPages(self._metadata, self._group, index, self._path, batch_rows=1)
        dictionary, found, row, begin = None, dict[int, Page](), 0, pages.begin
        for head in headers(self._source, pages):
            pages.begin_batch()
            page = Page(begin, pages.at, pages.at - head.stored_bytes)
            begin = pages.at
            if head.values:
                found[row] = page
                row += head.values
            elif head.is_dictionary and dictionary is None and not found:
                dictionary = page
            else:
                return None
        return PagedChunk(dictionary, found) if row == self.rows else None


def _runs(cuts: Sequence[int], rows: int, positions: npt.NDArray[np.int64]) -> list[Run]:
    """Rows between cuts, where any of the positions is between them; neighbours are joined into one run."""
    counts_before = np.searchsorted(positions, [*cuts, rows]).tolist()
    runs: list[Run] = []
    for begin, end, before, after in zip(cuts, [*cuts[1:], rows], counts_before, counts_before[1:], strict=False):
        if before == after:
            continue
        if runs and runs[-1].end == begin:
            runs[-1] = Run(runs[-1].begin, end)
        else:
            runs.append(Run(begin, end))
    return runs


def rows_in(runs: Iterable[Run]) -> int:
    """Number of rows in runs."""
    return sum(run.end - run.begin for run in runs)


class _Pieces:
    """Bytes of a file, joined once: a stream in memory would copy them whenever it grows."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size_bytes += len(piece)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


class _NewChunk:
    """A column chunk as it is described in the new file: without pages, until some are copied."""

    def __init__(self, metadata: pq.FileMetaData, group: int, index: int, rows: int) -> None:
        self._chunk = metadata.row_group(group).column(index)
        self._path = metadata.schema.column(index).path
        self._rows = rows
        self._data_at = self._dictionary_at = len(MAGIC)
        self._has_dictionary = False
        self._stored_bytes = 0
        self.unpacked_bytes = 0

    def copy(self, source: BinaryIO, out: _Pieces, pieces: Sequence[tuple[int, int]]) -> None:
        """Adds pages: at these offsets, its dictionary, if there is one, and the others.

        Raises: `thrift_compact.DECODE_ERRORS`.
        """
        self._dictionary_at = out.size_bytes
        *dictionary, pages = pieces
        self._has_dictionary = bool(dictionary)
        for piece in dictionary:
            self._add(out, _read(source, *piece), 0)
        self._data_at = out.size_bytes
        self._add(out, _read(source, *pages), self._rows)
        self._stored_bytes = out.size_bytes - self._dictionary_at

    def _add(self, out: _Pieces, data: bytes, values: int) -> None:
        """Adds pages that have so many values."""
        at = found = 0
        while at < len(data):
            head, behind = page_head(data, at)
            at = behind + head.stored_bytes
            found += head.values
            self.unpacked_bytes += head.unpacked_bytes
        if at != len(data) or found != values:
            raise NotAStructureError(f"column {self._path!r} has {found} values there, expected {values}")
        out.add(data)

    def description(self) -> bytes:
        """Its structure in the footer."""
        chunk = self._chunk
        encodings = [integer(_ENCODINGS[name]) for name in chunk.encodings if name in _ENCODINGS]
        fields = [
            (ColumnMetaData.TYPE, I32, integer(_TYPES.get(chunk.physical_type, 0))),
            (ColumnMetaData.ENCODINGS, LIST, listed(I32, encodings)),
            (ColumnMetaData.PATH_IN_SCHEMA, LIST, listed(BINARY, [text(self._path)])),
            (ColumnMetaData.CODEC, I32, integer(_CODECS.get(chunk.compression, 0))),
            (ColumnMetaData.NUM_VALUES, I64, integer(self._rows)),
            (ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE, I64, integer(self.unpacked_bytes)),
            (ColumnMetaData.TOTAL_COMPRESSED_SIZE, I64, integer(self._stored_bytes)),
            (ColumnMetaData.DATA_PAGE_OFFSET, I64, integer(self._data_at)),
        ]
        if self._has_dictionary:
            fields.append((ColumnMetaData.DICTIONARY_PAGE_OFFSET, I64, integer(self._dictionary_at)))
        return structure(
            [
                (ColumnChunk.FILE_OFFSET, I64, integer(self._data_at)),
                (ColumnChunk.META_DATA, STRUCT, structure(fields)),
            ]
        )


def _read(source: BinaryIO, begin: int, end: int) -> bytes:
    source.seek(begin)
    return source.read(end - begin)


def _key_values(metadata: pq.FileMetaData) -> bytes:
    """The pairs of key and value in the footer, such as the Arrow schema, encoded."""
    pairs = (metadata.metadata or {}).items()
    return listed(
        STRUCT,
        [
            structure([(KeyValue.KEY, BINARY, _with_length(key)), (KeyValue.VALUE, BINARY, _with_length(value))])
            for key, value in pairs
        ],
    )


def _with_length(value: bytes) -> bytes:
    return varint(len(value)) + value


def _numbers(names: Any) -> dict[str, int]:
    return {name: number for name, number in vars(names).items() if isinstance(number, int)}


_TYPES: Final = {name: number for name, number in _numbers(PhysicalType).items() if name != "INT96"}
"""Without INT96: such columns are read twice (`parquet_int96`)."""
_CODECS: Final = _numbers(CompressionCodec)
_ENCODINGS: Final = _numbers(PageEncoding)
