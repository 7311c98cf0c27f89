"""The order of records of one key with equal sequences, as the Java library merges them.

Writers that work side by side give their rows the same sequence numbers, so that nothing says which row of a key is
newer. Readers must agree nevertheless, and a compaction must leave what they have read: so each of such keys is played
as in Java's tournament. Which record wins depends on which of two runs went on last, and that on the last key of each
run before. So a few keys are played, not all that there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_engine.merge.tournament import Contender, Tournament

Positions = npt.NDArray[np.intp]
_Turn = tuple[int, int]
"""When a run went on: behind which key, counted through all windows, and how many of that key's runs did so before."""
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
        # The tournament begins with the last run.
        self._changed: list[_Turn] = [(-1, run_count - 1 - run) for run in range(run_count)]
        self._keys = 0

    def alone(self, run: int) -> None:
        """A window of one run passes."""
        self._changed[run] = (self._keys, 0)
        self._keys += 1

    def settled(
        self, order: Positions, starts: Positions, equal: npt.NDArray[np.bool_], parts: Sequence[RunRows]
    ) -> Positions:
        """The order of a window's rows with those of equal sequence in Java's order.

        order[n]: position of a row, by key and sequence; starts[k]: where key k begins in it; equal[n]: whether row n
        of the order has key and sequence of the one before.
        """
        window = _WindowOfRuns(order, starts, equal, parts)
        order = order.copy()
        tied = np.unique(window.key_of[order[equal]])
        *before, at_end = window.last_before(np.append(tied, len(starts)), len(self._changed))
        went_on: dict[int, list[int]] = {}
        for key, lasts in zip(tied.tolist(), before, strict=True):
            ages, rows = window.records(key)
            taken = _taken(ages, self._changes(lasts, window, went_on))
            went_on[key] = taken.went_on
            begin = int(starts[key])
            order[begin : begin + len(rows)] = [rows[run] for run in taken.order]
        self._changed = self._changes(at_end, window, went_on)
        self._keys += len(starts)
        return order

    def _changes(self, lasts: Sequence[int], window: _WindowOfRuns, went_on: Mapping[int, list[int]]) -> list[_Turn]:
        """When each run went on to its record of now, by its last key before; `went_on` has what is known of ties."""
        found = []
        for run, last in enumerate(lasts):
            if last == _NONE:
                found.append(self._changed[run])
            elif lasts.count(last) == 1:
                found.append((self._keys + last, 0))
            else:
                # Sequences that differ decide alone.
                turns = went_on.get(last) or _taken(window.records(last)[0], [(0, 0)] * len(lasts)).went_on
                found.append((self._keys + last, turns.index(run)))
        return found


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

    def records(self, key: int) -> tuple[dict[int, int], dict[int, int]]:
        """By run, the age of its record of a key, which is equal for equal sequences, and the position of its row."""
        begin, end = self._ends[key : key + 2].tolist()
        rows = self._order[begin:end]
        runs = self._run_of[rows].tolist()
        return dict(zip(runs, self._ages[begin:end].tolist(), strict=True)), dict(zip(runs, rows.tolist(), strict=True))

    def last_before(self, keys: Positions, run_count: int) -> list[list[int]]:
        """For each of these keys and each run its last key before; −1 where it has none in this window."""
        found = np.full((len(keys), run_count), _NONE)
        for part in self._parts:
            of_run = self.key_of[part.begin : part.end]
            places = np.searchsorted(of_run, keys)
            found[:, part.run] = np.where(places > 0, of_run[places - 1], _NONE)
        return found.tolist()


class _Taken(NamedTuple):
    """The runs that have a key, in the order of their records, and in that in which they go on behind it."""

    order: list[int]
    went_on: list[int]


def _taken(ages: Mapping[int, int], changed: Sequence[_Turn]) -> _Taken:
    """What the tournament makes of the records of a key, given by run, when all runs are at it or behind it."""
    if len(ages) == 2:
        # Most often. The same as below, in a tenth of the time.
        (one, its_age), (other, other_age) = ages.items()
        halves = _halves(one, other, len(changed))
        before, behind = (max(changed[run] for run in half) for half in halves)
        order = [one, other] if (its_age, before) < (other_age, behind) else [other, one]
        return _Taken(order, order[::-1])
    went_on: list[int] = []
    tree = Tournament([_Played(run, ages.get(run), went_on) for run in range(len(changed))], changed=changed)
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
