"""Which rows match: a predicate as an Arrow expression.

SQL's three-valued logic holds: a comparison with null is unknown, and unknown rows are left out.
Numbers compare as in the Java library: NaN equals itself and is larger than any other, −0.0 is less than 0.0.
"""

from __future__ import annotations

import math
import operator as op
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.predicate.literals import bind, find_field
from paimon_engine.predicate.tree import And, Compare, In, IsNull, Match, Not, Operator, Or, Predicate, TextTest

_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], Any]]] = {
    "=": op.eq,
    "!=": op.ne,
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
}
# Not by `pa.scalar`, which imports pandas where that is installed: half a second of the start of a process.
_UNKNOWN: Final = pa.nulls(1, pa.bool_())[0]
_LAST_BEFORE_SURROGATES: Final = 0xD7FF
_TRUE, _FALSE = pa.Array.from_buffers(pa.bool_(), 2, [None, pa.py_buffer(b"\x01")])


def to_arrow_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Arrow filter over rows of `schema`.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _expression(bind(predicate, schema), schema)


def matching_rows(rows: pa.RecordBatch, condition: pc.Expression) -> pa.RecordBatch:
    """The rows for which the condition is true.

    `Table.filter` does the same on all threads, which a batch does not pay for: it costs up to five times as much where
    cores are busy (measured).
    """
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([rows])))
    kept = acero.Declaration("filter", acero.FilterNodeOptions(condition), [source]).to_table(use_threads=False)
    batches = kept.combine_chunks().to_batches()
    return batches[0] if batches else rows.slice(0, 0)


def _expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """The Arrow filter of a predicate whose literals are bound to the types of `schema`. Nulls behave as in SQL."""
    match predicate:
        case Compare(operator, column, value):
            return _compare(operator, _field(schema, column), value)
        case In(column, values):
            return _in(_field(schema, column), values)
        case IsNull(column, negated):
            field = _field(schema, column)
            return field.is_valid() if negated else field.is_null()
        case Match(test, column, text):
            return _match(test, _field(schema, column), text)
        case And(parts):
            return reduce(op.and_, (_expression(part, schema) for part in parts))
        case Or(parts):
            return reduce(op.or_, (_expression(part, schema) for part in parts))
        case Not(part):
            return ~_expression(part, schema)


def _field(schema: pa.Schema, column: str) -> pc.Expression:
    root, *steps = find_field(schema, column)[0]
    found = pc.field(root)
    for step in steps:
        found = pc.struct_field(found, [step]) if isinstance(step, str) else pc.map_lookup(found, step, "first")
    return found


def _where_valid(field: pc.Expression, value: pc.Expression | pa.Scalar) -> pc.Expression:
    """The value for rows that are not null, unknown for the others."""
    return pc.if_else(field.is_valid(), value, _UNKNOWN)


def _compare(operator: Operator, field: pc.Expression, value: pa.Scalar) -> pc.Expression:
    if pa.types.is_floating(value.type):
        return _compare_float(operator, field, value)
    return _COMPARE[operator](field, value)


def _compare_float(operator: Operator, field: pc.Expression, value: pa.Scalar) -> pc.Expression:
    number = value.as_py()
    if math.isnan(number):
        match operator:
            case "=" | ">=":
                return pc.is_nan(field)
            case "!=" | "<":
                return ~pc.is_nan(field)
            case "<=":
                return _where_valid(field, _TRUE)
            case ">":
                return _where_valid(field, _FALSE)
    plain = _compare_zero(operator, field, value) if number == 0 else _COMPARE[operator](field, value)
    return plain | pc.is_nan(field) if operator in (">", ">=") else plain


def _compare_zero(operator: Operator, field: pc.Expression, zero: pa.Scalar) -> pc.Expression:
    """Comparison with 0.0 or −0.0: of the zeros, one over the field says which it is."""
    is_negative = math.copysign(1, zero.as_py()) < 0
    one = pc.scalar(pa.scalar(1.0, zero.type))
    negative, positive = (
        (field == zero) & compare(pc.divide(one, field), pa.scalar(0.0, zero.type)) for compare in (op.lt, op.gt)
    )
    equal = negative if is_negative else positive
    match operator:
        case "=":
            return equal
        case "!=":
            return ~equal
        case "<":
            return field < zero if is_negative else (field < zero) | negative
        case "<=":
            return (field < zero) | negative if is_negative else field <= zero
        case ">":
            return (field > zero) | positive if is_negative else field > zero
        case ">=":
            return field >= zero if is_negative else (field > zero) | positive


def _in(field: pc.Expression, values: tuple[pa.Scalar | None, ...]) -> pc.Expression:
    """Arrow finds a null to be in no set; in SQL that is unknown, so that NOT IN leaves nulls out too."""
    known = [value for value in values if value is not None]
    if not known:
        found = _where_valid(field, _FALSE)
    elif pa.types.is_floating(known[0].type):
        found = reduce(op.or_, (_compare_float("=", field, value) for value in known))
    else:
        # By way of Python values, an array of scalars would lose digits of times.
        wanted = pa.concat_arrays([pa.repeat(value, 1) for value in known])
        found = _where_valid(field, field.isin(wanted))
    return found if len(known) == len(values) else pc.if_else(found, _TRUE, _UNKNOWN)


def _match(test: TextTest, field: pc.Expression, text: str) -> pc.Expression:
    match test:
        case TextTest.STARTS_WITH:
            return pc.starts_with(field, text)
        case TextTest.ENDS_WITH:
            return pc.ends_with(field, text)
        case TextTest.CONTAINS:
            return pc.match_substring(field, text)
        case TextTest.LIKE:
            return pc.match_like(field, text)


# ── ranges ──────────────────────────────────────────────────────────────────────────────────────


def to_range_expression(predicate: Predicate, schema: pa.Schema, without_nan: Collection[str] = ()) -> pc.Expression:
    """What holds of every row that matches, in terms that Arrow can compare with the ranges of a part of a file.

    Ranges do not count NaN, so that they say less of columns that are not known to be `without_nan`.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _range(bind(predicate, schema), schema, without_nan)


def _range(predicate: Predicate, schema: pa.Schema, without_nan: Collection[str]) -> pc.Expression:
    """A condition that holds for all rows that match, for skipping by ranges; true where nothing is known."""
    match predicate:
        case Compare(operator, column, value):
            field = _field(schema, column)
            if pa.types.is_floating(value.type):
                return _float_range(operator, field, value, may_be_nan=column not in without_nan)
            return _COMPARE[operator](field, value)
        case In(column, values):
            known = [value for value in values if value is not None]
            equal = [_range(Compare("=", column, value), schema, without_nan) for value in known]
            return reduce(op.or_, equal) if equal else pc.scalar(_FALSE)
        case IsNull():
            return _expression(predicate, schema)
        case Match(column=column):
            return _prefix_range(_field(schema, column), predicate.prefix)
        case And(parts):
            return reduce(op.and_, (_range(part, schema, without_nan) for part in parts))
        case Or(parts):
            return reduce(op.or_, (_range(part, schema, without_nan) for part in parts))
        case Not(In(column=column) | Match(column=column)):
            return _field(schema, column).is_valid()
        case _:
            return pc.scalar(_TRUE)


def _float_range(operator: Operator, field: pc.Expression, value: pa.Scalar, *, may_be_nan: bool) -> pc.Expression:
    """NaN is larger than all numbers; ranges take both zeros for one."""
    number = value.as_py()
    if math.isnan(number) or operator == "!=" or (may_be_nan and operator in (">", ">=")):
        return field.is_valid()
    with_equal: Mapping[Operator, Operator] = {"<": "<=", ">": ">="}
    return _COMPARE[with_equal.get(operator, operator) if number == 0 else operator](field, value)


def _prefix_range(field: pc.Expression, prefix: str) -> pc.Expression:
    if not prefix:
        return field.is_valid()
    # Smaller than the prefix with its last character that has a plain successor raised to that.
    last = next((index for index in reversed(range(len(prefix))) if ord(prefix[index]) < _LAST_BEFORE_SURROGATES), None)
    above = None if last is None else prefix[:last] + chr(ord(prefix[last]) + 1)
    return field >= prefix if above is None else (field >= prefix) & (field < above)
