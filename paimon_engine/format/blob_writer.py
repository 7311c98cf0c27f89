"""Writes a file of a BLOB column; `format/blob` describes its bytes.

Source: `BlobFormatWriter`, `AbstractBlobElementWriter`, `DeltaVarintCompressor` of the Java library.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.blob import FOOTER, FRAME_BYTES, MAGIC, NULL, PLACEHOLDER, TAIL, VERSION, Numbers

_WRITE_BYTES: Final = 1 << 20
"""Records are written together up to about so many bytes; a longer value is written by itself, without a copy."""


class BlobWriter:
    """Writes values one after another; the rows of the file are all values that it was given."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._lengths: list[Numbers] = []
        self.size_bytes = 0
        """Bytes of all records so far."""
        self.row_count = 0

    def rows_until(self, values: pa.BinaryArray, target_bytes: int) -> int:
        """How many of the values the file takes until it has reached that size: one at least, or all."""
        sizes = np.cumsum(_record_bytes(values).clip(0)) + self.size_bytes
        return min(len(values), int(np.searchsorted(sizes, target_bytes)) + 1)

    def write(self, values: pa.BinaryArray) -> None:
        """Adds values; null is a value."""
        lengths = _record_bytes(values)
        self._lengths.append(lengths)
        self.row_count += len(values)
        self.size_bytes += int(lengths.clip(0).sum())
        waiting: list[bytes | memoryview] = []
        count = 0
        for part in _records(values):
            if len(part) > _WRITE_BYTES:
                self._sink.write(b"".join(waiting))
                self._sink.write(part)
                waiting, count = [], 0
                continue
            waiting.append(part)
            count += len(part)
            if count > _WRITE_BYTES:
                self._sink.write(b"".join(waiting))
                waiting, count = [], 0
        self._sink.write(b"".join(waiting))

    def write_placeholders(self, count: int) -> None:
        """Adds rows whose values are in older files."""
        self._lengths.append(np.full(count, PLACEHOLDER, np.int64))
        self.row_count += count

    def close(self) -> None:
        """Writes the index; the caller closes the sink."""
        index = _encoded_lengths(np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64))
        self._sink.write(index + FOOTER.pack(len(index), VERSION))


def _record_bytes(values: pa.BinaryArray) -> Numbers:
    """Length of each value's record; `NULL` for a null."""
    lengths = pc.fill_null(pc.binary_length(values), NULL - FRAME_BYTES)
    return np.asarray(lengths).astype(np.int64) + FRAME_BYTES


def _records(values: pa.BinaryArray) -> Iterator[bytes | memoryview]:
    """The bytes of the records in parts. The checksum is a call for each value, as long as the value is."""
    present = values.drop_null()
    if not len(present):
        return
    _, ends, data = present.buffers()
    bounds = np.frombuffer(ends, np.int32)[present.offset : present.offset + len(present) + 1].tolist()
    view = memoryview(b"" if data is None else data)
    for start, end in pairwise(bounds):
        value = view[start:end]
        length = TAIL.pack(end - start + FRAME_BYTES, 0)[:8]
        crc = zlib.crc32(length, zlib.crc32(value, zlib.crc32(MAGIC)))
        yield MAGIC
        yield value
        yield TAIL.pack(end - start + FRAME_BYTES, crc)


def _encoded_lengths(lengths: Numbers) -> bytes:
    """All numbers side by side, one step for each byte of the longest."""
    deltas = np.diff(lengths, prepend=0)
    numbers = ((deltas << 1) ^ (deltas >> 63)).astype(np.uint64)
    if not len(numbers):
        return b""
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    # How many bytes a number has: one, and one more for each seven bits that are not zero.
    widths = 1 + sum((numbers >> shift) != 0 for shift in shifts[1:])
    ends = np.cumsum(widths)
    data = np.zeros(int(ends[-1]), np.uint8)
    for step in range(int(widths.max())):
        among = np.flatnonzero(widths > step)
        digits = ((numbers[among] >> shifts[step]) & np.uint64(0x7F)).astype(np.uint8)
        digits[widths[among] > step + 1] |= 0x80
        data[ends[among] - widths[among] + step] = digits
    return data.tobytes()
