"""Literals in the type of the column that they are compared with.

`bind` makes a predicate fit a schema: every literal becomes a scalar of its column's type. A literal that lies
between two values of the type, or beyond all of them, changes the comparison instead of the literal, so that nothing
is rounded: `k > 1.5` on integers is `k > 1`, `price = 0.125` on two digits matches nothing.

Only FLOAT and DOUBLE columns take the nearest number, as the Java library does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_engine.arrow_values import scalar_of_bytes, scalar_of_float, scalar_of_number
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.predicate.tree import (
    NEGATED,
    And,
    Compare,
    In,
    IsNull,
    Match,
    Not,
    Operator,
    Or,
    Predicate,
)
from paimon_engine.types import missing_column

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_NS: Final = 86_400 * 10**9
_UNIT_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NUMPY_UNIT_NS: Final = {"D": _DAY_NS, "h": 3600 * 10**9, "m": 60 * 10**9, **_UNIT_NS}

Exact = Fraction | float
"""Where a literal lies among a type's values, in steps of the type; a float is an infinity or NaN."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Values of a type as integers: the smallest, the largest, and the scalar of one of them."""

    least: int
    most: int
    scalar: Callable[[int], pa.Scalar]


ValuePath = tuple[Any, ...]
"""Steps into a column: names of a column and of fields, and keys of MAPs as scalars."""


def find_field(schema: pa.Schema, column: str) -> tuple[ValuePath, pa.Field]:
    """What a name leads to, by dots into a ROW and by `['key']` into a MAP: its path, and the field itself.

    Raises: InvalidArgumentError naming columns that exist, or a key that the MAP cannot have.
    """
    found = _descend(list(schema), column, column)
    if found is None:
        raise missing_column(column, schema.names, "to filter on")
    return found


def _descend(fields: list[pa.Field], name: str, column: str) -> tuple[ValuePath, pa.Field] | None:
    for field in fields:
        if field.name == name:
            return (name,), field
    for field in fields:
        if name.startswith(field.name):
            deeper = _inside(field, name[len(field.name) :], column)
            if deeper is not None:
                return (field.name, *deeper[0]), deeper[1]
    return None


def _inside(field: pa.Field, rest: str, column: str) -> tuple[ValuePath, pa.Field] | None:
    """Where the rest of a name behind a field leads: `.name …` into a ROW, `[key] …` into a MAP."""
    if not rest:
        return (), field
    if rest[0] == "." and pa.types.is_struct(field.type):
        return _descend([field.type.field(index) for index in range(field.type.num_fields)], rest[1:], column)
    if rest[0] == "[" and pa.types.is_map(field.type):
        key, left = _key_of(rest, column)
        deeper = _inside(field.type.item_field, left, column)
        return None if deeper is None else ((_key_scalar(field.type, key, column), *deeper[0]), deeper[1])
    return None


def _key_of(text: str, column: str) -> tuple[Any, str]:
    """The key that a text such as `['a'].x` begins with, and what follows it."""
    # A key that is text may have brackets; up to one of these it is not a literal.
    for end in (index for index, character in enumerate(text) if character == "]"):
        with contextlib.suppress(InvalidArgumentError):
            from paimon_engine.predicate.parse import parse_literal

            return parse_literal(text[1:end]), text[end + 1 :]
    raise InvalidArgumentError(f"{column!r} has no key such as ['a'] or [1] in the brackets")


def _key_scalar(map_type: pa.MapType, key: Any, column: str) -> pa.Scalar:
    kind = map_type.key_type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        raise InvalidArgumentError(f"{column!r}: keys of type {kind} cannot be looked up")
    return literal(pa.schema([pa.field(column, kind)]), column, key)


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """The same predicate with literals as scalars of their columns' types, NOT only above IN and text tests.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _bound(predicate, schema, negated=False)


def _bound(predicate: Predicate, schema: pa.Schema, *, negated: bool) -> Predicate:
    """The predicate, negated or not, with literals as scalars of the columns' types and no `Not` above the leaves."""
    match predicate:
        case Compare(operator, column, value):
            field = find_field(schema, column)[1]
            return _compare(NEGATED[operator] if negated else operator, column, value, field)
        case In():
            field = find_field(schema, predicate.column)[1]
            found: In = predicate.made(field.type, lambda: _in(predicate, field))
            return Not(found) if negated else found
        case IsNull(column, is_negated):
            find_field(schema, column)
            return IsNull(column, is_negated is not negated)
        case Match(test, column, text):
            arrow_type = find_field(schema, column)[1].type
            if not _is_text(arrow_type):
                raise InvalidArgumentError(f"{test} takes text; column {column!r} is of type {arrow_type}")
            return Not(Match(test, column, text)) if negated else predicate
        case And(parts):
            bound = tuple(_bound(part, schema, negated=negated) for part in parts)
            return Or(bound) if negated else And(bound)
        case Or(parts):
            bound = tuple(_bound(part, schema, negated=negated) for part in parts)
            return And(bound) if negated else Or(bound)
        case Not(part):
            return _bound(part, schema, negated=not negated)


def _compare(operator: Operator, column: str, value: Any, field: pa.Field) -> Predicate:
    """A comparison with a scalar of the column's type, or a constant where no value of the type matches, or each one.

    A literal between two values is rounded down, and the operator is adapted: `k < 1.5` becomes `k <= 1`.
    """
    if isinstance(value, pa.Scalar) and value.type == field.type:
        return Compare(operator, column, value)
    grid = _grid(field.type)
    if grid is None:
        return Compare(operator, column, _plain(field, column, value))
    exact = _exact(field, column, value)
    never, always = In(column, ()), Not(In(column, ()))
    if _is_above(exact, grid):
        return always if operator in ("<", "<=", "!=") else never
    assert isinstance(exact, Fraction) or exact == -math.inf
    if exact < grid.least:
        return always if operator in (">", ">=", "!=") else never
    below = math.floor(exact)
    if below == exact:
        return Compare(operator, column, grid.scalar(below))
    match operator:
        case "=":
            return never
        case "!=":
            return always
        case "<" | "<=":
            return Compare("<=", column, grid.scalar(below))
        case ">" | ">=":
            return Compare(">", column, grid.scalar(below))


def _is_above(exact: Exact, grid: _Grid) -> bool:
    """Whether the literal is larger than all values; NaN is larger than all numbers."""
    return exact > grid.most or exact != exact  # noqa: PLR0124 - only NaN differs from itself


def _in(predicate: In, field: pa.Field) -> In:
    """Values that the type has; a null stays, since it makes the rest unknown."""
    kept: list[pa.Scalar | None] = []
    for value in predicate.values:
        if value is None:
            kept.append(None)
            continue
        equal = _compare("=", predicate.column, value, field)
        if isinstance(equal, Compare):
            kept.append(equal.value)
    return In(predicate.column, tuple(kept))


def literal(schema: pa.Schema, column: str, value: Any) -> pa.Scalar:
    """A literal in the type of the column it is compared with.

    Raises: InvalidArgumentError if the column is missing or the literal is not a value of its type.
    """
    field = find_field(schema, column)[1]
    bound = _compare("=", column, value, field)
    if isinstance(bound, Compare):
        return bound.value
    raise _type_mismatch(field, column, value, "the type has no such value")


# ── types whose values are integers of something ───────────────────────────────────────────


@lru_cache(maxsize=64)
def _grid(arrow_type: pa.DataType) -> _Grid | None:
    """None for types whose values are not evenly spaced."""
    if pa.types.is_integer(arrow_type):
        bits, signed = arrow_type.bit_width, pa.types.is_signed_integer(arrow_type)
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return _Grid(least, most, lambda number: scalar_of_number(number, arrow_type))
    if pa.types.is_decimal(arrow_type):
        edge = 10**arrow_type.precision - 1
        return _Grid(-edge, edge, lambda number: scalar_of_number(number, arrow_type))
    if pa.types.is_date32(arrow_type):
        return _Grid(-(1 << 31), (1 << 31) - 1, lambda days: scalar_of_number(days, arrow_type))
    if pa.types.is_time(arrow_type):
        most = _DAY_NS // _UNIT_NS[arrow_type.unit] - 1
        return _Grid(0, most, lambda number: scalar_of_number(number, arrow_type))
    if pa.types.is_timestamp(arrow_type):
        return _Grid(-(1 << 63), (1 << 63) - 1, lambda number: scalar_of_number(number, arrow_type))
    return None


def _exact(field: pa.Field, column: str, value: Any) -> Exact:
    arrow_type = field.type
    try:
        if pa.types.is_integer(arrow_type) or pa.types.is_decimal(arrow_type):
            number = _number(value)
            scale = arrow_type.scale if pa.types.is_decimal(arrow_type) else 0
            return number * 10**scale if isinstance(number, Fraction) else number
        if pa.types.is_date(arrow_type):
            return Fraction(_nanos(value, zoned=False), _DAY_NS)
        if pa.types.is_time(arrow_type):
            return Fraction(_time_nanos(value), _UNIT_NS[arrow_type.unit])
        return Fraction(_nanos(value, zoned=arrow_type.tz is not None), _UNIT_NS[arrow_type.unit])
    except (TypeError, ValueError) as error:
        raise _type_mismatch(field, column, value, str(error)) from error


def _number(value: Any) -> Exact:
    """Exactly; a float as the decimal number that it is written as."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError(f"{_kind(value)} is not a number")
    if isinstance(value, float):
        return Fraction(repr(value)) if math.isfinite(value) else value
    if isinstance(value, int):
        return Fraction(value)
    number = _decimal(value) if isinstance(value, str) else value
    return Fraction(number) if number.is_finite() else float(number)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("it is not a number") from None


def _nanos(value: Any, *, zoned: bool) -> int:
    """Nanoseconds since 1970; values without a time zone are UTC where the column is of instants."""
    if isinstance(value, str):
        from paimon_engine.predicate.parse import parse_timestamp

        value = parse_timestamp(value)
    if isinstance(value, np.datetime64):
        unit, count = np.datetime_data(value.dtype)
        return int(value.astype(np.int64)) * count * _NUMPY_UNIT_NS[unit]
    if isinstance(value, datetime):
        if value.tzinfo is not None and not zoned:
            raise ValueError("the value has a time zone, the column has none; give the local time without a zone")
        since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
        return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1_000
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * _DAY_NS
    raise TypeError(f"{_kind(value)} is not a point in time")


def _time_nanos(value: Any) -> int:
    if isinstance(value, str):
        value = time.fromisoformat(value)
    if not isinstance(value, time):
        raise TypeError(f"{_kind(value)} is not a time of day")
    if value.tzinfo is not None:
        raise ValueError("the value has a time zone, the column has none")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1_000


# ── the other types ─────────────────────────────────────────────────────────────────────────────


def _plain(field: pa.Field, column: str, value: Any) -> pa.Scalar:
    """The value as a scalar of the column's type, for types without a conversion of their own; never cast silently.

    Raises: InvalidArgumentError naming column, value and what fits.
    """
    arrow_type = field.type
    try:
        if pa.types.is_floating(arrow_type):
            return scalar_of_float(_float(value), arrow_type)
        if pa.types.is_boolean(arrow_type):
            return pa.Array.from_buffers(arrow_type, 1, [None, pa.py_buffer(bytes([_bool(value)]))])[0]
        if _is_text(arrow_type) and isinstance(value, str):
            return scalar_of_bytes(value, arrow_type)
        if pa.types.is_fixed_size_binary(arrow_type) and isinstance(value, str | bytes):
            return pa.scalar(value.encode() if isinstance(value, str) else value, arrow_type)
        if _is_binary(arrow_type) and isinstance(value, str | bytes):
            return scalar_of_bytes(value, arrow_type)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise _type_mismatch(field, column, value, str(error)) from error
    if pa.types.is_nested(arrow_type):
        raise _type_mismatch(
            field,
            column,
            value,
            "nested columns can be tested for null only; name a field of a ROW, or a key of a MAP in brackets",
        )
    raise _type_mismatch(field, column, value, f"{_kind(value)} is none of its values")


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError(f"{_kind(value)} is not a number")
    return float(value)


def _bool(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError(f"{_kind(value)} is neither true nor false")
    return value


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _is_binary(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type))


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _type_mismatch(field: pa.Field, column: str, value: Any, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{value!r} does not fit column {column!r} of type {field.type}: {why}")
