"""Timestamps in INT96: a number of nanoseconds in 8 bytes, then the Julian day in 4.

Arrow counts the nanoseconds since 1970 of both, and gives a wrong value without an error where 64 bits do not suffice,
before 1677 and after 2262. So the bytes are checked too. Nothing else would show it: the nanoseconds may be negative,
as Java has them in every timestamp before 1970, and then no coarser unit that Arrow reads is right.

To read the bytes, the footer is rewritten in memory, with columns of 12 bytes instead of INT96, which are stored alike.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format; `TimestampInt96Writer` of the Java library.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import UnsupportedError, damaged
from paimon_engine.format.layout import leaf_arrays
from paimon_engine.format.parquet_fields import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    PhysicalType,
    RowGroup,
    SchemaElement,
)
from paimon_engine.format.parquet_file import parquet_metadata
from paimon_engine.format.thrift_compact import I32, STRUCT, changed, elements, fields_of, integer, listed, structure

_INT96: Final = integer(PhysicalType.INT96)
_BYTES: Final = integer(PhysicalType.FIXED_LEN_BYTE_ARRAY)
_WIDTH: Final = 12
_MAGIC: Final = b"PAR1"

_STORED: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_EPOCH_DAY: Final = 2_440_588
_MICROS_PER_DAY: Final = 86_400_000_000
_MICROS_MAX: Final = np.iinfo(np.int64).max // 1_000
_DAYS_MAX: Final = _MICROS_MAX // _MICROS_PER_DAY + 1


def int96_columns(schema: pq.ParquetSchema, wanted: Sequence[str]) -> list[str]:
    """Those of the columns that are stored as INT96, or have a part that is."""
    leaves = (schema.column(index) for index in range(len(schema.names)))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return [name for name in wanted if any(path == name or path.startswith(f"{name}.") for path in paths)]


def bytes_metadata(source: BinaryIO) -> pq.FileMetaData:
    """The file's footer, in which all INT96 columns are columns of 12 bytes."""
    source.seek(-8, io.SEEK_END)
    size = int.from_bytes(source.read(4), "little")
    source.seek(-8 - size, io.SEEK_END)
    footer = changed(source.read(size), {FileMetaData.SCHEMA: _schema, FileMetaData.ROW_GROUPS: _row_groups})
    return parquet_metadata(io.BytesIO(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC))


def _schema(schema: bytes) -> bytes:
    return listed(STRUCT, [_element(one) for one in elements(schema)])


def _element(element: bytes) -> bytes:
    fields = fields_of(element)
    if (SchemaElement.TYPE, I32, _INT96) not in fields:
        return structure(fields)
    others = [field for field in fields if field[0] not in (SchemaElement.TYPE, SchemaElement.TYPE_LENGTH)]
    return structure([*others, (SchemaElement.TYPE, I32, _BYTES), (SchemaElement.TYPE_LENGTH, I32, integer(_WIDTH))])


def _row_groups(groups: bytes) -> bytes:
    return listed(STRUCT, [changed(group, {RowGroup.COLUMNS: _chunks}) for group in elements(groups)])


def _chunks(chunks: bytes) -> bytes:
    return listed(
        STRUCT,
        [
            changed(chunk, {ColumnChunk.META_DATA: lambda metadata: changed(metadata, {ColumnMetaData.TYPE: _type})})
            for chunk in elements(chunks)
        ],
    )


def _type(kind: bytes) -> bytes:
    return _BYTES if kind == _INT96 else kind


def checked_nanos(
    batches: Iterator[pa.RecordBatch], stored: Iterator[pa.RecordBatch], path: str
) -> Iterator[pa.RecordBatch]:
    """The batches, whose INT96 columns are in `stored` as bytes.

    Raises: UnsupportedError for a timestamp of which 64 bits cannot count the nanoseconds; CorruptTableError.
    """
    for batch in batches:
        found = next(stored, None)
        if found is None or found.num_rows != batch.num_rows:
            raise damaged(path, "columns of timestamps have other rows when they are read as bytes")
        for name, column in zip(found.schema.names, found.columns, strict=True):
            leaves = [leaf for leaf in leaf_arrays(column) if leaf.type == pa.binary(_WIDTH)]
            if any(map(_exceeds_nanos, leaves)):
                raise UnsupportedError(
                    f"{path}: column {name!r} has timestamps outside 1677 to 2262, which have no Arrow form in "
                    "nanoseconds"
                )
        yield batch


def _exceeds_nanos(leaf: pa.Array) -> bool:
    present = leaf.drop_null()
    data = present.buffers()[1]
    if not len(present) or data is None:
        return False
    values = np.frombuffer(data, _STORED, count=len(present), offset=present.offset * _WIDTH)
    days = values["day"].astype(np.int64) - _EPOCH_DAY
    if (np.abs(days) > _DAYS_MAX).any():
        return True
    micros = days * _MICROS_PER_DAY + values["nanos"] // 1_000
    return bool((micros > _MICROS_MAX).any() or (micros < -_MICROS_MAX - 1).any())
