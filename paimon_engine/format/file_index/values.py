"""A column as file indexes store it: integers, or bytes.

    BOOLEAN                      int8, 0 or 1
    TINYINT … BIGINT             int8 … int64
    FLOAT, DOUBLE                int32, int64 with the bits; one kind of NaN
    DATE, TIME                   int32: days; milliseconds of the day
    DECIMAL                      int64: unscaled value, up to 18 digits
    TIMESTAMP, TIMESTAMP_LTZ     int64: milliseconds up to precision 3, else microseconds
    CHAR … VARBINARY             binary

Equal values have equal forms. Different timestamps of more than six digits may have the same.

Source: the value mappers of `BitmapFileIndex`, `BitSliceIndexBitmapFileIndex`, `KeyFactory`, `FastHash` of the Java
library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_engine.format.bitmaps import bitmap_of
from paimon_engine.format.file_index.hashing import number_hash_codes, string_hash_codes
from paimon_engine.types import BINARY_ROOTS, FLOAT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, TypeRoot

Array = npt.NDArray[Any]
Value = int | bytes

_VIEWS: Final = {
    TypeRoot.FLOAT: pa.int32(),
    TypeRoot.DOUBLE: pa.int64(),
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIME: pa.int32(),
}
_MICROS_PRECISION: Final = 6
_MILLIS_PRECISION: Final = 3


def stored_values(column: pa.Array, data_type: AtomicType) -> pa.Array:
    """The column, in the Arrow type of `data_type`, in its stored form; nulls stay."""
    root = data_type.root
    if root in STRING_ROOTS or root in BINARY_ROOTS:
        return column.cast(pa.binary())
    if root is TypeRoot.BOOLEAN:
        return column.cast(pa.int8())
    if root in FLOAT_ROOTS:
        nan = pa.scalar(float("nan"), column.type)
        return pc.if_else(pc.is_nan(column), nan, column).view(_VIEWS[root])
    if root in TIMESTAMP_ROOTS:
        return _timestamps(column, data_type)
    if root is TypeRoot.DECIMAL:
        # Up to 18 digits, all is in the lower half.
        return _masked(np.frombuffer(column.buffers()[1], np.int64)[::2][column.offset :][: len(column)], column)
    return column.view(_VIEWS[root]) if root in _VIEWS else column


def _timestamps(column: pa.Array, data_type: AtomicType) -> pa.Array:
    numbers = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column)]
    match column.type.unit:
        case "s":
            return _masked(numbers * 1000, column)
        case "ns":
            return _masked(numbers // 1000, column)
        case "us" if data_type.precision <= _MILLIS_PRECISION:
            return _masked(numbers // 1000, column)
        case _:
            return _masked(numbers, column)


def _masked(numbers: Array, column: pa.Array) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=None if column.null_count == 0 else np.asarray(column.is_null()))


def is_exact(data_type: AtomicType) -> bool:
    """Whether different values always have different stored forms."""
    return data_type.root not in TIMESTAMP_ROOTS or data_type.precision <= _MICROS_PRECISION


def numbers_of(column: pa.Array) -> Array:
    """Stored values that are integers and not null, as NumPy array."""
    return np.asarray(column)


def sort_keys(numbers: Array, data_type: AtomicType) -> Array:
    """Integers in whose order the values are ordered in Java: -0.0 before 0.0, NaN last."""
    if data_type.root not in FLOAT_ROOTS:
        return numbers
    # Bits of negative numbers grow with their magnitude.
    sign = numbers >> (numbers.dtype.itemsize * 8 - 1)
    keys: Array = numbers ^ sign & np.iinfo(numbers.dtype).max
    return keys


def is_binary(data_type: AtomicType) -> bool:
    """Whether values are stored as bytes."""
    return data_type.root in STRING_ROOTS or data_type.root in BINARY_ROOTS


_WIDTHS: Final = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
}


def width_of(data_type: AtomicType) -> int:
    """Bytes of a stored integer."""
    return _WIDTHS.get(data_type.root, 8)


@dataclass(frozen=True, slots=True)
class Groups:
    """The rows of each distinct value.

    `values` [k] in order of first appearance; the rows of value i are `rows[bounds[i] : bounds[i + 1]]`, ascending.
    """

    values: pa.Array
    rows: npt.NDArray[np.uint32]
    bounds: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.uint32]
    row_count: int

    def bitmap(self, number: int) -> BitMap:
        """Rows of a value."""
        return bitmap_of(self.rows[self.bounds[number] : self.bounds[number + 1]])

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows each value has."""
        return np.diff(self.bounds)


def group_rows(chunks: Sequence[pa.Array]) -> Groups:
    """Rows by value, of a column in stored form; at least one chunk, which may be empty."""
    encoded = pa.chunked_array(chunks).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    null = np.asarray(encoded.indices.is_null())
    codes = np.asarray(encoded.indices.fill_null(-1))
    order = np.argsort(codes, kind="stable").astype(np.uint32)
    null_count = int(null.sum())
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1)) - null_count
    return Groups(encoded.dictionary, order[null_count:], bounds, order[:null_count], len(codes))


def hash_codes(values: pa.Array, data_type: AtomicType) -> npt.NDArray[np.int32]:
    """Java's hash code of each stored value."""
    if is_binary(data_type):
        return string_hash_codes(values)
    if data_type.root is TypeRoot.BOOLEAN:
        return np.where(numbers_of(values) == 1, 1231, 1237).astype(np.int32)
    return number_hash_codes(numbers_of(values))


def sorted_order(values: pa.Array, data_type: AtomicType) -> npt.NDArray[np.int64]:
    """Indices of the stored values in ascending order."""
    if is_binary(data_type):
        return np.asarray(pc.sort_indices(values)).astype(np.int64)
    return np.argsort(sort_keys(numbers_of(values), data_type), kind="stable")


def records(values: pa.Array, *fields: npt.NDArray[np.int32]) -> bytes:
    """`value, field…` of each value, one after another; bytes with their length in front, all big-endian."""
    if not pa.types.is_binary(values.type):
        numbers = numbers_of(values)
        columns = [numbers.astype(numbers.dtype.newbyteorder(">")), *(field.astype(">i4") for field in fields)]
        packed = np.empty(len(values), [(f"f{i}", column.dtype) for i, column in enumerate(columns)])
        for number, column in enumerate(columns):
            packed[f"f{number}"] = column
        return packed.tobytes()
    lengths = np.asarray(pc.binary_length(values))
    pieces = [_words(lengths), values, *(_words(field) for field in fields)]
    return b"".join(pc.binary_join_element_wise(*pieces, b"").to_pylist())


def record_sizes(values: pa.Array, field_count: int) -> npt.NDArray[np.int64]:
    """Bytes of each of the `records`."""
    if not pa.types.is_binary(values.type):
        return np.full(len(values), numbers_of(values).dtype.itemsize + 4 * field_count)
    return np.asarray(pc.binary_length(values)).astype(np.int64) + 4 + 4 * field_count


def _words(numbers: Array) -> pa.Array:
    """Big-endian words as binary values."""
    buffer = pa.py_buffer(numbers.astype(">i4").tobytes())
    return pa.Array.from_buffers(pa.binary(4), len(numbers), [None, buffer]).cast(pa.binary())
