"""Bytes of files of BLOB columns, right and wrong ones, made without the engine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

MAGIC = struct.pack("<i", 1481511375)
Value = bytes | int
"""Bytes, or `NULL` or `PLACEHOLDER`."""


def record(value: bytes) -> bytes:
    checked = MAGIC + value + struct.pack("<q", len(value) + 16)
    return checked + struct.pack("<I", zlib.crc32(checked))


def varint(number: int) -> bytes:
    number = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def index_of(lengths: Sequence[int]) -> bytes:
    return b"".join(varint(now - before) for before, now in zip([0, *lengths], lengths, strict=False))


def framed(records: bytes, index: bytes, version: int = 1) -> bytes:
    return records + index + struct.pack("<iB", len(index), version)


def blob_file(values: Sequence[Value]) -> bytes:
    records = [value if isinstance(value, int) else record(value) for value in values]
    lengths = [one if isinstance(one, int) else len(one) for one in records]
    return framed(b"".join(one for one in records if isinstance(one, bytes)), index_of(lengths))
