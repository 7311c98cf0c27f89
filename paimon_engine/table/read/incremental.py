"""Reading what changed: between two snapshots from their deltas or changelogs, or by comparing two states.

Commits whose snapshots have expired are read by their changelogs, where these are kept.

1. `delta`: the files that appends added. Deletes are seen by readers that keep them; compactions change no rows. Of a
   key the row of the latest commit is seen also where sequence numbers began again (`restarts`).
2. `changelog`: the changelog files, which contain each change with its kind. Those of several snapshots are merged as
   Java does, by the merge engine, one record of a key from each sorted run at a time (`merge/rounds`): so aggregates
   count twice what two changelogs have. Read one snapshot after another for the changes themselves.
3. Difference of two states: only files that one of them lacks are read, as the Java library does, so that an append
   table gives the rows of all new files. Where what they mean depends on files that both have, these are read, too.
   Java does not: a row that a deletion vector deletes stays there, and of a sum what was added is seen. A changed row
   is seen even where its sequence number is the old row's by accident. Of a key that went with a file, as by going
   back to an earlier state, the row is seen that an older file has.

Where keys were given other buckets in between, by a rescale or an overwrite, the files of the partition are read as
those of one bucket. Java reads bucket by bucket: a key comes once for each, also where its row has not changed.

Source: `IncrementalStartingScanner`, `IncrementalTagStartingScanner`, `IncrementalDiffSplitRead` of the Java library.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa

from paimon_engine.lsm.delete_records import may_have_deletes
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import Section, files_of, ordered_section, sections, written_at_once
from paimon_engine.merge.curves import to_column
from paimon_engine.merge.keys import normalise_keys
from paimon_engine.merge.records import drop_retracts
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import merge_entries
from paimon_engine.meta.manifest import DataFile, FileIdentity, FileKind, ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.files.data_file import BucketLocation, bucket_location
from paimon_engine.table.files.deletion_vectors import VectorLocation, VectorReader, vector_locations
from paimon_engine.table.files.sorting import sort_rows
from paimon_engine.table.read.joined_buckets import (
    by_joined_bucket,
    directories_of,
    joined,
    keys_may_move,
    rescaled_partitions,
    with_directories,
)
from paimon_engine.table.read.read_request import Changes, Difference
from paimon_engine.table.read.read_unit import Comparison, ReadUnit
from paimon_engine.table.read.reader import RowSelection, merge_section
from paimon_engine.table.read.restarts import Restarts, begin_again
from paimon_engine.table.read.scan import splits_of, visible_entries, visible_to_readers
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.changelogs import Commit, read_commit
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.level_mode import check_mode
from paimon_engine.table.state.manifests import changelog_entries, delta_entries

_SORT_BYTES: Final = 256 << 20
_PLACE: Final = "__paimon_place_of_key"
StateEntries = Sequence[ManifestEntry]


def plan_changes(table: TableHandle, changes: Changes, rows: RowSelection) -> list[Split]:
    """Rows that the snapshots wrote, newest version of a key where several deltas have one."""
    commits = [read_commit(table, number) for number in range(changes.start_id + 1, changes.end_id + 1)]
    # Expiry takes the files and the indexes of a snapshot, also where its changelog is kept.
    alive = [commit.snapshot for commit in commits if not commit.is_expired]
    check_mode(table, *alive, merges_levels=False)
    added = [_added(table, commit.snapshot, changes.mode) for commit in commits]
    entries = [entry for found in added for entry in found]
    if not table.schema.primary_keys:
        locations = _own_vectors(table, zip(commits, added, strict=True))
        return splits_of(table, entries, rows.file_filter, vectors=locations)
    moved = rescaled_partitions(entries)
    if keys_may_move(table) and any(commit.snapshot.commit_kind is CommitKind.OVERWRITE for commit in commits):
        moved = frozenset(entry.partition for entry in entries)
    splits = splits_of(table, joined(entries, moved), rows.file_filter)
    if moved:
        directories = directories_of(table, entries)
        splits = [with_directories(split, directories) if split.partition in moved else split for split in splits]
    ages = {entry.file.name: age for age, entry in enumerate(entries)}
    whole = _buckets_without_overlaps(table, splits)
    if changes.mode == "changelog":
        return [_exactly_ordered(table, split, ages, whole) for split in splits]
    found = [
        _exactly_ordered(table, split, ages, whole) if any(map(_may_have_ties, split.sections)) else split
        for split in splits
    ]
    commit_of = {entry.file.name: number for number, files in enumerate(added) for entry in files}
    if not any(begin_again(section, commit_of) for split in splits for section in split.sections):
        return found
    restarts = Restarts(table, commits, moved)
    return [replace(split, epochs=restarts.epochs(split)) for split in found]


def _own_vectors(
    table: TableHandle, added: Iterable[tuple[Commit, Sequence[ManifestEntry]]]
) -> Mapping[str, VectorLocation] | None:
    """Vectors of what each commit added, as they were then: rows that were deleted later still were added."""
    if not table.options.deletion_vectors_enabled:
        return None
    found: dict[str, VectorLocation] = {}
    for commit, entries in added:
        locations = {} if commit.is_expired or not entries else vector_locations(table, commit.snapshot)
        found |= {entry.file.name: locations[entry.file.name] for entry in entries if entry.file.name in locations}
    return found


def _vectors(table: TableHandle, snapshot: Snapshot | None) -> Mapping[str, VectorLocation] | None:
    """Locations of deletion vectors by data file; None for tables without."""
    return vector_locations(table, snapshot) if table.options.deletion_vectors_enabled else None


def _buckets_without_overlaps(table: TableHandle, splits: Sequence[Split]) -> set[tuple[bytes, int]]:
    """Buckets whose files the Java library takes for free of overlaps, without a look at their keys."""
    options = table.options
    files: dict[tuple[bytes, int], list[DataFile]] = defaultdict(list)
    for split in splits:
        files[split.partition, split.bucket] += [file for section in split.sections for run in section for file in run]
    levels_suffice = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    return {
        bucket
        for bucket, members in files.items()
        if all(file.level > 0 and not file.delete_row_count for file in members)
        and (levels_suffice or len({file.level for file in members}) == 1)
    }


def _may_have_ties(section: Section) -> bool:
    return written_at_once(files_of([section]))


def _exactly_ordered(
    table: TableHandle, split: Split, ages: Mapping[str, int], whole: Collection[tuple[bytes, int]]
) -> Split:
    """The split with its runs in the order that decides between records of equal sequence.

    Changelogs have them by nature, and deltas where writers work side by side or numbers begin again (`restarts`).
    """
    options, order = table.options, key_order(table.schema.key_type)
    is_planned_whole = (split.partition, split.bucket) in whole
    found = []
    for section in split.sections:
        files = sorted((file for run in section for file in run), key=lambda file: ages[file.name])
        found.append(ordered_section(files, order, options.sort_spill_threshold, is_planned_whole=is_planned_whole))
    return replace(split, sections=tuple(found), has_equal_sequences=True)


def _added(table: TableHandle, snapshot: Snapshot, mode: str) -> list[ManifestEntry]:
    """Entries of the data or changelog files of a snapshot that readers of changes get to see."""
    if mode == "changelog":
        found = [] if snapshot.commit_kind is CommitKind.OVERWRITE else changelog_entries(table, snapshot)
        return visible_to_readers(table, found)
    if snapshot.commit_kind is not CommitKind.APPEND:
        return []
    entries = merge_entries(delta_entries(table, snapshot)).values()
    return visible_to_readers(table, (entry for entry in entries if entry.kind is FileKind.ADD))


def plan_difference(table: TableHandle, change: Difference, rows: RowSelection) -> list[ReadUnit]:
    """Rows that are new or different in the later state; for readers that keep them also the deleted ones."""
    before, after = (
        {_rows_identity(entry): entry for entry in visible_entries(table, state, rows.file_filter)}
        for state in (change.before, change.after)
    )
    old_vectors, new_vectors = _vectors(table, change.before), _vectors(table, change.after)
    same = before.keys() & after.keys()
    if table.schema.primary_keys and old_vectors is not None and new_vectors is not None:
        names = _with_other_rows(table, {after[identity].file.name for identity in same}, old_vectors, new_vectors)
        same = {identity for identity in same if after[identity].file.name not in names}
    only_before = [entry for identity, entry in before.items() if identity not in same]
    only_after = [entry for identity, entry in after.items() if identity not in same]
    kept: dict[Bucket, set[str]] = defaultdict(set)
    for identity, entry in after.items():
        if identity in same:
            kept[entry.partition, entry.bucket].add(entry.file.name)
    moved = _moved(table, only_before, only_after, {partition for partition, _ in kept})
    gone, new = by_joined_bucket(only_before, moved), by_joined_bucket(only_after, moved)
    places = dict.fromkeys([*gone, *new])
    depends = bool(table.schema.primary_keys) and not table.options.hides_level_0
    mixed = {place for place in places if depends and place in kept and place[0] not in moved}
    states = [_by_place(state.values(), mixed) for state in (before, after)]
    units: list[ReadUnit] = []

    def compare(place: Bucket, old: StateEntries, young: StateEntries, beneath: StateEntries) -> None:
        # Deletes of keys that were not there are no difference.
        if table.schema.primary_keys and (old or any(may_have_deletes(entry.file, table.options) for entry in young)):
            locations = _vectors_of(old, old_vectors), _vectors_of([*young, *beneath], new_vectors)
            units.append(Comparison(*place, tuple(old), tuple(young), *locations, tuple(beneath)))
        else:
            units.extend(splits_of(table, young, rows.file_filter, vectors=new_vectors))

    for place in places:
        if place not in mixed:
            compare(place, gone.get(place, []), new.get(place, []), [])
            continue
        was, now = (state[place] for state in states)
        for compared, beneath in _compared_together(table, was, now, kept[place]):
            compare(place, _named(was, compared), _named(now, compared), _named(now, beneath))
    return units


def _compared_together(
    table: TableHandle, before: StateEntries, after: StateEntries, kept: Collection[str]
) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """For each section with files that only one state has: names of those to be compared, and of those beneath them.

    What is beneath is older than all that is compared; `kept` names the files that both states have. They are compared
    with the others where they may be newer, or where what the others do to a key depends on them: a delete, a sum, or
    a number that two rows of the key may have.
    """
    options, order = table.options, key_order(table.schema.key_type)
    depends = options.merge_engine != "deduplicate" or bool(options.sequence_fields)
    of_state = [{entry.file.name for entry in state} for state in (before, after)]
    files = {entry.file.name: entry.file for entry in (*before, *after)}
    for section in sections([*files.values()], order):
        members = files_of([section])
        changed = [file for file in members if file.name not in kept]
        if not changed:
            continue
        together = _not_older(changed, [file for file in members if file.name in kept])
        are_at_once = any(written_at_once(file for file in members if file.name in names) for names in of_state)
        if depends or are_at_once or any(may_have_deletes(file, options) for file in together):
            together = members
        compared = frozenset(file.name for file in together)
        yield compared, frozenset(file.name for file in members) - compared


def _not_older(files: Sequence[DataFile], others: Sequence[DataFile]) -> Sequence[DataFile]:
    """The files, and those of the others that are not older than all of these together."""
    found, least = [*files], min(file.min_sequence_number for file in files)
    for file in sorted(others, key=lambda file: -file.max_sequence_number):
        if file.max_sequence_number < least:
            break
        found.append(file)
        least = min(least, file.min_sequence_number)
    return found


def _by_place(entries: Iterable[ManifestEntry], places: Collection[Bucket]) -> dict[Bucket, list[ManifestEntry]]:
    """The entries of these buckets, in their order."""
    return by_joined_bucket([entry for entry in entries if (entry.partition, entry.bucket) in places], frozenset())


def _named(entries: StateEntries, names: Collection[str]) -> StateEntries:
    """Those of the files' names, in their order: where files were written at once it decides."""
    return [entry for entry in entries if entry.file.name in names]


def _with_other_rows(
    table: TableHandle, names: Collection[str], old: Mapping[str, VectorLocation], new: Mapping[str, VectorLocation]
) -> set[str]:
    """Which of these files, that both states have, have other deleted rows now. Vectors are often written again."""
    written = [name for name in names if old.get(name) != new.get(name)]
    before, after = (VectorReader(table, {name: at[name] for name in written if name in at}) for at in (old, new))
    return {name for name in written if (before.deleted_rows(name) or None) != (after.deleted_rows(name) or None)}


def _moved(
    table: TableHandle, gone: Sequence[ManifestEntry], new: Sequence[ManifestEntry], kept: Collection[bytes]
) -> frozenset[bytes]:
    """Partitions that have files on both sides, whose keys may be in other buckets; `kept` have a file that stayed."""
    if not table.schema.primary_keys:
        return frozenset()
    both = {entry.partition for entry in gone} & {entry.partition for entry in new}
    # An overwrite takes all files of a partition.
    overwritten = both.difference(kept) if keys_may_move(table) else frozenset()
    return frozenset(both & (rescaled_partitions([*gone, *new]) | overwritten))


def _vectors_of(
    entries: Sequence[ManifestEntry], locations: Mapping[str, VectorLocation] | None
) -> Mapping[str, VectorLocation] | None:
    names = {entry.file.name for entry in entries}
    return None if locations is None else {name: location for name, location in locations.items() if name in names}


def _rows_identity(entry: ManifestEntry) -> FileIdentity:
    """What the entry's rows are: an index that came later changes none."""
    return entry.identity._replace(extra_files=(), embedded_file_index=None)


def compared(table: TableHandle, unit: Comparison) -> Iterator[pa.RecordBatch]:
    """What the rows of the later state differ in, with their kinds. Raises: NotFoundError, CorruptTableError."""
    from paimon_engine.merge.difference import differences, uncovered
    from paimon_engine.merge.functions import sequence_order

    location = bucket_location(table, unit.partition, unit.bucket)
    before = _state(table, location, unit.before, unit.vectors_before)
    after = _state(table, location, unit.after, unit.vectors_after)
    key, order = table.schema.key_type, sequence_order(table.options)
    values = [name for name in table.schema.row_type.names if name not in table.schema.trimmed_primary_keys]
    changed = differences(before, after, key, order, values)
    if not unit.beneath:
        return changed
    return uncovered(changed, lambda: _state(table, location, unit.beneath, unit.vectors_after), key, order)


def _state(
    table: TableHandle,
    location: BucketLocation,
    entries: Sequence[ManifestEntry],
    locations: Mapping[str, VectorLocation] | None,
) -> Iterator[pa.RecordBatch]:
    """All columns of the files' rows, sorted by key; each bucket is merged as a read merges it."""
    from paimon_engine.merge.deduplicate import deduplicate
    from paimon_engine.merge.frontier import merge_runs
    from paimon_engine.merge.functions import sequence_order

    vectors = None if locations is None else VectorReader(table, locations)
    buckets = by_joined_bucket(entries, frozenset()).values()
    states = [_state_of_bucket(table, location, some, vectors) for some in buckets]
    if len(states) < 2:
        yield from chain.from_iterable(states)
        return
    for window in merge_runs(states, table.schema.key_type, sequence_order(table.options)):
        yield deduplicate(window)


def _state_of_bucket(
    table: TableHandle, location: BucketLocation, entries: Sequence[ManifestEntry], vectors: VectorReader | None
) -> Iterator[pa.RecordBatch]:
    directories = directories_of(table, entries)
    files = [entry.file for entry in entries]
    if table.options.clustering_overrides_keys:
        yield from _by_key(table, location, files, vectors, directories)
        return
    for section in sections(files, key_order(table.schema.key_type), table.options.sort_spill_threshold):
        names = table.schema.row_type.names
        for merged in merge_section(table, location, section, names, vectors=vectors, directories=directories):
            yield drop_retracts(merged)


def _by_key(
    table: TableHandle,
    location: BucketLocation,
    files: Sequence[DataFile],
    vectors: VectorReader | None,
    directories: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    """All columns of the rows of files that are in another order, sorted by key; each key is in one file."""
    columns = table.schema.key_type

    def placed() -> Iterator[pa.RecordBatch]:
        for file in files:
            names = table.schema.row_type.names
            for rows in merge_section(table, location, ((file,),), names, vectors=vectors, directories=directories):
                kept = drop_retracts(rows)
                keys = normalise_keys([kept[field.name] for field in columns], [field.type for field in columns])
                yield kept.append_column(_PLACE, to_column(keys))

    for rows in sort_rows(placed(), _PLACE, _SORT_BYTES):
        yield rows.remove_column(rows.num_columns - 1)
