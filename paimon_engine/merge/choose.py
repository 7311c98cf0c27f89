"""Aggregate functions that choose one of a key's values: last and first ones, the largest and the smallest.

A function is given a column's versions as `Step`s and says, per key, the position of the chosen row, −1 for null. If
versions are merged below existing ones, first and last follow the order in which versions come, as in the Java library:
an older one is the new first value, and a last value gives way to none that comes below it.

Source: `FieldLastValueAgg`, `FieldLastNonNullValueAgg`, `FieldFirstValueAgg`, `FieldFirstNonNullValueAgg`,
`FieldMaxAgg`, `FieldMinAgg`, `FieldBoolAndAgg`, `FieldBoolOrAgg` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.versions import Step, Versions
from paimon_engine.merge.window import Positions

_SIGN = np.uint64(1 << 63)
_FEW_VERSIONS = 16
"""Up to so many versions of a key are compared one after another, for all keys at once."""


def last_value(versions: Versions, column: str) -> Positions:
    """The newest value, null too; null after a retract."""
    del column
    newest = versions.last(versions.steps != Step.ADD_BELOW)
    if not len(versions):
        return newest
    return np.where(versions.retracts[newest], -1, versions.at(newest))


def last_non_null_value(versions: Versions, column: str) -> Positions:
    """The newest value that is not null; a retract of a value begins again."""
    if not versions.steps.any():
        return versions.newest_valid(column)
    counted = versions.only(versions.valid(column))
    if not len(counted):
        return np.full(len(versions.starts), -1)
    taken_back = counted.last(counted.retracts)
    counted = counted.only(np.arange(len(counted)) > taken_back[counted.keys])
    newest = counted.last(counted.steps == Step.ADD)
    # A value from below is taken only if there is none yet, and it stays.
    return counted.at(np.where(newest >= 0, newest, counted.first(counted.steps == Step.ADD_BELOW)))


def first_value(versions: Versions, column: str) -> Positions:
    """The oldest value, null too; if the first one comes from below, it only confirms the null that is there."""
    del column
    is_added, is_below = versions.steps == Step.ADD, versions.steps == Step.ADD_BELOW
    first, below = versions.first(is_added | is_below), versions.last(is_below)
    found = np.where(below >= 0, below, first)
    return versions.at(np.where((below >= 0) & (below == first), -1, found))


def first_non_null_value(versions: Versions, column: str) -> Positions:
    """The oldest value that is not null."""
    valid = versions.valid(column)
    found = versions.first((versions.steps == Step.ADD) & valid)
    for key in np.unique(versions.keys[versions.steps == Step.ADD_BELOW]).tolist():
        begin, end = int(versions.starts[key]), int(versions.ends[key])
        index = _first_from_below(versions.steps[begin:end].tolist(), valid[begin:end].tolist())
        found[key] = -1 if index is None else begin + index
    return versions.at(found)


def _first_from_below(steps: Sequence[int], valid: Sequence[bool]) -> int | None:
    """Index of the first value that is not null, as the Java library finds it among values from below.

    Once it is found, every value from below replaces it, null too. But where the first one came from below, the
    next one from below only confirms it.
    """
    index: int | None = None
    is_found = False
    for number, (step, present) in enumerate(zip(steps, valid, strict=True)):
        if step == Step.ADD:
            if present and not is_found:
                index, is_found = number, True
        elif is_found:
            index = number
        elif index is not None:
            is_found = True
        elif present:
            index = number
    return index


def largest(versions: Versions, column: str) -> Positions:
    """The largest value; nulls do not count. For booleans: whether one of them is true."""
    return _extreme(versions, column, np.maximum)


def smallest(versions: Versions, column: str) -> Positions:
    """The smallest value; nulls do not count. For booleans: whether all of them are true."""
    return _extreme(versions, column, np.minimum)


def _extreme(versions: Versions, column: str, better: np.ufunc) -> Positions:
    """Position of the smallest or largest value of each key, −1 for keys without values; of equal ones the oldest.

    `better` is `np.minimum` or `np.maximum`. Few versions are compared one after another for all keys at once; many by
    a reduction over each key.
    """
    counted = versions.only(versions.valid(column))
    if not len(counted):
        return np.full(len(versions.starts), -1)
    numbers = ordered_numbers(counted.values(column))
    lengths = counted.ends - counted.starts
    found = np.where(lengths > 0, counted.starts, -1)
    if lengths.max() > _FEW_VERSIONS:
        some = lengths > 0
        best = np.zeros(len(some), dtype=np.int64)
        best[some] = better.reduceat(numbers, counted.starts[some])
        return counted.at(counted.first(numbers == best[counted.keys]))
    left = np.flatnonzero(lengths > 1)
    for turn in range(1, int(lengths.max())):
        indices, others = counted.starts[left] + turn, found[left]
        challenged, challengers = numbers[others], numbers[indices]
        # Of equal values the oldest stays.
        wins = (better(challenged, challengers) != challenged).nonzero()[0]
        found[left[wins]] = indices[wins]
        left = left[lengths[left] > turn + 1]
    return counted.at(found)


def ordered_numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers that compare as the values do, which have no nulls: −0.0 below 0.0, NaN above all."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(values.cast(pa.int64()))
    if pa.types.is_integer(kind):
        return np.asarray(values).astype(np.int64)
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return np.asarray(values.view(pa.int64() if kind.bit_width == 64 else pa.int32())).astype(np.int64)
    if pa.types.is_floating(kind):
        doubles = np.asarray(values.cast(pa.float64()))
        bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
        ordered = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
        return np.asarray(ordered ^ _SIGN).view(np.int64)
    return np.asarray(pc.rank(values, tiebreaker="dense")).astype(np.int64)
