"""Values of a column at given places.

Arrow gathers whatever there is. Columns of numbers, days and times that have nulls, or are to get some, are gathered by
NumPy, which is several times as fast there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.intp]


def gather(column: pa.Array, places: _Places) -> pa.Array:
    """The values at these places; null where a place is −1."""
    lacks = bool(places.min(initial=0) < 0)
    if not lacks and not (column.null_count and is_flat(column.type)):
        return pc.take(column, pa.array(places), boundscheck=False)
    if not is_flat(column.type) or not len(column):
        return column.take(pa.array(places, mask=places < 0))
    valid = valid_at(column, places)
    if lacks:
        # A place of −1 takes the last value, which the mask hides.
        valid &= places >= 0
    return array_of(_values(column).take(places), valid, column.type)


def replaced(column: pa.Array, places: _Places, changed: _Places, values: pa.Array) -> pa.Array:
    """The values at these places, but at those of the result that are `changed` the new ones instead."""
    if len(values) == len(places):
        return values
    if not is_flat(column.type):
        taken = places.copy()
        taken[changed] = len(column) + np.arange(len(values))
        return pc.take(pa.concat_arrays([column, values]), pa.array(taken), boundscheck=False)
    found = _values(column).take(places)
    found[changed] = _values(values)
    if not (column.null_count or values.null_count):
        return array_of(found, None, column.type)
    valid = valid_at(column, places)
    valid[changed] = validity(values)
    return array_of(found, valid, column.type)


def elements_at(lists: pa.Array, places: _Places) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where the elements of the lists, or maps, at these places lie, and where each list begins and the last one ends.

    A null has no elements. No place comes twice.
    """
    stored = np.asarray(lists.offsets)
    begins = stored[places]
    lengths = stored[places + 1] - begins
    if lists.null_count:
        lengths *= valid_at(lists, places)
    if (lengths == 1).all():
        return begins, np.arange(len(places) + 1, dtype=np.int32)
    offsets = np.zeros(len(places) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return np.arange(offsets[-1], dtype=np.int32) + np.repeat(begins - offsets[:-1], lengths), offsets


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """The stored numbers of a column of numbers, days or times, with anything where it is null: shape [n]."""
    kind = "f" if pa.types.is_floating(column.type) else "i"
    return _values(column).view(f"{kind}{column.type.bit_width // 8}")


def array_of(values: npt.NDArray[Any], valid: _Mask | None, kind: pa.DataType) -> pa.Array:
    """A column of stored numbers."""
    bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def validity(column: pa.Array) -> _Mask:
    """Which values are not null."""
    bits = column.buffers()[0] if column.null_count else None
    if bits is None:
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    end = column.offset + len(column)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")[column.offset :].view(np.bool_)


def valid_at(column: pa.Array, places: _Places) -> _Mask:
    """Which values at these places are not null."""
    return validity(column).take(places) if column.null_count else np.ones(len(places), dtype=bool)


def is_flat(kind: pa.DataType) -> bool:
    """Whether values are numbers of whole bytes in one buffer."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind))


def _values(column: pa.Array) -> npt.NDArray[Any]:
    """The stored numbers, with anything where the column is null."""
    width = column.type.bit_width // 8
    return np.frombuffer(column.buffers()[1], f"u{width}", len(column), column.offset * width)
