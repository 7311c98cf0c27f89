"""Arrow arrays and scalars made of bytes.

`pa.array`, `pa.scalar` and `to_numpy` import pandas, if it is installed, when a process first calls one of them: 0.3 s
of CPU, for values that are not of pandas. Reads that need no filter, and plans by keys, do without them.
"""

from __future__ import annotations

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


def as_numbers(array: pa.Array) -> NDArray[Any]:
    """The numbers of an array of a numeric type, without a copy; what they are where it is null is left open."""
    data_type = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1] or b"", data_type, len(array), array.offset * data_type.itemsize)
