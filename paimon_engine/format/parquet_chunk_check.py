"""Column chunks in the footer of a Parquet file, checked before pyarrow describes them.

pyarrow describes a chunk by functions of Arrow's C++ that may throw where Cython does not expect it. Then nothing is
raised: the process ends. One bit that was changed in a footer suffices, such as one of a codec's number. So what these
functions throw for is looked for here, and raised as an error that names the column.

Why no library does it: `thrift_compact`. Arrow checks a chunk when it reads it, which is too late.

Source: `ColumnChunkMetaData`, `SizeStatistics::Validate` of Arrow's C++; `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow.parquet as pq

from paimon_engine.errors import damaged
from paimon_engine.format.parquet_fields import (
    ChunkStatistics,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    PhysicalType,
    RowGroup,
    SizeStatistics,
)
from paimon_engine.format.parquet_file import parquet_metadata
from paimon_engine.format.parquet_footer import MAGIC
from paimon_engine.format.thrift_compact import (
    DECODE_ERRORS,
    I32,
    I64,
    LIST,
    NOTHING_WITHIN,
    STRUCT,
    NotAStructureError,
    Reader,
    WantedFields,
    integer,
    integers_of,
    listed,
    structure,
)

_END_BYTES: Final = 8
"""Of the footer's length, and the magic bytes after it."""
_SOUND: Final[dict[bytes, Sequence[int]]] = {}
"""Digests of footers in which nothing was wrong: parts of a file are read one by one, and its keys before its rows.

Each with the offsets in the footer at which row groups are described: pyarrow does not say all of what is there."""
_SOUND_MAX: Final = 4_096
_NO_TYPE: Final = -1
_CODEC_MAX: Final = 7
"""The format's last one, `LZ4_RAW`."""
_BOUNDS: Final = (
    (ChunkStatistics.MIN, ChunkStatistics.MAX),
    (ChunkStatistics.MIN_VALUE, ChunkStatistics.MAX_VALUE),
)
_WIDTHS: Final = {
    PhysicalType.BOOLEAN: 1,
    PhysicalType.INT32: 4,
    PhysicalType.INT64: 8,
    PhysicalType.INT96: 12,
    PhysicalType.FLOAT: 4,
    PhysicalType.DOUBLE: 8,
}
"""Bytes of a value."""
_WANTED: Final[WantedFields] = {
    ColumnChunk.META_DATA: {
        ColumnMetaData.STATISTICS: dict.fromkeys(chain(*_BOUNDS), NOTHING_WITHIN),
        ColumnMetaData.SIZE_STATISTICS: {
            SizeStatistics.REPETITION_LEVEL_HISTOGRAM: NOTHING_WITHIN,
            SizeStatistics.DEFINITION_LEVEL_HISTOGRAM: NOTHING_WITHIN,
        },
    },
    ColumnChunk.CRYPTO_METADATA: NOTHING_WITHIN,
}


class _StoredColumn(NamedTuple):
    """What the schema says of a column: the number of its type, and how many levels it has.

    `width` is the number of bytes of a value, 0 where they differ.
    """

    type: int
    width: int
    repetition_levels: int
    definition_levels: int


def read_footer(source: BinaryIO, metadata: pq.FileMetaData) -> bytes:
    """The bytes of a footer that has been read."""
    size = metadata.serialized_size
    source.seek(-size - _END_BYTES, io.SEEK_END)
    data = source.read(size + _END_BYTES)
    declared = int.from_bytes(data[-_END_BYTES:-4], "little")
    if declared != size:
        # Arrow says how much of it was used.
        source.seek(-declared - _END_BYTES, io.SEEK_END)
        data = source.read(declared + _END_BYTES)
    return data[:-_END_BYTES]


class StoredFooter:
    """The footer of a file that pyarrow could read, the bytes of which are read when they are needed, once."""

    def __init__(self, source: BinaryIO, metadata: pq.FileMetaData, path: str) -> None:
        self._source = source
        self._metadata = metadata
        self._path = path

    @cached_property
    def data(self) -> bytes:
        """Its bytes."""
        return read_footer(self._source, self._metadata)

    def of_group(self, number: int) -> tuple[bytes, int]:
        """Its bytes, and the offset in them where it describes a row group. Raises: CorruptTableError."""
        return self.data, self._groups[number]

    @cached_property
    def _groups(self) -> Sequence[int]:
        return check_chunks(self.data, self._metadata.schema, self._path)


def check_chunks(footer: bytes, schema: pq.ParquetSchema, path: str) -> Sequence[int]:
    """Checks that pyarrow can describe all column chunks in the footer, which it could read.

    Returns: offsets in the footer at which it describes each row group.

    Raises: CorruptTableError that names the column.
    """
    digest = blake2b(footer, digest_size=16).digest()
    if digest in _SOUND:
        return _SOUND[digest]
    leaves: Sequence[_StoredColumn] = ()
    begins = array("I")

    def check_groups(at: Reader) -> bytes:
        for number in range(at.list_head()[0]):
            begins.append(at.at)
            for _ in at.fields({RowGroup.COLUMNS: partial(check_columns, number)}):
                pass
        return b""

    def check_columns(number: int, at: Reader) -> bytes:
        count = at.list_head()[0]
        if count != len(leaves):
            raise damaged(path, f"row group {number} has {count} columns, the file {len(leaves)}")
        for index, leaf in enumerate(leaves):
            found, at.at = integers_of(footer, at.at, _WANTED)
            if (wrong := _wrong(found, leaf)) is not None:
                column = schema.column(index)
                what = f"column {column.path!r} of type {column.physical_type}, in row group {number}, {wrong}"
                raise damaged(path, what)
        return b""

    try:
        for field, _, value in Reader(footer).fields({FileMetaData.ROW_GROUPS: check_groups}):
            # Fields come in the order of their numbers.
            if field == FileMetaData.SCHEMA:
                leaves = _leaves(value)
            elif field == FileMetaData.ROW_GROUPS:
                break
    except DECODE_ERRORS as error:
        raise damaged(path, f"its Parquet footer cannot be read: {error}") from error
    if len(_SOUND) >= _SOUND_MAX:
        _SOUND.clear()
    _SOUND[digest] = begins
    return begins


@lru_cache(64)
def _leaves(schema: bytes) -> Sequence[_StoredColumn]:
    """The columns of a schema, as Arrow understands it; kept, since the files of a table have the same."""
    found = []
    described = _empty_file(schema).schema
    for column in map(described.column, range(len(described.names))):
        number = getattr(PhysicalType, column.physical_type, _NO_TYPE)
        width = _WIDTHS.get(number, max(0, column.length))
        found.append(_StoredColumn(number, width, column.max_repetition_level + 1, column.max_definition_level + 1))
    return found


def _empty_file(schema: bytes) -> pq.FileMetaData:
    """The footer of a file with that schema and no rows."""
    footer = structure(
        [
            (FileMetaData.VERSION, I32, integer(1)),
            (FileMetaData.SCHEMA, LIST, schema),
            (FileMetaData.NUM_ROWS, I64, integer(0)),
            (FileMetaData.ROW_GROUPS, LIST, listed(STRUCT, [])),
        ]
    )
    return parquet_metadata(io.BytesIO(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))


def _wrong(chunk: dict[int, Any], leaf: _StoredColumn) -> str | None:
    """What is wrong with a chunk, given what is known of it.

    Raises: NotAStructureError.
    """
    if ColumnChunk.META_DATA not in chunk or ColumnChunk.CRYPTO_METADATA in chunk:
        return "is encrypted, or its description is missing"
    found = _part(chunk, ColumnChunk.META_DATA)
    if _number(found, ColumnMetaData.TYPE, _NO_TYPE) != leaf.type:
        return f"has values of type {found.get(ColumnMetaData.TYPE)}"
    codec = _number(found, ColumnMetaData.CODEC, -1)
    if not 0 <= codec <= _CODEC_MAX:
        return f"has a codec of number {codec}, which Parquet does not have"
    statistics = _part(found, ColumnMetaData.STATISTICS)
    for bounds in _BOUNDS if leaf.width else ():
        least = min(_number(statistics, one, 0) for one in bounds)
        if least < leaf.width and not statistics.keys().isdisjoint(bounds):
            return f"has a bound of {least} bytes"
    sizes = _part(found, ColumnMetaData.SIZE_STATISTICS)
    repetition = _number(sizes, SizeStatistics.REPETITION_LEVEL_HISTOGRAM, 0)
    definition = _number(sizes, SizeStatistics.DEFINITION_LEVEL_HISTOGRAM, 0)
    if repetition not in (0, leaf.repetition_levels) or definition not in (0, leaf.definition_levels):
        return f"counts values of {repetition} and {definition} levels, which it does not have"
    if SizeStatistics.UNENCODED_BYTE_ARRAY_DATA_BYTES in sizes and leaf.type != PhysicalType.BYTE_ARRAY:
        return "counts bytes of texts"
    return None


def _part(fields: dict[int, Any], number: int) -> dict[int, Any]:
    """The structure in a field, which may be missing."""
    found = fields.get(number, {})
    if not isinstance(found, dict):
        raise NotAStructureError(f"field {number} holds no structure")
    return found


def _number(fields: dict[int, Any], number: int, default: int) -> int:
    """The integer in a field."""
    found = fields.get(number, default)
    if not isinstance(found, int):
        raise NotAStructureError(f"field {number} holds no integer")
    return found
