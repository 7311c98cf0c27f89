"""Keys as numbers or byte strings that compare as the format compares keys.

A single key column of integers, dates, times, timestamps or short decimals, NOT NULL, becomes int64. All else becomes
byte strings whose byte order is the key order, in fixed-width arrays (NumPy `S`):

| type | bytes |
| --- | --- |
| integers and all that is stored as one | 8, big endian, sign bit flipped |
| FLOAT, DOUBLE | 8, the bits of the double, flipped so that they order; −0.0 as 0.0, one NaN above all |
| DECIMAL of more than 18 digits | 16, big endian, sign bit flipped |
| BOOLEAN | 1 |
| strings, bytes | the bytes, 0x00 as 01 01 and 0x01 as 01 02, then 0x00 |

A column of a nullable type has a byte in front, 0 for null and 1 for others, so that null is the smallest, as in Java.

The end mark makes keys prefix-free: zeros added or dropped at the end never make two keys equal, so that arrays of
different widths compare correctly. After the last column it is left out, as the padding does the same.

Where one long key would make a fixed-width array huge, the keys are Python byte strings (NumPy `object`) without
trailing zeros; slower, and they compare with `S` keys in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import UnsupportedError
from paimon_engine.format.layout import text_offsets
from paimon_engine.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
)

Keys = npt.NDArray[np.generic]
"""int64, `S` or byte strings as objects; ascending order is key order, equality is key equality."""

PADDED_BYTES_MAX = 128 << 20
"""Larger than the keys of a window ever are, unless a few of them are much longer than the others."""

_STORED_AS_INTEGERS = INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME}
_SHORT_DECIMAL_DIGITS = 18
_SIGN = np.uint64(1 << 63)
_Fixed = npt.NDArray[np.generic]
"""Values of one width that become bytes of n keys: shape [n]; integers of eight bytes, or bytes unchanged."""


def normalise_keys(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Keys:
    """Keys of n rows, given the columns of the key: shape [n]. Only columns of nullable types may have nulls.

    Raises: UnsupportedError for a nested key column.
    """
    assert not any(column.null_count and not types[i].nullable for i, column in enumerate(columns)), (
        "a key has no nulls"
    )
    if len(columns) == 1 and not types[0].nullable:
        numbers = _as_int64(columns[0], types[0])
        if numbers is not None:
            return numbers
    last = len(columns) - 1
    fields: list[_Fixed | pa.Array] = []
    for i, column in enumerate(columns):
        if types[i].nullable:
            fields.append(np.asarray(column.is_valid().cast(pa.uint8())))
        values = column.fill_null(_zero(column.type)) if column.null_count else column
        fields += _fields(values, types[i], is_last=i == last)
    fixed = list(takewhile(lambda field: isinstance(field, np.ndarray), fields))
    return _joined(fixed, fields[len(fixed) :])


def _zero(arrow_type: pa.DataType) -> pa.Scalar:
    """A value in place of a null, whose own byte tells it from this value."""
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return pa.scalar(b"").cast(arrow_type)
    if pa.types.is_temporal(arrow_type):
        return pa.scalar(0, _integer_like(arrow_type)).cast(arrow_type)
    if pa.types.is_decimal(arrow_type):
        return pa.scalar(Decimal(0), arrow_type)
    return pa.scalar(0).cast(arrow_type)


def join_keys(parts: Sequence[Keys]) -> Keys:
    """The keys of the parts one after another."""
    width = max(part.itemsize for part in parts)
    if all(part.dtype.kind == "S" for part in parts) and width * sum(map(len, parts)) > PADDED_BYTES_MAX:
        return np.concatenate([part.astype(object) for part in parts])
    return np.concatenate(parts)


def indices_of(wanted: Keys, keys: Keys) -> npt.NDArray[np.intp]:
    """Where the wanted keys are that are among the keys; both are ascending and have each key once."""
    if keys.dtype != wanted.dtype:
        joined = join_keys([keys, wanted])
        keys, wanted = joined[: len(keys)], joined[len(keys) :]
    indices = np.searchsorted(keys, wanted)
    indices = indices[: np.searchsorted(indices, len(keys))]
    found: npt.NDArray[np.intp] = indices[keys[indices] == wanted[: len(indices)]]
    return found


def are_among(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    """Which of the keys are among the known ones, which are ascending; there is at least one of these."""
    if known.dtype.kind == keys.dtype.kind == "S":
        # In their width, so that they are not all copied to that of each batch; longer keys are none of them.
        wanted = keys.astype(known.dtype)
        is_whole: npt.NDArray[np.bool_] = wanted == keys
        return is_whole & _is_member(wanted, known)
    if known.dtype != keys.dtype:
        return _is_member(keys.astype(object), known.astype(object))
    return _is_member(keys, known)


def _is_member(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[places] == keys
    return found


def count_up_to(keys: Keys, bound: Any) -> int:
    """How many of the ascending keys are not greater than `bound`, a member of keys of the same columns."""
    if keys.dtype.kind == "S":
        # NumPy would widen all keys to the length of the bound; bytes beyond their width do not matter.
        bound = bound[: keys.itemsize]
    return int(np.searchsorted(keys, bound, side="right"))


def has_between(keys: Keys, low: Any, high: Any) -> bool:
    """Whether one of the ascending keys is from `low` to `high`, members of keys of the same columns."""
    below = count_up_to(keys, low)
    return count_up_to(keys, high) > below or bool(below and keys[below - 1] == low)


def _atomic(data_type: DataType) -> AtomicType:
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"{data_type} cannot be the type of a key column")
    return data_type


def _as_int64(column: pa.Array, data_type: DataType) -> npt.NDArray[np.int64] | None:
    """The column as ordered integers; None if its type is not one."""
    atomic = _atomic(data_type)
    if atomic.root is TypeRoot.DECIMAL and atomic.precision <= _SHORT_DECIMAL_DIGITS:
        return _decimal_words(column)[:, 0].view(np.int64)
    if atomic.root not in _STORED_AS_INTEGERS:
        return None
    return as_numbers(column.view(_integer_like(column.type))).astype(np.int64, copy=False)


def _integer_like(arrow_type: pa.DataType) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[arrow_type.bit_width]


def _decimal_words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Little-endian halves of 128-bit decimals: shape [n, 2]."""
    if len(column) == 0:
        return np.zeros((0, 2), dtype=np.uint64)
    decimals = column if pa.types.is_decimal128(column.type) else column.cast(pa.decimal128(38, column.type.scale))
    words = np.frombuffer(decimals.buffers()[1], dtype="<u8")
    return words[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)


# ── byte strings ────────────────────────────────────────────────────────────────────────────────


def _fields(column: pa.Array, data_type: DataType, *, is_last: bool) -> list[_Fixed | pa.Array]:
    """Bytes of one column, side by side: fixed, or binary values where they have no common width.

    The binary values lack their end mark.
    """
    atomic = _atomic(data_type)
    if atomic.root in STRING_ROOTS or atomic.root in BINARY_ROOTS:
        values = _escaped(column.cast(pa.binary()))
        fixed = _of_one_length(values)
        if fixed is None:
            return [values]
        return [fixed] if is_last else [fixed, np.zeros(len(fixed), dtype=np.uint8)]
    if atomic.root is TypeRoot.BOOLEAN:
        return [np.asarray(column.cast(pa.uint8()).to_numpy(zero_copy_only=False))]
    if atomic.root in FLOAT_ROOTS:
        return [_ordered_bits(column)]
    numbers = _as_int64(column, data_type)
    if numbers is not None:
        return [numbers]
    words = _decimal_words(column)
    return [words[:, 1].view(np.int64), words[:, 0]]


def _ordered_bits(column: pa.Array) -> npt.NDArray[np.uint64]:
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False)) + 0.0
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    return np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _escaped(values: pa.Array) -> pa.Array:
    _, content = _content(values)
    if content.size == 0 or content.min() > 1:
        return values
    return pc.replace_substring(pc.replace_substring(values, b"\x01", b"\x01\x02"), b"\x00", b"\x01\x01")


def _content(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Of binary values: where each begins and the last one ends, and the bytes from the first one's on."""
    offsets = text_offsets(values)
    return offsets, np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]


def _of_one_length(values: pa.Array) -> _Fixed | None:
    """The bytes of the values, if all have the same length above 0."""
    offsets, content = _content(values)
    if content.size == 0 or content.size % len(values):
        return None
    length = content.size // len(values)
    return content.view(f"V{length}") if (np.diff(offsets) == length).all() else None


def _joined(lead: Sequence[_Fixed], tail: Sequence[_Fixed | pa.Array]) -> Keys:
    """Rows of `lead` followed by the fields of `tail`, the first of which has no common width."""
    if tail and len(tail[0]):
        values = _side_by_side(tail)
        width = max(1, pc.max(pc.binary_length(values)).as_py())
        if len(values) * (sum(field.itemsize for field in lead) + width) > PADDED_BYTES_MAX:
            return _as_objects(lead, values)
        lead = [*lead, _padded(values, width)]
    rows = _rows(lead) if lead else np.zeros(0, dtype="V1")
    return rows.view(f"S{rows.itemsize}")


def _rows(fields: Sequence[_Fixed]) -> npt.NDArray[np.void]:
    """The bytes of each row: integers big endian, the sign bits of signed ones flipped."""
    if len(fields) == 1 and fields[0].dtype.kind == "V":
        return fields[0].view(np.void)
    kinds = [("", ">u8" if field.dtype in (np.int64, np.uint64) else field.dtype) for field in fields]
    rows = np.empty(len(fields[0]), dtype=kinds)
    for name, field in zip(rows.dtype.names or (), fields, strict=True):
        if field.dtype == np.int64:
            # Straight into the rows: no array of flipped numbers goes through the cache.
            np.bitwise_xor(field.view(np.uint64), _SIGN, out=rows[name])
        else:
            rows[name] = field
    return rows.view(f"V{rows.itemsize}")


def _side_by_side(fields: Sequence[_Fixed | pa.Array]) -> pa.Array:
    """The bytes of each row in one value; an end mark follows each value without a common width, but for the last."""
    if len(fields) == 1:
        return fields[0]
    pieces: list[Any] = []
    for field in fields:
        if isinstance(field, np.ndarray):
            kind, raw = pa.binary(field.itemsize), pa.py_buffer(_rows([field]))
            pieces.append(pa.FixedSizeBinaryArray.from_buffers(kind, len(field), [None, raw]).cast(pa.binary()))
        else:
            pieces += [field, pa.scalar(b"\x00")]
    if not isinstance(fields[-1], np.ndarray):
        pieces.pop()
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))


def _padded(values: pa.Array, width: int) -> _Fixed:
    """Values with zeros after them, up to that width."""
    # Padding is offered for strings only, but works on their bytes, whatever these are.
    texts = pa.StringArray.from_buffers(len(values), values.buffers()[1], values.buffers()[2], offset=values.offset)
    padded = pc.ascii_rpad(texts, width, "\0")
    return np.frombuffer(padded.buffers()[2], dtype=f"V{width}", count=len(values))


def _as_objects(lead: Sequence[_Fixed], values: pa.Array) -> Keys:
    heads = [row.tobytes() for row in _rows(lead)] if lead else [b""] * len(values)
    rows = np.empty(len(values), dtype=object)
    rows[:] = [(head + tail).rstrip(b"\x00") for head, tail in zip(heads, values.to_pylist(), strict=True)]
    return rows
