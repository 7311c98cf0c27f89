"""Row filters: a small tree, read from a SQL condition, used on rows and on statistics.

1. `parse_where` turns `day = DATE '2013-01-01' AND delay > 15` into a tree; sqlglot does the parsing.
2. `to_arrow_expression` gives the Arrow filter that decides rows.
3. `may_match` decides from minimum, maximum and null count whether any row of a file can match.

SQL's three-valued logic holds: a comparison with null is unknown, and unknown rows are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql

from paimon_engine.errors import InvalidArgumentError

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Compare:
    """`column operator value`; value is never null."""

    operator: Operator
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, or `IS NOT NULL` where negated."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false; unknown stays unknown."""

    part: Predicate


Predicate = Compare | In | IsNull | And | Or | Not


class ColumnRange(Protocol):
    """What is known of a column in a file; None is unknown. Values compare with Python's `<`."""

    @property
    def min(self) -> Any | None: ...
    @property
    def max(self) -> Any | None: ...
    @property
    def null_count(self) -> int | None: ...


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Names of the columns that the predicate looks at."""
    match predicate:
        case Compare() | In() | IsNull():
            return frozenset({predicate.column})
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Not(part):
            return columns_of(part)


def conjuncts_of(predicate: Predicate | None) -> list[Predicate]:
    """Predicates that must all hold where `predicate` does; none for None."""
    match predicate:
        case None:
            return []
        case And(parts):
            return [conjunct for part in parts for conjunct in conjuncts_of(part)]
        case _:
            return [predicate]


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────

_COMPARISONS: Mapping[type[sql.Expression], tuple[Operator, Operator]] = {
    sql.EQ: ("=", "="),
    sql.NEQ: ("!=", "!="),
    sql.LT: ("<", ">"),
    sql.LTE: ("<=", ">="),
    sql.GT: (">", "<"),
    sql.GTE: (">=", "<="),
}


def parse_where(text: str) -> Predicate:
    """Predicate of a SQL condition: comparisons, IN, BETWEEN, IS [NOT] NULL, AND, OR, NOT and parentheses.

    Raises: InvalidArgumentError naming the part that is not understood.
    """
    try:
        tree = sqlglot.parse_one(text, dialect="spark", into=sql.Condition)
        return _predicate(tree)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(f"cannot read the filter {text!r}: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"the filter {text[:40]!r}… is nested too deeply") from error


def _predicate(node: sql.Expression) -> Predicate:
    match node:
        case sql.Paren():
            return _predicate(node.this)
        case sql.And():
            return And((_predicate(node.left), _predicate(node.right)))
        case sql.Or():
            return Or((_predicate(node.left), _predicate(node.right)))
        case sql.Not():
            return Not(_predicate(node.this))
        case sql.Is():
            return _is_null(node)
        case sql.In() if node.expressions:
            return In(_column(node.this), tuple(_literal(value) for value in node.expressions))
        case sql.Between():
            column = _column(node.this)
            return And(
                (Compare(">=", column, _literal(node.args["low"])), Compare("<=", column, _literal(node.args["high"])))
            )
        case sql.Binary() if type(node) in _COMPARISONS:
            return _comparison(node)
        case _:
            raise _not_understood(node)


def _comparison(node: sql.Binary) -> Compare:
    operator, mirrored = _COMPARISONS[type(node)]
    if isinstance(node.left, sql.Column):
        return Compare(operator, _column(node.left), _literal(node.right))
    return Compare(mirrored, _column(node.right), _literal(node.left))


def _is_null(node: sql.Is) -> IsNull:
    if isinstance(node.expression, sql.Null):
        return IsNull(_column(node.this))
    if isinstance(node.expression, sql.Not) and isinstance(node.expression.this, sql.Null):
        return IsNull(_column(node.this), negated=True)
    raise _not_understood(node)


def _column(node: sql.Expression) -> str:
    if isinstance(node, sql.Column):
        return str(node.name)
    raise _not_understood(node)


def _literal(node: sql.Expression) -> Any:
    match node:
        case sql.Literal() if node.is_string:
            return node.this
        case sql.Literal():
            return _number(node)
        case sql.Boolean():
            return bool(node.this)
        case sql.Neg() if isinstance(node.this, sql.Literal) and not node.this.is_string:
            return -_number(node.this)
        case sql.Cast() if isinstance(node.this, sql.Literal):
            return _typed(node)
        case _:
            raise _not_understood(node)


def _number(node: sql.Literal) -> int | Decimal:
    text = str(node.this)
    try:
        return int(text) if text.isdigit() else Decimal(text)
    except (ArithmeticError, ValueError) as error:
        raise _not_understood(node) from error


def _typed(node: sql.Cast) -> Any:
    text, kind = str(node.this.this), node.to.this
    try:
        if kind is sql.DataType.Type.DATE:
            return date.fromisoformat(text)
        if kind in (sql.DataType.Type.TIMESTAMP, sql.DataType.Type.TIMESTAMPTZ, sql.DataType.Type.TIMESTAMPNTZ):
            return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{text!r} is no {kind.value}") from error
    raise _not_understood(node)


def _not_understood(node: sql.Expression) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"cannot use {node.sql(dialect='spark')!r} in a filter; "
        "use comparisons of a column with a value, IN, BETWEEN, IS NULL, AND, OR, NOT"
    )


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def to_arrow_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Arrow filter over rows of `schema`; literals are cast to their column's type.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    match predicate:
        case Compare(operator, column, value):
            return _compare_expression(operator, pc.field(column), literal(schema, column, value))
        case In(column, values):
            wanted = pa.array([literal(schema, column, value) for value in values], schema.field(column).type)
            # Arrow finds a null to be in no set; in SQL that is unknown, so that NOT IN leaves nulls out too.
            return pc.if_else(pc.field(column).is_valid(), pc.field(column).isin(wanted), pa.scalar(None, pa.bool_()))
        case IsNull(column, negated):
            _field(schema, column)
            return ~pc.field(column).is_null() if negated else pc.field(column).is_null()
        case And(parts):
            return _fold([to_arrow_expression(part, schema) for part in parts], conjunction=True)
        case Or(parts):
            return _fold([to_arrow_expression(part, schema) for part in parts], conjunction=False)
        case Not(part):
            return ~to_arrow_expression(part, schema)


def _fold(parts: list[pc.Expression], *, conjunction: bool) -> pc.Expression:
    out = parts[0]
    for part in parts[1:]:
        out = out & part if conjunction else out | part
    return out


def _compare_expression(operator: Operator, left: pc.Expression, right: pa.Scalar) -> pc.Expression:
    match operator:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right


def _field(schema: pa.Schema, column: str) -> pa.Field:
    if column not in schema.names:
        raise InvalidArgumentError(f"no column {column!r} to filter on; the columns are {', '.join(schema.names)}")
    return schema.field(column)


def literal(schema: pa.Schema, column: str, value: Any) -> pa.Scalar:
    """A literal in the type of the column it is compared with.

    Raises: InvalidArgumentError if the column is missing or the literal does not fit its type.
    """
    arrow_type = _field(schema, column).type
    try:
        if isinstance(value, Decimal) and pa.types.is_floating(arrow_type):
            value = float(value)
        if isinstance(value, int) and pa.types.is_decimal(arrow_type):
            value = Decimal(value)
        if isinstance(value, str) and not (pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)):
            return pa.scalar(value).cast(arrow_type)
        return pa.scalar(value).cast(arrow_type) if isinstance(value, int | date) else pa.scalar(value, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidArgumentError(f"{value!r} does not fit column {column!r} of type {arrow_type}: {error}") from error


# ── statistics ──────────────────────────────────────────────────────────────────────────────────


def may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange], row_count: int) -> bool:
    """Whether a row can match, given the ranges of some columns; unknown columns never exclude.

    Literals must already be in the form of the ranges' values.
    """
    match predicate:
        case Compare(operator, column, value):
            known = ranges.get(column)
            return known is None or _range_may_match(operator, value, known, row_count)
        case In(column, values):
            known = ranges.get(column)
            return known is None or any(_range_may_match("=", value, known, row_count) for value in values)
        case IsNull(column, negated):
            known = ranges.get(column)
            if known is None or known.null_count is None:
                return True
            return known.null_count < row_count if negated else known.null_count > 0
        case And(parts):
            return all(may_match(part, ranges, row_count) for part in parts)
        case Or(parts):
            return any(may_match(part, ranges, row_count) for part in parts)
        case Not():
            return True


def _range_may_match(operator: Operator, value: Any, known: ColumnRange, row_count: int) -> bool:
    if known.null_count is not None and known.null_count == row_count:
        return False
    low, high = known.min, known.max
    if low is None or high is None:
        return True
    match operator:
        case "=":
            return bool(low <= value <= high)
        case "!=":
            return not (low == high == value)
        case "<":
            return bool(low < value)
        case "<=":
            return bool(low <= value)
        case ">":
            return bool(high > value)
        case ">=":
            return bool(high >= value)
