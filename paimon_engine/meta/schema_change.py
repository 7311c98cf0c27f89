"""What ALTER can change, as plain values with a JSON form.

Columns are named as `column`, and fields inside them by a path: `column.field`, `column.element.field`,
`column.value`; a name that has dots itself is given as a tuple of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.type_text import TypeLike, to_data_type
from paimon_engine.types import type_to_json

ColumnPath = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column (or field of a ROW), null in existing rows; last, unless a position is given.

    `type` is text such as `DECIMAL(10, 2)` or `ARRAY<INT>`, or an Arrow type. It must be nullable.
    """

    name: ColumnPath
    type: TypeLike
    comment: str | None = None
    first: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name; keys and options that name the column follow. `to` is a name, not a path."""

    name: ColumnPath
    to: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The column is dropped; its values stay in the files, but nothing reads them."""

    name: ColumnPath


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Another type. Old values are cast when they are read, so some may lose digits or become null.

    The column keeps its nullability, unless the type says NOT NULL.
    """

    name: ColumnPath
    type: TypeLike


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Whether the column may contain nulls."""

    name: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """The comment of a column; None removes it."""

    name: ColumnPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """The value, as text, that is written instead of null; None removes it.

    Paimon supports it from 1.2 on. The option `fields.<column>.default-value` is what 0.9 reads instead of null.
    """

    name: ColumnPath
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another position among the columns; exactly one of the fields."""

    name: str
    first: bool = False
    last: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """The value of a table option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """The table option gets its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """The comment of the table; None removes it."""

    comment: str | None


SchemaChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefault
    | MoveColumn
    | SetOption
    | RemoveOption
    | UpdateComment
)

CHANGES: Final[Mapping[str, type[SchemaChange]]] = {
    "add_column": AddColumn,
    "rename_column": RenameColumn,
    "drop_column": DropColumn,
    "update_column_type": UpdateColumnType,
    "update_column_nullability": UpdateColumnNullability,
    "update_column_comment": UpdateColumnComment,
    "update_column_default": UpdateColumnDefault,
    "move_column": MoveColumn,
    "set_option": SetOption,
    "remove_option": RemoveOption,
    "update_comment": UpdateComment,
}
"""Every change, by its name in JSON."""


def change_to_json(change: SchemaChange) -> dict[str, Any]:
    """JSON form: the name of the change as `change`, and what differs from the defaults.

    Raises: InvalidArgumentError, UnsupportedError for an Arrow type without a Paimon counterpart.
    """
    name = next((name for name, kind in CHANGES.items() if type(change) is kind), None)
    if name is None:
        raise InvalidArgumentError(f"{change!r} is not a schema change; there are {', '.join(map(_spelled, CHANGES))}")
    value: dict[str, Any] = {"change": name}
    for field in fields(change):
        given = getattr(change, field.name)
        if given == field.default and field.default is not MISSING:
            continue
        if isinstance(given, pa.DataType):
            given = type_to_json(to_data_type(given))
        value[field.name] = list(given) if isinstance(given, tuple) else given
    return value


def change_from_json(value: Mapping[str, Any]) -> SchemaChange:
    """Change of its JSON form.

    Raises: InvalidArgumentError naming what is wrong.
    """
    given = dict(value) if isinstance(value, Mapping) else {}
    kind = CHANGES.get(given.pop("change", None))
    if kind is None:
        raise InvalidArgumentError(f"{value!r} is not a schema change; 'change' is one of {', '.join(CHANGES)}")
    names = {field.name: field for field in fields(kind)}
    missing = [name for name, field in names.items() if field.default is MISSING and name not in given]
    if missing or given.keys() - names.keys():
        raise InvalidArgumentError(f"{value!r}: {value['change']} takes {', '.join(names)}")
    if isinstance(given.get("name"), list):
        given["name"] = tuple(given["name"])
    return kind(**given)


def as_changes(changes: Sequence[SchemaChange | Mapping[str, Any]]) -> tuple[SchemaChange, ...]:
    """Changes that are given as values or in their JSON form.

    Raises: InvalidArgumentError.
    """
    return tuple(change_from_json(one if isinstance(one, Mapping) else change_to_json(one)) for one in changes)


def _spelled(name: str) -> str:
    return CHANGES[name].__name__
