"""Sections: groups of files that overlap in their keys, so that each group can be merged on its own.

Source: `IntervalPartition` of the Java library.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from paimon_engine.lsm.levels import KeyOrder
from paimon_engine.meta.manifest import DataFile

Section = tuple[tuple[DataFile, ...], ...]
"""Runs of a section, oldest first; the files of a run are disjoint and in key order."""


def sections(files: Sequence[DataFile], order: KeyOrder) -> list[Section]:
    """Sections in key order; no key lies in two of them. Each has the fewest runs that hold its files."""
    found: list[list[DataFile]] = []
    bound = None
    for file in sorted(files, key=lambda item: (order(item.min_key), order(item.max_key))):
        low, high = order(file.min_key), order(file.max_key)
        if bound is None or low > bound:
            found.append([file])
            bound = high
        else:
            found[-1].append(file)
            bound = max(bound, high)
    return [_runs(members, order) for members in found]


def _runs(files: Sequence[DataFile], order: KeyOrder) -> Section:
    """Appends each file, in order of its smallest key, to the run that ends first, if that ends before the file."""
    runs: list[list[DataFile]] = []
    ends: list[tuple[tuple[object, ...], int]] = []
    for file in files:
        if ends and ends[0][0] < order(file.min_key):
            _, number = heapq.heappop(ends)
            runs[number].append(file)
        else:
            number = len(runs)
            runs.append([file])
        heapq.heappush(ends, (order(file.max_key), number))
    return tuple(sorted(map(tuple, runs), key=_sequence_range))


def arrived_in_order(section: Section) -> bool:
    """Whether every record of a run is older than all records of the next run, by sequence number."""
    ranges = [_sequence_range(run) for run in section]
    return all(older[1] < newer[0] for older, newer in pairwise(ranges))


def _sequence_range(run: Sequence[DataFile]) -> tuple[int, int]:
    return min(file.min_sequence_number for file in run), max(file.max_sequence_number for file in run)
