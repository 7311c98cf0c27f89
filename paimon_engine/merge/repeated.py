"""Merging changelog runs, which contain a key several times, in exactly the order of the Java library.

1. Its merge takes one record of a key from each run, the first ones together, then the second ones, and so on.
2. Within such a round records are ordered by sequence. A −U has the sequence number of the record that it retracts, so
   ties are common, and the shape of the merge decides them: a tournament tree over the runs, in which of two equal
   records the one that was added first usually comes first. The order of ties depends on earlier matches, so it is
   found row by row.
3. Rows are moved, and rounds merged, in batches.

Source: `LoserTree`, `SortMergeReaderWithLoserTree`, `IntervalPartition` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.keys import normalise_keys
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

    tree = _Tournament([_RecordCursor(iter(run), keyed) for run in runs])
    records: list[tuple[pa.RecordBatch, int]] = []
    starts: list[int] = []
    while members := tree.next_round():
        starts.append(len(records))
        records += members
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
    if pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _window(records: Sequence[tuple[pa.RecordBatch, int]], starts: Sequence[int]) -> Window:
    batches = {id(rows): rows for rows, _ in records}
    begins = dict(zip(batches, np.cumsum([0, *(rows.num_rows for rows in batches.values())]).tolist(), strict=False))
    order = pa.array([begins[id(rows)] + row for rows, row in records])
    return Window(pa.concat_batches(list(batches.values())).take(order), None, np.asarray(starts))


# ── the tournament ──────────────────────────────────────────────────────────────────────────────


class _State(Enum):
    """What a run's current record is in its match: of a new key, of the round's key, or taken already."""

    WON_NEW = auto()
    WON_SAME = auto()
    WON_TAKEN = auto()
    LOST_NEW = auto()
    LOST_SAME = auto()
    LOST_TAKEN = auto()


_LOST = frozenset({_State.LOST_NEW, _State.LOST_SAME, _State.LOST_TAKEN})


class _RecordCursor:
    """A run and its current record; `key` is None after the last one."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keyed: Callable[[pa.RecordBatch], _Keyed]) -> None:
        self._batches = batches
        self._keyed = keyed
        self._keys: list[Any] = []
        self._sequences: list[Any] = []
        self.rows: pa.RecordBatch | None = None
        self.row = -1
        self.key: Any = None
        self.sequence: Any = None
        self.state = _State.WON_NEW
        self.same_key_at = 0
        """The first match, from the leaf up, that this record won against one of its key; 0 for none."""

    def advance(self) -> None:
        self.same_key_at = 0
        self.state = _State.WON_NEW
        self.row += 1
        while self.row >= len(self._keys):
            rows = next(self._batches, None)
            if rows is None:
                self.key = self.sequence = None
                return
            self.rows, self._keys, self._sequences = self._keyed(rows)
            self.row = 0
        self.key, self.sequence = self._keys[self.row], self._sequences[self.row]

    def won_against_same(self, match: int) -> None:
        self.same_key_at = self.same_key_at or match


class _Tournament:
    """Matches between runs; each inner node keeps the loser of its match, node 0 the winner of all."""

    def __init__(self, runs: Sequence[_RecordCursor]) -> None:
        self._runs = runs
        self._nodes = [-1] * len(runs)
        for number in reversed(range(len(runs))):
            runs[number].advance()
            self._climb(number)

    def next_round(self) -> list[tuple[pa.RecordBatch, int]]:
        """Positions of the next record of the smallest key in each run that has one, oldest first; none at the end."""
        while (winner := self._winner).state is _State.WON_TAKEN:
            winner.advance()
            self._climb(self._nodes[0])
        members = []
        while (winner := self._winner).state is not _State.WON_TAKEN and winner.key is not None:
            winner.state = _State.WON_TAKEN
            members.append((winner.rows, winner.row))
            self._climb(self._nodes[0])
        return members

    @property
    def _winner(self) -> _RecordCursor:
        return self._runs[self._nodes[0]]

    def _climb(self, number: int) -> None:
        """Plays the matches of a run from its leaf up, after its record changed."""
        node = (number + len(self._runs)) // 2
        while node > 0 and number >= 0:
            rising = self._runs[number]
            if self._nodes[node] < 0:
                rising.state = _State.LOST_NEW
            elif rising.state is _State.WON_TAKEN:
                if not rising.same_key_at:
                    break
                # Directly to the node where another record of the key waits.
                node = rising.same_key_at
                rising.state = _State.LOST_TAKEN
                self._runs[self._nodes[node]].state = _State.WON_SAME
            elif rising.state is _State.WON_NEW:
                _play_new(self._runs[self._nodes[node]], rising, node)
            else:
                _play_same(self._runs[self._nodes[node]], rising, node)
            if rising.state in _LOST:
                number, self._nodes[node] = self._nodes[node], number
            node //= 2
        self._nodes[0] = number


def _play_new(waiting: _RecordCursor, rising: _RecordCursor, node: int) -> None:
    """A match of a record whose key has not been compared yet."""
    if waiting.state is _State.LOST_TAKEN:
        waiting.state, rising.state = _State.WON_TAKEN, _State.LOST_NEW
        waiting.same_key_at = 0
        return
    if waiting.key is None or (rising.key is not None and rising.key < waiting.key):
        return
    if rising.key is None or waiting.key < rising.key:
        waiting.state, rising.state = _State.WON_NEW, _State.LOST_NEW
    elif rising.sequence < waiting.sequence:
        waiting.state = _State.LOST_SAME
        rising.won_against_same(node)
    else:
        waiting.state, rising.state = _State.WON_NEW, _State.LOST_SAME
        waiting.won_against_same(node)


def _play_same(waiting: _RecordCursor, rising: _RecordCursor, node: int) -> None:
    """A match of a record of the round's key."""
    if waiting.state is not _State.LOST_SAME:
        return
    if waiting.sequence < rising.sequence:
        waiting.state, rising.state = _State.WON_SAME, _State.LOST_SAME
        waiting.won_against_same(node)
    else:
        rising.won_against_same(node)
