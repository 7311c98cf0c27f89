"""Bitmaps of row numbers, by pyroaring, and which rows of a batch they contain.

A Roaring bitmap is cut by the upper bits of its numbers into containers of 65536 numbers. Where many of these are
there, a container is a bit for each, which is how Arrow has booleans: a batch is filtered by the bytes as they are.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.roaring import ARRAY_SIZE_MAX, BITS_BYTES, COOKIE, Body, bits_of, containers_32

_CONTAINER_BITS: Final = 16
_CONTAINER_ROWS: Final = 1 << _CONTAINER_BITS


class RowBitmap:
    """Rows of a file, counted from 0. It does not change."""

    def __init__(self, bitmaps: Mapping[int, BitMap], stored: Mapping[int, Mapping[int, Body]] | None = None) -> None:
        """`bitmaps` has the lower 32 bits of the rows by the bits above, `stored` containers of some of them."""
        self.bitmaps = {high: bitmaps[high] for high in sorted(bitmaps) if bitmaps[high]}
        self._stored = stored or {}

    @classmethod
    def of(cls, rows: npt.NDArray[np.int64]) -> RowBitmap:
        """The bitmap of rows in any order.

        Raises: InvalidArgumentError for rows below 0.
        """
        if not (rows[1:] > rows[:-1]).all():
            rows = np.sort(rows)
            rows = rows[np.append(True, rows[1:] != rows[:-1])]
        if len(rows) and rows[0] < 0:
            raise InvalidArgumentError(f"there is no row {rows[0]}")
        bitmaps = {}
        while len(rows):
            high = int(rows[0]) >> 32
            end = np.searchsorted(rows, (high << 32) + 0xFFFF_FFFF, "right")
            bitmaps[high] = bitmap_of(rows[:end] - (high << 32) if high else rows[:end])
            rows = rows[end:]
        return cls(bitmaps)

    def __len__(self) -> int:
        return sum(map(len, self.bitmaps.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowBitmap) and self.bitmaps == other.bitmaps

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: RowBitmap) -> RowBitmap:
        highs = self.bitmaps.keys() | other.bitmaps.keys()
        return RowBitmap({high: self.bitmaps.get(high, BitMap()) | other.bitmaps.get(high, BitMap()) for high in highs})

    @property
    def last(self) -> int:
        """The last row; −1 if there is none."""
        high = max(self.bitmaps, default=-1)
        return -1 if high < 0 else (high << 32) + self.bitmaps[high].max()

    def present(self, first_row: int, count: int) -> pa.BooleanArray:
        """Which of the rows `first_row` … `first_row + count - 1` are in it."""
        return _flags(self._bits(first_row, count), first_row, count)

    def absent(self, first_row: int, count: int) -> pa.BooleanArray | None:
        """Which of the rows `first_row` … `first_row + count - 1` are not in it; None for all."""
        flags = _flags(~self._bits(first_row, count), first_row, count)
        return flags if flags.false_count else None

    def _bits(self, first_row: int, count: int) -> npt.NDArray[np.uint8]:
        """A bit for each row of the containers into which these rows fall."""
        begin, end = first_row >> _CONTAINER_BITS, -(-(first_row + count) >> _CONTAINER_BITS)
        if end - begin == 1 and (body := self._containers.get(begin)) is not None:
            return bits_of(body)
        bits = np.zeros((end - begin, BITS_BYTES), np.uint8)
        for index in range(end - begin):
            container = self._containers.get(begin + index)
            if container is not None:
                bits[index] = bits_of(container)
        return bits

    @cached_property
    def _containers(self) -> Mapping[int, Body]:
        return {
            high << _CONTAINER_BITS | key: body
            for high, bitmap in self.bitmaps.items()
            for key, body in (self._stored.get(high) or containers_32(bytes(bitmap.serialize()))[0]).items()
        }


def _flags(bits: npt.NDArray[np.uint8], first_row: int, count: int) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)], offset=first_row % _CONTAINER_ROWS)


def serialize(bitmap: BitMap) -> bytes:
    """Portable Roaring bytes; each container in its smallest form, as in the Java library."""
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def bitmap_of(rows: npt.NDArray[Any]) -> BitMap:
    """The bitmap of ascending row numbers below 2³², each once."""
    if len(rows) <= ARRAY_SIZE_MAX:
        # From an `array` the library copies all numbers at once, from anything else one after another: 40 ns for each.
        numbers = array("I")
        numbers.frombytes(rows.astype(np.uint32, copy=False).tobytes())
        return BitMap(numbers)
    # The library adds numbers one after another; reading its own format it copies whole containers.
    keys = np.arange((int(rows[-1]) >> _CONTAINER_BITS) + 1)
    bounds = np.append(np.searchsorted(rows, (keys << _CONTAINER_BITS).astype(rows.dtype)), len(rows))
    counts = np.diff(bounds)
    keys = np.flatnonzero(counts)
    heads = np.column_stack([keys, counts[keys] - 1]).astype("<u2")
    sizes = np.where(counts[keys] > ARRAY_SIZE_MAX, BITS_BYTES, 2 * counts[keys])
    offsets = np.cumsum(np.append(8 + 8 * len(keys), sizes))[:-1].astype("<u4")
    low = rows.astype("<u2")
    parts = [struct.pack("<II", COOKIE, len(keys)), heads.tobytes(), offsets.tobytes()]
    done = 0
    for key in np.flatnonzero(counts > ARRAY_SIZE_MAX):
        begin, end = bounds[key : key + 2]
        parts += [low[done:begin].tobytes(), bits_of(low[begin:end]).tobytes()]
        done = end
    return BitMap.deserialize(b"".join([*parts, low[done:].tobytes()]))
