"""Bit-slice indexes of numbers; they answer comparisons. Integers are big-endian.

    index    version byte = 1 | rows int32 | has numbers from 0 on, byte | slices | has negative ones, byte | slices
    slices   version byte = 1 | least int64 | greatest int64 | rows bitmap | count int32 | bitmaps, lowest bit first

Slices follow where the byte before them is 1. They are of magnitude − least; Java always writes 0 as least.

Source: `BitSliceIndexBitmapFileIndex`, `BitSliceIndexRoaringBitmap` of the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_engine.format.bitmaps import serialize
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.slices import Slices, slice_numbers

VERSION: Final = 1
_SLICES_MAX: Final = 64
_SMALLEST: Final = -(1 << 63)


def encode_bsi(chunks: Sequence[pa.Array]) -> bytes | None:
    """Index of a column of integers; None if it contains −2⁶³, whose magnitude Java cannot write either."""
    column = pa.chunked_array(chunks).cast(pa.int64()).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    numbers = np.asarray(column.drop_null())
    if len(numbers) and numbers.min() == _SMALLEST:
        return None
    low = numbers < 0
    head = struct.pack(">Bi", VERSION, len(column))
    return head + _encoded(rows[~low], numbers[~low]) + _encoded(rows[low], -numbers[low])


def _encoded(rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> bytes:
    if not len(rows):
        return b"\0"
    greatest = int(numbers.max())
    slices = slice_numbers(rows, numbers.view(np.uint64), greatest.bit_length())
    bitmaps = [serialize(bitmap) for bitmap in slices.slices]
    head = struct.pack(">BBqq", 1, VERSION, 0, greatest) + serialize(slices.present)
    return b"".join([head, struct.pack(">i", len(bitmaps)), *bitmaps])


class BsiIndex:
    """An index that was read."""

    def __init__(self, cursor: Cursor) -> None:
        """Parses the complete index. Raises: CorruptTableError."""
        cursor.version(VERSION)
        self.row_count = cursor.int32()
        self._positive = _Half(cursor, self.row_count)
        self._negative = _Half(cursor, self.row_count)

    def nulls(self) -> BitMap:
        """Rows that are null."""
        return BitMap(range(self.row_count)) - self.present()

    def present(self) -> BitMap:
        """Rows that are not null."""
        return self._positive.present | self._negative.present

    def compare(self, number: int) -> tuple[BitMap, BitMap, BitMap]:
        """Rows less than, equal to and greater than the number."""
        if number < 0:
            greater, equal, less = self._negative.compare(-number)
            return less, equal, greater | self._positive.present
        less, equal, greater = self._positive.compare(number)
        return less | self._negative.present, equal, greater


class _Half:
    """The slices of the numbers of one sign; none if the flag before them is not set."""

    def __init__(self, cursor: Cursor, row_count: int) -> None:
        self._least = 0
        self._slices = Slices(BitMap(), ())
        if not cursor.flag():
            return
        cursor.version(VERSION)
        self._least = cursor.int64()
        cursor.int64()
        present = cursor.bitmap(row_count)
        count = cursor.int32()
        if not 0 <= count <= _SLICES_MAX:
            raise cursor.corrupt(f"{count} slices; there are {_SLICES_MAX} at most", at=cursor.offset - 4)
        self._slices = Slices(present, [cursor.bitmap(row_count) for _ in range(count)])

    @property
    def present(self) -> BitMap:
        return self._slices.present

    def compare(self, magnitude: int) -> tuple[BitMap, BitMap, BitMap]:
        if magnitude < self._least:
            return BitMap(), BitMap(), self.present
        return self._slices.compare(magnitude - self._least)
