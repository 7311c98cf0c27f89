"""Records of equal sequence: window by window, and played one by one, as in a tournament over all keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.merge.ties import RunRows, Ties
from paimon_engine.merge.tournament import Contender, Tournament

Run = list[tuple[int, int]]
"""Key and sequence number of each record, by key."""
Orders = dict[int, list[int]]
"""By key the runs that have it, in the order of their records."""
KEYS = 12


class Cursor(Contender):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self._left = iter(run)

    def go_on(self) -> None:
        self.key, self.sequence = next(self._left, (None, None))


def whole(runs: list[Run]) -> Orders:
    """The orders that one tournament over all records gives."""
    cursors = [Cursor(run) for run in runs]
    tree = Tournament(cursors)
    found = {}
    while members := tree.next_round():
        found[cursors[members[0]].key] = members
    return found


def in_windows(runs: list[Run], ends: list[int]) -> Orders:
    """The same from windows that end behind these keys."""
    ties = Ties(len(runs))
    found: Orders = {}
    begin = -1
    for end in ends:
        parts = {number: [one for one in run if begin < one[0] <= end] for number, run in enumerate(runs)}
        parts = {number: part for number, part in parts.items() if part}
        begin = end
        if len(parts) == 1:
            [(number, part)] = parts.items()
            ties.alone(number)
            found |= {key: [number] for key, _ in part}
        elif parts:
            found |= window(ties, parts)
    return found


def window(ties: Ties, parts: dict[int, Run]) -> Orders:
    records = np.array([(key, sequence, number) for number, part in parts.items() for key, sequence in part])
    order = np.lexsort((records[:, 1], records[:, 0]))
    keys = records[order, 0]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    equal = np.append(False, (np.diff(records[order, :2], axis=0) == 0).all(axis=1))
    ends = np.cumsum([0, *map(len, parts.values())]).tolist()
    places = [RunRows(number, ends[place], ends[place + 1]) for place, number in enumerate(parts)]
    settled = ties.settled(order, starts, equal, places)
    of_key = np.split(records[settled, 2], starts[1:])
    return {key: runs.tolist() for key, runs in zip(keys[starts].tolist(), of_key, strict=True)}


def run_of(chosen: dict[int, int]) -> Run:
    return sorted(chosen.items())


RUNS = st.lists(st.dictionaries(st.integers(0, KEYS - 1), st.integers(0, 2)).map(run_of), min_size=1, max_size=9)
ENDS = st.sets(st.integers(0, KEYS - 1)).map(lambda ends: sorted({*ends, KEYS}))


@settings(deadline=None, max_examples=300)
@given(runs=RUNS, ends=ENDS)
def test_windows_order_records_as_one_tournament_does(runs: list[Run], ends: list[int]) -> None:
    assert in_windows(runs, ends) == whole(runs)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_the_first_run_wins_where_no_key_came_before(count: int) -> None:
    assert in_windows([[(5, 1)]] * count, [KEYS])[5][-1] == 0


def test_the_run_that_went_on_last_wins() -> None:
    runs = [[(1, 0), (5, 9)], [(2, 0), (5, 9)]]

    assert in_windows(runs, [KEYS])[5] == [0, 1]
    assert in_windows(runs, [1, 2, KEYS])[5] == [0, 1]
    assert in_windows([*reversed(runs)], [KEYS])[5] == [1, 0]
