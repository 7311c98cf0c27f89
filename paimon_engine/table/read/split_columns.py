"""Splits of many files, planned in columns of numbers: each is made when it is reached, with the objects of its files.

They are those that `scan.splits_of` makes of the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from paimon_engine.collection import without_collection
from paimon_engine.lsm.levels import KeyOrder, key_order
from paimon_engine.lsm.sections import Section, sections
from paimon_engine.meta.entry_columns import ColumnarEntries
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.predicate import Predicate
from paimon_engine.table.files.deletion_vectors import VectorLocation
from paimon_engine.table.files.old_keys import keys_are_of_today
from paimon_engine.table.read.column_matches import matches_in_columns
from paimon_engine.table.read.split import Ints, Split, located_in, split_begins
from paimon_engine.table.state.handle import TableHandle

_AT_ONCE: Final = 1_000
"""Files whose objects are made together where one split after the other is reached."""


class LazySplits(Sequence[Split]):
    """Splits of files in columns. Each is made whenever it is requested, so that equal ones need not be identical."""

    def __init__(
        self,
        entries: ColumnarEntries,
        section_begins: Ints,
        begins: Ints,
        sectioned: Callable[[Sequence[DataFile]], Sequence[Section]],
        vectors: Mapping[str, VectorLocation] | None,
    ) -> None:
        """`entries` are in the order of the splits.

        Sections begin at the entries `section_begins`, and splits at the sections `begins`; both end with what is
        behind the last one. `sectioned` gives the one section of files that are in the order of their keys.
        """
        self._entries, self._section_begins, self._begins = entries, section_begins, begins
        self._sectioned, self._vectors = sectioned, vectors

    def __len__(self) -> int:
        return len(self._begins) - 1

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...
    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        [found] = self._made(range(len(self))[index], 1)
        return found

    def __iter__(self) -> Iterator[Split]:
        begin = 0
        ends = self._section_begins[self._begins[1:]]
        while begin < len(self):
            done = int(ends[begin - 1]) if begin else 0
            count = max(1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")) - begin)
            with without_collection():
                found = self._made(begin, count)
            yield from found
            begin += count

    def _made(self, first: int, count: int) -> list[Split]:
        """So many splits from the first one on."""
        begins = self._begins[first : first + count + 1]
        section_begins = self._section_begins[begins[0] : begins[-1] + 1]
        entries = self._entries[int(section_begins[0]) : int(section_begins[-1])]
        cuts = (section_begins - section_begins[0]).tolist()
        found = [self._section(entries[begin:end]) for begin, end in pairwise(cuts)]
        begins = (begins - begins[0]).tolist()
        splits = []
        for begin, end in pairwise(begins):
            head = entries[cuts[begin]]
            split = Split(head.partition, head.bucket, tuple(found[begin:end]))
            if self._vectors:
                split = replace(split, vectors=located_in(split, self._vectors))
            splits.append(split)
        return splits

    def _section(self, members: Sequence[ManifestEntry]) -> Section:
        if len(members) == 1:
            return ((members[0].file,),)
        [section] = self._sectioned([entry.file for entry in members])
        return section


def splits_in_columns(
    table: TableHandle,
    entries: ColumnarEntries,
    conjuncts: Sequence[Predicate],
    vectors: Mapping[str, VectorLocation] | None,
) -> LazySplits | None:
    """Splits of the files that readers get to see and that can match the conjuncts; `vectors` as for `scan.splits_of`.

    None for tables whose files have to be looked at one by one.

    Raises: InvalidArgumentError if a conjunct names a missing column or a value that does not fit.
    """
    merges = bool(table.schema.primary_keys) and (vectors is None or table.options.merges_vectors_on_read)
    if table.options.data_evolution_enabled or table.options.snapshot_ordering:
        return None
    if not keys_are_of_today(table, np.unique(entries.numbers("schema_id")).tolist()):
        return None
    least_level = 1 if table.options.hides_level_0 else 0
    visible = (entries.numbers("bucket") != POSTPONED_BUCKET) & (entries.numbers("level") >= least_level)
    entries = entries if visible.all() else entries.chosen(visible)
    order = key_order(table.schema.key_type)
    groups, by_key, may_match = _groups(entries), None, None
    if conjuncts:
        by_key, may_match = matches_in_columns(table, conjuncts, entries)
        chosen = by_key | _written_at_once(entries, groups) if merges else may_match
        entries, groups, by_key, may_match = entries.chosen(chosen), groups[chosen], by_key[chosen], may_match[chosen]
    found = _by_key(entries, groups, order) if merges else _by_age(entries, groups)
    if found is None:
        return None
    if merges and by_key is not None and may_match is not None:
        found = found.with_any(by_key).without(~may_match)
    entries = entries.chosen(found.order)
    weights = np.maximum(entries.numbers("size_bytes"), table.options.split_open_file_cost_bytes)
    weights = np.add.reduceat(weights, found.begins) if len(found.begins) else weights
    begins = _begins_of_splits(groups[found.order][found.begins], weights, table.options.split_target_size_bytes)
    return LazySplits(
        entries,
        np.append(found.begins, len(entries)),
        np.append(begins, len(found.begins)),
        partial(sections, order=order, runs_in_memory_max=table.options.sort_spill_threshold),
        vectors,
    )


def _groups(entries: ColumnarEntries) -> Ints:
    """A number for the bucket of each entry, which ascend in order of the buckets' first occurrence."""
    _, codes = entries.partitions()
    buckets = entries.numbers("bucket")
    if not len(buckets):
        return buckets
    low = buckets.min()
    keys = codes * (buckets.max() - low + 1) + (buckets - low)
    # Entries of a bucket often come one behind the other.
    changes = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    _, first, inverse = np.unique(keys[changes], return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    lengths = np.diff(np.append(changes, len(keys)))
    return np.repeat(ranks[inverse], lengths)


class _Sections(NamedTuple):
    """An order of entries, and at which of them, in that order, a section begins."""

    order: Ints
    begins: Ints

    def with_any(self, wanted: NDArray[np.bool_]) -> _Sections:
        """Those in which some entry is wanted."""
        sizes = np.diff(np.append(self.begins, len(self.order)))
        stays = np.logical_or.reduceat(wanted[self.order], self.begins) if len(self.begins) else np.ones(0, bool)
        left = sizes[stays]
        return _Sections(self.order[np.repeat(stays, sizes)], np.cumsum(left) - left)

    def without(self, excluded: NDArray[np.bool_]) -> _Sections:
        """Those but for sections of one entry that is excluded.

        Of several files none may be left out: it could hold the newest version of a key.
        """
        sizes = np.diff(np.append(self.begins, len(self.order)))
        stays = (sizes > 1) | ~excluded[self.order[self.begins]]
        left = sizes[stays]
        return _Sections(self.order[np.repeat(stays, sizes)], np.cumsum(left) - left)


def _written_at_once(entries: ColumnarEntries, groups: Ints) -> NDArray[np.bool_]:
    """Which entries are in buckets whose files are `lsm.sections.written_at_once`."""
    low, high = entries.numbers("min_sequence_number"), entries.numbers("max_sequence_number")
    level = entries.numbers("level")
    # A run for each file of level 0, and one for each level above it.
    runs = np.where(level == 0, np.arange(len(level)), len(level) + groups * (level.max(initial=0) + 1) + level)
    _, first, inverse = np.unique(runs, return_index=True, return_inverse=True)
    lows, highs = low[first], high[first]
    np.minimum.at(lows, inverse, low)
    np.maximum.at(highs, inverse, high)
    order = np.lexsort((highs, lows, groups[first]))
    buckets = groups[first][order]
    meets = (buckets[1:] == buckets[:-1]) & (lows[order][1:] <= highs[order][:-1])
    return np.isin(groups, buckets[1:][meets])


def _by_age(entries: ColumnarEntries, groups: Ints) -> _Sections:
    """Each file as a section, in the order of `scan`: by smallest sequence number, time of creation, and name."""
    columns = [entries.numbers("creation_time_ms"), entries.numbers("min_sequence_number"), groups]
    order = np.lexsort(columns)
    ordered = np.stack([column[order] for column in columns])
    ties = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    if ties.any():
        [places] = (np.append(ties, False) | np.append(False, ties)).nonzero()
        names = [entry.file.name for entry in entries.at(order[places])]
        number_of = {name: number for number, name in enumerate(sorted(names))}
        by_name = np.zeros(len(order), np.int64)
        by_name[order[places]] = [number_of[name] for name in names]
        order = np.lexsort([by_name, *columns])
    return _Sections(order, np.arange(len(order)))


def _by_key(entries: ColumnarEntries, groups: Ints, order: KeyOrder) -> _Sections | None:
    """Files that overlap in their keys together, as `sections`; None where keys are not plain numbers."""
    lows, highs = entries.keys("min_key"), entries.keys("max_key")
    if lows is None or highs is None or lows.shape != highs.shape:
        return None if len(entries) else _Sections(groups, groups)
    numbers = order.numbers_of_rows(np.concatenate([lows, highs]))
    if numbers is None:
        return None
    # So that the numbers of a bucket are above those of all before it.
    _, ranks = np.unique(numbers, return_inverse=True)
    low, high = (groups * (2 * len(groups)) + some for some in (ranks[: len(groups)], ranks[len(groups) :]))
    if (low > high).any():
        return None
    places = np.lexsort((high, low))
    ends = np.maximum.accumulate(high[places])
    is_first = np.append(True, low[places][1:] > ends[:-1])
    return _Sections(places, is_first.nonzero()[0])


def _begins_of_splits(groups: Ints, weights: Ints, target: int) -> Ints:
    """At which sections a split begins; `groups` are the sections' buckets, which ascend."""
    if not len(groups):
        return groups
    firsts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    ends = np.append(firsts[1:], len(groups))
    whole = np.add.reduceat(weights, firsts) <= target
    found = [firsts[whole]]
    for begin, end in zip(firsts[~whole].tolist(), ends[~whole].tolist(), strict=True):
        found.append(np.array(split_begins(weights[begin:end], target), np.int64) + begin)
    return np.sort(np.concatenate(found))
