"""Predicates with internal values, the form in which statistics and partitions hold values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_engine.format.binary_row import internal_values
from paimon_engine.predicate import And, Compare, In, IsNull, Match, Not, Or, Predicate, bind
from paimon_engine.types import RowType, to_arrow_schema


def internal_predicate(row_type: RowType, predicate: Predicate) -> Predicate:
    """The predicate with its literals as internal values.

    Raises: InvalidArgumentError if a column is missing or a literal does not fit its type.
    """
    return _converted(row_type, bind(predicate, to_arrow_schema(row_type)))


def _converted(row_type: RowType, predicate: Predicate) -> Predicate:
    """The predicate with each compared value in internal form; columns that statistics lack stay unchanged."""

    def convert(column: str, value: pa.Scalar) -> Any:
        # There are no statistics of the fields of a ROW, so the value that they are compared with does not matter.
        if column not in row_type.names:
            return value
        return internal_values(pa.repeat(value, 1), row_type.field(column).type)[0]

    match predicate:
        case Compare(operator, column, value):
            return Compare(operator, column, convert(column, value))
        case In(column, values):
            return In(column, tuple(convert(column, value) for value in values if value is not None))
        case IsNull() | Match():
            return predicate
        case And(parts):
            return And(tuple(_converted(row_type, part) for part in parts))
        case Or(parts):
            return Or(tuple(_converted(row_type, part) for part in parts))
        case Not(part):
            return Not(_converted(row_type, part))
