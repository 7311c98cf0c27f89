"""Partition columns of the rows of data files: from the manifest, not from the files.

Files that came from elsewhere, as of a Hive table that was taken over, lack them, since the directories name the
values; and ORC files cut off spaces behind a CHAR.

Source: `PartitionUtils`, `PartitionInfo` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from paimon_engine.format.binary_row import decode_row, to_arrow_array
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import has_char

PartitionScalars = Mapping[str, pa.Scalar]
"""Partition column → its value in every row of a bucket."""


def partition_values(schema: TableSchema, partition: bytes, columns: Iterable[str]) -> PartitionScalars:
    """Values of those of the columns that are partition columns.

    Raises: CorruptTableError if the bytes are not a partition of the table.
    """
    wanted, fields = set(columns), schema.partition_type.fields
    if not wanted & {field.name for field in fields}:
        return {}
    values = zip(fields, decode_row([field.type for field in fields], partition), strict=True)
    return {field.name: to_arrow_array([value], field.type)[0] for field, value in values if field.name in wanted}


def not_as_stored(schema: TableSchema, values: PartitionScalars, file_format: str) -> PartitionScalars:
    """Those of the values that files of the format store in another form."""
    if file_format != "orc":
        return {}
    return {name: value for name, value in values.items() if has_char(schema.row_type.field(name).type)}


def with_partition(
    rows: pa.RecordBatch, values: PartitionScalars, columns: Sequence[str], count: int
) -> pa.RecordBatch:
    """The columns in that order, of `count` rows or the same value in each."""
    if not values:
        return rows
    arrays = [pa.repeat(values[name], count) if name in values else rows[name] for name in columns]
    fields = [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
