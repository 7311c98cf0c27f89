"""Positions of rows on a curve, such that rows with similar values of some columns are near each other.

| order | the line | good for filters on |
| --- | --- | --- |
| `order` | the columns one after another, as in ORDER BY | the first column |
| `zorder` | the bits of all columns in turn | any of the columns |
| `hilbert` | a Hilbert curve, which never jumps | any of the columns, above all ranges of several at once |

The curves do not look at values but at their ranks among a sample, so that columns count alike however their values are
spread, and texts that begin alike are distinguished. Nulls come first, NaN comes last, −0.0 is 0.0.

Source: `ZIndexer`, `HilbertIndexer` of the Java library, which take the first bytes of each value; the Hilbert curve in
many dimensions is that of J. Skilling, "Programming the Hilbert curve" (2004).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.keys import Keys, normalise_keys
from paimon_engine.types import BINARY_ROOTS, FLOAT_ROOTS, STRING_ROOTS, AtomicType, DataType, TypeRoot

Order = Literal["order", "zorder", "hilbert"]
Numbers = npt.NDArray[np.int64]

COLUMNS_MAX: Final = 15
"""With more columns a position would have less than four bits of each."""
RANK_BITS_MAX: Final = 12
"""A sample gives no finer ranks."""
_POSITION_BITS: Final = 63
_PREFIX_BYTES: Final = 64
"""Of texts and bytes, ranks look at so many."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A way to order rows by columns of these types. `cuts` has, for curves, the ranks' borders of each column."""

    order: Order
    types: tuple[DataType, ...]
    cuts: tuple[Keys, ...] = ()

    def fitted(self, sample: pa.RecordBatch) -> Curve:
        """The curve with ranks as the columns of a sample have them, in the order of the types."""
        if self.order == "order":
            return self
        found = zip(sample.columns, self.types, strict=True)
        return replace(
            self, cuts=tuple(_cuts(_keys(column.drop_null(), kind), self._rank_max) for column, kind in found)
        )

    def positions(self, rows: pa.RecordBatch) -> Keys:
        """Position of each row, given the columns: int64, or byte strings for `order`, as keys are.

        Raises: UnsupportedError for columns that have no order.
        """
        if self.order == "order":
            return _in_turn(rows.columns, self.types)
        ranks = [
            self._ranks(column, kind, cuts)
            for column, kind, cuts in zip(rows.columns, self.types, self.cuts, strict=True)
        ]
        if self.order == "hilbert":
            ranks = _along_hilbert(ranks, self._bits)
        return _interleaved(ranks, self._bits)

    @property
    def _bits(self) -> int:
        return min(RANK_BITS_MAX, _POSITION_BITS // len(self.types))

    @property
    def _rank_max(self) -> int:
        return (1 << self._bits) - 1

    def _ranks(self, column: pa.Array, data_type: DataType, cuts: Keys) -> Numbers:
        """Ranks from 0, of nulls, to `_rank_max`: spread over all bits, or columns of few values would not count."""
        ranks = np.zeros(len(column), dtype=np.int64)
        valid = np.asarray(column.is_valid())
        ranks[valid] = 1 + np.searchsorted(cuts, _keys(column.drop_null(), data_type), side="right")
        return ranks * self._rank_max // (len(cuts) + 1)


def range_stops(positions: Keys, count: int) -> Keys:
    """Positions that cut those of a sample into `count` ranges of equal size, or less where many are equal."""
    ordered = np.sort(positions)
    wanted = np.linspace(0, len(ordered), count + 1).astype(np.int64)[1:-1]
    return np.unique(ordered[wanted[wanted < len(ordered)]])


def range_numbers(positions: Keys, stops: Keys) -> Numbers:
    """Range of each position: how many of the ascending stops are not above it."""
    return np.asarray(np.searchsorted(stops, positions, side="right"), dtype=np.int64)


def to_column(positions: Keys) -> pa.Array:
    """Positions as a column, int64 or binary, that sorts as they do."""
    if positions.dtype.kind == "i":
        return pa.array(positions)
    if positions.dtype.kind != "S":
        return pa.array(positions.tolist(), pa.binary())
    width = positions.itemsize
    raw = pa.py_buffer(np.ascontiguousarray(positions))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(positions), [None, raw]).cast(pa.binary())


# ── one column after another ────────────────────────────────────────────────────────────────────

_ZEROS: Final[Mapping[TypeRoot, Any]] = MappingProxyType(
    {
        **dict.fromkeys(STRING_ROOTS, ""),
        **dict.fromkeys(BINARY_ROOTS, b""),
        TypeRoot.BOOLEAN: False,
        TypeRoot.DECIMAL: Decimal(0),
    }
)
_BOOLEAN: Final = AtomicType(TypeRoot.BOOLEAN, nullable=False)


def _in_turn(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Keys:
    """Byte strings that order as the columns do one after another, nulls first."""
    parts: list[pa.Array] = []
    kinds: list[DataType] = []
    for column, kind in zip(columns, types, strict=True):
        atomic = _atomic(kind)
        zero = pa.scalar(_ZEROS.get(atomic.root, 0), column.type)
        parts += [column.is_valid(), column.fill_null(zero) if column.null_count else column]
        kinds += [_BOOLEAN, replace(atomic, nullable=False)]
    return normalise_keys(parts, kinds)


def _atomic(data_type: DataType) -> AtomicType:
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"rows cannot be ordered by a column of type {data_type}")
    return data_type


# ── ranks ───────────────────────────────────────────────────────────────────────────────────────


def _keys(column: pa.Array, data_type: DataType) -> Keys:
    """Values without nulls, as numbers or short byte strings that order as they do."""
    atomic = _atomic(data_type)
    if atomic.root in STRING_ROOTS or atomic.root in BINARY_ROOTS:
        column = pc.binary_slice(column.cast(pa.binary()), 0, _PREFIX_BYTES)
        atomic = AtomicType(TypeRoot.VARBINARY, length=_PREFIX_BYTES)
    keys = normalise_keys([column], [replace(atomic, nullable=False)])
    if atomic.root in FLOAT_ROOTS:
        return keys.view(">u8").astype(np.uint64)
    return keys


def _cuts(keys: Keys, rank_max: int) -> Keys:
    """Where the second and all further of at most `rank_max` ranks begin, which have about as many keys each."""
    if not len(keys):
        return keys
    ordered = np.sort(keys)
    wanted = np.linspace(0, len(ordered) - 1, min(len(ordered), rank_max)).astype(np.int64)
    return np.unique(ordered[wanted])[1:]


# ── curves ──────────────────────────────────────────────────────────────────────────────────────


def _interleaved(ranks: Sequence[Numbers], bits: int) -> Numbers:
    """The bits of all ranks in turn, the highest first, and of equal ones that of the first rank."""
    count = len(ranks)
    values = np.arange(1 << bits, dtype=np.int64)
    spread = np.zeros_like(values)
    for bit in range(bits):
        spread |= (values >> bit & 1) << (bit * count)
    positions = np.zeros(len(ranks[0]), dtype=np.int64)
    for number, rank in enumerate(ranks):
        positions |= spread[rank] << (count - 1 - number)
    return positions


def _along_hilbert(ranks: Sequence[Numbers], bits: int) -> list[Numbers]:
    """Numbers whose interleaved bits are the positions of the ranks on a Hilbert curve."""
    axes = list(ranks)
    for bit in reversed(range(1, bits)):
        low = (1 << bit) - 1
        for number, axis in enumerate(axes):
            is_set = (axis >> bit & 1).astype(np.bool_)
            swapped = np.where(is_set, 0, (axes[0] ^ axis) & low)
            axes[number] = axis ^ swapped
            axes[0] = axes[0] ^ np.where(is_set, low, swapped)
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    flips = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        flips ^= np.where(axes[-1] >> bit & 1, (1 << bit) - 1, 0)
    return [axis ^ flips for axis in axes]
