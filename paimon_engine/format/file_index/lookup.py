"""Which rows of a file can match a predicate, by its indexes.

The answer may include rows that do not match, and misses none that do: rows are filtered again when they are read.

Source: `FileIndexPredicate` and the readers of the index types of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyroaring import BitMap

from paimon_engine.format.file_index.bitmap import BitmapIndex
from paimon_engine.format.file_index.bloom import BloomFilter
from paimon_engine.format.file_index.bsi import BsiIndex
from paimon_engine.format.file_index.container import ByteRange, read_head, read_index
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.kinds import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, takes
from paimon_engine.format.file_index.range_bitmap import RangeBitmapIndex
from paimon_engine.format.file_index.values import Value, is_exact, stored_values
from paimon_engine.predicate import And, Compare, In, IsNull, Match, Not, Or, Predicate
from paimon_engine.types import AtomicType, DataType, to_arrow

MatchingRows = BitMap | None
"""Rows that can match; None for all."""


@dataclass(frozen=True, slots=True)
class _Test:
    """The query of a column: an operator, and values in stored form, which identify all values where `exact`."""

    operator: str
    values: tuple[Value, ...]
    exact: bool


class FileIndexes:
    """The indexes of one data file. `columns` maps a table's column to its name in the file and its type in both."""

    def __init__(
        self, stream: BinaryIO, path: str, *, row_count: int, columns: Mapping[str, tuple[str, DataType]]
    ) -> None:
        """Reads the head; indexes are read when they are needed. Raises: CorruptTableError."""
        self._stream = stream
        self._path = path
        self._row_count = row_count
        self._columns = columns
        self._ranges = read_head(stream, path)

    def rows(self, predicate: Predicate) -> MatchingRows:
        """Rows that can match a predicate whose literals are bound to the columns' types.

        Raises: CorruptTableError naming file, index and offset.
        """
        match predicate:
            case And(parts):
                return _all([self.rows(part) for part in parts])
            case Or(parts):
                return _any([self.rows(part) for part in parts])
            case Not(In(column, values)):
                return self._leaf(column, "not in", values)
            case Compare(operator, column, value):
                return self._leaf(column, operator, [value])
            case In(column, values):
                return self._leaf(column, "in", values)
            case IsNull(column, negated):
                return self._leaf(column, "is not null" if negated else "is null", [])
            case Not() | Match():
                return None

    def _leaf(self, column: str, operator: str, values: Sequence[Any]) -> MatchingRows:
        known = self._columns.get(column)
        if known is None or known[0] not in self._ranges:
            return None
        name, data_type = known
        usable = {kind: byte_range for kind, byte_range in self._ranges[name].items() if takes(kind, data_type)}
        if not usable or not isinstance(data_type, AtomicType):
            return None
        literals = pa.array([value for value in values if value is not None], to_arrow(data_type))
        stored = tuple(stored_values(literals, data_type).to_pylist()) if len(literals) else ()
        test = _Test(operator, stored, exact=is_exact(data_type))
        return _all([self._answer(name, kind, byte_range, test, data_type) for kind, byte_range in usable.items()])

    def _answer(
        self, name: str, kind: str, byte_range: ByteRange | None, test: _Test, data_type: AtomicType
    ) -> MatchingRows:
        if byte_range is None:
            return None if test.operator == "is null" else BitMap()
        data = read_index(self._stream, byte_range, self._path)
        cursor = Cursor(data, f"{self._path}: {kind} index of column {name!r}")
        return _ANSWERS[kind](cursor, data_type, test, self._row_count)


def _all(answers: Sequence[MatchingRows]) -> MatchingRows:
    known = [rows for rows in answers if rows is not None]
    return BitMap.intersection(*known) if known else None


def _any(answers: Sequence[MatchingRows]) -> MatchingRows:
    known = [rows for rows in answers if rows is not None]
    return BitMap.union(*known) if len(known) == len(answers) and known else None


# ── index types ─────────────────────────────────────────────────────────────────────────────────


def _ask_bloom(cursor: Cursor, _data_type: AtomicType, test: _Test, _row_count: int) -> MatchingRows:
    if test.operator not in ("=", "in"):
        return None
    return None if BloomFilter(cursor).may_hold(list(test.values)) else BitMap()


def _ask_bitmap(cursor: Cursor, data_type: AtomicType, test: _Test, row_count: int) -> MatchingRows:
    if test.operator not in ("=", "!=", "in", "not in", "is null", "is not null"):
        return None
    index = BitmapIndex(cursor, data_type)
    _check_rows(cursor, index.row_count, row_count)
    if test.operator == "is null":
        return index.nulls()
    if test.operator in ("=", "in"):
        return index.equal(test.values)
    present = BitMap(range(row_count)) - index.nulls()
    if test.operator == "is not null" or not test.exact:
        return present
    return present - index.equal(test.values)


def _ask_bsi(cursor: Cursor, _data_type: AtomicType, test: _Test, row_count: int) -> MatchingRows:
    return _ask_ordered(cursor, BsiIndex(cursor), test, row_count)


def _ask_range_bitmap(cursor: Cursor, data_type: AtomicType, test: _Test, row_count: int) -> MatchingRows:
    return _ask_ordered(cursor, RangeBitmapIndex(cursor, data_type), test, row_count)


def _ask_ordered(cursor: Cursor, index: BsiIndex | RangeBitmapIndex, test: _Test, row_count: int) -> MatchingRows:
    """The rows that match, by an index that compares values."""
    _check_rows(cursor, index.row_count, row_count)
    match test.operator:
        case "is null":
            return index.nulls()
        case "is not null":
            return index.present()
    compared = [index.compare(value) for value in test.values]  # type: ignore[arg-type] # BSI takes no bytes
    equal = BitMap.union(BitMap(), *(same for _, same, _ in compared))
    less, greater = (compared[0][0], compared[0][2]) if compared else (BitMap(), BitMap())
    if not test.exact:
        less, greater = less | equal, greater | equal
    match test.operator:
        case "=" | "in":
            return equal
        case "!=" | "not in":
            return index.present() - equal if test.exact else index.present()
        case "<":
            return less
        case "<=":
            return less | equal
        case ">":
            return greater
        case _:
            return greater | equal


def _check_rows(cursor: Cursor, found: int, expected: int) -> None:
    if found != expected:
        raise cursor.corrupt(f"it is made for {found} rows, the data file has {expected}", at=0)


_ANSWERS: Final[Mapping[str, Callable[[Cursor, AtomicType, _Test, int], MatchingRows]]] = {
    BLOOM_FILTER: _ask_bloom,
    BITMAP: _ask_bitmap,
    BSI: _ask_bsi,
    RANGE_BITMAP: _ask_range_bitmap,
}
