"""Bit slices: numbers of rows turned on their side, so that a comparison is a few operations on bitmaps.

Slice j holds the rows whose number has bit j. Source: O'Neil and Quass, "Improved Query Performance with Variant
Indexes"; `BitSliceIndexRoaringBitmap`, `BitSliceIndexBitmap` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_engine.format.bitmaps import bitmap_of


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices, lowest bit first; `present` are the rows that have a number."""

    present: BitMap
    slices: Sequence[BitMap]

    def compare(self, number: int) -> tuple[BitMap, BitMap, BitMap]:
        """Rows whose number is less than, equal to and greater than `number`, which must not be negative."""
        less, equal, greater = BitMap(), self.present, BitMap()
        if number >> len(self.slices):
            return self.present, less, greater
        for bit in range(len(self.slices) - 1, -1, -1):
            if number >> bit & 1:
                less = less | (equal - self.slices[bit])
                equal = equal & self.slices[bit]
            else:
                greater = greater | (equal & self.slices[bit])
                equal = equal - self.slices[bit]
        return less, equal, greater


def slice_numbers(rows: npt.NDArray[Any], numbers: npt.NDArray[np.uint64], slice_count: int) -> Slices:
    """Slices of the numbers that the rows have, which may come in any order."""
    order = np.argsort(rows, kind="stable")
    rows, numbers = rows[order].astype(np.uint32), numbers[order]
    one = np.uint64(1)
    slices = [bitmap_of(rows[numbers >> np.uint64(bit) & one == one]) for bit in range(slice_count)]
    return Slices(bitmap_of(rows), slices)
