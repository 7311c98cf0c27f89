"""What `ANALYZE` gathers of a column, batch by batch and task by task: bounds, nulls, lengths, distinct values.

Distinct values are counted by their smallest hashes: as many as the sketch keeps are counted exactly, of more it is
known how dense the hashes are. Memory is bounded, and sketches of two parts of a table become one of both.

Lengths are what Spark assumes: the size of a value of fixed size, the characters of a text, the bytes of a binary.

Source: `CommandUtils.statExprs` of Spark, which the Java library's ANALYZE calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.binary_row import internal_values
from paimon_engine.meta.table_statistics import ColumnStatistics, value_text
from paimon_engine.types import BINARY_ROOTS, STRING_ROOTS, AtomicType, DataField, TypeRoot

HASHES_KEPT: Final = 1 << 16
"""Half a megabyte a column; the count of more distinct values is off by 0.4 % as a rule (1/√n)."""

_SIZES: Final = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
_TEXT_SIZE: Final = 20
_BINARY_SIZE: Final = 100
_DIGITS_IN_LONG: Final = 18
_NO_HASHES: Final = np.empty(0, np.uint64)


def has_statistics(field: DataField) -> bool:
    """Whether columns of the type can be analyzed: all but nested ones."""
    return isinstance(field.type, AtomicType)


@dataclass(slots=True)
class ColumnSketch:
    """Running statistics of one column; bounds are internal values."""

    column: DataField
    rows: int = 0
    null_count: int = 0
    low: Any = None
    high: Any = None
    has_nan: bool = False
    length_sum: int = 0
    length_max: int = 0
    hashes: np.ndarray[Any, np.dtype[np.uint64]] = field(default_factory=lambda: _NO_HASHES)

    @property
    def _type(self) -> AtomicType:
        assert isinstance(self.column.type, AtomicType)
        return self.column.type

    def add(self, array: pa.Array) -> None:
        """Takes in the column of one batch."""
        self.rows += len(array)
        self.null_count += array.null_count
        values = array.drop_null()
        if len(values) == 0:
            return
        self._keep(_hashes(values))
        if self._type.root in STRING_ROOTS | BINARY_ROOTS:
            lengths = pc.utf8_length(values) if self._type.root in STRING_ROOTS else pc.binary_length(values)
            self.length_sum += pc.sum(lengths).as_py()
            self.length_max = max(self.length_max, pc.max(lengths).as_py())
        else:
            self._bound(values)

    def _bound(self, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            is_nan = pc.is_nan(values)
            self.has_nan = self.has_nan or pc.any(is_nan).as_py()
            values = values.filter(pc.invert(is_nan))
            if len(values) == 0:
                return
        bounds = pc.min_max(values)
        self._widen(*internal_values(pa.array([bounds["min"], bounds["max"]], values.type), self._type))

    def _widen(self, low: Any, high: Any) -> None:
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def _keep(self, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        # Sorting is many times as fast as `np.unique` of NumPy 2.4, which hashes.
        ordered = np.sort(np.append(self.hashes, hashes))
        is_new = np.ones(len(ordered), dtype=np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
        self.hashes = ordered[is_new][:HASHES_KEPT]

    def merge(self, other: ColumnSketch) -> None:
        """Merges the sketch of another part of the table."""
        self.rows += other.rows
        self.null_count += other.null_count
        self.has_nan = self.has_nan or other.has_nan
        self.length_sum += other.length_sum
        self.length_max = max(self.length_max, other.length_max)
        self._keep(other.hashes)
        if other.low is not None:
            self._widen(other.low, other.high)

    @property
    def distinct_count(self) -> int:
        """Distinct values, nulls left out."""
        if len(self.hashes) < HASHES_KEPT:
            return len(self.hashes)
        density = (int(self.hashes[-1]) + 1) / 2**64
        return min(round((HASHES_KEPT - 1) / density), self.rows - self.null_count)

    def finish(self) -> ColumnStatistics:
        """Statistics of all that was taken in. NaN is greater than all numbers, as in Spark."""
        average, longest = self._lengths()
        high = math.nan if self.has_nan else self.high
        low = math.nan if self.has_nan and self.low is None else self.low
        return ColumnStatistics(
            column_id=self.column.id,
            distinct_count=self.distinct_count,
            min=None if low is None else value_text(self._type, low),
            max=None if high is None else value_text(self._type, high),
            null_count=self.null_count,
            average_length=average,
            max_length=longest,
        )

    def _lengths(self) -> tuple[int, int]:
        root = self._type.root
        if root in STRING_ROOTS | BINARY_ROOTS:
            filled = self.rows - self.null_count
            default = _TEXT_SIZE if root in STRING_ROOTS else _BINARY_SIZE
            return (math.ceil(self.length_sum / filled), self.length_max) if filled else (default, default)
        size = 8 if self._type.precision <= _DIGITS_IN_LONG else 16
        size = _SIZES.get(root, size)
        return size, size


# ── hashes ──────────────────────────────────────────────────────────────────────────────────────

_MULTIPLIER: Final = 0x9E3779B97F4A7C15


def _hashes(values: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A 64-bit hash of each value; equal values have equal ones. Shape: [rows]."""
    if pa.types.is_boolean(values.type):
        return _mixed(values.cast(pa.uint8()).to_numpy().astype(np.uint64))
    if pa.types.is_floating(values.type):
        numbers = values.cast(pa.float64()).to_numpy() + 0.0  # −0.0 becomes 0.0
        return _mixed(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    if pa.types.is_decimal(values.type):
        words = _words(values.cast(pa.decimal128(38, values.type.scale)))
        return _mixed(words[:, 0] ^ _mixed(words[:, 1]))
    if pa.types.is_primitive(values.type):
        integers = f"int{values.type.bit_width}"
        return _mixed(values.view(getattr(pa, integers)()).to_numpy().astype(np.int64).view(np.uint64))
    return _byte_hashes(values.cast(pa.large_binary()))


def _words(decimals: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The two halves of 128-bit decimals. Shape: [rows, 2]."""
    buffer = decimals.buffers()[1]
    halves = np.frombuffer(buffer, np.uint64, count=2 * (decimals.offset + len(decimals)))
    return halves.reshape(-1, 2)[decimals.offset :]


def _byte_hashes(values: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Hashes of byte strings: a polynomial in an odd number over the bytes, and the length."""
    offsets = np.frombuffer(values.buffers()[1], np.int64, count=values.offset + len(values) + 1)[values.offset :]
    lengths = np.diff(offsets)
    begin, end = int(offsets[0]), int(offsets[-1])
    sums = np.zeros(len(lengths), np.uint64)
    filled = np.flatnonzero(lengths)
    if len(filled):
        data = np.frombuffer(values.buffers()[2], np.uint8, count=end)[begin:].astype(np.uint64) + np.uint64(1)
        indices = np.arange(end - begin) - np.repeat(offsets[:-1] - begin, lengths)
        powers = np.full(int(lengths.max()), _MULTIPLIER, np.uint64).cumprod(dtype=np.uint64)
        # Empty strings have no bytes to add up; the others follow each other without gaps.
        sums[filled] = np.add.reduceat(_mixed(data) * powers[indices], offsets[:-1][filled] - begin)
    return _mixed(sums ^ _mixed(lengths.astype(np.uint64)))


def _mixed(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Words spread evenly over all 64-bit numbers (the finalizer of SplitMix64)."""
    words = words + np.uint64(_MULTIPLIER)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
