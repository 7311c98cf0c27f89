"""A schema after some changes: the next version of the table's columns, keys and options.

1. Changes are applied one after another, so that each sees what the ones before it made.
2. The result is checked by the rules for new tables (`meta.schema_rules`).

Source: `SchemaManager.commitChanges` of the Java library. Fields inside columns, and renamed keys, are as in releases
after 0.9.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.casts import is_alterable, is_implicit
from paimon_engine.meta.fixed_options import FIXED_OPTIONS
from paimon_engine.meta.option_names import rename_in_options
from paimon_engine.meta.schema import VERSION, TableSchema, keys_of_options, with_key_nullability, with_nested_ids
from paimon_engine.meta.schema_change import (
    AddColumn,
    ColumnPath,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from paimon_engine.meta.schema_rules import check_schema
from paimon_engine.meta.type_text import to_data_type
from paimon_engine.options.iceberg import check_stored
from paimon_engine.options.older_names import newest_name, spelled, with_newest_names
from paimon_engine.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    VariantType,
    type_to_json,
    with_nullable,
)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A schema on its way; `stored` options are those of before all changes."""

    schema: TableSchema
    next_id: Iterator[int]
    stored: Mapping[str, str]
    has_snapshots: bool


def altered(schema: TableSchema, changes: Sequence[SchemaChange], *, has_snapshots: bool, time_ms: int) -> TableSchema:
    """The schema with the next id after the changes; the very same schema if they change nothing.

    Raises: InvalidArgumentError, UnsupportedError naming the column or option that cannot change so, and what to do.
    """
    next_id = itertools.count(schema.highest_field_id + 1)
    draft = _Draft(schema, next_id, schema.options, has_snapshots)
    for change in changes:
        draft = replace(draft, schema=_applied(draft, change))
    made = with_key_nullability(keys_of_options(draft.schema))
    made = replace(made, highest_field_id=next(next_id) - 1)
    if made == schema:
        return schema
    made = replace(made, id=schema.id + 1, time_ms=time_ms, version=VERSION)
    check_schema(made, schema.options)
    return made


def steps(
    schema: TableSchema, changes: Sequence[SchemaChange]
) -> Iterator[tuple[SchemaChange, TableSchema, TableSchema]]:
    """Each change with the columns that it finds and the columns that it makes; only the result is checked.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    draft = _Draft(schema, itertools.count(schema.highest_field_id + 1), schema.options, has_snapshots=False)
    for change in changes:
        before = draft.schema
        draft = replace(draft, schema=_applied(draft, change))
        yield change, before, draft.schema


def _applied(draft: _Draft, change: SchemaChange) -> TableSchema:
    """The schema of the draft with one change made.

    Raises: InvalidArgumentError.
    """
    schema = draft.schema
    match change:
        case AddColumn():
            return replace(schema, row_type=_add(draft, change))
        case RenameColumn():
            return _rename(schema, change)
        case DropColumn(name):
            path = path_of(schema.row_type, name)
            _refuse_keys(schema, path, "dropped", keys=(*schema.partition_keys, *schema.primary_keys))
            return replace(schema, row_type=_in_row(schema.row_type, path, _without))
        case UpdateColumnType():
            return replace(schema, row_type=_retype(schema, change))
        case UpdateColumnNullability():
            return replace(schema, row_type=_renull(schema, change))
        case UpdateColumnComment(name, comment):
            return _edited(schema, name, lambda field: replace(field, description=comment))
        case UpdateColumnDefault(name, default):
            return _edited(schema, name, lambda field: replace(field, default_value=default))
        case MoveColumn():
            return replace(schema, row_type=_move(schema.row_type, change))
        case SetOption(key, value):
            check_stored(key)
            _check_option(draft, key, value)
            return replace(schema, options={**schema.options, key: value})
        case RemoveOption(key):
            _check_option(draft, key, None)
            return replace(schema, options={name: text for name, text in schema.options.items() if name != key})
        case UpdateComment(comment):
            return replace(schema, comment=comment)
        case _:
            assert_never(change)


# ── paths ───────────────────────────────────────────────────────────────────────────────────────


def path_of(columns: RowType, name: ColumnPath) -> tuple[str, ...]:
    """The names that lead to a column, or to a field inside one."""
    if isinstance(name, tuple):
        return name
    return (name,) if name in columns.names else tuple(name.split("."))


def _spelled(path: Sequence[str]) -> str:
    return ".".join(path)


def _position(row: RowType, name: str, path: Sequence[str]) -> int:
    if name not in row.names:
        raise InvalidArgumentError(
            f"no column {_spelled(path)!r}; at {name!r} there are {', '.join(row.names) or 'none'}"
        )
    return row.names.index(name)


def _in_row(
    row: RowType, path: Sequence[str], edit: Callable[[RowType, str], RowType], done: tuple[str, ...] = ()
) -> RowType:
    """The row type with the ROW at the path's end edited: `edit` gets it and the last name."""
    name, *rest = path
    if not rest:
        return edit(row, name)
    position = _position(row, name, (*done, name))

    def inside(data_type: DataType, path: Sequence[str], done: tuple[str, ...]) -> DataType:
        match data_type:
            case RowType() if not isinstance(data_type, VariantType):
                return _in_row(data_type, path, edit, done)
            case ArrayType(element) if path[0] == "element" and len(path) > 1:
                return replace(data_type, element=inside(element, path[1:], (*done, "element")))
            case MapType(_, value) if path[0] == "value" and len(path) > 1:
                return replace(data_type, value=inside(value, path[1:], (*done, "value")))
            case _:
                raise InvalidArgumentError(
                    f"{_spelled((*done, path[0]))!r}: {_spelled(done)!r} of type {type_to_json(data_type)} has no such "
                    "field; write element for the elements of an array, value for the values of a map"
                )

    fields = list(row.fields)
    fields[position] = replace(fields[position], type=inside(fields[position].type, rest, (*done, name)))
    return replace(row, fields=tuple(fields))


def _at_type(
    data_type: DataType, path: Sequence[str], edit: Callable[[DataType], DataType], done: tuple[str, ...]
) -> DataType:
    """The type with the one at the path's end edited; `element` and `value` may end it."""
    if not path:
        return edit(data_type)
    name, rest = path[0], path[1:]
    match data_type:
        case ArrayType(element) if name == "element":
            return replace(data_type, element=_at_type(element, rest, edit, (*done, name)))
        case MapType(_, value) if name == "value":
            return replace(data_type, value=_at_type(value, rest, edit, (*done, name)))
        case RowType(fields) if not isinstance(data_type, VariantType):
            position = _position(data_type, name, (*done, name))
            made = list(fields)
            made[position] = replace(made[position], type=_at_type(made[position].type, rest, edit, (*done, name)))
            return replace(data_type, fields=tuple(made))
        case _:
            raise InvalidArgumentError(
                f"{_spelled((*done, name))!r}: {_spelled(done)!r} of type {type_to_json(data_type)} has no such part; "
                "write element for the elements of an array, value for the values of a map"
            )


def type_at(row: RowType, path: Sequence[str]) -> DataType:
    """The type that a path leads to. Raises: InvalidArgumentError."""
    found: list[DataType] = []

    def keep(data_type: DataType) -> DataType:
        found.append(data_type)
        return data_type

    _at_type(row, path, keep, ())
    return found[0]


def _edited(schema: TableSchema, name: ColumnPath, edit: Callable[[DataField], DataField]) -> TableSchema:
    path = path_of(schema.row_type, name)

    def replaced(row: RowType, last: str) -> RowType:
        fields = list(row.fields)
        position = _position(row, last, path)
        fields[position] = edit(fields[position])
        return replace(row, fields=tuple(fields))

    return replace(schema, row_type=_in_row(schema.row_type, path, replaced))


# ── columns ─────────────────────────────────────────────────────────────────────────────────────


def _refuse_keys(schema: TableSchema, path: Sequence[str], done: str, *, keys: Sequence[str]) -> None:
    if len(path) == 1 and path[0] in keys:
        role = "a partition key" if path[0] in schema.partition_keys else "part of the primary key"
        raise InvalidArgumentError(
            f"column {path[0]!r} is {role}, so it cannot be {done}; create a new table and write the rows there"
        )


def _add(draft: _Draft, change: AddColumn) -> RowType:
    """The row type with the new column at its index.

    Raises: InvalidArgumentError.
    """
    schema = draft.schema
    data_type = to_data_type(change.type)
    path = path_of(schema.row_type, change.name)
    if not data_type.nullable:
        raise InvalidArgumentError(
            f"new column {_spelled(path)!r} cannot be NOT NULL: existing rows have no value for it; add it nullable"
        )
    field_id = next(draft.next_id)
    field = DataField(field_id, path[-1], with_nested_ids(data_type, draft.next_id), change.comment)

    def insert(row: RowType, name: str) -> RowType:
        if name in row.names:
            raise InvalidArgumentError(f"there is a column {_spelled(path)!r} already; choose another name")
        fields = list(row.fields)
        insert_at = _insertion_index(row, name, first=change.first, after=change.after, before=change.before)
        if insert_at is None and len(path) == 1 and schema.table_options.adds_columns_before_partition_keys:
            insert_at = next((i for i, item in enumerate(fields) if item.name in schema.partition_keys), None)
        fields.insert(len(fields) if insert_at is None else insert_at, field)
        return replace(row, fields=tuple(fields))

    return _in_row(schema.row_type, path, insert)


def _insertion_index(
    row: RowType,
    name: str,
    *,
    first: bool = False,
    last: bool = False,
    after: str | None = None,
    before: str | None = None,
) -> int | None:
    """Position in the row for a column that is not in it; None if none is given."""
    given = [first, last, after is not None, before is not None]
    if sum(given) > 1:
        raise InvalidArgumentError(f"column {name!r}: give one position: first, last, after or before another column")
    if first:
        return 0
    if last:
        return len(row.fields)
    reference = after if after is not None else before
    if reference is None:
        return None
    return _position(row, reference, (reference,)) + (after is not None)


def _rename(schema: TableSchema, change: RenameColumn) -> TableSchema:
    """The schema with a column, or a field of a ROW, renamed; also in the primary key and in options that name it.

    Raises: InvalidArgumentError if the name is taken; UnsupportedError for partition keys.
    """
    path = path_of(schema.row_type, change.name)
    _refuse_keys(schema, path, "renamed", keys=schema.partition_keys)

    def renamed(row: RowType, name: str) -> RowType:
        position = _position(row, name, path)
        if change.to in row.names:
            raise InvalidArgumentError(
                f"there is a column {change.to!r} already; choose another name for {_spelled(path)!r}"
            )
        fields = list(row.fields)
        fields[position] = replace(fields[position], name=change.to)
        return replace(row, fields=tuple(fields))

    row_type = _in_row(schema.row_type, path, renamed)
    if len(path) > 1:
        return replace(schema, row_type=row_type)
    keys = tuple(change.to if name == path[0] else name for name in schema.primary_keys)
    options = rename_in_options(schema.options, path[0], change.to)
    return replace(schema, row_type=row_type, primary_keys=keys, options=options)


def _without(row: RowType, name: str) -> RowType:
    position = _position(row, name, (name,))
    if len(row.fields) == 1:
        raise InvalidArgumentError(f"{name!r} is the only field, so it cannot be dropped; drop its column")
    return replace(row, fields=row.fields[:position] + row.fields[position + 1 :])


def _retype(schema: TableSchema, change: UpdateColumnType) -> RowType:
    """The row type with the column's new type.

    Raises: InvalidArgumentError if old values cannot be cast.
    """
    path = path_of(schema.row_type, change.name)
    _refuse_keys(schema, path, "given another type", keys=(*schema.partition_keys, *schema.primary_keys))
    wanted = to_data_type(change.type)

    def retyped(old: DataType) -> DataType:
        new = with_nullable(wanted, nullable=old.nullable and wanted.nullable)
        _check_nullability(schema, path, old, new)
        if with_nullable(new, nullable=old.nullable) == old:
            return new
        if not is_alterable(old, new):
            raise InvalidArgumentError(
                f"column {_spelled(path)!r} cannot change from {type_to_json(old)} to {type_to_json(new)}: there is no "
                "cast for its old values; add a new column, or change the parts of a nested column by their paths"
            )
        if schema.table_options.refuses_lossy_casts and not is_implicit(old, new):
            raise InvalidArgumentError(
                f"column {_spelled(path)!r}: the change from {type_to_json(old)} to {type_to_json(new)} may lose what "
                "values have, which 'disable-explicit-type-casting' = 'true' forbids"
            )
        return new

    row_type = _at_type(schema.row_type, path, retyped, ())
    assert isinstance(row_type, RowType)
    return row_type


def _renull(schema: TableSchema, change: UpdateColumnNullability) -> RowType:
    path = path_of(schema.row_type, change.name)
    if change.nullable != schema.table_options.nullable_keys:
        _refuse_keys(schema, path, "made nullable" if change.nullable else "made NOT NULL", keys=schema.primary_keys)

    def renulled(old: DataType) -> DataType:
        new = with_nullable(old, nullable=change.nullable)
        _check_nullability(schema, path, old, new)
        return new

    row_type = _at_type(schema.row_type, path, renulled, ())
    assert isinstance(row_type, RowType)
    return row_type


def _check_nullability(schema: TableSchema, path: Sequence[str], old: DataType, new: DataType) -> None:
    option = "alter-column-null-to-not-null.disabled"
    if old.nullable and not new.nullable and schema.table_options.refuses_not_null:
        raise InvalidArgumentError(
            f"column {_spelled(path)!r} may contain nulls already, so it cannot become NOT NULL; if you know that it "
            f"contains none, set '{option}' = 'false' first"
        )


def _move(columns: RowType, change: MoveColumn) -> RowType:
    position = _position(columns, change.name, (change.name,))
    if change.name in (change.after, change.before):
        raise InvalidArgumentError(f"column {change.name!r} cannot be moved next to itself")
    others = replace(columns, fields=columns.fields[:position] + columns.fields[position + 1 :])
    insert_at = _insertion_index(
        others, change.name, first=change.first, last=change.last, after=change.after, before=change.before
    )
    if insert_at is None:
        raise InvalidArgumentError(f"column {change.name!r}: say where to: first, last, after or before another column")
    fields = list(others.fields)
    fields.insert(insert_at, columns.fields[position])
    return replace(columns, fields=tuple(fields))


# ── options ─────────────────────────────────────────────────────────────────────────────────────


def _check_option(draft: _Draft, key: str, value: str | None) -> None:
    """Refuses what must not change once there are snapshots; None removes the option."""
    name = newest_name(key)
    others = {other: text for other, text in draft.schema.options.items() if other != key}
    changed = others if value is None else {**others, key: value}
    old, new = with_newest_names(draft.stored).get(name), with_newest_names(changed).get(name)
    if key == "path" and value is not None and old != new:
        raise InvalidArgumentError("'path' cannot be set: a table stays where it is; copy its rows to another one")
    if old == new or not draft.has_snapshots:
        return
    if name in FIXED_OPTIONS:
        raise InvalidArgumentError(
            f"{spelled(key)} says what the stored files mean, so it cannot change once there is a snapshot; "
            "create a new table with it, and write the rows there"
        )
    if key == "bucket":
        _check_bucket(old, new)
    if key == "deletion-vectors.enabled" and (old or "false").lower() != (new or "false").lower():
        _check_vectors(draft)


def _check_vectors(draft: _Draft) -> None:
    if not draft.schema.table_options.deletion_vectors_modifiable:
        raise UnsupportedError(
            "'deletion-vectors.enabled' cannot change once there is a snapshot, unless "
            "'deletion-vectors.modifiable' = 'true' was set before"
        )


def _check_bucket(old: str | None, new: str | None) -> None:
    if new is None:
        raise InvalidArgumentError("'bucket' cannot be removed once there is a snapshot; set another positive number")
    if int(old or -1) < 1 or not new.strip().isdigit():
        raise InvalidArgumentError(
            f"'bucket' cannot change from '{old or -1}' to '{new}' once there is a snapshot: only between positive "
            "numbers; create a new table, and write the rows there"
        )
