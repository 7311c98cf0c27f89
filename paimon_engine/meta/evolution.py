"""Rows of an old data file, seen through the table's schema of today.

Columns are matched by field id, never by name, and so are the fields of rows, also inside arrays and maps. What the
file lacks is null; what has another type today is cast.

Source: `SchemaEvolutionUtil`, `CastExecutors` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.binary_row import internal_values, to_arrow_array
from paimon_engine.meta.casts import cast, is_alterable, is_castable
from paimon_engine.meta.nested import list_of, list_parts, struct_of
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import ColumnStats
from paimon_engine.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
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
    VariantType,
    VectorType,
    to_arrow,
    with_nullable,
)


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a table column comes from in a file: the file's field of the same id, None where the file lacks it."""

    field: DataField
    stored: DataField | None


def column_sources(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> list[ColumnSource]:
    """Sources of table columns in files of `file_schema`."""
    by_id = {field.id: field for field in file_schema.row_type}
    fields = table_schema.row_type.project(tuple(columns))
    return [ColumnSource(field, by_id.get(field.id)) for field in fields]


def same_columns(file_schema: TableSchema, table_schema: TableSchema) -> dict[str, tuple[DataField, DataField]]:
    """Name in the table → field in the file and field in the table, for the columns that are in both."""
    by_id = {field.id: field for field in table_schema.row_type}
    pairs = [(stored, by_id[stored.id]) for stored in file_schema.row_type if stored.id in by_id]
    return {field.name: (stored, field) for stored, field in pairs}


def unchanged_columns(file_schema: TableSchema, table_schema: TableSchema) -> dict[str, str]:
    """Name in the file → name in the table, for the columns that have one type in both."""
    pairs = same_columns(file_schema, table_schema)
    return {stored.name: name for name, (stored, today) in pairs.items() if bare(stored.type) == bare(today.type)}


def has_same_types(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> bool:
    """Whether these columns are stored in files of `file_schema` as today: then order and hash are equal too."""
    pairs = same_columns(file_schema, table_schema)
    return all(name in pairs and _stays(pairs[name][0].type, pairs[name][1].type) for name in columns)


def widened_integers(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> bool:
    """Whether these columns are the same but for integers that are wider today: their order is the same too."""
    pairs = same_columns(file_schema, table_schema)
    types = [(pairs[name][0].type, pairs[name][1].type) for name in columns if name in pairs]
    return len(types) == len(columns) and all(_stays(old, new) or _widens(old, new) for old, new in types)


def _widens(old: DataType, new: DataType) -> bool:
    return isinstance(old, AtomicType) and isinstance(new, AtomicType) and new.root in _WIDER.get(old.root, ())


def _stays(old: DataType, new: DataType) -> bool:
    if not (isinstance(old, AtomicType) and isinstance(new, AtomicType)):
        return bare(old) == bare(new)
    longer = old.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY) and old.root is new.root and new.length >= old.length
    return longer or bare(old) == bare(new)


def bare(data_type: DataType) -> DataType:
    """The type without nullability and descriptions, which do not matter for reading."""
    match data_type:
        case AtomicType():
            return data_type if data_type.nullable else replace(data_type, nullable=True)
        case ArrayType(element):
            return ArrayType(bare(element))
        case VectorType(element, length):
            return VectorType(bare(element), length)
        case MapType(key, value):
            return MapType(bare(key), bare(value))
        case MultisetType(element):
            return MultisetType(bare(element))
        case VariantType():
            return VariantType()
        case RowType(fields):
            return RowType(tuple(DataField(field.id, field.name, bare(field.type)) for field in fields))


def conform(rows: pa.RecordBatch, sources: Sequence[ColumnSource]) -> pa.RecordBatch:
    """Rows of a file as rows of the table: shape and order of `sources`, in the types of the table.

    Raises: UnsupportedError, InvalidArgumentError naming a column whose old values cannot become its type of today.
    """
    columns = []
    for source in sources:
        if source.stored is None:
            columns.append(pa.nulls(rows.num_rows, to_arrow(source.field.type)))
        else:
            columns.append(_conform_column(rows[source.stored.name], source.stored, source.field))
    # Nullable throughout: other engines' files may say less than the schema, and nothing depends on it here.
    return pa.RecordBatch.from_arrays(columns, [source.field.name for source in sources])


def _conform_column(values: pa.Array, stored: DataField, field: DataField) -> pa.Array:
    if stored.type is field.type or bare(stored.type) == bare(field.type):
        arrow_type = to_arrow(field.type)
        fits = values.type == arrow_type or (
            pa.types.is_dictionary(values.type) and values.type.value_type == arrow_type
        )
        return values if fits else _cast_parts(values, stored, field, arrow_type)
    try:
        return conform_values(values, stored.type, field.type)
    except (InvalidArgumentError, UnsupportedError) as error:
        raise type(error)(
            f"column {field.name!r} in a file from before its type changed: {error}; "
            "read with the columns that can be read, or give the column a type that its old values fit"
        ) from error


def _cast_parts(values: pa.Array, stored: DataField, field: DataField, arrow_type: pa.DataType) -> pa.Array:
    """The same values in an Arrow type that differs in what may be null inside."""
    try:
        return values.cast(arrow_type)
    except pa.ArrowInvalid as error:
        if with_nullable(stored.type, nullable=True) == with_nullable(field.type, nullable=True):
            raise
        raise InvalidArgumentError(
            f"column {field.name!r} in a file from before its type changed: a part that is NOT NULL now has nulls; "
            "make that part nullable, or read without the column"
        ) from error


def conform_values(values: pa.Array, stored: DataType, wanted: DataType) -> pa.Array:
    """Values of the type that they were stored with, as values of another; fields of rows are matched by their ids.

    Raises: UnsupportedError if there is no such cast; InvalidArgumentError naming a value that it cannot take.
    """
    arrow_type = to_arrow(wanted)
    match stored, wanted:
        case _ if bare(stored) == bare(wanted):
            return values if values.type == arrow_type else values.cast(arrow_type)
        case RowType(), RowType() if not isinstance(stored, VariantType) and not isinstance(wanted, VariantType):
            return _conform_struct(values, stored, wanted, arrow_type)
        case ArrayType(), ArrayType():
            offsets, [elements] = list_parts(values)
            parts = [conform_values(elements, stored.element, wanted.element)]
        case MultisetType(), MultisetType():
            offsets, [elements, counts] = list_parts(values)
            parts = [conform_values(elements, stored.element, wanted.element), counts]
        case MapType(), MapType():
            offsets, [keys, items] = list_parts(values)
            parts = [conform_values(keys, stored.key, wanted.key), conform_values(items, stored.value, wanted.value)]
        case _:
            return cast(values, stored, wanted)
    return list_of(values, offsets, parts, arrow_type)


def without_cast(stored: DataType, wanted: DataType) -> tuple[DataType, DataType] | None:
    """The first part of a stored type, and what it should become, between which Java has no cast; None if all have one.

    Parts are matched as `conform_values` does.
    """
    if bare(stored) == bare(wanted):
        return None
    match stored, wanted:
        case RowType(), RowType() if not isinstance(stored, VariantType) and not isinstance(wanted, VariantType):
            parts = {field.id: field.type for field in stored}
            pairs = [(parts[field.id], field.type) for field in wanted if field.id in parts]
        case ArrayType(old), ArrayType(new):
            pairs = [(old, new)]
        case MultisetType(old), MultisetType(new):
            pairs = [(old, new)]
        case MapType(), MapType():
            pairs = [(stored.key, wanted.key), (stored.value, wanted.value)]
        case _:
            return None if is_alterable(stored, wanted) else (stored, wanted)
    return next((found for pair in pairs if (found := without_cast(*pair)) is not None), None)


def _conform_struct(values: pa.StructArray, stored: RowType, wanted: RowType, arrow_type: pa.DataType) -> pa.Array:
    """Nested rows with the fields of another schema: found again by id, null where they are new."""
    # Ids may be missing in schemas that other engines wrote; then names have to do.
    has_ids = all(field.id >= 0 for field in (*stored, *wanted))
    parts = {
        field.id if has_ids else field.name: (field, part) for field, part in zip(stored, values.flatten(), strict=True)
    }
    made = []
    for field in wanted:
        key = field.id if has_ids else field.name
        if key in parts:
            old, part = parts[key]
            made.append(conform_values(part, old.type, field.type))
        else:
            made.append(pa.nulls(len(values), to_arrow(field.type)))
    return struct_of(values, made, arrow_type)


# ── statistics ──────────────────────────────────────────────────────────────────────────────────


def evolved_stats(stats: ColumnStats, stored: DataField, field: DataField) -> ColumnStats | None:
    """Bounds of a column of an old file, in the type that the column has today; None if they are not known.

    They are kept where the cast keeps the order of values and makes no nulls.
    """
    if stored.type is field.type or bare(stored.type) == bare(field.type):
        return stats
    if not (isinstance(stored.type, AtomicType) and isinstance(field.type, AtomicType)):
        return None
    if not _keeps_order(stored.type, field.type):
        return None
    return cast_stats(stats, stored, field)


def cast_stats(stats: ColumnStats, stored: DataField, field: DataField) -> ColumnStats:
    """Bounds of a column of an old file, each as a value of the type that the column has today; not to be passed on.

    None replaces a bound that is not a value of that type.
    """
    if bare(stored.type) == bare(field.type):
        return stats
    if not is_castable(stored.type, field.type):
        return ColumnStats(None, None, stats.null_count)
    try:
        bounds = conform_values(to_arrow_array([stats.min, stats.max], stored.type), stored.type, field.type)
    except InvalidArgumentError:
        return ColumnStats(None, None, stats.null_count)
    low, high = internal_values(bounds, field.type)
    return ColumnStats(low, high, stats.null_count)


_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_WIDER = {root: tuple(_INTEGER_DIGITS)[i + 1 :] for i, root in enumerate(_INTEGER_DIGITS)}


def _keeps_order(old: AtomicType, new: AtomicType) -> bool:
    if new.root is TypeRoot.DECIMAL and (old.root is TypeRoot.DECIMAL or old.root in _INTEGER_DIGITS):
        whole_digits = _INTEGER_DIGITS.get(old.root, old.precision - old.scale)
        # Rounding may carry into one more digit.
        return new.precision - new.scale >= whole_digits + (old.scale > new.scale)
    if new.root in FLOAT_ROOTS:
        return old.root in (*_INTEGER_DIGITS, TypeRoot.DECIMAL) or old.root is TypeRoot.FLOAT
    if old.root in STRING_ROOTS and new.root is TypeRoot.VARCHAR:
        return new.length >= old.length
    if old.root in BINARY_ROOTS and new.root is TypeRoot.VARBINARY:
        return new.length >= old.length
    if old.root in TIMESTAMP_ROOTS:
        return new.root is old.root and new.precision >= old.precision
    return new.root in _WIDER.get(old.root, ())
