"""A column of many BinaryRows at once (`format/binary_row`), for the bounds in the statistics of many files.

Values are in a form that compares as the internal values do: numbers as they are, DECIMALs of up to 18 digits as
unscaled integers, timestamps of up to 6 digits as integers of milli- or microseconds, texts as `str`. `stored_form`
brings a value to compare with into that form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.binary_row import (
    COMPACT_DECIMAL_PRECISION_MAX,
    COMPACT_TIMESTAMP_PRECISION_MAX,
    NANOS_PER_MILLI,
    NANOS_PER_UNIT,
    decode_row,
    null_bits_size,
)
from paimon_engine.format.byte_spans import Ints, bytes_at, cut
from paimon_engine.types import FLOAT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, TypeRoot

_NUMBERS: Final = {
    TypeRoot.BOOLEAN: "?",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
    TypeRoot.FLOAT: "<f4",
    TypeRoot.DOUBLE: "<f8",
}
_INTEGERS: Final = _NUMBERS.keys() - {TypeRoot.BOOLEAN, *FLOAT_ROOTS}
_ARITY_BYTES: Final = 4
_SLOT_BYTES: Final = 8
_INLINE_MARK: Final = 0x80
_INLINE_MAX: Final = 7
_MICROS_PRECISION: Final = 6
_MILLIS_MAX: Final = 1 << 53
"""Milliseconds whose microseconds are an int64."""


class NotInColumns(Exception):  # noqa: N818 - not an error: the rows are read one by one then
    """These rows are left to the decoder that looks at rows one by one."""


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """A column of n rows: `values`, of shape (n,), are integers, floats or `str`; not meant where not `is_set`."""

    values: NDArray[Any]
    is_set: NDArray[np.bool_]


def is_columnar(data_type: DataType) -> bool:
    """Whether `BinaryRows.column` takes columns of that type."""
    if not isinstance(data_type, AtomicType):
        return False
    root = data_type.root
    if root is TypeRoot.DECIMAL:
        return data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX
    if root in TIMESTAMP_ROOTS:
        return data_type.precision <= _MICROS_PRECISION
    return root in _NUMBERS or root in STRING_ROOTS


def stored_form(data_type: AtomicType, value: Any) -> Any | None:
    """An internal value in the form of a column's values; None where that form does not have it."""
    if data_type.root is TypeRoot.DECIMAL:
        scaled = Decimal(value).scaleb(data_type.scale)
        whole = int(scaled)
        return whole if whole == scaled else None
    if data_type.root in TIMESTAMP_ROOTS:
        whole, rest = divmod(value, _nanos_per_step(data_type))
        return None if rest else whole
    return value


def _nanos_per_step(data_type: AtomicType) -> int:
    return NANOS_PER_MILLI if data_type.precision <= COMPACT_TIMESTAMP_PRECISION_MAX else NANOS_PER_UNIT["us"]


def values_by_column(types: Sequence[DataType], rows: Sequence[bytes]) -> list[list[Any]]:
    """The internal values of many rows, of each column one list. Raises: as `decode_row`."""
    is_plain = all(isinstance(one, AtomicType) and (one.root in _INTEGERS or one.root in STRING_ROOTS) for one in types)
    if not rows or not is_plain:
        return _one_by_one(types, rows)
    try:
        found = BinaryRows(rows, len(types))
        columns = [found.column(index, one) for index, one in enumerate(types) if isinstance(one, AtomicType)]
    except NotInColumns:
        return _one_by_one(types, rows)
    values = [column.values.astype(object) for column in columns]
    for column, some in zip(columns, values, strict=True):
        some[~column.is_set] = None
    return [some.tolist() for some in values]


def _one_by_one(types: Sequence[DataType], rows: Sequence[bytes]) -> list[list[Any]]:
    decoded = [decode_row(types, row) for row in rows]
    return [[row[index] for row in decoded] for index in range(len(types))]


class BinaryRows:
    """Rows of the same number of columns, each with the arity in front."""

    def __init__(self, rows: Sequence[bytes], arity: int) -> None:
        """Raises: NotInColumns if one is too short or has another number of columns."""
        self._lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self._first_slot = _ARITY_BYTES + null_bits_size(arity)
        if len(rows) and int(self._lengths.min()) < self._first_slot + _SLOT_BYTES * arity:
            raise NotInColumns("rows that are too short")
        self._data = b"".join(rows)
        self._begins: Ints = np.cumsum(self._lengths) - self._lengths
        if len(rows) and (bytes_at(self._data, self._begins, _ARITY_BYTES).view(">i4") != arity).any():
            raise NotInColumns("rows of another number of columns")

    def column(self, index: int, data_type: AtomicType) -> BinaryColumn:
        """Values of a column of a type that `is_columnar`. Raises: NotInColumns."""
        bits = np.frombuffer(self._data, np.uint8)[self._begins + _ARITY_BYTES + ((index + 8) >> 3)]
        is_set = (bits >> np.uint8(index & 7)) & 1 == 0
        return BinaryColumn(
            self._values(self._begins + self._first_slot + _SLOT_BYTES * index, data_type, is_set), is_set
        )

    def _values(self, slots: Ints, data_type: AtomicType, is_set: NDArray[np.bool_]) -> NDArray[Any]:
        """Values of the column whose slots begin at these places. Raises: NotInColumns."""
        root = data_type.root
        if root in STRING_ROOTS:
            return self._texts(slots, is_set)
        if root in _NUMBERS:
            size = np.dtype(_NUMBERS[root]).itemsize
            stored = np.ascontiguousarray(bytes_at(self._data, slots, size))
            if root is TypeRoot.BOOLEAN:
                flags: NDArray[Any] = (stored[:, 0] != 0).astype(np.int64)
                return flags
            numbers: NDArray[Any] = stored.view(_NUMBERS[root])[:, 0].astype(
                np.float64 if root in FLOAT_ROOTS else np.int64
            )
            return numbers
        if root is TypeRoot.DECIMAL or data_type.precision <= COMPACT_TIMESTAMP_PRECISION_MAX:
            return self._longs(slots)
        nanos, begins = self._lengths_and_places(slots)
        begins = self._within(begins, np.full(len(slots), _SLOT_BYTES), is_set)
        millis = self._longs(np.where(is_set, begins, slots))
        if (np.abs(millis[is_set]) > _MILLIS_MAX).any():
            raise NotInColumns("timestamps out of range")
        micros: Ints = np.where(is_set, millis, 0) * 1_000 + nanos // 1_000
        return micros

    def _longs(self, begins: Ints) -> Ints:
        return np.ascontiguousarray(bytes_at(self._data, begins, _SLOT_BYTES)).view("<i8")[:, 0].astype(np.int64)

    def _lengths_and_places(self, slots: Ints) -> tuple[Ints, Ints]:
        pairs = np.ascontiguousarray(bytes_at(self._data, slots, _SLOT_BYTES)).view("<i4").astype(np.int64)
        return pairs[:, 0], pairs[:, 1]

    def _within(self, offsets: Ints, lengths: Ints, matters: NDArray[np.bool_]) -> Ints:
        """Where in all bytes the variable parts begin. Raises: NotInColumns for one that is not within its row."""
        ends = offsets + lengths + _ARITY_BYTES
        if (matters & ((offsets < 0) | (lengths < 0) | (ends > self._lengths))).any():
            raise NotInColumns("bytes outside of their row")
        return self._begins + _ARITY_BYTES + offsets

    def _texts(self, slots: Ints, is_set: NDArray[np.bool_]) -> NDArray[Any]:
        """The texts of slots: short ones are in there. Raises: NotInColumns."""
        marks = bytes_at(self._data, slots + _INLINE_MAX, 1)[:, 0]
        inline = marks & _INLINE_MARK != 0
        short = (marks & ~np.uint8(_INLINE_MARK)).astype(np.int64)
        if (is_set & inline & (short > _INLINE_MAX)).any():
            raise NotInColumns("texts that are longer than their slot")
        lengths, offsets = self._lengths_and_places(slots)
        lengths = np.where(is_set, np.where(inline, short, lengths), 0)
        begins = np.where(inline, slots, self._within(offsets, lengths, is_set & ~inline))
        begins = np.where(is_set, begins, slots)
        found = np.empty(len(slots), object)
        try:
            found[:] = list(map(bytes.decode, cut(self._data, begins, begins + lengths)))
        except UnicodeDecodeError:
            raise NotInColumns("texts that are no UTF-8") from None
        return found
