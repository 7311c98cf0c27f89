"""Sorting rows that wait in many batches, without a copy of all of them.

Only the keys are joined and sorted. Rows are gathered from the batches, a part of the sorted ones at a time: 2,000,000
rows of lineitem are written in 2.3 processor seconds and 730 MB, instead of 3.5 and 1,290 MB when all were joined,
sorted and gathered at once (measured; much of the time went into memory that was touched for the first time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import of_numbers
from paimon_engine.format.layout import ROW_GROUP_BYTES_MAX
from paimon_engine.merge.keys import join_keys, normalise_keys
from paimon_engine.merge.window import Positions, SequenceOrder, Window, sort_window
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.types import RowType

PART_ROWS_MAX: Final = 1 << 17
"""As many rows as a row group has."""

_CHUNK_ROWS_MIN: Final = 1 << 16
"""Smaller batches are joined first: each part is gathered from all of them."""


def sorted_parts(
    batches: Sequence[pa.RecordBatch], key_type: RowType, sequence: SequenceOrder, *, part_rows: int = PART_ROWS_MAX
) -> Iterator[Window]:
    """Windows in key order, each with all versions of its keys, of about `part_rows` rows, fewer if these are large.

    The batches, of one schema and with system columns, come in order of arrival; they may have keys in any order.

    Raises: UnsupportedError if a user column of `sequence` is a map, which has no order.
    """
    if not batches:
        return
    positions, starts = _order(batches, key_type, sequence)
    rows = sum(batch.num_rows for batch in batches)
    row_bytes = max(1, sum(batch.nbytes for batch in batches) // max(1, rows))
    at_once = max(1, min(part_rows, ROW_GROUP_BYTES_MAX // row_bytes))
    chunks = _Chunks(batches)
    first = 0
    while first < len(starts):
        begin = int(starts[first])
        # A key ends where the next one begins.
        last = first + max(1, int(np.searchsorted(starts[first + 1 :], begin + at_once, side="right")))
        if rows <= begin + at_once:
            last = len(starts)
        end = rows if last == len(starts) else int(starts[last])
        yield Window(chunks.gathered(positions[begin:end]), None, starts[first:last] - begin)
        first = last


def _order(
    batches: Sequence[pa.RecordBatch], key_type: RowType, sequence: SequenceOrder
) -> tuple[Positions, Positions]:
    """The order of all rows, and where in it each key begins."""
    types = [field.type for field in key_type]
    keys = join_keys([normalise_keys([rows[name] for name in key_type.names], types) for rows in batches])
    # The order of arrival needs no other column.
    deciding = [VALUE_KIND] if sequence.is_arrival else [SEQUENCE_NUMBER, VALUE_KIND, *sequence.user_columns]
    window = sort_window(pa.concat_batches([rows.select(deciding) for rows in batches]), keys, sequence)
    assert window.order is not None
    return window.order, window.starts


def _not_small(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows; neighbours are joined until they have enough of them."""
    joined: list[pa.RecordBatch] = []
    waiting: list[pa.RecordBatch] = []
    for number, rows in enumerate(batches):
        waiting.append(rows)
        if sum(one.num_rows for one in waiting) >= _CHUNK_ROWS_MIN or number == len(batches) - 1:
            joined.append(waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting))
            waiting = []
    return joined


class _Chunks:
    """Rows in several batches, numbered through."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._chunks = _not_small(batches)
        self._begins = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])

    def gathered(self, positions: Positions) -> pa.RecordBatch:
        """The rows at some positions, which all differ.

        Arrow's own `take` from several chunks would join all of a column of texts first.
        """
        if len(self._chunks) == 1:
            return _taken(self._chunks[0], positions)
        arrived = np.argsort(positions, kind="stable")
        ascending = positions[arrived]
        cuts = np.searchsorted(ascending, self._begins)
        pieces = [
            _taken(chunk, ascending[first:last] - begin)
            for chunk, begin, (first, last) in zip(self._chunks, self._begins, pairwise(cuts), strict=False)
            if first < last
        ]
        joined = pa.concat_batches(pieces)
        places = np.empty(len(positions), np.intp)
        places[arrived] = np.arange(len(positions))
        return _taken(joined, places)


def _taken(rows: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
    low, count = int(positions[0]), len(positions)
    if int(positions[-1]) - low == count - 1 and bool((np.diff(positions) == 1).all()):
        # As of rows that came sorted.
        return rows.slice(low, count)
    # Indices computed here need no bounds check.
    return pc.take(rows, of_numbers(positions, pa.int64()), boundscheck=False)
