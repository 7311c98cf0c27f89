"""`may_match` for many files at once: their smallest and largest values and numbers of nulls in arrays.

Each function gives what its twin in `predicate/ranges` gives of each file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paimon_engine.predicate.tree import And, Compare, In, IsNull, Match, Not, Operator, Or, Predicate

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RangeColumn:
    """What is known of a column in each of n files, all arrays of shape (n,).

    `low` and `high` are numbers or `str`, and meant only where `has_bounds`; of FLOAT and DOUBLE a largest value of NaN
    says that NaN may be there. `null_counts` is −1 where unknown.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    has_bounds: Bools
    null_counts: NDArray[np.int64]


def may_match_each(predicate: Predicate, ranges: Mapping[str, RangeColumn], row_counts: NDArray[np.int64]) -> Bools:
    """For each file, whether a row can match; columns without ranges never exclude.

    Literals must already be in the form of the ranges' values.
    """
    match predicate:
        case Compare(operator, column, value):
            known = ranges.get(column)
            return _all(row_counts) if known is None else _range_may_match(operator, value, known, row_counts)
        case In(column, values):
            known = ranges.get(column)
            wanted = [value for value in values if value is not None]
            if known is None:
                return _all(row_counts) if wanted else ~_all(row_counts)
            found = ~_all(row_counts)
            for value in wanted:
                found |= _range_may_match("=", value, known, row_counts)
            return found
        case IsNull(column, negated):
            known = ranges.get(column)
            if known is None:
                return _all(row_counts)
            counts = known.null_counts
            return (counts < 0) | ((counts < row_counts) if negated else (counts > 0))
        case Match(column=column):
            known = ranges.get(column)
            return _all(row_counts) if known is None else _prefix_may_match(predicate.prefix, known, row_counts)
        case And(parts):
            found = _all(row_counts)
            for part in parts:
                found &= may_match_each(part, ranges, row_counts)
            return found
        case Or(parts):
            found = ~_all(row_counts)
            for part in parts:
                found |= may_match_each(part, ranges, row_counts)
            return found
        case Not(part):
            known = ranges.get(part.column) if isinstance(part, In | Match | Compare) else None
            return _all(row_counts) if known is None else ~_is_all_null(known, row_counts)


def _all(row_counts: NDArray[np.int64]) -> Bools:
    return np.ones(len(row_counts), bool)


def _is_all_null(known: RangeColumn, row_counts: NDArray[np.int64]) -> Bools:
    found: Bools = known.null_counts == row_counts
    return found


def _prefix_may_match(prefix: str, known: RangeColumn, row_counts: NDArray[np.int64]) -> Bools:
    there = ~_is_all_null(known, row_counts)
    if not prefix or known.low.dtype != object:
        return there
    begins = np.empty(len(known.low), object)
    begins[:] = [low[: len(prefix)] for low in known.low.tolist()]
    above = _value_may_match(">=", prefix, known.low, known.high)
    return there & (~known.has_bounds | (_value_may_match("<=", prefix, begins, known.high) & above))


def _range_may_match(operator: Operator, value: Any, known: RangeColumn, row_counts: NDArray[np.int64]) -> Bools:
    within = _float_may_match if isinstance(value, float) else _value_may_match
    return ~_is_all_null(known, row_counts) & (~known.has_bounds | within(operator, value, known.low, known.high))


def _value_may_match(operator: Operator, literal: Any, low: NDArray[Any], high: NDArray[Any]) -> Bools:
    """Whether a value from `low` to `high` may match."""
    # NumPy's own strings would lose characters of code 0 at the end.
    value = np.array(literal, object) if isinstance(literal, str) else literal
    found: Bools
    match operator:
        case "=":
            found = (low <= value) & (high >= value)
        case "!=":
            found = ~((low == value) & (high == value))
        case "<":
            found = low < value
        case "<=":
            found = low <= value
        case ">":
            found = high > value
        case ">=":
            found = high >= value
    return found


def _float_may_match(operator: Operator, value: float, low: NDArray[Any], high: NDArray[Any]) -> Bools:
    """As for other numbers, with NaN as the largest of them and room for either zero."""
    above = np.isnan(high)
    found: Bools
    if math.isnan(value):
        found = above | (operator in ("<", "<=", "!="))
    else:
        match operator:
            case "=":
                found = (low <= value) & (above | (high >= value))
            case "!=":
                found = above | (value == 0) | ~((low == value) & (high == value))
            case "<":
                found = (low < value) | ((low == 0) & (value == 0))
            case "<=":
                found = low <= value
            case ">":
                found = above | (high > value) | ((high == 0) & (value == 0))
            case ">=":
                found = above | (high >= value)
    found |= np.isnan(low)
    return found
