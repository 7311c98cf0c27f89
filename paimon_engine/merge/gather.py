"""Values of a column at given indices.

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
_Indices = npt.NDArray[np.intp]


def gather(column: pa.Array, indices: _Indices) -> pa.Array:
    """The values at these indices; null where an index is −1."""
    lacks = bool(indices.min(initial=0) < 0)
    if not lacks and not (column.null_count and is_flat(column.type)):
        return pc.take(column, pa.array(indices), boundscheck=False)
    if not is_flat(column.type) or not len(column):
        return column.take(pa.array(indices, mask=indices < 0))
    valid = valid_at(column, indices)
    if lacks:
        # An index of −1 takes the last value, which the mask hides.
        valid &= indices >= 0
    return array_of(_values(column).take(indices), valid, column.type)


def replaced(column: pa.Array, indices: _Indices, changed: _Indices, values: pa.Array) -> pa.Array:
    """The values at these indices, but at those of the result that are `changed` the new ones instead."""
    if len(values) == len(indices):
        return values
    if not is_flat(column.type):
        taken = indices.copy()
        taken[changed] = len(column) + np.arange(len(values))
        return pc.take(pa.concat_arrays([column, values]), pa.array(taken), boundscheck=False)
    found = _values(column).take(indices)
    found[changed] = _values(values)
    if not (column.null_count or values.null_count):
        return array_of(found, None, column.type)
    valid = valid_at(column, indices)
    valid[changed] = validity(values)
    return array_of(found, valid, column.type)


def elements_at(lists: pa.Array, indices: _Indices) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Positions of the elements of the lists, or maps, at these indices; and the offsets of the lists and their end.

    A null has no elements. No index comes twice.
    """
    stored = np.asarray(lists.offsets)
    begins = stored[indices]
    lengths = stored[indices + 1] - begins
    if lists.null_count:
        lengths *= valid_at(lists, indices)
    if (lengths == 1).all():
        return begins, np.arange(len(indices) + 1, dtype=np.int32)
    offsets = np.zeros(len(indices) + 1, dtype=np.int32)
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


def valid_at(column: pa.Array, indices: _Indices) -> _Mask:
    """Which values at these indices are not null."""
    return validity(column).take(indices) if column.null_count else np.ones(len(indices), dtype=bool)


def is_flat(kind: pa.DataType) -> bool:
    """Whether values are numbers of whole bytes in one buffer."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind))


def _values(column: pa.Array) -> npt.NDArray[Any]:
    """The stored numbers, with anything where the column is null."""
    width = column.type.bit_width // 8
    return np.frombuffer(column.buffers()[1], f"u{width}", len(column), column.offset * width)
