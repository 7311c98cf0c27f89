"""Merging changelog runs, which contain a key several times, in exactly the order of the Java library.

1. Its merge takes one record of a key from each run, the first ones together, then the second ones, and so on.
2. Within such a round records are ordered by sequence. A −U has the sequence number of the record that it retracts, so
   ties are common, and the shape of the merge decides them (`merge.tournament`). The order of ties depends on earlier
   matches, so it is found row by row.
3. Rows are moved, and rounds merged, in batches.

Source: `SortMergeReaderWithLoserTree`, `IntervalPartition` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.choose import ordered_numbers
from paimon_engine.merge.keys import normalise_keys
from paimon_engine.merge.tournament import Contender, Tournament
from paimon_engine.merge.window import SequenceOrder, Window
from paimon_engine.meta.schema import SEQUENCE_NUMBER
from paimon_engine.types import RowType

WINDOW_ROWS = 65_536
_Keyed = tuple[pa.RecordBatch, list[Any], list[Any]]
"""Rows, and their keys and sequences as values that Python orders."""


def merge_repeated_runs(
    runs: Sequence[Iterable[pa.RecordBatch]], key_type: RowType, sequence: SequenceOrder
) -> Iterator[Window]:
    """Windows in key order, in which a round counts as a key. Each run is sorted by key; their order decides ties.

    Raises: UnsupportedError for a descending user sequence.
    """
    if sequence.user_columns and sequence.descending:
        raise UnsupportedError(
            "changes of a table with 'sequence.field.sort-order' = 'descending' cannot be merged yet"
        )
    names, types = key_type.names, [field.type for field in key_type]

    def keyed(rows: pa.RecordBatch) -> _Keyed:
        keys: list[Any] = normalise_keys([rows[name] for name in names], types).tolist()
        return rows, keys, _sequences(rows, sequence.user_columns)

    cursors = [_RecordCursor(iter(run), keyed) for run in runs]
    tree = Tournament(cursors)
    records: list[tuple[pa.RecordBatch, int]] = []
    starts: list[int] = []
    while members := tree.next_round():
        starts.append(len(records))
        records += [cursors[number].position for number in members]
        if len(records) >= WINDOW_ROWS:
            yield _window(records, starts)
            records, starts = [], []
    if records:
        yield _window(records, starts)


def _sequences(rows: pa.RecordBatch, user_columns: Sequence[str]) -> list[Any]:
    numbers: list[Any] = rows[SEQUENCE_NUMBER].to_pylist()
    if not user_columns:
        return numbers
    columns = [_nulls_first(rows[name]) for name in user_columns]
    return list(zip(*columns, numbers, strict=True))


def _nulls_first(column: pa.Array) -> list[Any]:
    """Values that Python orders, nulls before all others."""
    return [(value is not None, value) for value in _plain(column)]


def _plain(column: pa.Array) -> list[Any]:
    """Values that Python orders, or None; points in time as numbers, since Python's types have no nanoseconds."""
    kind = column.type
    if pa.types.is_struct(kind):
        rows = zip(*(_nulls_first(column.field(i)) for i in range(kind.num_fields)), strict=True)
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(kind):
        elements, offsets = _nulls_first(column.values), column.offsets.to_pylist()
        lists = [elements[begin:end] for begin, end in pairwise(offsets)]
        return [one if valid else None for one, valid in zip(lists, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_floating(kind):
        # Python orders neither NaN nor the zeros.
        numbers = ordered_numbers(column.fill_null(0)).tolist()
        return [number if valid else None for number, valid in zip(numbers, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _window(records: Sequence[tuple[pa.RecordBatch, int]], starts: Sequence[int]) -> Window:
    batches = {id(rows): rows for rows, _ in records}
    begins = dict(zip(batches, np.cumsum([0, *(rows.num_rows for rows in batches.values())]).tolist(), strict=False))
    order = pa.array([begins[id(rows)] + row for rows, row in records])
    return Window(pa.concat_batches(list(batches.values())).take(order), None, np.asarray(starts))


class _RecordCursor(Contender):
    """A run that is read batch by batch."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keyed: Callable[[pa.RecordBatch], _Keyed]) -> None:
        super().__init__()
        self._batches = batches
        self._keyed = keyed
        self._keys: list[Any] = []
        self._sequences: list[Any] = []
        self._rows: pa.RecordBatch | None = None
        self._row = -1

    @property
    def position(self) -> tuple[pa.RecordBatch, int]:
        """The batch with the current record, and which of its rows it is."""
        assert self._rows is not None
        return self._rows, self._row

    def go_on(self) -> None:
        self._row += 1
        while self._row >= len(self._keys):
            rows = next(self._batches, None)
            if rows is None:
                self.key = self.sequence = None
                return
            self._rows, self._keys, self._sequences = self._keyed(rows)
            self._row = 0
        self.key, self.sequence = self._keys[self._row], self._sequences[self._row]
