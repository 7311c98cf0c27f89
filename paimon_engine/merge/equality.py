"""Numbers that are equal where values are: what `collect`, `merge_map` and `nested_update` compare elements by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.gather import is_flat, numbers_of, validity

Codes = npt.NDArray[np.int64]
_Indices = npt.NDArray[np.intp]
_SPAN_MAX: Final = 1 << 31
"""Integers with at most this range are used as codes themselves: with the number of a key they fit into 63 bits."""


def codes(values: pa.Array) -> Codes:
    """Numbers from 0 on that are equal where the values are; nulls are equal to nulls, NaN to NaN.

    A float's zeros differ by sign, as in Java.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        return _with_nulls(values, joined_codes([codes(values.field(i)) for i in range(kind.num_fields)], len(values)))
    if pa.types.is_fixed_size_list(kind):
        return codes(values.cast(pa.list_(kind.value_field)))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _codes_of_lists(values)
    if pa.types.is_floating(kind):
        values = _bits(values)
    else:
        distances = distances_from_least(values, _SPAN_MAX)
        if distances is not None:
            return distances
    return np.asarray(pc.fill_null(pc.dictionary_encode(values).indices, -1)).astype(np.int64) + 1


def distances_from_least(values: pa.Array, span_max: int) -> Codes | None:
    """Numbers from 1 on that compare as the values do, 0 for nulls.

    None if the values are not integers, days or times, or their range is larger.
    """
    if not is_flat(values.type) or pa.types.is_floating(values.type):
        return None
    numbers = numbers_of(values)
    valid = validity(values) if values.null_count else None
    some = numbers if valid is None else numbers[valid]
    if not len(some):
        return np.zeros(len(values), dtype=np.int64)
    low = int(some.min())
    if int(some.max()) - low >= span_max:
        return None
    # What is stored under a null may be any number, and overflow here.
    found = numbers.astype(np.int64) - low + 1
    return found if valid is None else np.where(valid, found, 0)


def equal_pairs(lengths: _Indices, numbers: Codes) -> tuple[_Indices, _Indices, _Indices]:
    """Equal numbers of a group: the group, ascending, the index of one, and that of the next one that is equal.

    The first `lengths[0]` numbers are the first group, and so on. Numbers are from 0 on.
    """
    count, groups = len(numbers), np.arange(len(lengths))
    width, bits = int(numbers.max(initial=0)) + 1, count.bit_length()
    if len(lengths) * width >> (63 - bits):
        keys = np.repeat(groups, lengths)
        order = np.lexsort([numbers, keys])
        one, other = order[:-1], order[1:]
        same = np.flatnonzero((keys[one] == keys[other]) & (numbers[one] == numbers[other]))
        return keys[one[same]], one[same], other[same]
    # With its index below each number, the numbers need no argsort, which takes more than twice as long.
    placed = np.repeat(groups * (width << bits), lengths)
    placed += numbers << bits
    placed += np.arange(count)
    placed.sort()
    index = (1 << bits) - 1
    same = np.flatnonzero((placed[1:] ^ placed[:-1]) <= index)
    return placed[same] // (width << bits), placed[same] & index, placed[same + 1] & index


def joined_codes(columns: Sequence[Codes], count: int) -> Codes:
    """Numbers of rows, given those of their columns: shape [count].

    They compare as the columns do, one after another.
    """
    if len(columns) == 1:
        return columns[0]
    result = np.zeros(count, dtype=np.int64)
    for column in columns:
        width = int(column.max(initial=0)) + 1
        result = np.unique(result * width + column, return_inverse=True)[1]
    return result


def _with_nulls(values: pa.Array, numbers: Codes) -> Codes:
    return np.where(validity(values), numbers + 1, 0)


def _bits(values: pa.Array) -> pa.Array:
    doubles = values.cast(pa.float64())
    numbers = np.asarray(doubles.fill_null(0.0))
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    return pa.array(bits, mask=~validity(doubles))


def _codes_of_lists(values: pa.Array) -> Codes:
    """Lists are equal element by element, maps whatever the order of their entries."""
    is_map = pa.types.is_map(values.type)
    parts = [codes(values.keys), codes(values.items)] if is_map else [codes(values.values)]
    elements = joined_codes(parts, len(parts[0])).tolist()
    offsets, valid = values.offsets.to_pylist(), values.is_valid().to_pylist()
    seen: dict[tuple[int, ...] | None, int] = {}
    result = np.empty(len(values), dtype=np.int64)
    for row, present in enumerate(valid):
        members = elements[offsets[row] : offsets[row + 1]]
        key = tuple(sorted(members) if is_map else members) if present else None
        result[row] = seen.setdefault(key, len(seen))
    return result
