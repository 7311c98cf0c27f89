"""Bounds of floating-point columns that have NaN, which are left out of Parquet files.

Arrow leaves NaN out of them. Java and Spark, for which NaN is the largest number, skip row groups and pages whose upper
bound a filter exceeds, and would lose rows with NaN. Java writes no bounds for such columns.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format, `ColumnOrder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.arrow_values import as_numbers
from paimon_engine.format.layout import leaves_of
from paimon_engine.format.parquet_fields import (
    ChunkStatistics,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
)
from paimon_engine.format.thrift_compact import (
    STRUCT,
    FieldChanges,
    Fields,
    Reader,
    changed,
    fields_of,
    listed,
    structure,
)

_BOUNDS: Final = {
    ChunkStatistics.MAX,
    ChunkStatistics.MIN,
    ChunkStatistics.MAX_VALUE,
    ChunkStatistics.MIN_VALUE,
    ChunkStatistics.IS_MAX_VALUE_EXACT,
    ChunkStatistics.IS_MIN_VALUE_EXACT,
}
_COLUMN_INDEX: Final = {ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH}


def leaves_with_nan(rows: pa.Table) -> frozenset[int]:
    """The indices of the columns of a Parquet file, with the fields of rows, in which these rows have NaN.

    Without those in lists and maps, for which filters are not pushed down, and which may be large vectors.
    """
    return frozenset(_leaves_with_nan([column.chunks for column in rows.columns], rows.schema.types, 0))


def _leaves_with_nan(columns: Iterable[Sequence[pa.Array]], types: Sequence[pa.DataType], index: int) -> Iterator[int]:
    """The same of columns, in chunks, of these types, of which the first one begins at an index."""
    for chunks, kind in zip(columns, types, strict=True):
        if pa.types.is_struct(kind) and chunks:
            parts = zip(*(chunk.flatten() for chunk in chunks), strict=True)
            yield from _leaves_with_nan(parts, [field.type for field in kind], index)
        elif pa.types.is_floating(kind) and any(map(_has_nan, chunks)):
            yield index
        index += sum(1 for _ in leaves_of(kind))


def _has_nan(leaf: pa.Array) -> bool:
    # NumPy passes NaN on. What lies below nulls may be NaN, and does not count; mostly it is none.
    if len(leaf) == leaf.null_count or not np.isnan(as_numbers(leaf).min()):
        return False
    return not leaf.null_count or bool(np.isnan(as_numbers(leaf.drop_null()).min()))


def without_nan_bounds(footer: bytes, groups: Sequence[Collection[int]]) -> bytes:
    """The footer without bounds, and bounds of pages, of the columns at these indices in each row group."""
    numbers = iter(groups)

    def row_groups(at: Reader) -> bytes:
        return listed(STRUCT, [_row_group(at, next(numbers)) for _ in range(at.list_head()[0])])

    return structure(Reader(footer).fields({FileMetaData.ROW_GROUPS: row_groups}))


def _row_group(at: Reader, leaves: Collection[int]) -> bytes:
    def columns(at: Reader) -> bytes:
        chunks = at.elements()
        return listed(STRUCT, [_without_bounds(one) if index in leaves else one for index, one in enumerate(chunks)])

    return structure(at.fields({RowGroup.COLUMNS: columns}))


def _without_bounds(chunk: bytes) -> bytes:
    changes: FieldChanges = {ColumnMetaData.STATISTICS: lambda found: structure(_without(fields_of(found), _BOUNDS))}
    fields = _without(fields_of(chunk), _COLUMN_INDEX)
    return structure(
        (number, kind, changed(value, changes) if number == ColumnChunk.META_DATA else value)
        for number, kind, value in fields
    )


def _without(fields: Fields, numbers: Collection[int]) -> Fields:
    return [field for field in fields if field[0] not in numbers]
