"""Which files a read needs: live files of a snapshot, pruned by partition, bucket and statistics, packed into splits.

Source: `KeyValueFileStoreScan`, `MergeTreeSplitGenerator` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine.errors import naming
from paimon_engine.format.binary_row import decode_row, internal_values, to_arrow_array
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import Section, sections
from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import ColumnStats, from_simple_stats
from paimon_engine.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    columns_of,
    conjuncts_of,
    literal,
    may_match,
    to_arrow_expression,
)
from paimon_engine.table.bucketing import bucket_numbers
from paimon_engine.table.deletion_vectors import VectorPlace, vector_places
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries
from paimon_engine.types import RowType, to_arrow_schema


@dataclass(frozen=True, slots=True)
class Split:
    """A unit of reading: files of one bucket in sections that are read one after another.

    A section of one run with one file needs no merge. Append tables, and tables with deletion vectors, have a section
    per file. `vectors` has the place of the deletion vector of each file that has one, by name of the file.
    Where records of a key can have equal sequence numbers, the order of the runs decides between them; such files may
    also hold a key several times.
    """

    partition: bytes
    bucket: int
    sections: tuple[Section, ...]
    has_equal_sequences: bool = False
    vectors: Mapping[str, VectorPlace] = field(default_factory=dict)


def plan_splits(
    table: TableHandle, snapshot: Snapshot | None, where: Predicate | None = None, *, level: int | None = None
) -> list[Split]:
    """Splits that hold all rows of the snapshot that can match; of files at one level only, where `level` is given.

    Raises: InvalidArgumentError if the filter names a missing column or a value that does not fit.
    """
    entries = [entry for entry in visible_entries(table, snapshot) if level in (None, entry.file.level)]
    if not table.options.deletion_vectors_enabled:
        return splits_of(table, entries, where)
    if table.schema.primary_keys:
        # Vectors know nothing of level 0 yet; its rows come to light when they are compacted.
        entries = [entry for entry in entries if entry.file.level > 0]
    places = vector_places(table, snapshot)
    return [replace(split, vectors=_places_in(split, places)) for split in splits_of(table, entries, where)]


def visible_entries(table: TableHandle, snapshot: Snapshot | None) -> list[ManifestEntry]:
    """Live entries, but for files whose rows no reader gets to see yet."""
    return [entry for entry in live_entries(table, snapshot) if is_visible(table, entry)]


def is_visible(table: TableHandle, entry: ManifestEntry) -> bool:
    """Whether readers get to see the file: first-row knows which rows stay only when they leave level 0."""
    first_row = table.options.has_primary_key and table.options.merge_engine == "first-row"
    return entry.file.level > 0 or not first_row


def _places_in(split: Split, places: Mapping[str, VectorPlace]) -> Mapping[str, VectorPlace]:
    names = {file.name for section in split.sections for run in section for file in run}
    return {name: places[name] for name in names & places.keys()}


def splits_of(table: TableHandle, entries: Sequence[ManifestEntry], where: Predicate | None) -> list[Split]:
    """Splits of the entries' files that can hold rows that match.

    Raises: InvalidArgumentError if the filter names a missing column or a value that does not fit.
    """
    if where is not None:
        to_arrow_expression(where, to_arrow_schema(table.schema.row_type))
    # Stored nulls of these columns are read as something else, so that files do not tell what matches.
    with_defaults = frozenset(table.options.default_values)
    conjuncts = [part for part in conjuncts_of(where) if not columns_of(part) & with_defaults]
    entries = matching_partitions(table.schema, entries, conjuncts)
    entries = _matching_buckets(table.schema, entries, conjuncts)
    merges = table.schema.primary_keys and not table.options.deletion_vectors_enabled
    find = _key_sections if merges else _single_sections
    splits = []
    for (partition, bucket), members in by_bucket(entries).items():
        with naming(f"{table.paths.root}/manifest: entries of bucket {bucket}"):
            splits += _pack(table, partition, bucket, find(table, members, conjuncts))
    return splits


def _pack(table: TableHandle, partition: bytes, bucket: int, found: Sequence[Section]) -> list[Split]:
    """Sections in order, as many to a split as its target size allows."""
    target_bytes, least_bytes = table.options.split_target_size_bytes, table.options.split_open_file_cost_bytes
    packs: list[list[Section]] = []
    weight = 0
    for section in found:
        section_bytes = sum(max(file.size_bytes, least_bytes) for run in section for file in run)
        if not packs or weight + section_bytes > target_bytes:
            packs.append([])
            weight = 0
        packs[-1].append(section)
        weight += section_bytes
    return [Split(partition, bucket, tuple(pack)) for pack in packs]


def partition_predicate_parts(schema: TableSchema, where: Predicate | None) -> tuple[list[Predicate], list[Predicate]]:
    """The parts of a filter that look at partition columns only, and the others."""
    parts = conjuncts_of(where)
    only = [part for part in parts if columns_of(part) <= set(schema.partition_keys)]
    return only, [part for part in parts if part not in only]


def matching_partitions(
    schema: TableSchema, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[ManifestEntry]:
    """Entries of partitions that match the conjuncts over partition columns; exact."""
    only = [part for part in conjuncts if columns_of(part) <= set(schema.partition_keys)]
    if not only:
        return list(entries)
    columns = schema.partition_type
    types = [field.type for field in columns]
    partitions = list({entry.partition for entry in entries})
    values = [decode_row(types, partition) for partition in partitions]
    table = pa.table(
        {field.name: to_arrow_array([row[i] for row in values], field.type) for i, field in enumerate(columns)}
    )
    table = table.append_column("_NUMBER", pa.array(np.arange(len(partitions))))
    for part in only:
        table = table.filter(to_arrow_expression(part, table.schema))
    kept = {partitions[number] for number in table["_NUMBER"].to_pylist()}
    return [entry for entry in entries if entry.partition in kept]


def _matching_buckets(
    schema: TableSchema, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[ManifestEntry]:
    """Entries of the only bucket that can match, where every bucket column is fixed by `=`."""
    keys = schema.bucket_keys
    fixed = {part.column: part.value for part in conjuncts if isinstance(part, Compare) and part.operator == "="}
    if schema.table_options.bucket < 1 or not set(keys) <= fixed.keys():
        return list(entries)
    arrow_schema = to_arrow_schema(schema.row_type)
    row = {name: _literal_array(arrow_schema, name, fixed[name]) for name in keys}
    batch = pa.record_batch(row)

    def bucket(total: int) -> int:
        options = {**schema.options, "bucket": str(total)}
        return int(bucket_numbers(replace(schema, options=options), batch)[0])

    wanted = {total: bucket(total) for total in {entry.total_buckets for entry in entries} if total > 0}
    return [entry for entry in entries if wanted.get(entry.total_buckets, entry.bucket) == entry.bucket]


def _key_sections(
    table: TableHandle, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[Section]:
    """Files whose key range can match, in sections; in sections without a merge, all ranges count.

    Where files overlap, ranges of other columns must not count: a file left out could hold the newest version of a key.
    """
    schema = table.schema
    columns = schema.key_type
    parts = [_internal(schema.row_type, part) for part in conjuncts]
    on_keys = [part for part in parts if columns_of(part) <= set(columns.names)]
    types = [field.type for field in columns]

    def key_matches(file: DataFile) -> bool:
        if not on_keys or len(file.key_stats.null_counts) != len(types):
            return True
        ranges = dict(zip(columns.names, from_simple_stats(types, file.key_stats), strict=True))
        return all(may_match(part, ranges, file.row_count) for part in on_keys)

    found = []
    for section in sections([entry.file for entry in entries if key_matches(entry.file)], key_order(columns)):
        if len(section) > 1:
            found.append(section)
        elif run := tuple(file for file in section[0] if _may_match(table, file, parts)):
            found.append((run,))
    return found


def _single_sections(
    table: TableHandle, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[Section]:
    """Files that can match, in the order of their rows, each a section of its own."""
    parts = [_internal(table.schema.row_type, part) for part in conjuncts]
    files = [entry.file for entry in entries if _may_match(table, entry.file, parts)]
    return [((file,),) for file in sorted(files, key=_age)]


def _age(file: DataFile) -> tuple[int, int, str]:
    return file.min_sequence_number, file.creation_time_ms or 0, file.name


def _may_match(table: TableHandle, file: DataFile, parts: Sequence[Predicate]) -> bool:
    """Whether the ranges of the file's columns leave room for a row that matches."""
    ranges = _value_ranges(table, file) if parts else {}
    return all(may_match(part, ranges, file.row_count) for part in parts)


def _value_ranges(table: TableHandle, file: DataFile) -> Mapping[str, ColumnStats]:
    """Known ranges of the table's columns in a file; none of columns whose type has changed since."""
    if not file.value_stats.null_counts:
        return {}
    schema = table.schema_of(file.schema_id)
    columns = schema.row_type if file.value_stats_columns is None else schema.row_type.project(file.value_stats_columns)
    known = zip(columns.names, from_simple_stats([field.type for field in columns], file.value_stats), strict=True)
    names = unchanged_columns(schema, table.schema)
    return {names[name]: stats for name, stats in known if name in names}


def _internal(row_type: RowType, predicate: Predicate) -> Predicate:
    """The predicate with its literals as internal values, as statistics hold them."""
    schema = to_arrow_schema(row_type)

    def convert(column: str, value: Any) -> Any:
        return internal_values(_literal_array(schema, column, value), row_type.field(column).type)[0]

    match predicate:
        case Compare(operator, column, value):
            return Compare(operator, column, convert(column, value))
        case In(column, values):
            return In(column, tuple(convert(column, value) for value in values))
        case IsNull():
            return predicate
        case And(parts):
            return And(tuple(_internal(row_type, part) for part in parts))
        case Or(parts):
            return Or(tuple(_internal(row_type, part) for part in parts))
        case Not(part):
            return Not(_internal(row_type, part))


def _literal_array(schema: pa.Schema, column: str, value: Any) -> pa.Array:
    return pa.array([literal(schema, column, value)], schema.field(column).type)
