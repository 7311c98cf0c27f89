"""Arrow arrays and scalars made of bytes.

`pa.array`, `pa.scalar` and `to_numpy` import pandas, if it is installed, when a process first calls one of them: 0.3 s
of CPU, for values that are not of pandas. Reads do without them, with filters on columns of the common types, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def of_numbers(values: NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """Values of a fixed width that are stored as these numbers, of that width; none is null."""
    assert values.itemsize * 8 == arrow_type.bit_width
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def scalar_of_number(number: int, arrow_type: pa.DataType) -> pa.Scalar:
    """The value that is stored as this number: an integer, or what counts days or seconds and the like.

    Raises: OverflowError if the type has no such value.
    """
    signed = not pa.types.is_unsigned_integer(arrow_type)
    stored = number.to_bytes(arrow_type.bit_width // 8, "little", signed=signed)
    return pa.Array.from_buffers(arrow_type, 1, [None, pa.py_buffer(stored)])[0]


def scalar_of_float(number: float, arrow_type: pa.DataType) -> pa.Scalar:
    """The value of a floating-point type that is nearest to a number; an infinity beyond its range."""
    with np.errstate(over="ignore"):
        return of_numbers(np.asarray([number], f"f{arrow_type.bit_width // 8}"), arrow_type)[0]


def scalar_of_bytes(value: str | bytes, arrow_type: pa.DataType) -> pa.Scalar:
    """The text or the bytes of a type of variable length."""
    return of_bytes([value], arrow_type)[0]


def of_bytes(values: Sequence[str | bytes], arrow_type: pa.DataType) -> pa.Array:
    """Texts or bytes, of a type of variable length; none is null.

    Raises: UnicodeEncodeError for half a surrogate pair.
    """
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    is_large = pa.types.is_large_string(arrow_type) or pa.types.is_large_binary(arrow_type)
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    offsets = pa.py_buffer(ends if is_large else ends.astype(np.int32))
    return pa.Array.from_buffers(arrow_type, len(values), [None, offsets, pa.py_buffer(b"".join(encoded))])


def of_values(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """An array of integers, also those that count days or seconds and the like, of texts, bytes, or None.

    Values of other types are left to `pa.array`.

    Raises: OverflowError if a number does not fit the type; what `pa.array` raises for other types.
    """
    has_bytes = arrow_type in (pa.string(), pa.binary())
    if not has_bytes and not pa.types.is_signed_integer(arrow_type) and not pa.types.is_temporal(arrow_type):
        return pa.array(values, arrow_type)
    if has_bytes:
        plain = of_bytes(["" if value is None else value for value in values], arrow_type)
    else:
        plain = of_numbers(np.asarray([value or 0 for value in values], f"i{arrow_type.bit_width // 8}"), arrow_type)
    if None not in values:
        return plain
    valid = np.packbits([value is not None for value in values], bitorder="little")
    return pa.Array.from_buffers(arrow_type, len(values), [pa.py_buffer(valid), *plain.buffers()[1:]])


def as_numbers(array: pa.Array) -> NDArray[Any]:
    """The numbers of an array of a numeric type, without a copy; what they are where it is null is left open."""
    data_type = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1] or b"", data_type, len(array), array.offset * data_type.itemsize)
