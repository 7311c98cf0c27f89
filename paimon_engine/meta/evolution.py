"""Rows of an old data file, seen through the table's schema of today.

Columns are matched by field id, never by name. A column that the file lacks is null; a type that was widened is cast
without loss. Other type changes are refused rather than guessed.

Source: `SchemaEvolutionUtil`, `CastExecutors` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
    to_arrow,
    with_nullable,
)

_WIDER = {
    TypeRoot.TINYINT: (TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.SMALLINT: (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.INT: (TypeRoot.BIGINT, TypeRoot.DOUBLE),
    TypeRoot.FLOAT: (TypeRoot.DOUBLE,),
}


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a table column comes from in a file: the file's name for it, None where the file lacks it."""

    field: DataField
    name_in_file: str | None


def column_sources(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> list[ColumnSource]:
    """Sources of table columns in files of `file_schema`.

    Raises: UnsupportedError naming a column whose type changed in a way that the engine cannot follow.
    """
    by_id = {field.id: field for field in file_schema.row_type}
    sources = []
    for name in columns:
        field = table_schema.row_type.field(name)
        stored = by_id.get(field.id)
        if stored is not None:
            _check_type(field, stored.type)
        sources.append(ColumnSource(field, None if stored is None else stored.name))
    return sources


def _check_type(field: DataField, stored: DataType) -> None:
    if with_nullable(stored, nullable=True) == with_nullable(field.type, nullable=True):
        return
    if isinstance(stored, AtomicType) and isinstance(field.type, AtomicType) and _widens(stored, field.type):
        return
    raise UnsupportedError(
        f"column {field.name!r} changed its type from {stored} to {field.type}; this is not supported yet"
    )


def _widens(old: AtomicType, new: AtomicType) -> bool:
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        return new.scale == old.scale and new.precision >= old.precision
    if old.root in STRING_ROOTS and new.root is TypeRoot.VARCHAR:
        return new.length >= old.length
    if old.root in BINARY_ROOTS and new.root is TypeRoot.VARBINARY:
        return new.length >= old.length
    return new.root in _WIDER.get(old.root, ())


def conform(rows: pa.RecordBatch, sources: Sequence[ColumnSource]) -> pa.RecordBatch:
    """Rows of a file as rows of the table: shape and order of `sources`, in the types of the table."""
    columns, fields = [], []
    for source in sources:
        arrow_type = to_arrow(source.field.type)
        if source.name_in_file is None:
            column = pa.nulls(rows.num_rows, arrow_type)
        else:
            column = rows[source.name_in_file]
            column = column if column.type == arrow_type else column.cast(arrow_type)
        columns.append(column)
        # Nullable throughout: other engines' files may say less than the schema, and nothing depends on it here.
        fields.append(pa.field(source.field.name, arrow_type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
