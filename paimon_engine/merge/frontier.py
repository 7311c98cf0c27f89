"""Merging sorted runs in bounded memory.

1. Each run has one decoded batch in memory. The frontier is the smallest last key of these batches: up to it nothing is
   missing in any run. A run that is known to end with its batch, as a small file does, limits no frontier.
2. Each run gives its rows up to the frontier. If only one run has any, they pass untouched.
3. Otherwise these rows are joined and sorted by key; equal keys are adjacent, and the window is complete for each.

Memory grows with runs × batch, not with rows. Measured: the stable sort uses the runs' order, so that the sort costs
less than a tenth of decoding and encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.layout import dictionary_decoded
from paimon_engine.merge.keys import Keys, count_up_to, indices_of, join_keys, normalise_keys
from paimon_engine.merge.ties import RunRows, Ties
from paimon_engine.merge.window import SequenceOrder, Window, one_version_per_key, sort_window
from paimon_engine.types import RowType

SMALL_ROWS: Final = 1_024
"""After a batch that is smaller, the next ones are looked for at once: windows of small files would have few rows."""

_SMALL_BYTES: Final = 1 << 20
"""Batches of few rows are not joined if these are large."""


class _RunCursor:
    """A sorted stream of batches, read up to some position of the current one."""

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        keys_of: Callable[[pa.RecordBatch], Keys],
        number: int,
        *,
        leads: bool,
    ) -> None:
        self.number = number
        """Its place among all runs."""
        self.leads = leads
        self._batches = batches
        self._keys_of = keys_of
        self._position = 0
        self._ahead: pa.RecordBatch | None = None
        self.rows: pa.RecordBatch | None = None
        self.keys: Keys = np.zeros(0, dtype=np.int64)
        self.is_last = False
        """Whether its batch is known to be its last one."""

    def fill(self) -> bool:
        """Has rows after this call; False when the run is over."""
        while self.rows is None or self._position >= self.rows.num_rows:
            # The old batch, of which the keys may be a view, is released before the next one is read.
            self.rows, self.keys = None, np.zeros(0, dtype=np.int64)
            self.rows = self._next() if self._ahead is None else self._ahead
            self._ahead = None
            self._position = 0
            if self.rows is None:
                return False
            if self.leads and self.rows.num_rows < SMALL_ROWS:
                self._join_small()
            self.keys = self._keys_of(self.rows)
        return True

    def _join_small(self) -> None:
        """Adds the next batches as long as all together are small: those of small files would each make a window."""
        assert self.rows is not None
        parts, count, size_bytes = [self.rows], self.rows.num_rows, self.rows.nbytes
        while (following := self._next()) is not None:
            count, size_bytes = count + following.num_rows, size_bytes + following.nbytes
            if count > SMALL_ROWS or size_bytes > _SMALL_BYTES:
                break
            parts.append(following)
        self.rows = join_batches(parts) if len(parts) > 1 else self.rows
        self._ahead, self.is_last = following, following is None

    def _next(self) -> pa.RecordBatch | None:
        return next(self._batches, None)

    @property
    def last_key(self) -> Any:
        return self.keys[-1]

    def take_up_to(self, frontier: Any) -> tuple[pa.RecordBatch, Keys] | None:
        """Rows with keys up to the frontier, it included."""
        assert self.rows is not None
        end = count_up_to(self.keys, frontier)
        if end <= self._position:
            return None
        begin, self._position = self._position, end
        return self.rows.slice(begin, end - begin), self.keys[begin:end]

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All remaining rows."""
        while self.fill():
            assert self.rows is not None
            begin, self._position = self._position, self.rows.num_rows
            yield self.rows.slice(begin)


def join_batches(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows; columns that are Arrow dictionaries in some parts only are decoded."""
    schema = parts[0].schema
    if not all(part.schema.equals(schema) for part in parts):
        encoded = [{field.name for field in part.schema if pa.types.is_dictionary(field.type)} for part in parts]
        everywhere = set.intersection(*encoded)
        parts = [dictionary_decoded(part, names - everywhere) for part, names in zip(parts, encoded, strict=True)]
    return pa.concat_batches(parts)


_TakenRows = tuple[_RunCursor, pa.RecordBatch, Keys]
"""Rows of a run, and their keys."""


def _without_lone_followers(parts: Sequence[_TakenRows]) -> list[_TakenRows]:
    """Rows and keys of runs that lead or follow, the latter only those of keys that a leading run has."""
    leading = [keys for run, _, keys in parts if run.leads]
    found = []
    for run, rows, keys in parts:
        if run.leads:
            found.append((run, rows, keys))
            continue
        wanted = np.zeros(len(keys), np.bool_)
        for others in leading:
            wanted[indices_of(others, keys)] = True
        places = np.flatnonzero(wanted)
        if len(places):
            found.append((run, pc.take(rows, pa.array(places), boundscheck=False), keys[places]))
    return found


def _next_window(
    live: Sequence[_RunCursor], sequence: SequenceOrder, ties: Ties | None, *, with_followers: bool
) -> Window | None:
    """The rows of the runs up to the frontier, if any are wanted."""
    ends = [run.last_key for run in live if not run.is_last]
    frontier = min(ends) if ends else max(run.last_key for run in live)
    parts = [(run, *part) for run in live if (part := run.take_up_to(frontier)) is not None]
    if with_followers:
        parts = _without_lone_followers(parts)
    if not parts:
        return None
    if len(parts) == 1:
        run, rows, _ = parts[0]
        if ties is not None:
            ties.alone(run.number)
        return one_version_per_key(rows)
    begins = np.cumsum([0, *(len(keys) for _, _, keys in parts)]).tolist()
    places = [RunRows(run.number, *ends) for (run, _, _), ends in zip(parts, pairwise(begins), strict=True)]
    keys = join_keys([keys for _, _, keys in parts])
    return sort_window(join_batches([rows for _, rows, _ in parts]), keys, sequence, ties, places)


def merge_runs(
    runs: Sequence[Iterable[pa.RecordBatch]], key_type: RowType, sequence: SequenceOrder, *, followers: int = 0
) -> Iterator[Window]:
    """Windows in key order, each with all versions of its keys.

    Each run is sorted by key, with every key once. Where rows of equal key carry equal sequence, the later run wins, or
    the one that wins in Java where the sequence `has_ties`.
    Of the first `followers` runs there are only rows whose key another run has; they are read no further than these go.
    """
    names, types = key_type.names, [field.type for field in key_type]

    def keys_of(rows: pa.RecordBatch) -> Keys:
        return normalise_keys([rows[name] for name in names], types)

    opened = [
        _RunCursor(iter(batches), keys_of, number, leads=number >= followers) for number, batches in enumerate(runs)
    ]
    ties = Ties(len(opened)) if sequence.has_ties else None
    live = [run for run in opened if run.fill()]
    while len(live) > 1 and any(run.leads for run in live):
        window = _next_window(live, sequence, ties, with_followers=followers > 0)
        if window is not None:
            yield window
        # All of it is released before the next batches are read.
        del window
        live = [run for run in live if run.fill()]
    for run in live if any(run.leads for run in live) else ():
        yield from (one_version_per_key(rows) for rows in run.rest())
