"""Splitting the compaction of one bucket into parts that run side by side and are committed as one.

1. Groups of sections are independent; a group of many sections is cut between two of them.
2. A section larger than a part is cut by key: at the largest keys of its files, and at sampled keys of files that
   span the largest keys of others. Each piece reads its range of every file that overlaps it.
3. Small pieces of neighbours share a part.

Parts that mark rows of upper files in deletion vectors mark different rows, as their keys differ; `join_parts` writes
all marks to the one index file of the bucket.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from paimon_engine.lsm.levels import KeyOrder, key_order
from paimon_engine.lsm.plan import CompactTask, KeyRange
from paimon_engine.lsm.sections import Section, SectionGroup, section_size_bytes
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema

KeySamples = Sequence[bytes]
"""Keys of a file, ascending, with equally many rows between them."""

_NO_SAMPLES: Final[Mapping[str, KeySamples]] = MappingProxyType({})
_SAMPLED_FILES_MAX: Final = 8
"""Number of files of a section that are sampled: the keys of overlapping files are similarly distributed."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """The smallest unit of a part; `size_bytes` is about what it reads."""

    size_bytes: int
    group: SectionGroup = ()
    needs_changes: bool = False
    upgrades: tuple[DataFile, ...] = ()
    keys: KeyRange | None = None


def files_to_sample(task: CompactTask, schema: TableSchema, part_bytes: int) -> list[DataFile]:
    """Files of which `split_task` needs some keys: the largest ones that span the ends of others."""
    if task.is_move or task.is_clustered or not schema.primary_keys:
        return []
    order = key_order(schema.key_type)
    found: list[DataFile] = []
    for section in (section for group in task.rewrites for section in group):
        if section_size_bytes(section) <= part_bytes:
            continue
        files = [file for run in section for file in run]
        stops = sorted({order(file.max_key) for file in files})
        spanning = [
            file for file in files if bisect_left(stops, order(file.max_key)) > bisect_left(stops, order(file.min_key))
        ]
        only_ends = [] if len(stops) > 1 else files
        found += sorted([*spanning, *only_ends], key=lambda file: -file.size_bytes)[:_SAMPLED_FILES_MAX]
    return found


def split_task(
    task: CompactTask, schema: TableSchema, part_bytes: int, samples: Mapping[str, KeySamples] = _NO_SAMPLES
) -> tuple[CompactTask, ...]:
    """The same work as independent parts of at most about `part_bytes` each, where the keys allow.

    `samples` are keys of files by name, of those that `files_to_sample` names. The new files of all parts together
    replace those of the task; the task alone if there is nothing to split.
    """
    if task.is_move or task.is_clustered:
        return (task,)
    order = key_order(schema.key_type) if schema.primary_keys else None
    pieces = [
        replace(piece, needs_changes=task.needs_changes(number))
        for number, group in enumerate(task.rewrites)
        for piece in _pieces(group, order, part_bytes, samples)
    ]
    pieces += [_Piece(file.size_bytes, upgrades=(file,)) for file in task.upgrades if task.must_read(file)]
    shared = _shared(pieces, part_bytes)
    if len(shared) < 2:
        return (task,)
    moves = tuple(file for file in task.upgrades if not task.must_read(file))
    first, *others = [_part(task, pieces) for pieces in shared]
    return (replace(first, upgrades=(*first.upgrades, *moves)), *others)


def _part(task: CompactTask, pieces: Sequence[_Piece]) -> CompactTask:
    return replace(
        task,
        rewrites=tuple(piece.group for piece in pieces if piece.group),
        upgrades=tuple(file for piece in pieces for file in piece.upgrades),
        keys=pieces[0].keys,
        changes_needed=tuple(piece.needs_changes for piece in pieces if piece.group),
    )


def _pieces(
    group: SectionGroup, order: KeyOrder | None, part_bytes: int, samples: Mapping[str, KeySamples]
) -> Iterator[_Piece]:
    """A group, cut between sections, and within those that are too large."""
    together: list[Section] = []
    for section in group:
        ranges = _ranges(section, order, part_bytes, samples) if order is not None else []
        if len(ranges) > 1:
            if together:
                yield _of_group(tuple(together))
            together = []
            size_bytes = section_size_bytes(section) // len(ranges)
            yield from (_Piece(size_bytes, (section,), keys=keys) for keys in ranges)
            continue
        if together and sum(map(section_size_bytes, together)) + section_size_bytes(section) > part_bytes:
            yield _of_group(tuple(together))
            together = []
        together.append(section)
    if together:
        yield _of_group(tuple(together))


def _of_group(group: SectionGroup) -> _Piece:
    return _Piece(sum(map(section_size_bytes, group)), group)


def _ranges(section: Section, order: KeyOrder, part_bytes: int, samples: Mapping[str, KeySamples]) -> list[KeyRange]:
    """Ranges that cover all keys of a section, each reading about `part_bytes`; a single one if it cannot be cut."""
    size_bytes = section_size_bytes(section)
    if size_bytes <= part_bytes:
        return [KeyRange()]
    files = [file for run in section for file in run]
    keys = [key for file in files for key in (*samples.get(file.name, ()), file.max_key)]
    ends = {order(key): key for key in keys}
    stops = sorted(ends)
    weights = np.zeros(len(stops))
    for file in files:
        known = samples.get(file.name, ())
        for key in known:
            weights[bisect_left(stops, order(key))] += file.size_bytes / len(known)
        if known:
            continue
        # The distribution of its rows is not known: it counts the same in each interval that it overlaps.
        begin, end = bisect_left(stops, order(file.min_key)), bisect_left(stops, order(file.max_key))
        weights[begin : end + 1] += file.size_bytes / (end + 1 - begin)
    wanted = size_bytes / math.ceil(size_bytes / part_bytes)
    cuts: list[bytes] = []
    below = 0.0
    for stop, weight in zip(stops[:-1], weights, strict=False):
        below += weight
        if below >= wanted:
            cuts.append(ends[stop])
            below = 0.0
    if cuts and below + weights[-1] < wanted / 2:
        cuts.pop()
    return [KeyRange(low, high) for low, high in zip([None, *cuts], [*cuts, None], strict=True)]


def _shared(pieces: Sequence[_Piece], part_bytes: int) -> list[list[_Piece]]:
    """Neighbours combined up to the size of a part; a range of keys is a part of its own."""
    parts: list[list[_Piece]] = []
    room = 0
    for piece in pieces:
        if piece.keys is None and parts and parts[-1][0].keys is None and piece.size_bytes <= room:
            parts[-1].append(piece)
            room -= piece.size_bytes
        else:
            parts.append([piece])
            room = part_bytes - piece.size_bytes
    return parts
