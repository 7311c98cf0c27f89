"""Column statistics of data files: collected from batches or a Parquet footer, cut to size, stored in manifests.

1. `StatsCollector` sees every batch of a file and keeps smallest value, largest value and null count per column.
   Bounds of texts and integers it may be given: the footer of a written Parquet file has them.
   Java takes them from the footers, or counts itself, so each format has its own rules (`FormatStats`).
2. The column's stats mode drops or cuts them: `none`, `counts`, `truncate(n)`, `full`.
3. `to_simple_stats` and `from_simple_stats` turn them into the record in a manifest and back.

A missing smallest or largest value means *unknown*, not *all null* (that is: null count = row count). Both are missing
for nested types, for BINARY types (the Java library never collects these either), for FLOAT and DOUBLE columns with a
NaN, and where cutting leaves no upper bound.

Source: `SimpleColStatsCollector`, `TruncateSimpleColStatsCollector`, `StatsCollectorFactories`,
`SimpleStatsConverter`, `ParquetSimpleStatsExtractor`, `OrcSimpleStatsExtractor` of the Java library. Deliberate
differences: an upper bound never ends in half of a surrogate pair; in ORC and Avro too, a NaN leaves no bounds; in ORC
the bounds of CHARs have no spaces behind them, as the values read have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.binary_row import (
    COMPACT_DECIMAL_PRECISION_MAX,
    EMPTY_ROW,
    decode_row,
    encode_row,
    internal_values,
)
from paimon_engine.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
)


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """The statistics record of a manifest: two binary rows and the null counts, by column.

    Either all columns are in it or none (`EMPTY_STATS`); which columns they are is said elsewhere in the entry.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


MICROS_PRECISION: Final = 6
"""Digits of the second of the finest timestamp that Parquet has as an integer."""

EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds of a column's values, as internal values, and its number of nulls; None where unknown."""

    min: Any
    max: Any
    null_count: int | None


UNKNOWN_STATS = ColumnStats(None, None, None)


class StatsKind(StrEnum):
    """How much is kept of a column's statistics."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Value of a stats-mode option. `length` belongs to `truncate`: code points or bytes."""

    kind: StatsKind
    length: int = 0

    @property
    def has_bounds(self) -> bool:
        """Whether smallest and largest values are kept."""
        return self.kind in (StatsKind.TRUNCATE, StatsKind.FULL)

    def __str__(self) -> str:
        return f"{self.kind}({self.length})" if self.kind == StatsKind.TRUNCATE else str(self.kind)


_TRUNCATE = re.compile(r"truncate\((\d+)\)", re.IGNORECASE)


def parse_stats_mode(text: str) -> StatsMode:
    """Mode of an option's text, in any case.

    Raises: InvalidArgumentError naming the modes that exist.
    """
    match = _TRUNCATE.fullmatch(text.strip())
    if match and int(match[1]) > 0:
        return StatsMode(StatsKind.TRUNCATE, int(match[1]))
    if text.strip().lower() in (StatsKind.NONE, StatsKind.COUNTS, StatsKind.FULL):
        return StatsMode(StatsKind(text.strip().lower()))
    raise InvalidArgumentError(f"stats mode must be none, counts, truncate(n) with n > 0, or full, not {text!r}")


# ── Manifest records ────────────────────────────────────────────────────────────────────────────


def to_simple_stats(types: Sequence[DataType], columns: Sequence[ColumnStats]) -> SimpleStats:
    """Record for the statistics of these columns; without columns, `EMPTY_STATS`."""
    return SimpleStats(
        encode_row(types, [column.min for column in columns], reserve_null=False),
        encode_row(types, [column.max for column in columns], reserve_null=False),
        tuple(column.null_count for column in columns),
    )


def from_simple_stats(
    types: Sequence[DataType], stats: SimpleStats, *, wanted: Collection[int] | None = None
) -> list[ColumnStats]:
    """Statistics of each column. Empty stats and null counts left out give unknowns, as do bounds not `wanted`.

    Raises: CorruptTableError if the record has another number of columns than `types`.
    """
    if stats.min_values == EMPTY_ROW and stats.max_values == EMPTY_ROW:
        bounds: Iterable[tuple[Any, Any]] = [(None, None)] * len(types)
    else:
        bounds = zip(
            decode_row(types, stats.min_values, wanted=wanted),
            decode_row(types, stats.max_values, wanted=wanted),
            strict=True,
        )
    null_counts = stats.null_counts or (None,) * len(types)
    if len(null_counts) != len(types):
        raise CorruptTableError(f"statistics: expected {len(types)} null counts, found {len(null_counts)}")
    return [ColumnStats(low, high, count) for (low, high), count in zip(bounds, null_counts, strict=True)]


def bounds_of(values: Sequence[Any]) -> tuple[Any, Any]:
    """Smallest and largest of internal values, as Java compares them: NaN is the largest number, −0.0 less than 0.0.

    Both are None if there are no values.
    """
    if not values:
        return None, None
    # Only of numbers of these types Python's order is another one, and depends on which comes first.
    key = _order_of_float if isinstance(values[0], float) else None
    return min(values, key=key), max(values, key=key)


def _order_of_float(number: float) -> tuple[bool, float, float]:
    return (True, 0.0, 0.0) if math.isnan(number) else (False, *_signed(number))


# ── Cutting ─────────────────────────────────────────────────────────────────────────────────────


def apply_mode(stats: ColumnStats, mode: StatsMode) -> ColumnStats:
    """What a mode keeps of exact statistics."""
    match mode.kind:
        case StatsKind.NONE:
            return UNKNOWN_STATS
        case StatsKind.COUNTS:
            return ColumnStats(None, None, stats.null_count)
        case StatsKind.FULL:
            return stats
        case StatsKind.TRUNCATE:
            high = truncate_max(stats.max, mode.length)
            low = None if high is None else truncate_min(stats.min, mode.length)
            return ColumnStats(low, high, stats.null_count)


def truncate_min(value: Any, length: int) -> Any:
    """A lower bound of `value` with at most `length` code points or bytes; other values stay."""
    return value[:length] if isinstance(value, str | bytes) else value


def truncate_max(value: Any, length: int) -> Any:
    """An upper bound of `value` with at most `length` code points or bytes, None without one; others stay."""
    if not isinstance(value, str | bytes) or len(value) <= length:
        return value
    for end in range(length, 0, -1):
        successor = _next_character(value[end - 1]) if isinstance(value, str) else _next_byte(value[end - 1])
        if successor is not None:
            return value[: end - 1] + successor  # type: ignore[operator]  # both str or both bytes
    return None


def _next_character(character: str) -> str | None:
    code = ord(character) + 1
    # Surrogates have no UTF-8 form; the next character that has one is behind them.
    return None if code > 0x10FFFF else chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)


def _next_byte(byte: int) -> bytes | None:
    return None if byte == 0xFF else bytes([byte + 1])


# ── Collecting ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FormatStats:
    """How the statistics of a file format differ.

    `counts_nested`: columns with parts have a null count. `widens_zeros`: a bound of zero becomes −0.0 or 0.0.
    `fine_timestamps`: timestamps of more than 6 digits have bounds.
    """

    counts_nested: bool
    widens_zeros: bool
    fine_timestamps: bool


_PLAIN_STATS: Final = FormatStats(counts_nested=True, widens_zeros=False, fine_timestamps=True)
FORMAT_STATS: Final = {
    "parquet": FormatStats(counts_nested=False, widens_zeros=True, fine_timestamps=False),
    "orc": _PLAIN_STATS,
    "avro": _PLAIN_STATS,
}
"""File format → its statistics."""


class StatsCollector:
    """Statistics of one file's columns, gathered batch by batch.

    `modes[k]` and `types[k]` say for each column what is kept and how it is read; mode `none` costs nothing.
    With `bounds_apart` the caller finds the bounds of the columns that `is_bounded_apart`, and gives them to `finish`.
    """

    def __init__(
        self,
        types: Sequence[DataType],
        modes: Sequence[StatsMode],
        ways: FormatStats = FORMAT_STATS["parquet"],
        *,
        bounds_apart: bool = False,
    ) -> None:
        assert len(types) == len(modes), (len(types), len(modes))
        self._modes = tuple(modes)
        self._columns = tuple(_ColumnStats(data_type, ways, bounds_apart=bounds_apart) for data_type in types)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in a batch whose columns are those of the collector, in order."""
        for index, (column, mode) in enumerate(zip(self._columns, self._modes, strict=True)):
            if mode.kind != StatsKind.NONE:
                column.add(batch.column(index), with_bounds=mode.has_bounds)

    def add_known(self, bounds: pa.RecordBatch, null_counts: Sequence[int | None]) -> None:
        """Add rows whose smallest and largest values (two rows) and numbers of nulls are known."""
        self.add(bounds)
        for column, mode, low_high, count in zip(self._columns, self._modes, bounds.columns, null_counts, strict=True):
            if mode.kind != StatsKind.NONE:
                column.null_count += (count or 0) - low_high.null_count

    def finish(self, apart: Sequence[tuple[Any, Any] | None] | None = None) -> list[ColumnStats]:
        """Statistics of all batches so far, as the modes keep them; `apart[k]` are bounds of column k found apart."""
        given = apart or [None] * len(self._columns)
        return [
            apply_mode(column.stats(bounds), mode)
            for column, mode, bounds in zip(self._columns, self._modes, given, strict=True)
        ]


class _ColumnStats:
    """Running statistics of one column; bounds of each batch are kept as Arrow scalars or floats until needed."""

    def __init__(self, data_type: DataType, ways: FormatStats, *, bounds_apart: bool) -> None:
        self.data_type = data_type
        self.ways = ways
        self.is_ordered = is_ordered(data_type, ways)
        root = data_type.root if isinstance(data_type, AtomicType) else None
        self.is_float = root in FLOAT_ROOTS
        self.is_apart = bounds_apart and is_bounded_apart(data_type)
        self.null_count = 0
        self.has_nan = False
        self.bounds: list[Any] = []

    def add(self, array: pa.Array, *, with_bounds: bool) -> None:
        self.null_count += array.null_count
        if not with_bounds or self.has_nan or not self.is_ordered or self.is_apart:
            return
        if len(array) == array.null_count:
            return
        if not self.is_float:
            bounds = pc.min_max(_comparable(array))
            self.bounds += (bounds["min"], bounds["max"])
            return
        low, high = _float_bounds(array)
        self.has_nan = math.isnan(low)
        if self.has_nan:
            self.bounds.clear()
        else:
            self.bounds += (low, high)

    def stats(self, apart: tuple[Any, Any] | None = None) -> ColumnStats:
        if not isinstance(self.data_type, AtomicType):
            return ColumnStats(None, None, self.null_count if self.ways.counts_nested else None)
        if self.is_apart and apart is not None:
            return self._float_stats(*apart) if self.is_float else ColumnStats(*apart, self.null_count)
        if not self.bounds:
            return ColumnStats(None, None, self.null_count)
        if self.is_float:
            return self._float_stats(min(self.bounds, key=_signed), max(self.bounds, key=_signed))
        bounds = internal_values(pa.array(self.bounds, self.bounds[0].type), self.data_type)
        return ColumnStats(min(bounds), max(bounds), self.null_count)

    def _float_stats(self, low: float, high: float) -> ColumnStats:
        return (_widened if self.ways.widens_zeros else ColumnStats)(low, high, self.null_count)


def is_bounded_apart(data_type: DataType) -> bool:
    """Whether the writer of a file may know the bounds of a column: of texts, numbers, days and short decimals."""
    if not isinstance(data_type, AtomicType):
        return False
    root = data_type.root
    if root is TypeRoot.DECIMAL:
        return data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX
    return root in STRING_ROOTS or root in INTEGER_ROOTS or root in FLOAT_ROOTS or root is TypeRoot.DATE


def is_ordered(data_type: DataType, ways: FormatStats) -> bool:
    """Whether columns of the type have bounds in such files."""
    if not isinstance(data_type, AtomicType) or data_type.root in BINARY_ROOTS:
        return False
    return ways.fine_timestamps or data_type.root not in TIMESTAMP_ROOTS or data_type.precision <= MICROS_PRECISION


def _float_bounds(array: pa.Array) -> tuple[float, float]:
    """Smallest and largest number, where −0.0 is less than 0.0, which NumPy treats as equal; NaN if there is one."""
    numbers = (array.drop_null() if array.null_count else array).to_numpy()
    # Many times as fast as Arrow's kernel, and it passes a NaN on.
    bounds = low, high = float(numbers.min()), float(numbers.max())
    if 0.0 in bounds:
        negative = np.signbit(numbers[numbers == 0.0])
        low = low or (-0.0 if negative.any() else 0.0)
        high = high or (-0.0 if negative.all() else 0.0)
    return low, high


def _signed(number: float) -> tuple[float, float]:
    return number, math.copysign(1.0, number)


def _comparable(array: pa.Array) -> pa.Array:
    """The array in a form that Arrow's `min_max` takes."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return array.cast(pa.string()) if pa.types.is_string_view(array.type) else array


def _widened(low: Any, high: Any, null_count: int | None) -> ColumnStats:
    """Bounds with −0.0 and 0.0 for a FLOAT or DOUBLE bound of zero."""
    if isinstance(low, float):
        low, high = (low or -0.0), (high or 0.0)
    return ColumnStats(low, high, null_count)
