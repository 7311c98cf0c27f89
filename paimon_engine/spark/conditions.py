"""Row filters as SQL text for Spark, where Spark gives the same result as `to_arrow_expression`.

Text works on a classic session and on Spark Connect alike. Literals have the type of their column, so that Spark
pushes comparisons down to the files. Numbers are compared in the same way in both, except that 0.0 and -0.0 are equal
in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyarrow as pa

from paimon_engine.predicate import And, Compare, In, IsNull, Match, Not, Or, Predicate, TextTest

_ZERO_ALIKE = frozenset({("<", True), (">=", True), ("<=", False), (">", False)})
"""Operators, and whether the zero is negative, with which both zeros on the other side fall on one side of it."""


def spark_condition(predicate: Predicate, columns: Mapping[str, str]) -> str | None:
    """The SQL condition of a bound predicate; None if no SQL condition of Spark means exactly that.

    `columns` has an expression for each column that conditions may be on.
    """
    match predicate:
        case And(parts) | Or(parts):
            texts = [spark_condition(part, columns) for part in parts]
            known = [f"({text})" for text in texts if text is not None]
            return (" AND " if isinstance(predicate, And) else " OR ").join(known) if len(known) == len(texts) else None
        case Not(part):
            text = spark_condition(part, columns)
            return None if text is None else f"NOT ({text})"
    column = columns.get(predicate.column)
    if column is None:
        return None
    match predicate:
        case Compare(operator, _, value):
            text = literal(value)
            if text is None or (_is_zero(value) and (operator, _is_negative(value)) not in _ZERO_ALIKE):
                return None
            return f"{column} {operator} {text}"
        case In(_, values):
            return _in(column, values)
        case IsNull(_, negated):
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        case Match():
            return _match(column, predicate)


def _in(column: str, values: tuple[pa.Scalar | None, ...]) -> str | None:
    known = [value for value in values if value is not None]
    if not known:
        # NULL IN (…) is unknown; with a null in the list every other value is unknown, too.
        return "CAST(NULL AS BOOLEAN)" if values else f"IF({column} IS NULL, CAST(NULL AS BOOLEAN), FALSE)"
    texts = [None if _is_zero(value) else literal(value) for value in known]
    if None in texts:
        return None
    listed = ", ".join(str(text) for text in texts)
    return f"{column} IN ({listed}{'' if len(known) == len(values) else ', NULL'})"


def _match(column: str, predicate: Match) -> str | None:
    text = _text(predicate.text)
    match predicate.test:
        case TextTest.STARTS_WITH:
            return f"startswith({column}, {text})"
        case TextTest.ENDS_WITH:
            return f"endswith({column}, {text})"
        case TextTest.CONTAINS:
            return f"contains({column}, {text})"
        case TextTest.LIKE:
            # What a backslash before other characters means is not the same everywhere.
            return None if "\\" in predicate.text else f"{column} LIKE {text}"


def _is_zero(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type) and value.as_py() == 0)


def _is_negative(value: pa.Scalar) -> bool:
    return math.copysign(1, value.as_py()) < 0


def literal(value: pa.Scalar) -> str | None:
    """The SQL text of a value; None if there is none."""
    kind = value.type
    if pa.types.is_boolean(kind):
        return "TRUE" if value.as_py() else "FALSE"
    if pa.types.is_integer(kind):
        return f"CAST('{value.as_py()}' AS {_INTEGERS[kind.bit_width]})"
    if pa.types.is_floating(kind):
        return f"CAST('{_number(value.as_py())}' AS {'FLOAT' if kind.bit_width == 32 else 'DOUBLE'})"
    if pa.types.is_decimal(kind):
        return f"CAST('{value.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_string(kind):
        return _text(value.as_py())
    if pa.types.is_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_date32(kind):
        return f"date_from_unix_date({value.value})"
    return _moment(value) if pa.types.is_timestamp(kind) else None


_INTEGERS: Mapping[int, str] = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}


def _text(text: str) -> str:
    """As bytes, because a setting of the session decides what an escape means in a SQL text."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _number(number: float) -> str:
    return (
        repr(number) if math.isfinite(number) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    )


def _moment(value: pa.Scalar) -> str | None:
    try:
        micros = value.cast(pa.timestamp("us", value.type.tz))
        if value.type.tz is not None:
            return f"timestamp_micros(CAST('{micros.value}' AS BIGINT))"
        moment = micros.as_py()
    except (pa.ArrowInvalid, ValueError, OverflowError):
        return None
    return f"CAST('{moment.isoformat(' ')}' AS TIMESTAMP_NTZ)"
