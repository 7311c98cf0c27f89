"""What an ORC file says of its stripes: how many rows each has, and in what range the values of its columns lie.

The end of a file is `… stripe statistics | footer | postscript | length of the postscript`. The first two are protocol
buffers in chunks of the file's codec, each with three bytes in front: its length times two, plus one where it is stored
plain. Statistics of columns come in the order of the type tree, a row before its fields.

Source: the ORC specification, version 1, "File Tail" and "Column Statistics".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.orc as po

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_CHUNK_HEAD_BYTES: Final = 3

# Field numbers of the messages.
_FOOTER_STRIPES, _STRIPE_ROWS = 3, 5
_METADATA_STRIPES, _STRIPE_COLUMNS = 1, 1
_VALUE_COUNT, _HAS_NULL = 1, 10
_INTEGERS, _DOUBLES, _STRINGS, _DECIMALS, _DATES = 2, 3, 4, 6, 7
_MIN, _MAX = 1, 2


@dataclass(frozen=True, slots=True)
class StripeColumn:
    """Range of a column in a stripe; None where unknown. A largest value of NaN says that NaN may be there."""

    min: Any
    max: Any
    null_count: int | None


@dataclass(frozen=True, slots=True)
class Stripe:
    """Rows of a stripe, and ranges of its top-level columns by name."""

    row_count: int
    columns: Mapping[str, StripeColumn]


def stripes_of(source: BinaryIO, file: po.ORCFile) -> list[Stripe] | None:
    """The stripes in order; None if the file has no statistics of them, or in a codec that is not known here.

    Raises: ValueError, IndexError, struct.error, zlib.error, pyarrow.ArrowException where the bytes are damaged.
    """
    if file.nstripe_statistics != file.nstripes or file.compression not in _DECODERS:
        return None
    end = file.file_length - 1 - file.file_postscript_length
    begin = end - file.file_footer_length - file.stripe_statistics_length
    source.seek(begin)
    tail = source.read(end - begin)
    metadata = _plain(tail[: file.stripe_statistics_length], file)
    footer = _plain(tail[file.stripe_statistics_length :], file)
    counts = [_number(stripe, _STRIPE_ROWS) for stripe in _messages(footer, _FOOTER_STRIPES)]
    places = _column_numbers(file.schema)
    found = []
    for rows, stripe in zip(counts, _messages(metadata, _METADATA_STRIPES), strict=True):
        columns = list(_messages(stripe, _STRIPE_COLUMNS))
        ranges = {name: _range(columns[place], rows, file.schema.field(name).type) for name, place in places.items()}
        found.append(Stripe(rows, ranges))
    return found


def _column_numbers(schema: pa.Schema) -> dict[str, int]:
    """Place of each top-level column in the type tree, whose root comes first."""
    places, place = {}, 1
    for field in schema:
        places[field.name] = place
        place += _tree_size(field.type)
    return places


def _tree_size(data_type: pa.DataType) -> int:
    if pa.types.is_map(data_type):
        return 1 + _tree_size(data_type.key_type) + _tree_size(data_type.item_type)
    if pa.types.is_list(data_type):
        return 1 + _tree_size(data_type.value_type)
    if pa.types.is_struct(data_type):
        return 1 + sum(_tree_size(data_type.field(place).type) for place in range(data_type.num_fields))
    return 1


def _range(column: bytes, rows: int, data_type: pa.DataType) -> StripeColumn:
    fields = dict(_fields(column))
    values = fields.get(_VALUE_COUNT)
    null_count = None if values is None or pa.types.is_nested(data_type) else rows - values
    low, high = _bounds(fields, data_type)
    return StripeColumn(low, high, null_count)


def _bounds(fields: Mapping[int, Any], data_type: pa.DataType) -> tuple[Any, Any]:
    if pa.types.is_integer(data_type) and _INTEGERS in fields:
        return _pair(fields[_INTEGERS], _signed)
    if pa.types.is_date(data_type) and _DATES in fields:
        return _pair(fields[_DATES], _signed)
    if pa.types.is_string(data_type) and _STRINGS in fields:
        return _pair(fields[_STRINGS], lambda text: text.decode())
    if pa.types.is_decimal(data_type) and _DECIMALS in fields:
        return _pair(fields[_DECIMALS], lambda text: Decimal(text.decode()))
    if pa.types.is_floating(data_type) and _DOUBLES in fields:
        low, _ = _pair(fields[_DOUBLES], lambda number: struct.unpack("<d", number)[0])
        return low, None if low is None else float("nan")
    return None, None


def _pair(message: bytes, decode: Any) -> tuple[Any, Any]:
    fields = dict(_fields(message))
    if _MIN not in fields or _MAX not in fields:
        return None, None
    return decode(fields[_MIN]), decode(fields[_MAX])


# ── protocol buffers ────────────────────────────────────────────────────────────────────────────


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: varints as numbers, all else as bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, place = _varint(message, place)
        elif kind in (_FIXED_64, _FIXED_32):
            length = 8 if kind == _FIXED_64 else 4
        else:
            raise ValueError(f"field {number} is of the unknown kind {kind}")
        if place + length > len(message):
            raise ValueError(f"field {number} ends behind its message")
        yield number, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _signed(number: int) -> int:
    """A number from its zigzag form."""
    return (number >> 1) ^ -(number & 1)


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (value for found, value in _fields(message) if found == number)


def _number(message: bytes, number: int) -> int:
    return next(int(value) for found, value in _fields(message) if found == number)


# ── codecs ──────────────────────────────────────────────────────────────────────────────────────


def _plain(data: bytes, file: po.ORCFile) -> bytes:
    if file.compression == "UNCOMPRESSED":
        return data
    out, place = b"", 0
    while place < len(data):
        head = int.from_bytes(data[place : place + _CHUNK_HEAD_BYTES], "little")
        place += _CHUNK_HEAD_BYTES
        chunk = data[place : place + (head >> 1)]
        place += head >> 1
        out += chunk if head & 1 else _DECODERS[file.compression](chunk)
    return out


def _inflate(chunk: bytes) -> bytes:
    return zlib.decompress(chunk, wbits=-zlib.MAX_WBITS)


def _unsnap(chunk: bytes) -> bytes:
    size, _ = _varint(chunk, 0)
    return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=size))


def _unzstd(chunk: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        return bytes(stream.read())


_DECODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "UNCOMPRESSED": bytes,
    "ZLIB": _inflate,
    "SNAPPY": _unsnap,
    "ZSTD": _unzstd,
}
