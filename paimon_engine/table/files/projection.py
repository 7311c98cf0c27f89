"""The columns that a read gives: columns of the table, and fields of ROW columns by a name with dots.

`address.city` gives a column `city`, as Spark and Arrow name it, and reads nothing else of `address`.
Where a table has a column of just that name, dots included, the column is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import cast, cast_rows
from paimon_engine.meta.schema import TableSchema
from paimon_engine.predicate import Predicate, columns_of
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import (
    DataField,
    DataType,
    RowType,
    VariantType,
    missing_column,
    to_arrow_field,
    to_arrow_schema,
)

FieldPath = tuple[str, ...]
"""Names that lead from a column into ROW columns."""


def path_of(row_type: RowType, name: str) -> FieldPath:
    """Where a name leads: to a column, or into a ROW.

    Raises: InvalidArgumentError naming the columns that exist.
    """
    found = _path(row_type, name)
    if found is None:
        raise missing_column(name, row_type.names)
    return found


def _path(row_type: RowType, name: str) -> FieldPath | None:
    if name in row_type:
        return (name,)
    for field in row_type:
        inner = field.type
        if name.startswith(f"{field.name}.") and isinstance(inner, RowType) and not isinstance(inner, VariantType):
            deeper = _path(inner, name[len(field.name) + 1 :])
            if deeper is not None:
                return (field.name, *deeper)
    return None


def _path_to_value(row_type: RowType, name: str) -> FieldPath | None:
    """As `path_of`; to the value of a key of a MAP it is the way to the MAP."""
    ends = [len(name), *(index for index, character in enumerate(name) if character == "[")]
    return next((path for end in ends if (path := _path(row_type, name[:end])) is not None), None)


def projected_schema(row_type: RowType, columns: Sequence[str] | None) -> pa.Schema:
    """Arrow schema of a read of these columns; all columns for None.

    Raises: InvalidArgumentError naming a column that does not exist, or two that would have one name.
    """
    if columns is None:
        return to_arrow_schema(row_type)
    fields: dict[str, pa.Field] = {}
    for name in columns:
        field = _leaf(row_type, path_of(row_type, name))
        if field.name in fields:
            second = f"there is another {field.name!r} among the columns, read them apart"
            raise InvalidArgumentError(
                f"column {name!r} would come twice; {'leave one out' if columns.count(name) > 1 else second}"
            )
        fields[field.name] = field
    return pa.schema(list(fields.values()))


def _leaf(row_type: RowType, path: FieldPath) -> pa.Field:
    """The field at the end of a path; it may be null where a ROW above it may."""
    field = to_arrow_field(row_type.field(path[0]))
    for name in path[1:]:
        inner = field.type.field(name)
        field = inner.with_nullable(inner.nullable or field.nullable)
    return field


def projected(rows: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the read's schema; `columns` are the requested names."""
    known = set(rows.schema.names)
    if known.issuperset(columns):
        return cast_rows(rows, schema)
    arrays = [
        cast(rows[name] if name in known else _inner(rows, name), field.type)
        for name, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _inner(rows: pa.RecordBatch, name: str) -> pa.Array:
    """The values of a field of a ROW column, which is named by dots."""
    root = next(known for known in rows.schema.names if _is_inside_row(rows.schema.field(known).type, known, name))
    array, rest = rows[root], name[len(root) + 1 :]
    while rest:
        kind = array.type
        inner = [kind.field(index).name for index in range(kind.num_fields)]
        step = rest if rest in inner else next(n for n in inner if _is_inside_row(kind.field(n).type, n, rest))
        array, rest = pc.struct_field(array, step), rest[len(step) + 1 :]
    return array


def _is_inside_row(kind: pa.DataType, name: str, path: str) -> bool:
    """Whether a path with dots begins at the ROW `name` and continues inside it."""
    if not path.startswith(f"{name}.") or not pa.types.is_struct(kind):
        return False
    rest = path[len(name) + 1 :]
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return any(field.name == rest or _is_inside_row(field.type, field.name, rest) for field in fields)


# ── reading no more than is needed ──────────────────────────────────────────────────────────────


def narrowed(table: TableHandle, columns: Sequence[str] | None, where: Predicate | None) -> TableHandle:
    """The table with ROW columns that have only the fields which the read looks at.

    Aggregates use complete values, so columns of their tables are not narrowed.
    """
    row_type, options = table.schema.row_type, table.options
    if columns is None or options.merge_engine == "aggregation" or options.aggregate_functions:
        return table
    asked = [_path(row_type, name) for name in columns]
    asked += [_path_to_value(row_type, name) for name in (columns_of(where) if where is not None else ())]
    paths = [path for path in asked if path is not None]
    if all(len(path) == 1 for path in paths):
        return table
    fields = tuple(_narrowed_field(field, [path for path in paths if path[0] == field.name]) for field in row_type)
    return replace(table, schema=replace(table.schema, row_type=replace(row_type, fields=fields)))


def _narrowed_field(field: DataField, paths: Iterable[FieldPath]) -> DataField:
    inner = [path[1:] for path in paths]
    if not isinstance(field.type, RowType) or not inner or () in inner:
        return field
    asked = {path[0] for path in inner}
    kept = tuple(
        _narrowed_field(part, [path for path in inner if path[0] == part.name])
        for part in field.type
        if part.name in asked
    )
    return replace(field, type=replace(field.type, fields=kept))


def narrowed_like(file_schema: TableSchema, table_schema: TableSchema) -> TableSchema:
    """The schema of a file without the fields of ROW columns that the table, by their ids, does not have."""
    if not any(isinstance(field.type, RowType) for field in file_schema.row_type):
        # The same object, which knows its options and keys already.
        return file_schema
    by_id = {field.id: field.type for field in table_schema.row_type}
    fields = tuple(
        replace(field, type=_narrowed_type(field.type, by_id[field.id])) if field.id in by_id else field
        for field in file_schema.row_type
    )
    return replace(file_schema, row_type=replace(file_schema.row_type, fields=fields))


def _narrowed_type(stored: DataType, wanted: DataType) -> DataType:
    if not (isinstance(stored, RowType) and isinstance(wanted, RowType)):
        return stored
    by_id = {field.id: field.type for field in wanted}
    kept = tuple(
        replace(field, type=_narrowed_type(field.type, by_id[field.id])) for field in stored if field.id in by_id
    )
    # Of a ROW without any wanted field, one field is read to know where the ROW is null.
    return replace(stored, fields=kept or stored.fields[:1])
