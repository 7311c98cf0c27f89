"""Files of a BLOB column: bytes → values of chosen rows.

    file    records, then the index, then its length (4 bytes), then the version (1 byte, 1)
    index   length of each row's record, as the difference to the one before: zigzag, then varint
            −1: the value is null, −2: a placeholder, that is the value is in an older file; neither has a record
    record  magic (4 bytes), the value, length of the whole record (8), CRC-32 of all before it (4)

Numbers are little-endian. Records follow each other without gaps, from the begin of the file to the index.

Source: `BlobFormatWriter`, `BlobFileMeta`, `DeltaVarintCompressor` of the Java library, which does not check the CRC.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError, damaged

NULL: Final = -1
PLACEHOLDER: Final = -2

VERSION: Final = 1
MAGIC: Final = struct.pack("<i", 1481511375)
FOOTER: Final = struct.Struct("<iB")
_HEAD_BYTES: Final = len(MAGIC)
TAIL: Final = struct.Struct("<qI")
FRAME_BYTES: Final = _HEAD_BYTES + TAIL.size
_VARINT_BYTES_MAX: Final = 10
_VALUE_BYTES_MAX: Final = (1 << 31) - 1 - FRAME_BYTES
_READ_BYTES: Final = 8 << 20
"""Records that follow each other are read together, up to about so many bytes; a longer one is read alone."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """For each row of the file the length of its record (or `NULL`, or `PLACEHOLDER`), and where it would begin."""

    lengths: Numbers
    offsets: Numbers

    @property
    def value_bytes(self) -> Numbers:
        """Length of each row's value, 0 for rows without a record."""
        return np.maximum(self.lengths - FRAME_BYTES, 0)


def read_index(source: BinaryIO, size_bytes: int, row_count: int, path: str) -> BlobIndex:
    """The index of a file of that size, which has so many rows.

    Raises: CorruptTableError. Memory is limited by the size of the file, whatever its bytes say.
    """
    end = size_bytes - FOOTER.size
    if end < 0:
        raise damaged(path, f"it has {size_bytes} bytes, a file of a BLOB column at least {FOOTER.size}")
    index_bytes, version = FOOTER.unpack(_read(source, end, FOOTER.size, path))
    if version != VERSION:
        raise damaged(path, f"expected version {VERSION} of the format of BLOB files, found {version}")
    if not row_count <= index_bytes <= min(end, row_count * _VARINT_BYTES_MAX):
        raise damaged(path, f"its index has {index_bytes} bytes, which is impossible for {row_count} rows")
    records_end = end - index_bytes
    lengths = _decoded_lengths(_read(source, records_end, index_bytes, path), path)
    if len(lengths) != row_count:
        raise damaged(path, f"its index has {len(lengths)} rows, its manifest says {row_count}")
    has_record = lengths >= FRAME_BYTES
    if not np.all(has_record | (lengths == NULL) | (lengths == PLACEHOLDER)):
        raise damaged(path, "its index has a length that no record can have")
    taken = np.where(has_record, lengths, 0)
    if np.any(taken > records_end):
        raise damaged(path, "its index has a record that is longer than the file")
    ends = np.cumsum(taken)
    # A sum that is too large for its type gets below zero, since no part of it is larger than a file.
    if np.any(ends < 0) or (ends[-1] if row_count else 0) != records_end:
        raise damaged(path, f"the records of its index do not have the {records_end} bytes before the index")
    return BlobIndex(lengths, ends - taken)


def _read(source: BinaryIO, offset: int, count: int, path: str) -> bytes:
    source.seek(offset)
    found = source.read(count)
    if len(found) != count:
        raise damaged(path, f"{count} bytes at {offset} were expected, {len(found)} found")
    return found


def _decoded_lengths(data: bytes, path: str) -> Numbers:
    """All numbers side by side, one step for each byte of the longest."""
    digits = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(digits < 0x80)
    if not len(digits):
        return np.zeros(0, np.int64)
    if not len(last) or last[-1] != len(digits) - 1:
        raise damaged(path, "its index ends within a number")
    first = np.concatenate(([0], last[:-1] + 1))
    widths = last - first + 1
    if widths.max() > _VARINT_BYTES_MAX:
        raise damaged(path, "its index has a number of more than 64 bits")
    numbers = np.zeros(len(first), np.uint64)
    for step in range(int(widths.max())):
        among = np.flatnonzero(widths > step)
        numbers[among] |= (digits[first[among] + step] & 0x7F).astype(np.uint64) << np.uint64(7 * step)
    deltas = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
    return np.cumsum(deltas)


def read_values(source: BinaryIO, index: BlobIndex, rows: Numbers, path: str) -> pa.BinaryArray:
    """The values of rows that have a record, in the order of the file. Raises: as `value_parts`."""
    parts = list(value_parts(source, index, rows, path))
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def value_parts(source: BinaryIO, index: BlobIndex, rows: Numbers, path: str) -> Iterator[pa.BinaryArray]:
    """As `read_values`, but part by part: what is read together, records that follow each other.

    Raises: CorruptTableError if a record is not as its index and its CRC say; UnsupportedError for a value that no
    Arrow array of bytes can hold.
    """
    lengths, offsets = index.lengths[rows], index.offsets[rows]
    ends = offsets + lengths
    breaks = np.append(np.flatnonzero(offsets[1:] != ends[:-1]) + 1, len(rows))
    start = 0
    while start < len(rows):
        near = int(breaks[np.searchsorted(breaks, start, side="right")])
        within = start + int(np.searchsorted(ends[start:near], offsets[start] + _READ_BYTES, side="right"))
        stop = max(start + 1, within)
        yield _values(source, offsets[start:stop], lengths[start:stop], path)
        start = stop


def _values(source: BinaryIO, offsets: Numbers, lengths: Numbers, path: str) -> pa.BinaryArray:
    """The values of records that follow each other."""
    begin, size_bytes = int(offsets[0]), int(lengths.sum())
    if size_bytes > _VALUE_BYTES_MAX:
        raise UnsupportedError(
            f"{path}: a value of {size_bytes} bytes is larger than the {_VALUE_BYTES_MAX} bytes that a row can hold "
            "here; read other columns, or rows without it"
        )
    data = _read(source, begin, size_bytes, path)
    view, relative = memoryview(data), (offsets - begin).tolist()
    # The checksum is a call for each record, as long as the record is.
    for start, length in zip(relative, lengths.tolist(), strict=True):
        tail = start + length - TAIL.size
        stored, crc = TAIL.unpack_from(data, tail)
        checked = view[start : start + length - 4]
        if data[start : start + _HEAD_BYTES] != MAGIC or stored != length or crc != zlib.crc32(checked):
            raise damaged(path, f"the record at {begin + start} is not as its index and its checksum say")
    ends = np.array([*relative, size_bytes], np.int32)
    records = pa.BinaryArray.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pc.binary_slice(records, _HEAD_BYTES, -TAIL.size)
