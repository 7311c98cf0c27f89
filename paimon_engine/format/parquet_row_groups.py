"""Copies row groups of Parquet files into another file as bytes.

If nothing changes in the rows of a row group, its pages need not be decoded and encoded again: they are copied, and
the footer of the new file gets the description of the row group with its new offsets in the file. A row group is copied
only if this engine could have written it: by Arrow, with the same schema and codec, in pages that every reader can
read, and without anything outside of the pages but page indexes, such as bloom filters.

The checksums of the pages are compared with the bytes, so that damage is not copied unnoticed, and page indexes with
the pages.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from paimon_engine.errors import damaged, unreadable
from paimon_engine.format.layout import cast, leaves_of
from paimon_engine.format.parquet_chunk_check import check_chunks, read_footer
from paimon_engine.format.parquet_copies import moved_chunk, moved_offset
from paimon_engine.format.parquet_encoding import CODEC_OF_SMALL
from paimon_engine.format.parquet_fields import (
    ChunkStatistics,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    PageEncoding,
    PageEncodingStats,
    PageType,
    RowGroup,
)
from paimon_engine.format.parquet_file import parquet_metadata
from paimon_engine.format.parquet_index_copies import IndexBytes, copied_index
from paimon_engine.format.parquet_page_index import ChunkIndex, PageIndexes, PageLocated
from paimon_engine.format.parquet_page_sizes import page_head
from paimon_engine.format.thrift_compact import (
    BOOLEANS,
    DECODE_ERRORS,
    LIST,
    STRUCT,
    Fields,
    changed,
    changed_fields,
    elements,
    fields_of,
    integer,
    listed,
    number_in,
    structure,
    value_of,
)

_WRONG: Final = (pa.ArrowException, OSError, LookupError, RecursionError, ValueError)
"""What a damaged file raises."""
_PLAIN: Final = "UNCOMPRESSED"
_WRITTEN_BY: Final = "parquet-cpp-arrow "
_INEXACT: Final = {
    (ChunkStatistics.IS_MAX_VALUE_EXACT, BOOLEANS[1]),
    (ChunkStatistics.IS_MIN_VALUE_EXACT, BOOLEANS[1]),
}
"""Fields of statistics, as number and type, that say that a bound was cut: compact Thrift has `false` as a type."""
_FOOTER_FIELDS: Final = {
    FileMetaData.VERSION,
    FileMetaData.SCHEMA,
    FileMetaData.NUM_ROWS,
    FileMetaData.ROW_GROUPS,
    FileMetaData.KEY_VALUE_METADATA,
    FileMetaData.CREATED_BY,
    FileMetaData.COLUMN_ORDERS,
}
_GROUP_FIELDS: Final = {
    RowGroup.COLUMNS,
    RowGroup.TOTAL_BYTE_SIZE,
    RowGroup.NUM_ROWS,
    RowGroup.FILE_OFFSET,
    RowGroup.TOTAL_COMPRESSED_SIZE,
}
_CHUNK_FIELDS: Final = {
    ColumnChunk.FILE_OFFSET,
    ColumnChunk.META_DATA,
    ColumnChunk.OFFSET_INDEX_OFFSET,
    ColumnChunk.OFFSET_INDEX_LENGTH,
    ColumnChunk.COLUMN_INDEX_OFFSET,
    ColumnChunk.COLUMN_INDEX_LENGTH,
}
_METADATA_FIELDS: Final = {
    ColumnMetaData.TYPE,
    ColumnMetaData.ENCODINGS,
    ColumnMetaData.PATH_IN_SCHEMA,
    ColumnMetaData.CODEC,
    ColumnMetaData.NUM_VALUES,
    ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE,
    ColumnMetaData.TOTAL_COMPRESSED_SIZE,
    ColumnMetaData.DATA_PAGE_OFFSET,
    ColumnMetaData.DICTIONARY_PAGE_OFFSET,
    ColumnMetaData.STATISTICS,
    ColumnMetaData.ENCODING_STATS,
    ColumnMetaData.SIZE_STATISTICS,
}
"""Fields that a file may have from which row groups are copied: a fixed list on each level of the footer.

It lacks those of encryption, chunks in other files and bloom filters, and all that later versions of the format add.
"""
_KNOWN_PAGES: Final = {
    (PageType.DATA_PAGE, PageEncoding.PLAIN),
    (PageType.DATA_PAGE, PageEncoding.PLAIN_DICTIONARY),
    (PageType.DATA_PAGE, PageEncoding.RLE_DICTIONARY),
    (PageType.DICTIONARY_PAGE, PageEncoding.PLAIN),
    (PageType.DICTIONARY_PAGE, PageEncoding.PLAIN_DICTIONARY),
}
"""Types and encodings of pages that may be copied: version 1 of data pages, plain or with a dictionary."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file must have in common with one that would be written now."""

    schema: pa.Schema
    elements: bytes
    orders: bytes
    codec: str

    @classmethod
    def of_none(cls, schema: pa.Schema, codec: str) -> Layout:
        """That of no file at all: nothing is copied."""
        return cls(schema, b"", b"", codec)

    @classmethod
    def of(cls, empty_file: bytes, schema: pa.Schema, codec: str) -> Layout:
        """The layout of files like this one; `codec` is the name of a codec as pyarrow's writer takes it."""
        footer = footer_of(empty_file)
        stored_name = _PLAIN if codec == "none" else codec.upper()
        return cls(
            schema, value_of(footer, FileMetaData.SCHEMA), value_of(footer, FileMetaData.COLUMN_ORDERS), stored_name
        )


class StoredChunk(NamedTuple):
    """The chunk of the `column` at an index in the schema, which `is_flat` if each row has one value or null."""

    column: int
    size_bytes: int
    values: int
    is_flat: bool
    indexes: ChunkIndex


class MovedRowGroup(NamedTuple):
    """A row group of another file: what describes it and its column chunks here, and the page indexes of these."""

    fields: Fields
    chunks: Sequence[Fields]
    indexes: Sequence[ChunkIndex]

    def placed(self, indexes: IndexBytes) -> bytes:
        """Its description, with its page indexes added to those of the file."""
        columns = listed(STRUCT, [*map(indexes.with_index, self.chunks, self.indexes)])
        fields = [field for field in self.fields if field[0] != RowGroup.COLUMNS]
        return structure([(RowGroup.COLUMNS, LIST, columns), *fields])


@dataclass(frozen=True, slots=True)
class StoredRowGroup:
    """A row group that may be copied. Its column chunks follow each other without a gap from the offset `begin` on.

    `description` is its Thrift structure in the footer. `bounds` has two rows, the smallest and the largest value of
    each top-level column; null if unknown, and without NaN for FLOAT and DOUBLE. `null_counts` is None for nested
    columns, and if unknown.
    """

    path: str
    number: int
    row_count: int
    begin: int
    chunks: Sequence[StoredChunk]
    description: bytes
    bounds: pa.RecordBatch
    null_counts: Mapping[str, int | None]

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return sum(chunk.size_bytes for chunk in self.chunks)

    def copy(self, source: BinaryIO, write: Callable[[bytes], object], begin: int) -> MovedRowGroup:
        """Writes all column chunks, in the order in which they are in the file, to another one, from `begin` on.

        Raises: CorruptTableError if their lengths, checksums or page indexes are wrong.
        """
        indexes = [chunk.indexes for chunk in self.chunks]
        shift, at = begin - self.begin, self.begin
        source.seek(at)
        try:
            for chunk in self.chunks:
                data = source.read(chunk.size_bytes)
                pages = _pages(data, at, chunk, self.path)
                rows = None if chunk.is_flat else self.row_count
                indexes[chunk.column] = copied_index(chunk.indexes, pages, shift, rows=rows)
                write(data)
                at += len(data)
            fields = changed_fields(self.description, {RowGroup.FILE_OFFSET: partial(moved_offset, shift=shift)})
            columns = elements(value_of(self.description, RowGroup.COLUMNS))
            return MovedRowGroup(fields, [moved_chunk(column, shift) for column in columns], indexes)
        except DECODE_ERRORS as error:
            raise damaged(self.path, f"row group {self.number} cannot be copied: {error}") from error


def footer_of(file: bytes) -> bytes:
    """The Thrift structure at the end of a file; the last bytes of the file are enough."""
    # A file ends with the footer, the footer's length in 4 bytes, and `PAR1`.
    return file[len(file) - 8 - int.from_bytes(file[-8:-4], "little") : -8]


def with_row_groups(footer: bytes, groups: Sequence[MovedRowGroup | None], indexes: IndexBytes) -> bytes:
    """The footer with these row groups in order; None means the next one of those that it already has.

    Example: a footer with the row groups x and y, and `[None, a, None]`, give a footer with x, a and y. Page indexes of
    a are added to `indexes`, which are those of the footer.
    """
    own = iter(elements(value_of(footer, FileMetaData.ROW_GROUPS)))
    found = [next(own) if group is None else group.placed(indexes) for group in groups]
    rows = sum(number_in(group, RowGroup.NUM_ROWS) for group in found)
    return changed(
        footer,
        {FileMetaData.ROW_GROUPS: lambda _: listed(STRUCT, found), FileMetaData.NUM_ROWS: lambda _: integer(rows)},
    )


def stored_row_groups(
    source: BinaryIO,
    path: str,
    layout: Layout,
    row_count: int,
    *,
    columns: Sequence[str] = (),
    is_wanted: Callable[[pa.RecordBatch], bool] = lambda _: True,
) -> list[StoredRowGroup | None]:
    """The row groups of a file with `row_count` rows; None for those that cannot be copied into a file of the layout.

    Also None if `is_wanted` returns False for the bounds of the top-level `columns` (as in `StoredRowGroup.bounds`). It
    is called first, since most row groups overlap others, and then the rest of their description need not be checked.

    Raises: CorruptTableError.
    """
    try:
        metadata = parquet_metadata(source)
        found: list[StoredRowGroup | None] = [None] * metadata.num_row_groups
        footer = read_footer(source, metadata)
        is_alike = (
            metadata.num_rows == row_count
            and metadata.created_by.startswith(_WRITTEN_BY)
            and value_of(footer, FileMetaData.SCHEMA) == layout.elements
        )
        if not is_alike:
            return found
        check_chunks(footer, metadata.schema, path)
        bounds_of = _BoundsOf(metadata, layout.schema)
        wanted = [number for number in range(len(found)) if is_wanted(bounds_of(number, columns))]
        if not wanted:
            return found
        fields = {number: value for number, _, value in fields_of(footer)}
        if fields.keys() <= _FOOTER_FIELDS and fields.get(FileMetaData.COLUMN_ORDERS) == layout.orders:
            descriptions = elements(fields[FileMetaData.ROW_GROUPS])
            for number in wanted:
                described, group = descriptions[number], metadata.row_group(number)
                if not _is_known(group, described, layout.codec):
                    continue
                if (indexes := _indexes(source, described, metadata, number)) is not None:
                    found[number] = _stored(path, number, described, indexes, bounds_of)
    except _WRONG as error:
        raise unreadable(path, "a Parquet file", error) from error
    return found


def row_group_bounds(
    source: BinaryIO, path: str, schema: pa.Schema, columns: Sequence[str]
) -> list[pa.RecordBatch] | None:
    """Of each row group of a file, the smallest and the largest value of each of these columns, null if unknown.

    `schema` is that of the file; None if the file has another one. Raises: CorruptTableError.
    """
    try:
        metadata = parquet_metadata(source)
        if metadata.schema.to_arrow_schema().names != schema.names:
            return None
        check_chunks(read_footer(source, metadata), metadata.schema, path)
        bounds_of = _BoundsOf(metadata, schema)
        return [bounds_of(number, columns) for number in range(metadata.num_row_groups)]
    except _WRONG as error:
        raise unreadable(path, "a Parquet file", error) from error


class _BoundsOf:
    """Smallest and largest values in the row groups of a file, in the types of a schema that it was written with."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        self.metadata = metadata
        self._schema = schema
        self._stored = metadata.schema.to_arrow_schema()
        self.indices: dict[str, int] = {}
        """Top-level column → index of its first leaf."""
        index = 0
        for field in schema:
            self.indices[field.name] = index
            index += sum(1 for _ in leaves_of(field.type))

    @property
    def names(self) -> list[str]:
        """All top-level columns."""
        return list(self.indices)

    def is_flat(self, name: str) -> bool:
        """Whether a column is not nested, so that there are bounds for it."""
        return not pa.types.is_nested(self._schema.field(name).type)

    def __call__(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """Two rows, the smallest and the largest value of each column in that row group; null if unknown."""
        group, found = self.metadata.row_group(number), []
        for name in columns:
            field = self._schema.field(name)
            if self.is_flat(name):
                stored = _bounds(group.column(self.indices[name]), self._stored.field(name).type)
                found.append(cast(stored, field.type))
            else:
                found.append(pa.nulls(2, field.type))
        return pa.RecordBatch.from_arrays(found, names=list(columns))


def _indexes(
    source: BinaryIO, description: bytes, metadata: pq.FileMetaData, number: int
) -> Sequence[ChunkIndex] | None:
    """The page indexes of a row group; None if one cannot be read, or a column with lists has none."""
    try:
        found = PageIndexes(source, lambda: (description, 0), metadata.row_group(number)).stored()
    except DECODE_ERRORS:
        return None
    is_complete = all(one.offset or _is_flat(metadata, index) for index, one in enumerate(found))
    return found if is_complete else None


def _is_flat(metadata: pq.FileMetaData, index: int) -> bool:
    return not metadata.schema.column(index).max_repetition_level


def _stored(
    path: str, number: int, description: bytes, indexes: Sequence[ChunkIndex], bounds_of: _BoundsOf
) -> StoredRowGroup:
    """A row group with the facts that decide whether its bytes can be copied: extents, bounds and null counts."""
    metadata = bounds_of.metadata
    group = metadata.row_group(number)
    chunks = [group.column(index) for index in range(group.num_columns)]
    extents = _extents(chunks)
    return StoredRowGroup(
        path=path,
        number=number,
        row_count=group.num_rows,
        begin=extents[0].begin,
        chunks=[
            StoredChunk(
                one.column, one.size, chunks[one.column].num_values, _is_flat(metadata, one.column), indexes[one.column]
            )
            for one in extents
        ],
        description=description,
        bounds=bounds_of(number, bounds_of.names),
        null_counts={
            name: _null_count(chunks[index]) if bounds_of.is_flat(name) else None
            for name, index in bounds_of.indices.items()
        },
    )


def _is_known(group: pq.RowGroupMetaData, description: bytes, codec: str) -> bool:
    """Whether a row group has only fields that are also right in another file, and its chunks follow without a gap."""
    fields = {number: value for number, _, value in fields_of(description)}
    chunks = [group.column(index) for index in range(group.num_columns)]
    return (
        fields.keys() <= _GROUP_FIELDS
        and all(map(_is_known_chunk, elements(fields[RowGroup.COLUMNS])))
        and _has_codec({chunk.compression for chunk in chunks}, codec)
        and all(one.begin + one.size == after.begin for one, after in pairwise(_extents(chunks)))
    )


def _has_codec(found: set[str], codec: str) -> bool:
    """Whether columns have the codec, but for small ones, and those that it makes no smaller (`parquet_encoding`)."""
    others = {_PLAIN, CODEC_OF_SMALL.get(codec.lower(), codec).upper()}
    return found <= {codec, *others} and codec in {*found, _PLAIN}


class _Extent(NamedTuple):
    """Where a chunk is, of the column at an index."""

    begin: int
    size: int
    column: int


def _extents(chunks: Sequence[pq.ColumnChunkMetaData]) -> list[_Extent]:
    """The place of each chunk, in the order in which they are in the file."""
    begins = (chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset for chunk in chunks)
    return sorted(
        _Extent(begin, chunk.total_compressed_size, index)
        for index, (begin, chunk) in enumerate(zip(begins, chunks, strict=True))
    )


def _is_known_chunk(chunk: bytes) -> bool:
    """Whether the description of a column chunk has only known fields, known kinds of pages, and exact bounds."""
    described = {number: value for number, _, value in fields_of(chunk)}
    if not described.keys() <= _CHUNK_FIELDS:
        return False
    fields = {number: value for number, _, value in fields_of(described[ColumnChunk.META_DATA])}
    if not fields.keys() <= _METADATA_FIELDS or ColumnMetaData.ENCODING_STATS not in fields:
        return False
    pages = {
        (number_in(page, PageEncodingStats.PAGE_TYPE), number_in(page, PageEncodingStats.ENCODING))
        for page in elements(fields[ColumnMetaData.ENCODING_STATS])
    }
    statistics = fields_of(fields[ColumnMetaData.STATISTICS]) if ColumnMetaData.STATISTICS in fields else []
    return pages <= _KNOWN_PAGES and _INEXACT.isdisjoint((number, kind) for number, kind, _ in statistics)


def _bounds(chunk: pq.ColumnChunkMetaData, stored: pa.DataType) -> pa.Array:
    """Smallest and largest value of a chunk, two nulls if they are unknown."""
    if not chunk.is_stats_set or not chunk.statistics.has_min_max:
        return pa.nulls(2, stored)
    statistics = chunk.statistics
    raw = [statistics.min_raw, statistics.max_raw]
    if pa.types.is_decimal(stored):
        return pa.array([statistics.min, statistics.max], stored)
    if chunk.physical_type in ("INT32", "INT64"):
        # Dates and times may be such that Python has no value for them.
        return pa.array(raw, pa.int32() if chunk.physical_type == "INT32" else pa.int64()).cast(stored)
    return pa.array([one.decode() for one in raw] if pa.types.is_string(stored) else raw, stored)


def _null_count(chunk: pq.ColumnChunkMetaData) -> int | None:
    return chunk.statistics.null_count if chunk.is_stats_set and chunk.statistics.has_null_count else None


def _pages(data: bytes, offset: int, chunk: StoredChunk, path: str) -> list[PageLocated]:
    """The pages with values of a chunk that is at that offset of the file, each by its first value.

    Raises: CorruptTableError unless the bytes are pages with the lengths, checksums and numbers of values that their
    headers and the footer say.
    """
    view, index, values, found = memoryview(data), 0, 0, list[PageLocated]()
    try:
        while index < chunk.size_bytes:
            begin = index
            head, behind = page_head(data, begin)
            index = behind + head.stored_bytes
            if head.checksum is not None and head.checksum != crc32(view[behind:index]):
                raise damaged(path, "a page has another checksum than bytes")
            if not head.is_dictionary:
                found.append(PageLocated(offset + begin, offset + index, values))
                values += head.values
    except DECODE_ERRORS as error:
        raise damaged(path, f"a page cannot be read: {error}") from error
    if len(data) != chunk.size_bytes or index != chunk.size_bytes:
        raise damaged(path, "a column chunk is not as long as its pages")
    if values != chunk.values:
        raise damaged(path, f"pages of a column chunk have {values} values, the footer says {chunk.values}")
    return found
