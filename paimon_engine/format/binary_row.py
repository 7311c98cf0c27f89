"""BinaryRow: the bytes of partitions, smallest and largest keys, and statistics in manifests, and of hashed keys.

```
bytes = [arity, int32 big endian][row]
row   = [row kind 1 byte][null bits][slots: 8 bytes each][variable part]           all integers little endian
fixed = 8 * ceil((arity + 8) / 64) bytes for kind and null bits; null bit of column i is bit i + 8
```

A slot holds a short value itself, or length and offset (from the row's first byte) of bytes in the variable part.

**Internal values** are the form in which the engine handles single values; no type loses anything in it:

| type | value |
| --- | --- |
| BOOLEAN, integers, FLOAT and DOUBLE, strings, bytes | `bool`, `int`, `float`, `str`, `bytes` |
| DECIMAL | `decimal.Decimal` |
| DATE | `int`, days since 1970-01-01 |
| TIME | `int`, milliseconds of the day |
| TIMESTAMP, TIMESTAMP_LTZ | `int`, **nanoseconds** since 1970-01-01T00:00 (wall clock or UTC), unbounded |
| ARRAY; MAP and MULTISET; ROW | `list`; `list` of (key, value) pairs; `tuple` |

Two internal values of one type compare with `<` as the format orders them: `str` compares by code point, which is
the order of unsigned UTF-8 bytes. Nulls come first; `row_order` makes complete rows comparable.

Source: `BinaryRow`, `BinaryRowWriter`, `BinaryArray`, `BinaryMap` and `SerializationUtils` of the Java library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from paimon_engine.arrow_values import of_values
from paimon_engine.errors import CorruptTableError, InvalidArgumentError, UnsupportedError
from paimon_engine.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    timestamp_unit,
    to_arrow,
)

EMPTY_ROW = bytes(12)
"""The row without columns: partition of an unpartitioned table, keys of an append table, empty statistics."""

INLINE_BYTES_MAX = 7
"""Strings and bytes up to this length are in the slot; its last byte then has the length and a mark."""

COMPACT_DECIMAL_PRECISION_MAX = 18
"""DECIMALs up to this precision are an int64 in the slot; wider ones take 16 bytes of the variable part."""

COMPACT_TIMESTAMP_PRECISION_MAX = 3
"""Timestamps up to this precision are milliseconds in the slot; finer ones have them in the variable part."""

NANOS_PER_MILLI = 1_000_000
NANOS_PER_UNIT = {"s": 1_000_000_000, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}
"""Nanoseconds in each Arrow timestamp unit."""

_INLINE_MARK = 0x80
_WIDE_DECIMAL_BYTES = 16
_ARITY = struct.Struct(">i")
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_LENGTH_AND_OFFSET = struct.Struct("<ii")
_FIXED = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: _INT,
    TypeRoot.DATE: _INT,
    TypeRoot.TIME: _INT,
    TypeRoot.BIGINT: _LONG,
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_INT_TYPE = AtomicType(TypeRoot.INT, nullable=False)
# Scaling a 38-digit decimal must not round to the 28 digits of the default context.
_EXACT = Context(prec=80)


def encode_row(types: Sequence[DataType], values: Sequence[Any], *, reserve_null: bool) -> bytes:
    """Bytes of a row of internal values, arity in front.

    `reserve_null` says how a null DECIMAL(p > 18) or TIMESTAMP(p > 3) is written: with reserved bytes in the variable
    part (partitions, keys, hashed rows) or without one (statistics). Bytes are compared and hashed, so it matters.

    Raises: InvalidArgumentError for a value outside its type, or another number of values than of types.
    """
    return _ARITY.pack(len(types)) + encode_row_body(types, values, reserve_null=reserve_null)


def encode_row_body(types: Sequence[DataType], values: Sequence[Any], *, reserve_null: bool) -> bytes:
    """Bytes of a row without the arity: what the bucket hash is taken over, and the form of a nested row."""
    if len(types) != len(values):
        raise InvalidArgumentError(f"a row of {len(types)} columns cannot have {len(values)} values")
    null_bits = bytearray(null_bits_size(len(types)))
    slots = bytearray()
    variable = _Variable(start=len(null_bits) + 8 * len(types))
    for index, (data_type, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            null_bits[(index + 8) >> 3] |= 1 << (index & 7)
            slot = _null_slot(data_type, variable) if reserve_null else b""
        else:
            slot = _slot(data_type, value, variable)
        slots += slot.ljust(8, b"\0")
    return bytes(null_bits) + bytes(slots) + bytes(variable.data)


def decode_row(types: Sequence[DataType], data: bytes, *, wanted: Collection[int] | None = None) -> tuple[Any, ...]:
    """Internal values of a row with the arity in front; accepts both forms of nulls. None of columns not `wanted`.

    Raises: CorruptTableError if the bytes are not a row of these types.
    """
    if len(data) < len(EMPTY_ROW):
        raise CorruptTableError(f"binary row: expected at least {len(EMPTY_ROW)} bytes, found {len(data)}")
    (arity,) = _ARITY.unpack_from(data)
    if arity != len(types):
        raise CorruptTableError(f"binary row: expected {len(types)} columns, found {arity} in {data[:64].hex()}")
    try:
        return _decode_row_body(types, data[4:], wanted)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptTableError(f"binary row of {arity} columns is damaged ({error}): {data[:64].hex()}") from error


def row_order(values: Sequence[Any]) -> tuple[Any, ...]:
    """Key by which rows of internal values sort as in the format: column by column, null first, NaN last."""
    return tuple((value is not None, _nan_above_all(value)) for value in values)


def _nan_above_all(value: Any) -> Any:
    """What compares as the internal value does in the format, where NaN is the largest number; both zeros are one."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def same_value(one: Any, other: Any) -> bool:
    """Whether two internal values of one type are the same in the format: NaN is NaN, −0.0 is not 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        same_sign = math.copysign(1, one) == math.copysign(1, other)
        return _nan_above_all(one) == _nan_above_all(other) and (same_sign or math.isnan(one))
    return bool(one == other)


def null_bits_size(arity: int) -> int:
    """Bytes of row kind and null bits in front of the slots."""
    return (arity + 8 + 63) // 64 * 8


# ── Encoding ────────────────────────────────────────────────────────────────────────────────────


class _Variable:
    """The growing variable part of one row or array; `start` is its offset in there."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.data = bytearray()

    def add(self, content: bytes, width: int = 0) -> int:
        """Append, padded with zeros to `width` and to full words of 8 bytes; gives the offset."""
        offset = self.start + len(self.data)
        width = max(len(content), width)
        self.data += content.ljust(width + -width % 8, b"\0")
        return offset


def _null_slot(data_type: DataType, variable: _Variable) -> bytes:
    if _is_wide_decimal(data_type):
        return _LENGTH_AND_OFFSET.pack(0, variable.add(b"", _WIDE_DECIMAL_BYTES))
    if _is_fine_timestamp(data_type):
        return _LENGTH_AND_OFFSET.pack(0, variable.add(b"", 8))
    return b""


def _slot(data_type: DataType, value: Any, variable: _Variable) -> bytes:
    """Content of the slot, at most 8 bytes; longer content is in the variable part."""
    match data_type:
        case AtomicType():
            try:
                return _atomic_slot(data_type, value, variable)
            except (struct.error, ArithmeticError, TypeError, AttributeError, UnicodeEncodeError) as error:
                raise InvalidArgumentError(f"{value!r} is not a value of {data_type.root}: {error}") from error
        case ArrayType(element) | VectorType(element):
            content = _encode_array(element, value)
        case MapType(key, item):
            content = _encode_map(key, item, value)
        case MultisetType(element):
            content = _encode_map(element, _INT_TYPE, value)
        case RowType(fields):
            content = encode_row_body([field.type for field in fields], value, reserve_null=False)
    return _LENGTH_AND_OFFSET.pack(len(content), variable.add(content))


def _atomic_slot(data_type: AtomicType, value: Any, variable: _Variable) -> bytes:
    """The eight bytes of a value that is not nested; long ones are added to `variable`, and the slot refers to them."""
    root = data_type.root
    if root in _FIXED:
        return _FIXED[root].pack(value)
    if root in STRING_ROOTS:
        return _bytes_slot(value.encode(), variable)
    if root in BINARY_ROOTS:
        return _bytes_slot(bytes(value), variable)
    if root in TIMESTAMP_ROOTS:
        millis, nanos = divmod(value, NANOS_PER_MILLI)
        if data_type.precision <= COMPACT_TIMESTAMP_PRECISION_MAX:
            return _LONG.pack(millis)
        return _LENGTH_AND_OFFSET.pack(nanos, variable.add(_LONG.pack(millis)))
    assert root == TypeRoot.DECIMAL, root
    unscaled = unscaled_value(value, data_type)
    if data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX:
        return _LONG.pack(unscaled)
    content = unscaled.to_bytes(minimal_length(unscaled), "big", signed=True)
    return _LENGTH_AND_OFFSET.pack(len(content), variable.add(content, _WIDE_DECIMAL_BYTES))


def _bytes_slot(content: bytes, variable: _Variable) -> bytes:
    if len(content) <= INLINE_BYTES_MAX:
        return content.ljust(INLINE_BYTES_MAX, b"\0") + bytes([_INLINE_MARK | len(content)])
    return _LENGTH_AND_OFFSET.pack(len(content), variable.add(content))


def unscaled_value(value: Decimal, data_type: AtomicType) -> int:
    """The unscaled integer of a DECIMAL.

    Raises: InvalidArgumentError if the value needs more digits than the type has.
    """
    scaled = value.scaleb(data_type.scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**data_type.precision:
        raise InvalidArgumentError(f"{value} does not fit DECIMAL({data_type.precision}, {data_type.scale})")
    return unscaled


def minimal_length(unscaled: int) -> int:
    """Bytes of the shortest two's complement of an integer."""
    return (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1


def _encode_array(element: DataType, values: Sequence[Any]) -> bytes:
    """`[n int32][null bits, 4 bytes per 32][elements by their own width, padded to 8][variable part]`."""
    null_bits = bytearray((len(values) + 31) // 32 * 4)
    width = _element_width(element)
    head_size = 4 + len(null_bits)
    size = head_size + width * len(values)
    variable = _Variable(start=size + -size % 8)
    slots = bytearray()
    for index, value in enumerate(values):
        if value is None:
            null_bits[index >> 3] |= 1 << (index & 7)
        slots += (b"" if value is None else _slot(element, value, variable)).ljust(width, b"\0")
    return (
        _INT.pack(len(values))
        + bytes(null_bits)
        + bytes(slots.ljust(variable.start - head_size, b"\0"))
        + bytes(variable.data)
    )


def _encode_map(key: DataType, item: DataType, pairs: Sequence[tuple[Any, Any]]) -> bytes:
    """`[bytes of the key array int32][key array][value array]`."""
    keys = _encode_array(key, [pair[0] for pair in pairs])
    return _INT.pack(len(keys)) + keys + _encode_array(item, [pair[1] for pair in pairs])


def _element_width(element: DataType) -> int:
    return _FIXED[element.root].size if isinstance(element, AtomicType) and element.root in _FIXED else 8


def _is_wide_decimal(data_type: DataType) -> bool:
    return (
        isinstance(data_type, AtomicType)
        and data_type.root == TypeRoot.DECIMAL
        and data_type.precision > COMPACT_DECIMAL_PRECISION_MAX
    )


def _is_fine_timestamp(data_type: DataType) -> bool:
    return (
        isinstance(data_type, AtomicType)
        and data_type.root in TIMESTAMP_ROOTS
        and data_type.precision > COMPACT_TIMESTAMP_PRECISION_MAX
    )


# ── Decoding ────────────────────────────────────────────────────────────────────────────────────


def _decode_row_body(types: Sequence[DataType], row: bytes, wanted: Collection[int] | None = None) -> tuple[Any, ...]:
    first_slot = null_bits_size(len(types))
    if wanted is not None:
        found: list[Any] = [None] * len(types)
        for index in wanted:
            if not row[(index + 8) >> 3] >> (index & 7) & 1:
                found[index] = _value(types[index], row, first_slot + 8 * index)
        return tuple(found)
    return tuple(
        None if row[(index + 8) >> 3] >> (index & 7) & 1 else _value(data_type, row, first_slot + 8 * index)
        for index, data_type in enumerate(types)
    )


def _value(data_type: DataType, row: bytes, slot: int) -> Any:
    """The value whose slot begins at byte `slot` of `row` (or of an array: offsets count from its first byte)."""
    match data_type:
        case AtomicType():
            return _atomic_value(data_type, row, slot)
        case ArrayType(element) | VectorType(element):
            return _decode_array(element, _variable_part(row, slot))
        case MapType(key, item):
            return _decode_map(key, item, _variable_part(row, slot))
        case MultisetType(element):
            return _decode_map(element, _INT_TYPE, _variable_part(row, slot))
        case RowType(fields):
            return _decode_row_body([field.type for field in fields], _variable_part(row, slot))


def _atomic_value(data_type: AtomicType, row: bytes, slot: int) -> Any:
    """The value in the slot at that offset of the row: the inverse of `_atomic_slot`. Raises: UnsupportedError."""
    root = data_type.root
    if root in _FIXED:
        return _FIXED[root].unpack_from(row, slot)[0]
    if root in STRING_ROOTS:
        return _slot_bytes(row, slot).decode()
    if root in BINARY_ROOTS:
        return _slot_bytes(row, slot)
    if root in TIMESTAMP_ROOTS:
        if data_type.precision <= COMPACT_TIMESTAMP_PRECISION_MAX:
            return int(_LONG.unpack_from(row, slot)[0]) * NANOS_PER_MILLI
        nanos, offset = _LENGTH_AND_OFFSET.unpack_from(row, slot)
        return int(_LONG.unpack_from(row, offset)[0]) * NANOS_PER_MILLI + nanos
    if root == TypeRoot.DECIMAL:
        if data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX:
            unscaled = _LONG.unpack_from(row, slot)[0]
        else:
            unscaled = int.from_bytes(_variable_part(row, slot), "big", signed=True)
        return Decimal(unscaled).scaleb(-data_type.scale, _EXACT)
    raise UnsupportedError(f"type {root} cannot be read from a binary row")


def _slot_bytes(row: bytes, slot: int) -> bytes:
    mark = row[slot + 7]
    return row[slot : slot + (mark & ~_INLINE_MARK)] if mark & _INLINE_MARK else _variable_part(row, slot)


def _variable_part(row: bytes, slot: int) -> bytes:
    length, offset = _LENGTH_AND_OFFSET.unpack_from(row, slot)
    if length < 0 or offset < 0 or offset + length > len(row):
        raise IndexError(f"{length} bytes at {offset} of {len(row)}")
    return row[offset : offset + length]


def _decode_array(element: DataType, data: bytes) -> list[Any]:
    (count,) = _INT.unpack_from(data)
    first_slot = 4 + (count + 31) // 32 * 4
    width = _element_width(element)
    if count < 0 or first_slot + width * count > len(data):
        raise IndexError(f"{count} elements in {len(data)} bytes")
    return [
        None if data[4 + (index >> 3)] >> (index & 7) & 1 else _value(element, data, first_slot + width * index)
        for index in range(count)
    ]


def _decode_map(key: DataType, item: DataType, data: bytes) -> list[tuple[Any, Any]]:
    (key_bytes,) = _INT.unpack_from(data)
    if not 0 <= key_bytes <= len(data) - 4:
        raise IndexError(f"{key_bytes} bytes of keys in {len(data)} bytes")
    keys = _decode_array(key, data[4 : 4 + key_bytes])
    return list(zip(keys, _decode_array(item, data[4 + key_bytes :]), strict=False))


# ── Arrow ───────────────────────────────────────────────────────────────────────────────────────


def internal_values(array: pa.Array, data_type: DataType) -> list[Any]:
    """Internal values of an Arrow array; meant for few values, such as statistics and partitions.

    The array may have any Arrow type that casts to the one of `data_type`; timestamps keep their own unit's digits.
    """
    match data_type:
        case AtomicType(root) if root in TIMESTAMP_ROOTS:
            factor = NANOS_PER_UNIT[array.type.unit]
            return [None if value is None else value * factor for value in array.cast(pa.int64()).to_pylist()]
        case AtomicType(root):
            plain = array if array.type == to_arrow(data_type) else array.cast(to_arrow(data_type))
            if root in (TypeRoot.DATE, TypeRoot.TIME):
                plain = plain.cast(pa.int32())
            return list(plain.to_pylist())
        case ArrayType(element):
            return _lists(array, internal_values(array.values, element))
        case VectorType():
            return list(array.to_pylist())
        case MapType(key, item):
            pairs = zip(internal_values(array.keys, key), internal_values(array.items, item), strict=True)
            return _lists(array, list(pairs))
        case MultisetType(element):
            return internal_values(array, MapType(element, _INT_TYPE))
        case RowType(fields):
            columns = [internal_values(child, field.type) for child, field in zip(array.flatten(), fields, strict=True)]
            rows = list(zip(*columns, strict=True)) if columns else [()] * len(array)
            return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _lists(array: pa.Array, items: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [items[offsets[index] : offsets[index + 1]] if valid[index] else None for index in range(len(array))]


def to_arrow_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Arrow array of the type `to_arrow(data_type)` from internal values; a timestamp is cut to the type's unit.

    Raises: InvalidArgumentError for a value that Arrow cannot represent, such as nanoseconds in the year 2300.
    """
    try:
        return of_values([_arrow_value(value, data_type) for value in values], to_arrow(data_type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidArgumentError(f"values do not fit the Arrow type {to_arrow(data_type)}: {error}") from error


def _arrow_value(value: Any, data_type: DataType) -> Any:
    """What `pa.array` takes for an internal value: the same, but timestamps count the unit of their Arrow type."""
    if value is None:
        return None
    match data_type:
        case AtomicType(root) if root in TIMESTAMP_ROOTS:
            return value // NANOS_PER_UNIT[timestamp_unit(data_type.precision)]
        case ArrayType(element) | VectorType(element):
            return [_arrow_value(item, element) for item in value]
        case MapType(key, item_type):
            return [(_arrow_value(key_value, key), _arrow_value(item, item_type)) for key_value, item in value]
        case MultisetType(element):
            return [(_arrow_value(item, element), count) for item, count in value]
        case RowType(fields):
            return tuple(_arrow_value(item, field.type) for item, field in zip(value, fields, strict=True))
        case _:
            return value
