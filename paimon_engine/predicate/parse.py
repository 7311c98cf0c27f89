"""Filters from SQL conditions; sqlglot does the parsing, in Spark's dialect.

day = DATE '2013-01-01' AND (delay > 15 OR carrier LIKE 'A%') AND address.city IN ('Ulm', 'Jena') AND tags['a'] = 1
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import sqlglot
from sqlglot import expressions as sql

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.predicate.tree import (
    Compare,
    In,
    IsNull,
    Match,
    Operator,
    Predicate,
    TextTest,
    conjunction,
    disjunction,
    entry_name,
)

_COMPARISONS: Final[Mapping[type[sql.Expression], tuple[Operator, Operator]]] = {
    sql.EQ: ("=", "="),
    sql.NEQ: ("!=", "!="),
    sql.LT: ("<", ">"),
    sql.LTE: ("<=", ">="),
    sql.GT: (">", "<"),
    sql.GTE: (">=", "<="),
}
_TEXT_TESTS: Final = {
    "STARTSWITH": TextTest.STARTS_WITH,
    "ENDSWITH": TextTest.ENDS_WITH,
    "CONTAINS": TextTest.CONTAINS,
}
_COLUMNS: Final = (sql.Column, sql.Dot, sql.Bracket)
_Type = sql.DataType.Type
_TIMESTAMPS: Final = (_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPNTZ, _Type.TIMESTAMPLTZ)
_MICRO_DIGITS: Final = 6


def parse_where(text: str) -> Predicate:
    """Predicate of a SQL condition.

    It may have comparisons of a column with a value, IN, BETWEEN, LIKE, IS NULL, `<=>`, the functions startswith,
    endswith and contains, AND, OR, NOT and parentheses. Columns may be fields of ROW columns, `address.city`, and
    values of keys of MAP columns, `tags['colour']` or `element_at(tags, 'colour')`.

    Raises: InvalidArgumentError naming the part that is not understood.
    """
    try:
        return _predicate(_parsed(text, into=sql.Condition))
    except _NoColumnError as error:
        if error.name is None or f'"{error.name}"' not in text:
            raise InvalidArgumentError(str(error)) from None
        raise InvalidArgumentError(
            f'"{error.name}" is a text in a filter; write names that are not plain words in backticks: `{error.name}`'
        ) from error
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(f"cannot read the filter {text!r}: {_where_it_fails(error)}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"the filter {text[:40]!r}… is nested too deeply") from error


def _parsed(text: str, **how: Any) -> sql.Expression:
    """SQL as sqlglot understands it. Raises: sqlglot.errors.SqlglotError; RecursionError; InvalidArgumentError."""
    try:
        return sqlglot.parse_one(text, dialect="spark", **how)
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise
    except Exception as error:
        # What makes functions of it takes some arguments for granted, such as an even number of them for a map.
        what = f"a part of it, such as the arguments of a function, does not fit ({error})"
        raise InvalidArgumentError(f"cannot read {text!r}: {what}") from error


def _where_it_fails(error: sqlglot.errors.SqlglotError) -> str:
    """The word after which the parser could not continue, if it says."""
    found = getattr(error, "errors", None) or [{}]
    word, column = found[0].get("highlight"), found[0].get("col")
    if not word or column is None:
        return str(error).splitlines()[0]
    return f"it is incomplete or not understood at {word!r}, character {column}"


def parse_literal(text: str) -> Any:
    """The value of a SQL literal.

    Raises: InvalidArgumentError.
    """
    try:
        return _literal(_parsed(text))
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InvalidArgumentError(f"cannot read the value {text!r}") from error


def _predicate(node: sql.Expression) -> Predicate:
    found = _positive(node)
    return ~found if node.args.get("negate") else found


def _positive(node: sql.Expression) -> Predicate:
    match node:
        case sql.Paren():
            return _predicate(node.this)
        # All parts at once: of a long chain each AND and OR is inside of the next one.
        case sql.And():
            return conjunction(*map(_predicate, node.flatten(unnest=False)))
        case sql.Or():
            return disjunction(*map(_predicate, node.flatten(unnest=False)))
        case sql.Not():
            return _negated(node)
        case _:
            return _leaf(node)


def _leaf(node: sql.Expression) -> Predicate:
    """The predicate of a condition without AND, OR and NOT.

    Raises: InvalidArgumentError for what is not supported.
    """
    match node:
        case sql.Is():
            return _is(node)
        case sql.In() if node.expressions:
            return In(_column(node.this), tuple(_literal_or_null(value) for value in node.expressions))
        case sql.Between():
            column, low, high = _column(node.this), _literal(node.args["low"]), _literal(node.args["high"])
            return conjunction(Compare(">=", column, low), Compare("<=", column, high))
        case sql.NullSafeEQ():
            return _null_safe(node)
        case sql.Escape():
            found = _like(node.this, _text(node.expression))
            return ~found if node.this.args.get("negate") else found
        case sql.Like():
            return _like(node, "\\")
        case sql.Column() | sql.Dot() | sql.Bracket():
            return Compare("=", _column(node), value=True)
        case sql.Func() if _function(node) in _TEXT_TESTS:
            column, text = node.expressions if isinstance(node, sql.Anonymous) else (node.this, node.expression)
            return Match(_TEXT_TESTS[_function(node)], _column(column), _text(text))
        case sql.Binary() if type(node) in _COMPARISONS:
            return _comparison(node)
        case _:
            raise _unsupported_expression(node)


def _function(node: sql.Func) -> str:
    name = node.name if isinstance(node, sql.Anonymous) else node.sql_name()
    return str(name).upper().replace("_", "")


def _negated(node: sql.Not) -> Predicate:
    part = node.this
    while isinstance(part, sql.Paren):
        part = part.this
    if isinstance(part, sql.EQ) and part.left == part.right and isinstance(part.left, sql.Column):
        # How an empty IN is written.
        return In(_column(part.left), ())
    return ~_predicate(part)


def _comparison(node: sql.Binary) -> Compare:
    operator, mirrored = _COMPARISONS[type(node)]
    if isinstance(node.left, _COLUMNS):
        return Compare(operator, _column(node.left), _literal(node.right))
    if isinstance(node.right, _COLUMNS):
        return Compare(mirrored, _column(node.right), _literal(node.left))
    raise _unsupported_expression(node)


def _null_safe(node: sql.NullSafeEQ) -> Predicate:
    left, right = (node.left, node.right) if isinstance(node.left, _COLUMNS) else (node.right, node.left)
    column = _column(left)
    if isinstance(right, sql.Null):
        return IsNull(column)
    return conjunction(IsNull(column, negated=True), Compare("=", column, _literal(right)))


def _is(node: sql.Is) -> Predicate:
    wanted, negated = node.expression, False
    if isinstance(wanted, sql.Not):
        wanted, negated = wanted.this, True
    if isinstance(wanted, sql.Null):
        return IsNull(_column(node.this), negated)
    if isinstance(wanted, sql.Boolean):
        column = _column(node.this)
        found = conjunction(IsNull(column, negated=True), Compare("=", column, bool(wanted.this)))
        return ~found if negated else found
    raise _unsupported_expression(node)


def _like(node: sql.Expression, escape: str) -> Predicate:
    """LIKE with the backslash as escape, whichever the text used."""
    pattern = _text(node.expression)
    if len(escape) != 1:
        raise InvalidArgumentError(f"ESCAPE {escape!r}: one character escapes")
    return Match(TextTest.LIKE, _column(node.this), _with_backslash(pattern, escape))


def _with_backslash(pattern: str, escape: str) -> str:
    out, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape and at + 1 < len(pattern):
            at += 1
            out += "\\" + pattern[at]
        elif character in ("\\", escape):
            out += "\\" + character
        else:
            out += character
        at += 1
    return out


def _column(node: sql.Expression) -> str:
    match node:
        case sql.Column():
            return ".".join(part.name for part in node.parts)
        case sql.Dot() if isinstance(node.expression, sql.Identifier):
            return f"{_column(node.this)}.{node.expression.name}"
        case sql.Bracket() if len(node.expressions) == 1:
            return entry_name(_column(node.this), _literal(node.expressions[0]))
        case _:
            raise _unsupported_expression(node)


def _text(node: sql.Expression) -> str:
    value = _literal(node)
    if not isinstance(value, str):
        raise _unsupported_expression(node)
    return value


def _literal_or_null(node: sql.Expression) -> Any:
    return None if isinstance(node, sql.Null) else _literal(node)


def _number(node: sql.Literal) -> int | Decimal:
    text = str(node.this)
    try:
        return int(text) if text.isdigit() else Decimal(text)
    except (InvalidOperation, ValueError) as error:
        raise _unsupported_expression(node) from error


def _literal(node: sql.Expression) -> Any:
    """The Python value of a literal in parsed SQL. Raises: InvalidArgumentError for NULL and for anything else."""
    match node:
        case sql.Literal() if node.is_string:
            return node.this
        case sql.Literal():
            return _number(node)
        case sql.Boolean():
            return bool(node.this)
        case sql.HexString():
            return _hex(node.this)
        case sql.Neg():
            return _minus(node)
        case sql.Paren():
            return _literal(node.this)
        case sql.Cast():
            return _typed(node)
        case sql.Null():
            raise InvalidArgumentError("nothing equals NULL; write IS NULL, IS NOT NULL or <=> NULL")
        case _:
            raise _unsupported_expression(node)


def _minus(node: sql.Neg) -> Any:
    value = _literal(node.this)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _unsupported_expression(node)
    # The minus of decimals takes the sign from zero.
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise InvalidArgumentError(f"X'{text}' holds no pairs of hexadecimal digits") from error


def _typed(node: sql.Cast) -> Any:
    """A literal with its type: `DATE '…'`, `CAST(… AS DOUBLE)`, `1.5BD`."""
    kind = node.to.this
    text = str(_literal(node.this))
    try:
        if kind in _TIMESTAMPS:
            return parse_timestamp(text, is_instant=kind is _Type.TIMESTAMPLTZ)
        if kind is _Type.DATE:
            return date.fromisoformat(text)
        if kind is _Type.TIME:
            return time.fromisoformat(text)
        if kind in sql.DataType.INTEGER_TYPES:
            return int(text)
        if kind in (_Type.FLOAT, _Type.DOUBLE):
            return float(text)
        if kind is _Type.DECIMAL:
            return Decimal(text)
        if kind in sql.DataType.TEXT_TYPES:
            return text
        if kind in (_Type.BINARY, _Type.VARBINARY):
            return text.encode()
        if kind is _Type.BOOLEAN and text.lower() in ("true", "false"):
            return text.lower() == "true"
    except (ValueError, InvalidOperation) as error:
        raise InvalidArgumentError(f"{text!r} is not a {kind.value}") from error
    raise _unsupported_expression(node)


def parse_timestamp(text: str, *, is_instant: bool = False) -> datetime | np.datetime64:
    """A point in time from ISO text, with up to nine digits of the second; a numpy value where six do not do.

    With `is_instant` a text without a time zone is UTC; numpy values never have a zone.

    Raises: ValueError.
    """
    begin, dot, rest = text.strip().partition(".")
    digits = rest[: next((at for at, character in enumerate(rest) if not character.isdigit()), len(rest))]
    if len(digits.rstrip("0")) > _MICRO_DIGITS:
        moment = datetime.fromisoformat(f"{begin}{rest[len(digits) :]}")
        plain = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(f"{plain.isoformat()}.{digits[:9]}", "ns")
    moment = datetime.fromisoformat(f"{begin}{dot}{digits[:_MICRO_DIGITS]}{rest[len(digits) :]}")
    return moment.replace(tzinfo=UTC) if is_instant and moment.tzinfo is None else moment


class _NoColumnError(InvalidArgumentError):
    """A test is not of a column with a value; `name` is a text where a column should be."""

    def __init__(self, message: str, name: str | None) -> None:
        super().__init__(message)
        self.name = name


def _unsupported_expression(node: sql.Expression) -> InvalidArgumentError:
    subject = node if isinstance(node, sql.Literal) else node.this
    name = subject.this if isinstance(subject, sql.Literal) and subject.is_string else None
    return _NoColumnError(
        f"cannot use {node.sql(dialect='spark')!r} in a filter; use comparisons of a column with a value, IN, BETWEEN, "
        "LIKE, startswith, endswith, contains, IS NULL, AND, OR, NOT",
        name,
    )
