"""Which rows match: a predicate over the columns of rows, or as an Arrow expression.

SQL's three-valued logic holds: a comparison with null is unknown, and unknown rows are left out.
Numbers compare as in the Java library: NaN equals itself and is larger than any other, −0.0 is less than 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import scalar_of_float
from paimon_engine.predicate.literals import bind, find_field
from paimon_engine.predicate.tree import And, Compare, In, IsNull, Match, Not, Operator, Or, Predicate, TextTest

_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
# Not by `pa.scalar`, which imports pandas where that is installed: half a second of the start of a process.
_UNKNOWN: Final = pa.nulls(1, pa.bool_())[0]
_TRUE, _FALSE = pa.Array.from_buffers(pa.bool_(), 2, [None, pa.py_buffer(b"\x01")])


Values = Any
"""A column to be tested, an Arrow array or an expression: Arrow has the same functions for both."""


def to_arrow_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Arrow filter over rows of `schema`.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _tested(bind(predicate, schema), schema, pc.field)


def matches(predicate: Predicate, rows: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """For each of the rows whether it matches: true, false, or null where that is unknown.

    Arrow's functions are called here: its filter by an expression is a plan of several threads' work, which a batch
    does not pay for, and imports pandas.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _tested(bind(predicate, rows.schema), rows.schema, rows.column)


def matching_rows(rows: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
    """The rows that match.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    match = matches(predicate, rows)
    # Where a range of keys was looked for, the reader has often chosen just these rows: they need no copy.
    return rows if match.true_count == rows.num_rows else rows.filter(match)


def _tested(predicate: Predicate, schema: pa.Schema, column_of: Callable[[str], Values]) -> Values:
    """A predicate whose literals are bound to the types of `schema`, of the columns that are given. Nulls as in SQL."""

    def values(column: str) -> Values:
        root, *steps = find_field(schema, column)[0]
        found = column_of(root)
        for step in steps:
            found = pc.struct_field(found, [step]) if isinstance(step, str) else pc.map_lookup(found, step, "first")
        return found

    match predicate:
        case Compare(operator, column, value):
            return _compare(operator, values(column), value)
        case In(column):
            return _in(values(column), predicate)
        case IsNull(column, negated):
            return pc.is_valid(values(column)) if negated else pc.is_null(values(column))
        case Match(test, column, text):
            return _match(test, values(column), text)
        case And(parts):
            return reduce(pc.and_kleene, (_tested(part, schema, column_of) for part in parts))
        case Or(parts):
            return reduce(pc.or_kleene, (_tested(part, schema, column_of) for part in parts))
        case Not(part):
            return pc.invert(_tested(part, schema, column_of))


def _where_valid(field: Values, value: pa.Scalar) -> Values:
    """The value for rows that are not null, unknown for the others."""
    return pc.if_else(pc.is_valid(field), value, _UNKNOWN)


def _compare(operator: Operator, field: Values, value: pa.Scalar) -> Values:
    if pa.types.is_floating(value.type):
        return _compare_float(operator, field, value)
    return _COMPARE[operator](field, value)


def _compare_float(operator: Operator, field: Values, value: pa.Scalar) -> Values:
    number = value.as_py()
    if math.isnan(number):
        match operator:
            case "=" | ">=":
                return pc.is_nan(field)
            case "!=" | "<":
                return pc.invert(pc.is_nan(field))
            case "<=":
                return _where_valid(field, _TRUE)
            case ">":
                return _where_valid(field, _FALSE)
    plain = _compare_zero(operator, field, value) if number == 0 else _COMPARE[operator](field, value)
    return pc.or_kleene(plain, pc.is_nan(field)) if operator in (">", ">=") else plain


def _compare_zero(operator: Operator, field: Values, zero: pa.Scalar) -> Values:
    """Comparison with 0.0 or −0.0: of the zeros, one over the field says which it is."""
    is_negative = math.copysign(1, zero.as_py()) < 0
    over = pc.power(field, scalar_of_float(-1, zero.type))
    at_zero = pc.equal(field, zero)
    negative = pc.and_kleene(at_zero, pc.less(over, zero))
    positive = pc.and_kleene(at_zero, pc.greater(over, zero))
    equal = negative if is_negative else positive
    match operator:
        case "=":
            return equal
        case "!=":
            return pc.invert(equal)
        case "<":
            return pc.less(field, zero) if is_negative else pc.or_kleene(pc.less(field, zero), negative)
        case "<=":
            return pc.or_kleene(pc.less(field, zero), negative) if is_negative else pc.less_equal(field, zero)
        case ">":
            return pc.or_kleene(pc.greater(field, zero), positive) if is_negative else pc.greater(field, zero)
        case ">=":
            return pc.greater_equal(field, zero) if is_negative else pc.or_kleene(pc.greater(field, zero), positive)


def _in(field: Values, predicate: In) -> Values:
    """Arrow finds a null to be in no set; in SQL that is unknown, so that NOT IN leaves nulls out too."""
    known: pa.Array | None = predicate.made(_in_array, lambda: _in_array(predicate))
    if known is None:
        found = _where_valid(field, _FALSE)
    elif pa.types.is_floating(known.type):
        found = reduce(pc.or_kleene, (_compare_float("=", field, value) for value in known))
    else:
        found = _where_valid(field, pc.is_in(field, known))
    has_null = len(predicate.values) > (0 if known is None else len(known))
    return pc.if_else(found, _TRUE, _UNKNOWN) if has_null else found


def _in_array(predicate: In) -> pa.Array | None:
    """The values of a bound list but null; None if there are none, whose type is not known."""
    # By way of Python values, an array of scalars would lose digits of times.
    known = [pa.repeat(value, 1) for value in predicate.values if value is not None]
    return pa.concat_arrays(known) if known else None


def _match(test: TextTest, field: Values, text: str) -> Values:
    match test:
        case TextTest.STARTS_WITH:
            return pc.starts_with(field, text)
        case TextTest.ENDS_WITH:
            return pc.ends_with(field, text)
        case TextTest.CONTAINS:
            return pc.match_substring(field, text)
        case TextTest.LIKE:
            return pc.match_like(field, text)
