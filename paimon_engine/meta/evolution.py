"""Rows of an old data file, seen through the table's schema of today.

Columns are matched by field id, never by name. A column that the file lacks is null; a type that was widened is cast.
Other type changes are refused rather than guessed.

Source: `SchemaEvolutionUtil`, `CastExecutors` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import (
    BINARY_ROOTS,
    MAX_LENGTH,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    to_arrow,
    type_to_json,
)

_WIDER = {
    TypeRoot.TINYINT: (TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.SMALLINT: (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.INT: (TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.BIGINT: (TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.FLOAT: (TypeRoot.DOUBLE,),
}
"""Casts between numbers that Java and Arrow do alike; integers become the nearest FLOAT or DOUBLE."""

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_PLAIN_TEXT = frozenset({*_INTEGER_DIGITS, TypeRoot.BOOLEAN, TypeRoot.DATE})
"""Types whose text Arrow and Java write alike."""


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


def unchanged_columns(file_schema: TableSchema, table_schema: TableSchema) -> dict[str, str]:
    """Name in the file → name in the table, for the columns that have one type in both."""
    by_id = {field.id: field for field in table_schema.row_type}
    return {
        stored.name: field.name
        for stored in file_schema.row_type
        if (field := by_id.get(stored.id)) is not None and _bare(stored.type) == _bare(field.type)
    }


def _check_type(field: DataField, stored: DataType) -> None:
    if _bare(stored) == _bare(field.type):
        return
    if isinstance(stored, AtomicType) and isinstance(field.type, AtomicType) and _widens(stored, field.type):
        return
    raise UnsupportedError(
        f"column {field.name!r} changed its type from {type_to_json(stored)} to {type_to_json(field.type)}; "
        "reading files from before that is not supported yet"
    )


def _bare(data_type: DataType) -> DataType:
    """The type without nullability and descriptions, which do not matter for reading."""
    match data_type:
        case AtomicType():
            return replace(data_type, nullable=True)
        case ArrayType(element):
            return ArrayType(_bare(element))
        case MapType(key, value):
            return MapType(_bare(key), _bare(value))
        case MultisetType(element):
            return MultisetType(_bare(element))
        case RowType(fields):
            return RowType(tuple(DataField(field.id, field.name, _bare(field.type)) for field in fields))


def _widens(old: AtomicType, new: AtomicType) -> bool:
    whole_digits = new.precision - new.scale
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        return new.scale >= old.scale and whole_digits >= old.precision - old.scale
    if old.root in _INTEGER_DIGITS and new.root is TypeRoot.DECIMAL:
        return whole_digits >= _INTEGER_DIGITS[old.root]
    if old.root in STRING_ROOTS and new.root is TypeRoot.VARCHAR:
        return new.length >= old.length
    if old.root in _PLAIN_TEXT and new.root is TypeRoot.VARCHAR:
        return new.length == MAX_LENGTH
    if old.root in BINARY_ROOTS and new.root is TypeRoot.VARBINARY:
        return new.length >= old.length
    if old.root in TIMESTAMP_ROOTS and new.root is old.root:
        return new.precision >= old.precision
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
            if column.type != arrow_type:
                # Unsafe means: to the nearest floating-point number; all other casts that get here lose nothing.
                column = column.cast(arrow_type, safe=not pa.types.is_floating(arrow_type))
        columns.append(column)
        # Nullable throughout: other engines' files may say less than the schema, and nothing depends on it here.
        fields.append(pa.field(source.field.name, arrow_type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
