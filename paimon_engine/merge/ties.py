"""The order of records of one key with equal sequences, as the Java library merges them.

Writers that work side by side give their rows the same sequence numbers, so that nothing says which row of a key is
newer. Readers must agree nevertheless, and a compaction must leave what they have read: so each of such keys is played
as in Java's tournament. Which record wins depends on which of two runs went on last, and that on the last key of each
run before. So a few keys are played, not all that there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_engine.merge.tournament import Contender, Tournament

Positions = npt.NDArray[np.intp]
_Times = npt.NDArray[np.intp]
"""When each run went on: the number of keys before, through all windows, times that of runs, and its turn among those
runs that had the last of these keys."""
_NONE = -1


class RunRows(NamedTuple):
    """The rows of a run in a window: the run's place among all of a section, and the positions of its rows."""

    run: int
    begin: int
    end: int


class Ties:
    """Orders records of equal sequence in one window after another; the runs are those of a section, in their order."""

    def __init__(self, run_count: int) -> None:
        """No key has been merged yet."""
        self._run_count = run_count
        # The tournament begins with the last run.
        self._changed: _Times = np.arange(-1, -1 - run_count, -1)
        self._keys = 0

    def alone(self, run: int) -> None:
        """A window of one run passes."""
        self._changed[run] = self._keys * self._run_count
        self._keys += 1

    def settled(
        self, order: Positions, starts: Positions, equal: npt.NDArray[np.bool_], parts: Sequence[RunRows]
    ) -> Positions:
        """The order of a window's rows with those of equal sequence in Java's order.

        order[n]: position of a row, by key and sequence; starts[k]: where key k begins in it; equal[n]: whether row n
        of the order has key and sequence of the one before.
        """
        window = _WindowOfRuns(order, starts, equal, parts)
        tied = np.unique(window.key_of[order[equal]])
        lasts = window.last_before(np.append(tied, len(starts)), self._run_count)
        times = np.where(lasts == _NONE, self._changed, (self._keys + lasts) * self._run_count)
        in_order = np.sort(lasts, axis=1)
        is_shared = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] != _NONE)).any(axis=1).tolist()
        records = window.records(tied)
        went_on: dict[int, list[int]] = {}
        rows: list[int] = []
        for place, (key, record) in enumerate(zip(tied.tolist(), records, strict=True)):
            changed = times[place].tolist()
            if is_shared[place]:
                self._take_turns(changed, lasts[place].tolist(), window, went_on)
            taken = _taken(record.runs, record.ages, changed)
            went_on[key] = taken.went_on
            rows += [record.rows[record.runs.index(run)] for run in taken.order]
        at_end = times[-1].tolist()
        self._take_turns(at_end, lasts[-1].tolist(), window, went_on)
        self._changed = np.array(at_end)
        self._keys += len(starts)
        order = order.copy()
        order[window.places_of(tied)] = rows
        return order

    def _take_turns(
        self, times: list[int], lasts: Sequence[int], window: _WindowOfRuns, went_on: Mapping[int, list[int]]
    ) -> None:
        """Adds which of the runs of a key went on first where it is the last one of several runs."""
        for run, last in enumerate(lasts):
            if last == _NONE or lasts.count(last) == 1:
                continue
            turns = went_on.get(last)
            if turns is None:
                # Sequences that differ decide alone.
                [record] = window.records(np.array([last]))
                turns = _taken(record.runs, record.ages, [0] * self._run_count).went_on
            times[run] += turns.index(run)


class _Records(NamedTuple):
    """The records of a key by sequence: their runs, ages, which are equal for equal sequences, and rows."""

    runs: list[int]
    ages: list[int]
    rows: list[int]


class _WindowOfRuns:
    """The runs and sequences of each key of a window."""

    def __init__(
        self, order: Positions, starts: Positions, equal: npt.NDArray[np.bool_], parts: Sequence[RunRows]
    ) -> None:
        self._order, self._parts = order, parts
        self._ends = np.append(starts, len(order))
        self.key_of = np.empty(len(order), np.intp)
        """The key of each row."""
        self.key_of[order] = np.repeat(np.arange(len(starts)), np.diff(self._ends))
        self._run_of = np.empty(len(order), np.intp)
        for part in parts:
            self._run_of[part.begin : part.end] = part.run
        self._ages = np.cumsum(~equal)

    def places_of(self, keys: Positions) -> Positions:
        """Where the records of these keys are in the order, key by key."""
        begins, sizes = self._ends[keys], self._ends[keys + 1] - self._ends[keys]
        shifts: Positions = np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        return np.arange(len(shifts)) + shifts

    def records(self, keys: Positions) -> Iterator[_Records]:
        """The records of each of these keys."""
        places = self.places_of(keys)
        rows = self._order[places]
        columns = self._run_of[rows].tolist(), self._ages[places].tolist(), rows.tolist()
        begin = 0
        for size in (self._ends[keys + 1] - self._ends[keys]).tolist():
            yield _Records(*(column[begin : begin + size] for column in columns))
            begin += size

    def last_before(self, keys: Positions, run_count: int) -> Positions:
        """For each of these keys and each run its last key before; −1 where it has none in this window."""
        found = np.full((len(keys), run_count), _NONE)
        for part in self._parts:
            of_run = self.key_of[part.begin : part.end]
            places = np.searchsorted(of_run, keys)
            found[:, part.run] = np.where(places > 0, of_run[places - 1], _NONE)
        return found


class _Taken(NamedTuple):
    """The runs that have a key, in the order of their records, and in that in which they go on behind it."""

    order: list[int]
    went_on: list[int]


def _taken(runs: list[int], ages: list[int], changed: Sequence[int]) -> _Taken:
    """What the tournament makes of the records of a key, when all runs are at it or behind it."""
    if len(runs) == 2:
        # Most often. The same as below, in a tenth of the time.
        one, other = runs
        if ages[0] == ages[1]:
            half, other_half = _halves(one, other, len(changed))
            is_first = max(map(changed.__getitem__, half)) < max(map(changed.__getitem__, other_half))
        else:
            is_first = ages[0] < ages[1]
        return _Taken([one, other], [other, one]) if is_first else _Taken([other, one], [one, other])
    went_on: list[int] = []
    age_of = dict(zip(runs, ages, strict=True))
    tree = Tournament([_Played(run, age_of.get(run), went_on) for run in range(len(changed))], changed=changed)
    order = tree.next_round()
    tree.next_round()
    return _Taken(order, went_on[: len(order)])


@lru_cache(1_000)
def _halves(one: int, other: int, run_count: int) -> tuple[list[int], list[int]]:
    """The runs of both halves whose winners meet where two runs meet."""
    left, right = one + run_count, other + run_count
    below = [left, right]
    while left != right:
        if left > right:
            below[0], left = left, left // 2
        else:
            below[1], right = right, right // 2
    first, second = ([run for run in range(run_count) if _is_within(run + run_count, node)] for node in below)
    return first, second


def _is_within(leaf: int, node: int) -> bool:
    """Whether a leaf of the tree is under a node, or is it."""
    return leaf >= node and leaf >> (leaf.bit_length() - node.bit_length()) == node


class _Played(Contender):
    """A run at the key that is played, or behind it; it notes when it goes on."""

    def __init__(self, run: int, age: int | None, went_on: list[int]) -> None:
        super().__init__()
        self._run, self._went_on = run, went_on
        # Those behind the key have keys that differ.
        self.key, self.sequence = (0, age) if age is not None else (1 + run, 0)

    def go_on(self) -> None:
        self._went_on.append(self._run)
        self.key = self.sequence = None
