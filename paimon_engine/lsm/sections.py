"""Sections: groups of files that overlap in their keys, so that each group can be merged on its own.

Source: `IntervalPartition` of the Java library.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paimon_engine.lsm.levels import KeyOrder
from paimon_engine.meta.manifest import DataFile

Ints = NDArray[np.int64]

Section = tuple[tuple[DataFile, ...], ...]
"""Runs of a section, oldest first; the files of a run are disjoint and in key order."""

SectionGroup = tuple[Section, ...]
"""Sections whose rows come into new files together."""


def files_of(group: Iterable[Section]) -> tuple[DataFile, ...]:
    """The files of sections, in their order."""
    return tuple(file for section in group for run in section for file in run)


def section_size_bytes(section: Section) -> int:
    """Compressed bytes."""
    return sum(file.size_bytes for run in section for file in run)


def sections(files: Sequence[DataFile], order: KeyOrder, runs_in_memory_max: int | None = None) -> list[Section]:
    """Sections in key order; no key is in two of them. Each has the minimum number of runs for its files.

    For a merge `files` are in order of commit, and `runs_in_memory_max` is given: where files were `written_at_once`,
    the order of the runs decides between equal sequence numbers, and is that of Java (`ordered_section`).
    """
    numbers = order.numbers([file.min_key for file in files] + [file.max_key for file in files])
    if numbers is not None and (numbers[: len(files)] <= numbers[len(files) :]).all():
        overlapping = _overlapping_by_number(files, numbers[: len(files)], numbers[len(files) :])
    else:
        overlapping = _overlapping(files, order)
    return [_ordered(members, order, runs_in_memory_max) for members in overlapping]


def _ordered(files: Sequence[DataFile], order: KeyOrder, runs_in_memory_max: int | None) -> Section:
    """The runs of files that overlap."""
    if len(files) == 1:
        return ((files[0],),)
    if runs_in_memory_max is None or not written_at_once(files):
        return _runs(files, order)
    return ordered_section(files, order, runs_in_memory_max, is_planned_whole=False)


def _overlapping(files: Sequence[DataFile], order: KeyOrder) -> list[list[DataFile]]:
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
    return found


def _overlapping_by_number(files: Sequence[DataFile], lows: Ints, highs: Ints) -> list[list[DataFile]]:
    """The same of files whose smallest and largest keys are these numbers, none of which ends before it begins."""
    places = np.lexsort((highs, lows))
    ends = np.maximum.accumulate(highs[places])
    cuts = ((lows[places][1:] > ends[:-1]).nonzero()[0] + 1).tolist()
    ordered = [files[place] for place in places.tolist()]
    return [ordered[begin:end] for begin, end in pairwise([0, *cuts, len(ordered)])]


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
    return tuple(sorted(map(tuple, runs), key=sequence_range))


def arrived_in_order(section: Section) -> bool:
    """Whether every record of a run is older than all records of the next run, by sequence number."""
    ranges = [sequence_range(run) for run in section]
    return all(older[1] < newer[0] for older, newer in pairwise(ranges))


def written_at_once(files: Iterable[DataFile]) -> bool:
    """Whether files of a bucket may have records of equal sequence numbers, as those of writers side by side have.

    One writer after another, and compactions, leave each file of level 0 and each level above it numbers of its own.
    """
    levels: dict[int | str, list[DataFile]] = {}
    for file in files:
        levels.setdefault(file.level or file.name, []).append(file)
    ranges = sorted(map(sequence_range, levels.values()))
    return any(older[1] >= newer[0] for older, newer in pairwise(ranges))


def sequence_range(run: Sequence[DataFile]) -> tuple[int, int]:
    """Smallest and largest sequence number in a run."""
    return min(file.min_sequence_number for file in run), max(file.max_sequence_number for file in run)


# ── the order of runs ───────────────────────────────────────────────────────────────────────────


def ordered_section(
    files: Sequence[DataFile], order: KeyOrder, runs_in_memory_max: int, *, is_planned_whole: bool
) -> Section:
    """Runs of files that overlap, in the order in which the Java library merges them, which is the order of a heap.

    `files` are in order of commit. Runs are made twice there, for planning and for reading, and files of one key
    range stay in the order of the first time; files that are `is_planned_whole` are made runs of for reading only.
    Where there are more runs than fit in memory it spills the smallest, and these come last.
    """
    planned = files if is_planned_whole else [file for run in _heap_runs(files, order) for file in run]
    runs = _heap_runs(planned, order)
    if len(runs) > runs_in_memory_max:
        by_size = sorted(runs, key=lambda run: sum(file.size_bytes for file in run))
        spilled = len(runs) - runs_in_memory_max
        runs = [*by_size[spilled:], *by_size[:spilled]]
    return tuple(map(tuple, runs))


def _heap_runs(files: Sequence[DataFile], order: KeyOrder) -> list[list[DataFile]]:
    """Runs as `_runs` makes them, in the order of the heap by their last key."""
    heap: list[list[DataFile]] = []
    for file in sorted(files, key=lambda item: (order(item.min_key), order(item.max_key))):
        top = _heap_pop(heap, order) if heap else None
        if top is None or not order(top[-1].max_key) < order(file.min_key):
            _heap_push(heap, [file], order)
        else:
            top.append(file)
        if top is not None:
            _heap_push(heap, top, order)
    return heap


def _heap_push(heap: list[list[DataFile]], run: list[DataFile], order: KeyOrder) -> None:
    """As `java.util.PriorityQueue`: `heapq` orders equal and larger elements differently."""
    heap.append(run)
    index = len(heap) - 1
    while index > 0:
        parent = (index - 1) // 2
        if not order(run[-1].max_key) < order(heap[parent][-1].max_key):
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = run


def _heap_pop(heap: list[list[DataFile]], order: KeyOrder) -> list[DataFile]:
    top, last = heap[0], heap.pop()
    if not heap:
        return top
    index = 0
    while (child := 2 * index + 1) < len(heap):
        if child + 1 < len(heap) and order(heap[child + 1][-1].max_key) < order(heap[child][-1].max_key):
            child += 1
        if not order(heap[child][-1].max_key) < order(last[-1].max_key):
            break
        heap[index] = heap[child]
        index = child
    heap[index] = last
    return top
