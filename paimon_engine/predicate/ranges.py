"""Which files can have rows that match, by smallest value, largest value and null count.

What is not known never excludes. In ranges of FLOAT and DOUBLE columns a largest value that is NaN says that NaN may be
there, whatever else is; both zeros are one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from paimon_engine.predicate.tree import NEGATED, And, Compare, In, IsNull, Match, Not, Operator, Or, Predicate


class ColumnRange(Protocol):
    """What is known of a column in a file; None is unknown. Values compare with Python's `<`."""

    @property
    def min(self) -> Any | None: ...
    @property
    def max(self) -> Any | None: ...
    @property
    def null_count(self) -> int | None: ...


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
            wanted = [value for value in values if value is not None]
            return any(known is None or _range_may_match("=", value, known, row_count) for value in wanted)
        case IsNull(column, negated):
            known = ranges.get(column)
            if known is None or known.null_count is None:
                return True
            return known.null_count < row_count if negated else known.null_count > 0
        case Match(column=column):
            known = ranges.get(column)
            return known is None or _prefix_may_match(predicate.prefix, known, row_count)
        case And(parts):
            return all(may_match(part, ranges, row_count) for part in parts)
        case Or(parts):
            return any(may_match(part, ranges, row_count) for part in parts)
        case Not(part):
            # Nothing that is tested for a value is ever true of null.
            known = ranges.get(part.column) if isinstance(part, In | Match | Compare) else None
            return known is None or not _is_all_null(known, row_count)


def all_match(predicate: Predicate, ranges: Mapping[str, ColumnRange], row_count: int) -> bool:
    """Whether ranges show that all rows match, apart from those with a null in a column of the predicate.

    False where they do not tell. Literals must already be in the form of the ranges' values.
    """
    match predicate:
        case Compare(operator, column, value):
            others = Compare(NEGATED[operator], column, value)
            return column in ranges and not may_match(others, ranges, row_count)
        case And(parts):
            return all(all_match(part, ranges, row_count) for part in parts)
        case Or(parts):
            return any(all_match(part, ranges, row_count) for part in parts)
        case _:
            return False


def _is_all_null(known: ColumnRange, row_count: int) -> bool:
    return known.null_count is not None and known.null_count == row_count


def _prefix_may_match(prefix: str, known: ColumnRange, row_count: int) -> bool:
    if _is_all_null(known, row_count):
        return False
    low, high = known.min, known.max
    if not prefix or not isinstance(low, str) or not isinstance(high, str):
        return True
    return low[: len(prefix)] <= prefix <= high


def _range_may_match(operator: Operator, value: Any, known: ColumnRange, row_count: int) -> bool:
    """Whether a value between the column's smallest and largest may match; True where they are unknown."""
    if _is_all_null(known, row_count):
        return False
    low, high = known.min, known.max
    if low is None or high is None:
        return True
    if isinstance(value, float):
        return _float_may_match(operator, value, low, high)
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


def _float_may_match(operator: Operator, value: float, low: float, high: float) -> bool:
    """As for other numbers, with NaN as the largest of them and room for either zero."""
    if math.isnan(low):
        return True
    above = math.isnan(high)
    if math.isnan(value):
        return above or operator in ("<", "<=", "!=")
    match operator:
        case "=":
            return low <= value and (above or value <= high)
        case "!=":
            return above or value == 0 or not low == high == value
        case "<":
            return low < value or low == value == 0
        case "<=":
            return low <= value
        case ">":
            return above or high > value or high == value == 0
        case ">=":
            return above or high >= value
