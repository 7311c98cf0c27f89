"""Which of many entries in columns have files that can match a filter: as `file_matches`, with few objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.binary_columns import NotInColumns
from paimon_engine.meta.entry_columns import ColumnarEntries, EntryColumns, Ints
from paimon_engine.meta.row_tracking import has_tracking
from paimon_engine.predicate import Predicate, columns_of
from paimon_engine.table.files.internal_values import internal_predicate
from paimon_engine.table.read.file_matches import (
    FileMatches,
    StatsApart,
    matching_of_a_kind,
    stats_of_keys,
    stats_of_values,
)
from paimon_engine.table.state.handle import TableHandle

_AT_ONCE: Final = 10_000
"""Files that are looked at together one by one."""


class Matches(NamedTuple):
    """Of each entry, whether its file leaves room for a row that matches: by its keys, and by all of its values."""

    by_key: NDArray[np.bool_]
    by_value: NDArray[np.bool_]


def matches_in_columns(table: TableHandle, conjuncts: Sequence[Predicate], entries: ColumnarEntries) -> Matches:
    """As `FileMatches` says of each file.

    Raises: InvalidArgumentError if a conjunct names a missing column or a value that does not fit.
    """
    return _PartByPart(table, conjuncts, entries).found()


class _PartByPart:
    """The entries part by part: those of a part that are of one kind at once, others one by one."""

    def __init__(self, table: TableHandle, conjuncts: Sequence[Predicate], entries: ColumnarEntries) -> None:
        self._table, self._conjuncts, self._entries = table, conjuncts, entries
        self._parts = [internal_predicate(table.schema.row_type, part) for part in conjuncts]
        keys = set(table.schema.key_type.names)
        self._on_keys = [part for part in self._parts if columns_of(part) <= keys]
        self._by_key, self._by_value = np.ones(len(entries), bool), np.ones(len(entries), bool)

    def found(self) -> Matches:
        """Looks at all of them."""
        for part, places, indices in self._entries.by_part():
            if not isinstance(part, EntryColumns) or has_tracking(self._table.schema):
                self._one_by_one(indices)
                continue
            kinds = part.kinds(places)
            if kinds is None:
                self._one_by_one(indices)
                continue
            for kind in np.unique(kinds).tolist():
                [which] = (kinds == kind).nonzero()
                self._of_a_kind(part, places[which], indices[which])
        return Matches(self._by_key, self._by_value)

    def _of_a_kind(self, part: EntryColumns, places: Ints, indices: Ints) -> None:
        """Decides what columns can decide, and asks about each file that is left if there is more to ask."""
        [like] = part.at(places[:1])
        row_counts = part.numbers("row_count")[0][places]
        table, files = self._table, [like.file]
        try:
            by_key, undecided = np.ones(len(places), bool), False
            if self._on_keys:
                keys = stats_of_keys(table, like.file, StatsApart(*part.statistics("key_stats", places)))
                by_key, left = matching_of_a_kind(table, keys, self._on_keys, files, row_counts)
                undecided = bool(left)
            values = stats_of_values(table, like.file, StatsApart(*part.statistics("value_stats", places)))
            by_value, left = matching_of_a_kind(table, values, self._parts, files, row_counts)
        except NotInColumns:
            self._one_by_one(indices)
            return
        self._by_key[indices], self._by_value[indices] = by_key, by_value
        if undecided or left or part.has_indexes:
            self._one_by_one(indices[by_key | by_value])

    def _one_by_one(self, indices: Ints) -> None:
        for begin in range(0, len(indices), _AT_ONCE):
            some = indices[begin : begin + _AT_ONCE]
            files = [entry.file for entry in self._entries.at(some)]
            matches = FileMatches(self._table, self._conjuncts, files)
            self._by_key[some] = [matches.key_may_match(file) for file in files]
            self._by_value[some] = [matches.may_match(file) for file in files]
