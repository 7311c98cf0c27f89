"""Deletion vectors: the positions of deleted rows of data files, several vectors to an index file.

    offset 0   version, 1 byte = 1
    then per data file, in any order:
      size     int32 BE   length of data in bytes
      data                magic number and bitmap
      checksum uint32 BE  CRC-32 of data

A 32-bit bitmap is a Roaring bitmap in its portable form. A 64-bit one, of releases since 1.2, is the number of 32-bit
ones (int64 LE), then for each, by ascending keys, the high 32 bits as key (int32 LE) and the bitmap of the low bits.
Index manifests give a vector as the offset of its size field and a length: that of the data for 32-bit
vectors, that of size, data and checksum together for 64-bit ones.

Source: `BitmapDeletionVector`, `Bitmap64DeletionVector`, `DeletionVectorsIndexFile` of the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, Literal, cast

from isal.isal_zlib import crc32
from pyroaring import BitMap

from paimon_engine.errors import InvalidArgumentError, damaged
from paimon_engine.format.bitmaps import RowBitmap, serialize
from paimon_engine.format.roaring import Body, containers_32

Ranges = Mapping[str, tuple[int, int]]
"""Offset and length of each data file's vector, as index manifests have them."""
_Part = tuple[BitMap, Mapping[int, Body]]
"""A bitmap and its containers."""

VERSION: Final = 1
FRAME_BYTES: Final = 8
"""Length before the data, checksum after it."""

POSITION_MAX_32: Final = (1 << 31) - 1
"""Java counts rows of a file in an int, so 32-bit vectors cannot have more."""

_MAGIC_32: Final = struct.pack(">i", 1581511376)
_MAGIC_64: Final = struct.pack("<i", 1681511377)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def decode_vector(data: bytes | memoryview, path: str, offset: int, length: int) -> RowBitmap:
    """Rows of the vector that begins at `offset` in an index file; `data` are the bytes from there on.

    `length` is the one that the index manifest gives. Bytes behind the vector do not matter.

    Raises: CorruptTableError naming file and offset.
    """
    where = f"{path}: deletion vector at offset {offset}"
    if len(data) < 4:
        raise damaged(where, "the file ends before it")
    (size,) = struct.unpack_from(">i", data)
    if size < 4 or len(data) < size + FRAME_BYTES:
        raise damaged(where, f"it should be {size} bytes long, and {len(data) - 4} follow")
    body = memoryview(data)[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", data, 4 + size)
    if checksum != (found := crc32(body)):
        raise damaged(where, f"the checksum is {found:#010x}, not {checksum:#010x}")
    magic, bitmap = body[:4], body[4:]
    if magic not in (_MAGIC_32, _MAGIC_64):
        raise damaged(where, f"no such kind of vector, its magic number is {magic.hex()}")
    expected = size if magic == _MAGIC_32 else size + FRAME_BYTES
    if length != expected:
        raise damaged(where, f"its length is {expected}, the index manifest says {length}")
    try:
        parts = _bitmap_32(bitmap) if magic == _MAGIC_32 else _bitmaps_64(bitmap)
    except (ValueError, IndexError, struct.error) as error:
        raise damaged(where, str(error)) from error
    bitmaps = {high: bitmap for high, (bitmap, _) in parts.items()}
    return RowBitmap(bitmaps, {high: containers for high, (_, containers) in parts.items()})


def _bitmap_32(data: memoryview) -> dict[int, _Part]:
    found, end = _bitmap(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the bitmap")
    return {0: found}


def _bitmaps_64(data: memoryview) -> dict[int, _Part]:
    """The bitmaps of a vector with 64-bit positions, by the upper 32 bits of these.

    Raises: ValueError if keys do not ascend, or if bytes follow; struct.error, IndexError if some are missing.
    """
    (count,) = struct.unpack_from("<q", data)
    if count < 0:
        raise ValueError(f"it claims {count} bitmaps")
    found: dict[int, _Part] = {}
    position, before = 8, -1
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, position)
        if high <= before:
            raise ValueError(f"the bitmap with key {high} follows that with key {before}")
        found[high], position = _bitmap(data, position + 4)
        before = high
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the bitmaps")
    return found


def _bitmap(data: memoryview, begin: int) -> tuple[_Part, int]:
    """The 32-bit bitmap that begins there, and where it ends.

    Raises: ValueError, struct.error.
    """
    containers, end = containers_32(data, begin)
    # The library looks into each container; what it makes of them takes long to be taken apart again.
    return (BitMap.deserialize(cast("bytes", data[begin:end])), containers), end


def decode_index_file(data: bytes, ranges: Ranges, path: str) -> dict[str, RowBitmap]:
    """Deleted rows by data file, of a complete index file and the ranges that the index manifest gives.

    Raises: CorruptTableError naming file and offset, also where the ranges leave bytes of the file unexplained.
    """
    if data[:1] != bytes([VERSION]):
        raise damaged(path, f"version {VERSION} expected at offset 0, found {data[:1].hex() or 'no byte'}")
    # A view, so that each vector is not a copy of the rest of the file.
    view = memoryview(data)
    found, end = {}, 1
    for name, (offset, length) in sorted(ranges.items(), key=lambda item: item[1]):
        if offset != end:
            raise damaged(path, f"a deletion vector ends at {end}, the next one begins at {offset}")
        found[name] = decode_vector(view[offset:], path, offset, length)
        end += FRAME_BYTES + int.from_bytes(data[offset : offset + 4], "big")
    if end != len(data):
        raise damaged(path, f"the deletion vectors end at {end}, the file has {len(data)} bytes")
    return {name: found[name] for name in ranges}


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def encode_index_file(
    vectors: Mapping[str, RowBitmap], *, bits: Literal[32, 64] = 32
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Bytes of an index file, and offset and length of each data file's vector as index manifests have them.

    Every release reads 32-bit vectors; 64-bit ones need 1.2.

    Raises: InvalidArgumentError for rows that such vectors cannot contain.
    """
    file = bytearray([VERSION])
    ranges = {}
    for name, rows in vectors.items():
        body = _MAGIC_32 + _encoded_32(name, rows) if bits == 32 else _MAGIC_64 + _encoded_64(rows)
        ranges[name] = len(file), len(body) if bits == 32 else len(body) + FRAME_BYTES
        file += struct.pack(">i", len(body)) + body + struct.pack(">I", crc32(body))
    return bytes(file), ranges


def _encoded_32(name: str, rows: RowBitmap) -> bytes:
    if rows.last > POSITION_MAX_32:
        what = f"32-bit deletion vectors contain rows up to {POSITION_MAX_32}, not {rows.last}"
        raise InvalidArgumentError(f"data file {name}: {what}")
    return serialize(rows.bitmaps.get(0, BitMap()))


def _encoded_64(rows: RowBitmap) -> bytes:
    bitmaps = (struct.pack("<i", high) + serialize(bitmap) for high, bitmap in rows.bitmaps.items())
    return struct.pack("<q", len(rows.bitmaps)) + b"".join(bitmaps)
