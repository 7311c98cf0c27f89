"""Deletion vectors: the positions of deleted rows of data files, several vectors to an index file.

An index file is a version byte, then per data file: length, data, CRC-32 of the data. The data is a magic number and a
bitmap; 32-bit bitmaps are usual, 64-bit ones come from releases since 1.2.

Source: `DeletionVector`, `Bitmap64DeletionVector`, `DeletionVectorsIndexFile` of the Java library.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_engine.errors import CorruptTableError

Positions = npt.NDArray[np.int64]
"""Rows of a data file, counted from 0, ascending and each once."""

VERSION: Final = 1
_MAGIC_32: Final = struct.pack(">i", 1581511376)
_MAGIC_64: Final = struct.pack("<i", 1681511377)
_FRAME_BYTES: Final = 8
"""Length before the data, checksum after it."""


def decode_vector(data: bytes, path: str, offset: int) -> Positions:
    """Positions of the vector that begins at `offset` in an index file; `data` are the bytes from there on.

    Raises: CorruptTableError naming file and offset.
    """
    where = f"{path}: deletion vector at offset {offset}"
    if len(data) < 4:
        raise CorruptTableError(f"{where}: the file ends before it")
    (size,) = struct.unpack_from(">i", data)
    if size < 4 or len(data) < size + _FRAME_BYTES:
        raise CorruptTableError(f"{where}: it should be {size} bytes long, and {len(data) - 4} follow")
    body = data[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", data, 4 + size)
    if checksum != zlib.crc32(body):
        raise CorruptTableError(f"{where}: the checksum is {zlib.crc32(body):#010x}, not {checksum:#010x}")
    magic, bitmap = body[:4], body[4:]
    try:
        if magic == _MAGIC_32:
            return _positions(bitmap)
        if magic == _MAGIC_64:
            return _positions_64(bitmap)
    except (ValueError, IndexError, struct.error) as error:
        raise CorruptTableError(f"{where}: {error}") from error
    raise CorruptTableError(f"{where}: no such kind of vector, its magic number is {magic.hex()}")


def _positions(bitmap: bytes) -> Positions:
    return np.asarray(BitMap.deserialize(bitmap).to_array(), np.int64)


def _positions_64(data: bytes) -> Positions:
    """Count of bitmaps, then per bitmap the high 32 bits and the bitmap of the low ones."""
    (count,) = struct.unpack_from("<q", data)
    found, place = [], 8
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, place)
        bitmap = BitMap.deserialize(data[place + 4 :])
        found.append(np.asarray(bitmap.to_array(), np.int64) + (high << 32))
        place += 4 + len(bitmap.serialize())
    return np.concatenate(found) if found else np.empty(0, np.int64)


def encode_vectors(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Bytes of an index file with 32-bit vectors, and offset and length of each data file's vector in it.

    The length is that of the data alone, as index manifests have it.
    """
    file = bytearray([VERSION])
    ranges = {}
    for name, positions in vectors.items():
        body = _MAGIC_32 + BitMap(positions.astype(np.uint32)).serialize()
        ranges[name] = len(file), len(body)
        file += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return bytes(file), ranges


def kept_rows(deleted: Positions, first_row: int, count: int) -> npt.NDArray[np.bool_] | None:
    """Which of the rows `first_row` … `first_row + count - 1` are not deleted; None for all."""
    begin, end = np.searchsorted(deleted, [first_row, first_row + count])
    if begin == end:
        return None
    kept = np.ones(count, np.bool_)
    kept[deleted[begin:end] - first_row] = False
    return kept
