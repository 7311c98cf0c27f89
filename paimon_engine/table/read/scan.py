"""Which files a read needs: live files of a snapshot, pruned by partition, bucket and statistics, packed into splits.

Source: `KeyValueFileStoreScan`, `MergeTreeSplitGenerator` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paimon_engine.collection import without_collection
from paimon_engine.errors import naming
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import Section, files_of, sections, written_at_once
from paimon_engine.meta.blobs import blob_columns
from paimon_engine.meta.column_files import column_groups, plain_files
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.snapshot_order import check_numbered
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.predicate import Predicate, bind, columns_of, conjuncts_of, root_columns
from paimon_engine.table.files.deletion_vectors import VectorLocation, vector_locations
from paimon_engine.table.files.old_keys import with_keys_of_today
from paimon_engine.table.read.file_matches import FileMatches
from paimon_engine.table.read.pruning import entry_filter, matching_buckets, matching_partitions
from paimon_engine.table.read.split import Split, located_in, split_begins
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries, live_in_any_form
from paimon_engine.types import to_arrow_schema


@dataclass(frozen=True, slots=True)
class FileChoice:
    """Files that a read looks at, with any filter: of one level, created since a time, not of some partitions."""

    level: int | None = None
    created_since_ms: int | None = None
    without_partitions: frozenset[bytes] = frozenset()

    def holds(self, entry: ManifestEntry) -> bool:
        """Whether the file is one of them. A file that does not say when it was created is as old as can be."""
        return (
            self.level in (None, entry.file.level)
            and (self.created_since_ms is None or _created_ms(entry.file) >= self.created_since_ms)
            and entry.partition not in self.without_partitions
        )


def _created_ms(file: DataFile) -> int:
    """Epoch milliseconds; files store the local time of their writer, which is assumed to be ours."""
    if file.creation_time_ms is None:
        return 0
    local = datetime(1970, 1, 1) + timedelta(milliseconds=file.creation_time_ms)  # noqa: DTZ001 - made local below
    return round(local.astimezone().timestamp() * 1000)


_ALL_FILES: Final = FileChoice()


def plan_splits(
    table: TableHandle,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    choice: FileChoice = _ALL_FILES,
    *,
    keeps_statistics: bool = False,
) -> Sequence[Split]:
    """Splits that hold all rows of the snapshot that can match, in the files of `choice`.

    Of many files they are made whenever they are reached (`split_columns`). Files may have lost their statistics, half
    of the memory that they take, unless the filter needs them or the caller `keeps_statistics`.

    Raises: InvalidArgumentError if the filter names a missing column or a value that does not fit.
    """
    if where is not None:
        bind(where, to_arrow_schema(table.schema.row_type))
    with without_collection():
        statistics = keeps_statistics or _needs_statistics(table, where)
        conjuncts = usable_conjuncts(table, where)
        chosen = entry_filter(table, conjuncts, by_buckets=True, statistics=statistics)
        found = live_in_any_form(table, snapshot, where=chosen)
        vectors = vector_locations(table, snapshot) if table.options.has_vectors else None
        if choice == _ALL_FILES and not isinstance(found, list | tuple):
            splits = _splits_of_many(table, found, conjuncts, vectors)
            if splits is not None:
                return splits
        entries = with_keys_of_today(table, visible_to_readers(table, found))
        if choice != _ALL_FILES:
            entries = [entry for entry in entries if choice.holds(entry)]
        if table.options.snapshot_ordering:
            check_numbered(entry.file for entry in entries)
        return splits_of(table, entries, where, vectors=vectors)


def _splits_of_many(
    table: TableHandle,
    found: Sequence[ManifestEntry],
    conjuncts: Sequence[Predicate],
    vectors: Mapping[str, VectorLocation] | None,
) -> Sequence[Split] | None:
    """The splits of many files, if they can be planned in columns."""
    from paimon_engine.meta.entry_columns import ColumnarEntries
    from paimon_engine.table.read.split_columns import splits_in_columns

    if not isinstance(found, ColumnarEntries) or not all(map(columns_of, conjuncts)):
        return None
    # What is asked of partition columns alone is decided by now.
    return splits_in_columns(table, found, [part for part in conjuncts if not _is_of_partitions(table, part)], vectors)


def _is_of_partitions(table: TableHandle, part: Predicate) -> bool:
    return columns_of(part) <= set(table.schema.partition_keys)


def _needs_statistics(table: TableHandle, where: Predicate | None) -> bool:
    """Whether a filter looks at more than partitions."""
    return not all(_is_of_partitions(table, part) for part in conjuncts_of(where))


def visible_entries(
    table: TableHandle,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    *,
    statistics: bool = True,
) -> list[ManifestEntry]:
    """Live entries of partitions that can match, but for files whose rows no reader gets to see yet.

    Without `statistics`, those of files may be missing.
    """
    chosen = entry_filter(table, usable_conjuncts(table, where), statistics=statistics)
    found = live_entries(table, snapshot, where=chosen)
    return with_keys_of_today(table, visible_to_readers(table, found))


def usable_conjuncts(table: TableHandle, where: Predicate | None) -> list[Predicate]:
    """The parts of a filter that may choose files.

    Stored nulls of columns with a default are read as something else, so that statistics of files do not show what
    matches.
    """
    names = table.schema.row_type.names
    with_defaults = frozenset(table.options.default_values)
    return [part for part in conjuncts_of(where) if not root_columns(part, names) & with_defaults]


def visible_to_readers(table: TableHandle, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Those of the entries whose files readers get to see.

    Postponed rows wait for their bucket, first-row decides which rows stay only when they leave level 0, and deletion
    vectors do not cover level 0 yet, unless readers merge it.
    """
    least_level = 1 if table.options.hides_level_0 else 0
    return [entry for entry in entries if entry.bucket != POSTPONED_BUCKET and entry.file.level >= least_level]


def splits_of(
    table: TableHandle,
    entries: Sequence[ManifestEntry],
    where: Predicate | None,
    *,
    vectors: Mapping[str, VectorLocation] | None = None,
) -> list[Split]:
    """Splits of the entries' files that can hold rows that match.

    With `vectors` each key of a primary-key table is valid in one file above level 0; the splits have those of their
    files.

    Raises: InvalidArgumentError if the filter names a missing column or a value that does not fit.
    """
    if where is not None:
        bind(where, to_arrow_schema(table.schema.row_type))
    entries = with_keys_of_today(table, entries)
    conjuncts = usable_conjuncts(table, where)
    entries = matching_partitions(table.schema, entries, conjuncts)
    entries = matching_buckets(table, entries, conjuncts)
    # What is asked of partition columns alone is decided by now: no file needs to be looked at for it.
    conjuncts = [part for part in conjuncts if not _is_of_partitions(table, part)]
    merges = vectors is None or table.options.merges_vectors_on_read
    find = _key_sections if table.schema.primary_keys and merges else _single_sections
    if table.options.data_evolution_enabled:
        # Of columns of BLOB there are no statistics.
        blobs = frozenset(blob_columns(table.schema))
        conjuncts = [part for part in conjuncts if not columns_of(part) & blobs]
        find = _column_sections
    matching = FileMatches(table, conjuncts, [entry.file for entry in entries])
    splits = []
    for (partition, bucket), members in by_bucket(entries).items():
        with naming(f"{table.paths.root}/manifest: entries of bucket {bucket}"):
            found = _pack(table, partition, bucket, find(table, members, matching))
        splits += [split if not vectors else replace(split, vectors=located_in(split, vectors)) for split in found]
    return splits


def _pack(table: TableHandle, partition: bytes, bucket: int, found: Sequence[Section]) -> list[Split]:
    """Sections in order, as many to a split as its target size allows."""
    weights = _weights(found, table.options.split_open_file_cost_bytes)
    begins = split_begins(weights, table.options.split_target_size_bytes)
    return [Split(partition, bucket, tuple(found[begin:end])) for begin, end in pairwise([*begins, len(found)])]


def _weights(found: Sequence[Section], least_bytes: int) -> NDArray[np.int64]:
    """What each section counts for: its files' bytes, of each file at least so many."""
    # Most sections are one file, where there are many.
    first = np.array([section[0][0].size_bytes for section in found], np.int64)
    weights = np.maximum(first, least_bytes)
    for place in [place for place, section in enumerate(found) if len(section) > 1 or len(section[0]) > 1]:
        weights[place] = sum(max(file.size_bytes, least_bytes) for run in found[place] for file in run)
    return weights


def _key_sections(table: TableHandle, entries: Sequence[ManifestEntry], matching: FileMatches) -> list[Section]:
    """Files whose key range can match, in sections; in sections without a merge, all ranges count.

    Where files overlap, ranges of other columns must not count: a file left out could hold the newest version of a key.
    """
    files = [entry.file for entry in entries]
    order, in_memory_max = key_order(table.schema.key_type), table.options.sort_spill_threshold
    if not matching.looks_at_keys:
        every = sections(files, order, in_memory_max)
    elif written_at_once(files):
        # Which of equal records is the newest depends on the keys around them.
        every = [
            section
            for section in sections(files, order, in_memory_max)
            if any(map(matching.key_may_match, files_of([section])))
        ]
    else:
        every = sections([file for file in files if matching.key_may_match(file)], order, in_memory_max)
    if not matching.excludes_some:
        return every
    found = []
    for section in every:
        if len(section) > 1:
            found.append(section)
        elif run := tuple(file for file in section[0] if matching.may_match(file)):
            found.append((run,))
    return found


def _single_sections(_: TableHandle, entries: Sequence[ManifestEntry], matching: FileMatches) -> list[Section]:
    """Files that can match, in the order of their rows, each as a separate section."""
    files = [entry.file for entry in entries]
    if matching.excludes_some:
        files = [file for file in files if matching.may_match(file)]
    return [((file,),) for file in sorted(files, key=_age)]


def _column_sections(_: TableHandle, entries: Sequence[ManifestEntry], matching: FileMatches) -> list[Section]:
    """Files of the same rows, newest first, each as a run. Statistics count where one file has all that is known."""
    groups = column_groups(entry.file for entry in entries)
    if matching.excludes_some:
        groups = [group for group in groups if len(plain_files(group)) > 1 or matching.may_match(group[0])]
    return [tuple((file,) for file in group) for group in groups]


def _age(file: DataFile) -> tuple[int, int, str]:
    return file.min_sequence_number, file.creation_time_ms or 0, file.name
