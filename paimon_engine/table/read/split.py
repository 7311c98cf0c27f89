"""Splits: the units that a read is planned in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from paimon_engine.lsm.sections import Section, files_of
from paimon_engine.table.files.deletion_vectors import VectorLocation

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """A unit of reading: files of one bucket in sections that are read one after another.

    A section of one run with one file needs no merge. Append tables, and tables with deletion vectors, have a section
    per file; with data evolution, one per group of files that have columns of the same rows. `vectors` has the location
    of the deletion vector of each file that has one, by name of the file.
    Where records of a key can have equal sequence numbers, the order of the runs decides between them; such files may
    also contain a key several times.
    """

    partition: bytes
    bucket: int
    sections: tuple[Section, ...]
    has_equal_sequences: bool = False
    vectors: Mapping[str, VectorLocation] = field(default_factory=dict)
    directories: Mapping[str, str] = field(default_factory=dict)
    """Where each file is, by its name, if files of several partitions or buckets are read as those of this one."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    """Which files are newer than others whatever the sequence numbers of their records: the higher one, by its name."""


def split_begins(weights: Ints, target: int) -> list[int]:
    """At which sections a split begins, if sections with these weights, in order, go into splits up to a target weight.

    Each split has at least one section.
    """
    # `bisect` in a list takes a tenth of the time of one search by NumPy.
    ends: list[int] = np.cumsum(weights).tolist()
    begins = []
    begin = 0
    while begin < len(ends):
        begins.append(begin)
        bound = (ends[begin - 1] if begin else 0) + target
        begin = max(begin + 1, bisect_right(ends, bound, begin))
    return begins


def located_in(split: Split, locations: Mapping[str, VectorLocation]) -> Mapping[str, VectorLocation]:
    """The locations of the deletion vectors of the split's files."""
    names = {file.name for file in files_of(split.sections)}
    return {name: locations[name] for name in names & locations.keys()}
