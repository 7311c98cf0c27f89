"""Which files a read needs: live files of a snapshot, pruned by partition, bucket and statistics, packed into splits.

Source: `KeyValueFileStoreScan`, `MergeTreeSplitGenerator` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine.format.binary_row import decode_row, internal_values, to_arrow_array
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import Section, sections
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
    literal,
    may_match,
    to_arrow_expression,
)
from paimon_engine.table.bucketing import bucket_numbers
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries
from paimon_engine.types import RowType, to_arrow_schema


@dataclass(frozen=True, slots=True)
class Split:
    """A unit of reading: files of one bucket in sections that are read one after another.

    A section of one run with one file needs no merge. Append tables have a section per file.
    """

    partition: bytes
    bucket: int
    sections: tuple[Section, ...]


def plan_splits(table: TableHandle, snapshot: Snapshot | None, where: Predicate | None = None) -> list[Split]:
    """Splits that hold all rows of the snapshot that can match.

    Raises: InvalidArgumentError if the filter names a missing column or a value that does not fit.
    """
    if where is not None:
        to_arrow_expression(where, to_arrow_schema(table.schema.row_type))
    conjuncts = _conjuncts(where)
    entries = live_entries(table, snapshot)
    entries = matching_partitions(table.schema, entries, conjuncts)
    entries = _matching_buckets(table.schema, entries, conjuncts)
    if table.schema.primary_keys:
        return [
            Split(partition, bucket, tuple(_key_sections(table, members, conjuncts)))
            for (partition, bucket), members in by_bucket(entries).items()
        ]
    return [
        Split(partition, bucket, tuple(((file,),) for file in _append_files(table, members, conjuncts)))
        for (partition, bucket), members in by_bucket(entries).items()
    ]


def _conjuncts(where: Predicate | None) -> list[Predicate]:
    match where:
        case None:
            return []
        case And(parts):
            return [conjunct for part in parts for conjunct in _conjuncts(part)]
        case _:
            return [where]


def partition_predicate_parts(schema: TableSchema, where: Predicate | None) -> tuple[list[Predicate], list[Predicate]]:
    """The parts of a filter that look at partition columns only, and the others."""
    parts = _conjuncts(where)
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
    """Files whose key range can match, in sections.

    Statistics of other columns must not be used here: a file left out could hold the newest version of a key.
    """
    schema = table.schema
    columns = schema.key_type
    on_keys = [_internal(schema.row_type, part) for part in conjuncts if columns_of(part) <= set(columns.names)]
    types = [field.type for field in columns]

    def matches(file: DataFile) -> bool:
        if not on_keys or len(file.key_stats.null_counts) != len(types):
            return True
        ranges = dict(zip(columns.names, from_simple_stats(types, file.key_stats), strict=True))
        return all(may_match(part, ranges, file.row_count) for part in on_keys)

    return sections([entry.file for entry in entries if matches(entry.file)], key_order(columns))


def _append_files(
    table: TableHandle, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[DataFile]:
    """Files that can match, in the order of their rows."""
    parts = [_internal(table.schema.row_type, part) for part in conjuncts]

    def matches(file: DataFile) -> bool:
        ranges = _value_ranges(table, file)
        return all(may_match(part, ranges, file.row_count) for part in parts)

    files = [entry.file for entry in entries if matches(entry.file)]
    return sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time_ms or 0))


def _value_ranges(table: TableHandle, file: DataFile) -> Mapping[str, ColumnStats]:
    """Known ranges of a file's columns; none if the file was written under another schema."""
    if file.schema_id != table.schema.id or not file.value_stats.null_counts:
        return {}
    columns = table.schema.row_type
    if file.value_stats_columns is not None:
        columns = columns.project(file.value_stats_columns)
    types = [field.type for field in columns]
    return dict(zip(columns.names, from_simple_stats(types, file.value_stats), strict=True))


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
