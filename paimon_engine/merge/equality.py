"""Numbers that are equal where values are: what `collect`, `merge_map` and `nested_update` compare elements by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.gather import validity

Codes = npt.NDArray[np.int64]


def codes(values: pa.Array) -> Codes:
    """Numbers from 0 on that are equal where the values are; nulls are equal to nulls, NaN to NaN.

    A float's zeros differ by sign, as in Java.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        return _with_nulls(values, joined_codes([codes(values.field(i)) for i in range(kind.num_fields)], len(values)))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _codes_of_lists(values)
    if pa.types.is_floating(kind):
        values = _bits(values)
    return np.asarray(pc.fill_null(pc.dictionary_encode(values).indices, -1)).astype(np.int64) + 1


def joined_codes(columns: Sequence[Codes], count: int) -> Codes:
    """Numbers of rows, given those of their columns: shape [count].

    They compare as the columns do, one after another.
    """
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
