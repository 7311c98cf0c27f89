"""Keys as numbers or byte strings that compare as the format compares keys.

A single key column of integers, dates, times, timestamps or short decimals becomes int64. Everything else becomes
fixed-width byte strings (NumPy `S`) whose byte order is the key order:

| type | bytes |
| --- | --- |
| integers and all that is stored as one | 8, big endian, sign bit flipped |
| FLOAT, DOUBLE | 8, the bits of the double, flipped so that they order; −0.0 as 0.0 |
| DECIMAL of more than 18 digits | 16, big endian, sign bit flipped |
| BOOLEAN | 1 |
| strings, bytes | the bytes, 0x00 as 01 01 and 0x01 as 01 02, then 0x00 |

The end mark makes keys prefix-free, so that the trailing zeros that NumPy drops never make two keys equal, and
arrays of different widths compare rightly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, TypeRoot

Keys = npt.NDArray[np.generic]
"""int64 or `S`; ascending order is key order, equality is key equality."""

_INTEGER_ROOTS = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME} | TIMESTAMP_ROOTS
)
_SHORT_DECIMAL_DIGITS = 18
_SIGN = np.uint64(1 << 63)


def normalise_keys(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Keys:
    """Keys of n rows, given the columns of the key without nulls: shape [n].

    Raises: UnsupportedError for a nested key column.
    """
    if len(columns) == 1:
        numbers = _as_int64(columns[0], types[0])
        if numbers is not None:
            return numbers
    parts = [_part(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    return _join(parts, len(columns[0]))


def _atomic(data_type: DataType) -> AtomicType:
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"{data_type} cannot be the type of a key column")
    return data_type


def _as_int64(column: pa.Array, data_type: DataType) -> npt.NDArray[np.int64] | None:
    """The column as ordered integers; None if its type is not one."""
    atomic = _atomic(data_type)
    if atomic.root is TypeRoot.DECIMAL and atomic.precision <= _SHORT_DECIMAL_DIGITS:
        return _decimal_words(column)[:, 0].view(np.int64)
    if atomic.root not in _INTEGER_ROOTS:
        return None
    return np.asarray(column.view(_integer_like(column.type)).to_numpy(zero_copy_only=False), dtype=np.int64)


def _integer_like(arrow_type: pa.DataType) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[arrow_type.bit_width]


def _decimal_words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Little-endian halves of 128-bit decimals: shape [n, 2]."""
    decimals = column if pa.types.is_decimal128(column.type) else column.cast(pa.decimal128(38, column.type.scale))
    words = np.frombuffer(decimals.buffers()[1], dtype="<u8")
    return words[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)


# ── byte strings ────────────────────────────────────────────────────────────────────────────────

_Part = npt.NDArray[np.uint8] | tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Bytes of one column: a matrix [n, width], or all bytes in a row with n + 1 offsets."""


def _part(column: pa.Array, data_type: DataType) -> _Part:
    atomic = _atomic(data_type)
    if atomic.root in STRING_ROOTS or atomic.root in BINARY_ROOTS:
        return _text(column)
    if atomic.root is TypeRoot.BOOLEAN:
        return np.asarray(column.cast(pa.uint8()).to_numpy(zero_copy_only=False)).reshape(-1, 1)
    if atomic.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _big_endian(_ordered_bits(column))
    numbers = _as_int64(column, data_type)
    if numbers is not None:
        return _big_endian(numbers.view(np.uint64) ^ _SIGN)
    words = _decimal_words(column)
    return np.hstack([_big_endian(words[:, 1] ^ _SIGN), _big_endian(words[:, 0])])


def _ordered_bits(column: pa.Array) -> npt.NDArray[np.uint64]:
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False)) + 0.0
    bits = values.view(np.uint64)
    return np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _big_endian(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(numbers.astype(">u8")).view(np.uint8).reshape(-1, 8)


def _text(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Escaped bytes with an end mark after each value, and where each begins."""
    values = column.cast(pa.binary())
    content, offsets = _buffers(values)
    if content.size and content.min() <= 1:
        values = pc.replace_substring(pc.replace_substring(values, b"\x01", b"\x01\x02"), b"\x00", b"\x01\x01")
        content, offsets = _buffers(values)
    rows = len(offsets) - 1
    marked = np.zeros(content.size + rows, dtype=np.uint8)
    marked[np.arange(content.size) + np.repeat(np.arange(rows), np.diff(offsets))] = content
    return marked, offsets + np.arange(rows + 1)


def _buffers(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Bytes of the values, from the first on, and n + 1 offsets into them."""
    raw = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    offsets = raw.astype(np.int64)
    data = values.buffers()[2]
    everything = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return everything[offsets[0] : offsets[-1]], offsets - offsets[0]


def _join(parts: Sequence[_Part], rows: int) -> Keys:
    """The parts of each row side by side, padded with zeros to the longest row."""
    if all(isinstance(part, np.ndarray) for part in parts):
        matrix = np.ascontiguousarray(np.hstack([part for part in parts if isinstance(part, np.ndarray)]))
        return matrix.view(f"S{matrix.shape[1]}").reshape(-1)
    lengths = [np.full(rows, part.shape[1]) if isinstance(part, np.ndarray) else np.diff(part[1]) for part in parts]
    width = int(np.sum(lengths, axis=0).max(initial=1))
    matrix = np.zeros((rows, width), dtype=np.uint8)
    flat = matrix.reshape(-1)
    begin = np.arange(rows) * width
    for part, length in zip(parts, lengths, strict=True):
        if isinstance(part, np.ndarray):
            flat[begin[:, None] + np.arange(part.shape[1])] = part
        else:
            content, offsets = part
            flat[np.arange(content.size) + np.repeat(begin - offsets[:-1], length)] = content
        begin = begin + length
    return matrix.view(f"S{width}").reshape(-1)
