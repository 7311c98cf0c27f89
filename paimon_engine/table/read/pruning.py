"""What a filter excludes before files are considered: manifests, partitions and buckets.

1. Manifests, by the range of partitions of their entries: they are not even read.
2. Partitions, exactly, by their values.
3. Buckets, where `=`, IN or OR fix all columns that choose the bucket; each entry says how many buckets its
   partition had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod
from typing import Final

import pyarrow as pa

from paimon_engine.format.binary_row import decode_row, to_arrow_array
from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.manifest import ManifestEntry, ManifestFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import EMPTY_STATS, from_simple_stats
from paimon_engine.predicate import (
    Compare,
    In,
    Or,
    Predicate,
    bind,
    columns_of,
    conjunction,
    conjuncts_of,
    matches,
    may_match,
)
from paimon_engine.table.files.internal_values import internal_predicate
from paimon_engine.table.state.entry_choice import Choice, of_buckets
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import EntryFilter
from paimon_engine.types import to_arrow_schema

_KEYS_MAX: Final = 1_000
"""Combinations of values up to which buckets are computed; as many keys are in most buckets anyway."""


def partition_predicate_parts(schema: TableSchema, where: Predicate | None) -> tuple[list[Predicate], list[Predicate]]:
    """The parts of a filter that look at partition columns only, and the others."""
    parts = conjuncts_of(where)
    only = [part for part in parts if columns_of(part) <= set(schema.partition_keys)]
    return only, [part for part in parts if part not in only]


def entry_filter(
    table: TableHandle, conjuncts: Sequence[Predicate], *, by_buckets: bool = False, statistics: bool = True
) -> EntryFilter | None:
    """Entries of partitions that match, with `by_buckets` of their buckets that can match; None if all do.

    Without `statistics`, those of files may be missing.
    """
    schema = table.schema
    columns = schema.partition_type
    only = [internal_predicate(schema.row_type, part) for part in conjuncts if columns_of(part) <= set(columns.names)]
    only = only if columns.fields else []
    buckets = _bucket_choice(table, conjuncts) if by_buckets else None
    if not only and buckets is None and statistics:
        return None
    types = [field.type for field in columns]

    def may_hold(manifest: ManifestFile) -> bool:
        if not only or manifest.partition_stats == EMPTY_STATS:
            return True
        ranges = dict(zip(columns.names, from_simple_stats(types, manifest.partition_stats), strict=True))
        count = manifest.added_count + manifest.deleted_count
        return all(may_match(part, ranges, count) for part in only)

    def matching(partitions: Sequence[bytes]) -> frozenset[bytes]:
        return _matching(schema, partitions, conjuncts)

    return EntryFilter(may_hold, Choice(matching if only else None, buckets, statistics))


def matching_partitions(
    schema: TableSchema, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[ManifestEntry]:
    """Entries of partitions that match the conjuncts over partition columns; exact."""
    only = [part for part in conjuncts if columns_of(part) <= set(schema.partition_keys)]
    if not only:
        return list(entries)
    kept = _matching(schema, list({entry.partition for entry in entries}), only)
    return [entry for entry in entries if entry.partition in kept]


def _matching(schema: TableSchema, partitions: Sequence[bytes], conjuncts: Sequence[Predicate]) -> frozenset[bytes]:
    """The partitions that match the conjuncts over partition columns; exact."""
    columns = schema.partition_type
    types = [field.type for field in columns]
    values = [decode_row(types, partition) for partition in partitions]
    table = pa.table(
        {field.name: to_arrow_array([row[i] for row in values], field.type) for i, field in enumerate(columns)}
    )
    only = [part for part in conjuncts if columns_of(part) <= set(schema.partition_keys)]
    matching = matches(conjunction(*only), table).to_pylist()
    return frozenset(partition for partition, match in zip(partitions, matching, strict=True) if match)


def matching_buckets(
    table: TableHandle, entries: Sequence[ManifestEntry], conjuncts: Sequence[Predicate]
) -> list[ManifestEntry]:
    """Entries of the buckets that can match, where all columns that choose the bucket have few values."""
    buckets = _bucket_choice(table, conjuncts)
    return list(entries) if buckets is None else of_buckets(entries, Choice(None, buckets))


def _bucket_choice(
    table: TableHandle, conjuncts: Sequence[Predicate]
) -> Callable[[int, int], frozenset[int] | None] | None:
    """The buckets that can match, as `Choice` takes them; None if the conjuncts do not say which."""
    schema = table.schema
    keys = schema.bucket_keys
    if schema.table_options.bucket < 1 or not keys:
        return None
    fixed = _fixed_values(schema, conjuncts)
    if not set(keys) <= fixed.keys() or prod(len(fixed[name]) for name in keys) > _KEYS_MAX:
        return None
    combinations = list(product(*(fixed[name] for name in keys)))
    if not combinations:
        return lambda _total, _schema_id: frozenset()
    from paimon_engine.table.files.bucketing import bucket_numbers

    arrow_schema = to_arrow_schema(schema.row_type)
    batch = pa.record_batch(
        {
            name: pa.concat_arrays([pa.repeat(value, 1) for value in column]).cast(arrow_schema.field(name).type)
            for name, column in zip(keys, zip(*combinations, strict=True), strict=True)
        }
    )

    @cache
    def buckets(total: int) -> frozenset[int]:
        options = {**schema.options, "bucket": str(total)}
        return frozenset(bucket_numbers(replace(schema, options=options), batch).tolist())

    @cache
    def comparable(schema_id: int) -> bool:
        return _keys_unchanged(table, schema_id)

    return lambda total, schema_id: buckets(total) if total > 0 and comparable(schema_id) else None


def _keys_unchanged(table: TableHandle, schema_id: int) -> bool:
    """Whether rows written with that schema went to the buckets that rows of today would go to."""
    names = unchanged_columns(table.schema_of(schema_id), table.schema)
    return set(table.schema.bucket_keys) <= set(names.values())


def _fixed_values(schema: TableSchema, conjuncts: Sequence[Predicate]) -> Mapping[str, list[pa.Scalar]]:
    """For columns that a conjunct restricts to some values: these values, by column."""
    arrow_schema = to_arrow_schema(schema.row_type)
    found: dict[str, list[pa.Scalar]] = {}
    for part in conjuncts:
        fixed = _fixed(bind(part, arrow_schema))
        if fixed is not None and (fixed[0] not in found or len(fixed[1]) < len(found[fixed[0]])):
            found[fixed[0]] = list(dict.fromkeys(fixed[1]))
    return found


def _fixed(part: Predicate) -> tuple[str, list[pa.Scalar]] | None:
    match part:
        case Compare("=", column, value):
            return column, [value]
        case In(column, values):
            return column, [value for value in values if value is not None]
        case Or(parts):
            several = [_fixed(inner) for inner in parts]
            columns = {one[0] for one in several if one is not None}
            if None in several or len(columns) != 1:
                return None
            return columns.pop(), [value for one in several if one is not None for value in one[1]]
        case _:
            return None
