"""The part of a table's files within a range of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_engine.format.binary_row import decode_row, to_arrow_array
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import Section
from paimon_engine.merge.keys import count_up_to, normalise_keys
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.predicate import Compare, Operator, Predicate
from paimon_engine.types import INTEGER_ROOTS, STRING_ROOTS, AtomicType, TypeRoot

if TYPE_CHECKING:
    from paimon_engine.lsm.plan import KeyRange

_PLAIN_ROOTS: Final = INTEGER_ROOTS | STRING_ROOTS - {TypeRoot.CHAR}
"""Types whose values in a key are those of a filter; behind a CHAR, some keys have spaces and some have not."""


@dataclass(frozen=True, slots=True)
class _Bound:
    row: bytes
    values: tuple[Any, ...]
    key: Any
    """As `normalise_keys` gives it."""


class RangeReader:
    """Cuts files and their rows to a range of keys."""

    def __init__(self, schema: TableSchema, keys: KeyRange) -> None:
        """`keys` are above `low` and up to `high`."""
        self._type = schema.key_type
        self._types = [field.type for field in schema.key_type]
        self._order = key_order(schema.key_type)
        self._low, self._high = self._bound(keys.low), self._bound(keys.high)

    def reaches(self, file: DataFile) -> bool:
        """Whether a file may have rows in the range."""
        above = self._low is None or self._order(self._low.row) < self._order(file.max_key)
        return above and (self._high is None or self._order(file.min_key) <= self._order(self._high.row))

    def reached(self, section: Section) -> Section:
        """The runs of a section without files that have no rows in the range."""
        return tuple(tuple(file for file in run if self.reaches(file)) for run in section)

    @property
    def conjuncts(self) -> list[Predicate]:
        """A condition that all rows in the range meet, for leaving out parts of files; others may meet it, too."""
        return [*self._bounded(">=", self._low), *self._bounded("<=", self._high)]

    def _bounded(self, operator: Operator, bound: _Bound | None) -> list[Predicate]:
        first = self._type.fields[0]
        # Of a null, which is below all others, such a condition is not true.
        if not isinstance(first.type, AtomicType) or first.type.root not in _PLAIN_ROOTS or first.type.nullable:
            return []
        return [] if bound is None else [Compare(operator, first.name, bound.values[0])]

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows in the range, of batches in key order; nothing is read beyond it."""
        for rows in batches:
            if not rows.num_rows:
                continue
            columns = rows.select(self._type.names)
            # Most batches are within the range, which their ends show: keys of all rows cost as much as in the merge.
            if self._places(columns.take(pa.array([0, rows.num_rows - 1]))) == (0, 2):
                yield rows
                continue
            begin, end = self._places(columns)
            if begin < end:
                yield rows.slice(begin, end - begin)
            if end < rows.num_rows:
                return

    def _places(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """Where the range begins and ends in rows of the key's columns."""
        keys = normalise_keys(rows.columns, self._types)
        begin = 0 if self._low is None else count_up_to(keys, self._low.key)
        return begin, rows.num_rows if self._high is None else count_up_to(keys, self._high.key)

    def _bound(self, row: bytes | None) -> _Bound | None:
        if row is None:
            return None
        values = decode_row(self._types, row)
        columns = [to_arrow_array([value], kind) for value, kind in zip(values, self._types, strict=True)]
        return _Bound(row, values, normalise_keys(columns, self._types)[0])
