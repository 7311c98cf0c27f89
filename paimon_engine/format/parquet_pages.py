"""Some pages of a row group: a Parquet file of these pages alone, in memory, which Arrow reads as any other.

Arrow decodes row groups from their first row on, all columns of them, however few rows match a filter. So the columns
of the filter are decoded alone (`parquet_choice`), and of all columns then only the pages with rows that match. Pages
are independent of each other, apart from the dictionary in front of them. Where one ends is only in its header, so that
all headers of the columns are read first, without unpacking the pages.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

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
from paimon_engine.format.parquet_page_sizes import ChunkPages, headers
from paimon_engine.format.thrift_compact import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
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


class _Page(NamedTuple):
    """Offsets in the file where the page begins, with its header, and where it ends; and its bytes unpacked."""

    begin: int
    end: int
    unpacked_bytes: int


class _PagedChunk(NamedTuple):
    """A column chunk: its dictionary if it has one, and its pages by their first row."""

    dictionary: _Page | None
    pages: Mapping[int, _Page]


def part_of(
    source: BinaryIO,
    metadata: pq.FileMetaData,
    group: int,
    leaves: Sequence[int],
    *,
    positions: npt.NDArray[np.int64],
    path: str,
) -> Part | None:
    """The pages with rows at these positions, in order, of the columns at these indices; None: read all instead.

    Raises: CorruptTableError for a page that is too large, or whose header cannot be read.
    """
    described = metadata.row_group(group)
    for index in leaves:
        chunk = described.column(index)
        is_known = chunk.physical_type in _TYPES and chunk.compression in _CODECS
        if not is_known or metadata.schema.column(index).max_repetition_level:
            return None
        if not _ENCODINGS.keys() >= set(chunk.encodings):
            return None
    found: dict[int, _PagedChunk] = {}
    # At these rows each column begins a page.
    cuts: set[int] | None = None
    for index in leaves:
        leaf = _paged(source, metadata, group, index, path)
        if leaf is None:
            return None
        found[index] = leaf
        cuts = {*leaf.pages} if cuts is None else cuts & leaf.pages.keys()
    runs = _runs(sorted(cuts or ()), described.num_rows, positions)
    share_max = _SHARE_OF_ONE_RUN_MAX if len(runs) == 1 else _SHARE_MAX
    if sum(run.end - run.begin for run in runs) > share_max * described.num_rows:
        return None
    sizes = [page.end - page.begin for leaf in found.values() for page in _pages_in(leaf, runs)]
    return None if sum(sizes) > _PART_BYTES_MAX else Part(_file(source, metadata, group, found, runs), runs)


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


def _pages_in(leaf: _PagedChunk, runs: Iterable[Run]) -> list[_Page]:
    return [page for run in runs for row, page in leaf.pages.items() if run.begin <= row < run.end]


def _paged(source: BinaryIO, metadata: pq.FileMetaData, group: int, index: int, path: str) -> _PagedChunk | None:
    """A column chunk in pages; None if they are unusual. Raises: CorruptTableError."""
    pages = ChunkPages(metadata, group, index, path, batch_rows=1)
    dictionary, found, row, begin = None, dict[int, _Page](), 0, pages.begin
    for head in headers(source, pages):
        pages.begin_batch()
        page = _Page(begin, pages.at, head.unpacked_bytes)
        begin = pages.at
        if head.values:
            found[row] = page
            row += head.values
        elif head.is_dictionary and dictionary is None and not found:
            dictionary = page
        else:
            return None
    return _PagedChunk(dictionary, found) if row == metadata.row_group(group).num_rows else None


def _file(
    source: BinaryIO, metadata: pq.FileMetaData, group: int, leaves: Mapping[int, _PagedChunk], runs: Sequence[Run]
) -> bytes:
    """A file with a row group for each run."""
    out = io.BytesIO()
    out.write(MAGIC)
    groups = []
    for run in runs:
        chunks, total = [], 0
        for index in range(metadata.num_columns):
            described = _NewChunk(metadata, group, index, run.end - run.begin)
            if index in leaves:
                described.copy(source, out, leaves[index].dictionary, _pages_in(leaves[index], [run]))
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
            (FileMetaData.SCHEMA, LIST, _schema(source)),
            (FileMetaData.NUM_ROWS, I64, integer(sum(run.end - run.begin for run in runs))),
            (FileMetaData.ROW_GROUPS, LIST, listed(STRUCT, groups)),
            (FileMetaData.KEY_VALUE_METADATA, LIST, _key_values(metadata)),
            (FileMetaData.CREATED_BY, BINARY, text(metadata.created_by or "")),
        ]
    )
    out.write(footer + len(footer).to_bytes(4, "little") + MAGIC)
    return out.getvalue()


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

    def copy(self, source: BinaryIO, out: BinaryIO, dictionary: _Page | None, pages: Sequence[_Page]) -> None:
        """Writes the dictionary and these pages, which follow each other."""
        begin = self._dictionary_at = out.tell()
        if dictionary is not None:
            self._has_dictionary = True
            out.write(_read(source, dictionary.begin, dictionary.end))
            self.unpacked_bytes += dictionary.unpacked_bytes
        self._data_at = out.tell()
        out.write(_read(source, pages[0].begin, pages[-1].end))
        self._stored_bytes = out.tell() - begin
        self.unpacked_bytes += sum(page.unpacked_bytes for page in pages)

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


def _schema(source: BinaryIO) -> bytes:
    """The list of the columns in the footer, as it is encoded there."""
    source.seek(-8, 2)
    size = int.from_bytes(source.read(4), "little")
    source.seek(-8 - size, 2)
    return value_of(source.read(size), FileMetaData.SCHEMA)


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
