"""Assigns rows to partitions and buckets in tables whose keys are unique over all partitions.

No index file stores where a key is. A write reads the keys of the table between the smallest and the largest of its
own keys, and keeps the locations of the keys that it writes. A location is a partition and a bucket. If a row has
another partition than the last row of its key:

| merge engine | what is written |
| --- | --- |
| deduplicate | a −D into the old partition, then the row into its own; with `ignore-delete` no −D, as in Java |
| partial-update, aggregation | the row into the old partition, with the values of that partition's columns |
| first-row | nothing |

Example ('merge-engine' = 'deduplicate', 'bucket' = '-1', partitioned by p):

    write   k=1 p='a' v=10
    write   k=1 p='b' v=20                     (a −D for k=1 in p='a', the row in p='b')
    row     k=1 p='b' v=20

Example ('merge-engine' = 'partial-update', 'bucket' = '-1', partitioned by p):

    write   k=1 p='a' v=10   w=null
    write   k=1 p='b' v=null w=20              (stored as k=1 p='a' v=null w=20)
    row     k=1 p='a' v=10   w=20

Example ('merge-engine' = 'first-row', 'bucket' = '-1', partitioned by p):

    write   k=1 p='a' v=10
    write   k=1 p='b' v=20                     (dropped)
    compact
    row     k=1 p='a' v=10

One writer must get all rows of a key, in order. It needs only a few array operations: it sorts the rows by key, and
compares each with the row before it. A key without a location gets a bucket of its partition that is not full. A
bucket's size is counted in rows of its files, so a key counts as often as it was written since its last compaction.

The commit succeeds only if nothing but compactions came after the snapshot whose keys were read
(`table.commit.commit`); else the caller reads and assigns again.

Source: `GlobalIndexAssigner`, `ExistingProcessor` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.binary_row import decode_row, to_arrow_array
from paimon_engine.merge.keys import Keys, join_keys, normalise_keys
from paimon_engine.meta.schema import VALUE_KIND, TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import TableOptions
from paimon_engine.predicate import And, Compare, IsNull, Or, Predicate
from paimon_engine.table.commit.commit import IndexRead
from paimon_engine.table.files.bucketing import BucketRows, partition_codes, split_by_assigned_bucket
from paimon_engine.table.files.deletion_vectors import vector_locations
from paimon_engine.table.read.reader import RowSelection, read_split
from paimon_engine.table.read.scan import splits_of
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.write.bucket_assignment import BucketRule, fill_buckets
from paimon_engine.types import INTEGER_ROOTS, STRING_ROOTS, AtomicType

Numbers = npt.NDArray[np.int64]

_DELETE = 3
_NOWHERE = -1
_RANGED_ROOTS = INTEGER_ROOTS | STRING_ROOTS
"""Types of a key column whose range is used to skip files."""


def assign_rows(
    table: TableHandle, read: IndexRead, batches: Iterable[pa.RecordBatch], rule: BucketRule
) -> Iterator[BucketRows]:
    """The rows to be written, by partition and bucket, in order of arrival; `batches` have rows in order of arrival.

    Assigns the rows in parts, each as large as the write buffer, and keeps the keys of all parts in memory.

    Raises: InvalidArgumentError if a partition would have too many buckets; errors of reading.
    """
    assigner = _Assigner(table, read, rule)
    waiting: list[pa.RecordBatch] = []
    for rows in batches:
        waiting.append(rows)
        if sum(part.nbytes for part in waiting) > table.options.write_buffer_size_bytes:
            yield from assigner.assign(waiting)
            waiting = []
    yield from assigner.assign(waiting)


@dataclass(slots=True)
class _Partitions:
    """Partitions by number."""

    rows: list[bytes] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)

    def number(self, partition: bytes) -> int:
        """The partition's number, a new one if it has none yet."""
        known = self.numbers.setdefault(partition, len(self.rows))
        if known == len(self.rows):
            self.rows.append(partition)
        return known


class _Incoming:
    """Rows to be assigned, batch by batch, with the key and the number of the partition of each row."""

    def __init__(self, table: TableHandle, partitions: _Partitions) -> None:
        self._schema = table.schema
        self.rows: list[pa.RecordBatch] = []
        self.keys: list[Keys] = []
        self.numbers: list[Numbers] = []
        self.partitions = partitions

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows after all earlier ones."""
        if not rows.num_rows:
            return
        codes, partitions = partition_codes(self._schema, rows)
        numbers = np.array([self.partitions.number(partition) for partition in partitions], dtype=np.int64)
        self.rows.append(rows)
        self.keys.append(_keys(self._schema, rows))
        self.numbers.append(numbers[codes])

    def range_of(self, column: str) -> Predicate:
        """What holds for every value of a column: between the smallest and the largest one, or null if one is."""
        bounds = [pc.min_max(rows[column]) for rows in self.rows if rows[column].null_count < rows.num_rows]
        parts: list[Predicate] = []
        if bounds:
            low, high = min(one["min"].as_py() for one in bounds), max(one["max"].as_py() for one in bounds)
            parts.append(And((Compare(">=", column, low), Compare("<=", column, high))))
        if any(rows[column].null_count for rows in self.rows):
            parts.append(IsNull(column))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))


@dataclass(slots=True)
class _KeyLocations:
    """Locations of keys: number of the partition, and bucket; both −1 for keys without one. `keys` are ascending."""

    keys: Keys
    partition: Numbers
    bucket: Numbers

    def note(self, keys: Keys, partition: Numbers | int, bucket: Numbers | int) -> None:
        """Sets the locations of those of the keys that are among `self.keys`; the others are ignored."""
        # searchsorted gives the index at which a key is, or would be inserted: the comparison decides which of the two.
        indices = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        here = np.flatnonzero(self.keys[indices] == keys)
        self.partition[indices[here]] = partition if isinstance(partition, int) else partition[here]
        self.bucket[indices[here]] = bucket if isinstance(bucket, int) else bucket[here]


class _Assigner:
    """Assigns rows to buckets part by part, and keeps the locations of the keys of earlier parts."""

    def __init__(self, table: TableHandle, read: IndexRead, rule: BucketRule) -> None:
        self._table = table
        self._read = read
        self._rule = rule
        self._partitions = _Partitions()
        self._row_counts = _row_counts(table, read, self._partitions)
        self._earlier: _KeyLocations | None = None
        """Locations after the last part, of all keys written so far."""

    def assign(self, batches: Sequence[pa.RecordBatch]) -> Iterator[BucketRows]:
        """The rows of the next part, by partition and bucket."""
        incoming = _Incoming(self._table, self._partitions)
        for rows in batches:
            incoming.add(rows)
        if not incoming.rows:
            return
        keys, key_of_row = np.unique(join_keys(incoming.keys), return_inverse=True)
        at = _KeyLocations(keys, np.full(len(keys), _NOWHERE), np.full(len(keys), _NOWHERE))
        if self._read.all_keys and self._read.snapshot is not None:
            _find_keys(self._table, self._read, incoming, at)
        # After what the table has, since these rows are newer.
        if self._earlier is not None:
            at.note(self._earlier.keys, self._earlier.partition, self._earlier.bucket)
        moves = _moves(self._table.options, key_of_row.reshape(-1), np.concatenate(incoming.numbers), at)
        buckets = _buckets(moves, at, len(self._partitions.rows), self._row_counts, self._rule)
        self._store(_KeyLocations(keys, moves.end, buckets.of(np.arange(len(keys)), moves.end).astype(np.int64)))
        yield from _written(self._table, incoming, moves, buckets)

    def _store(self, now: _KeyLocations) -> None:
        before = self._earlier
        if before is None:
            self._earlier = now
            return
        # unique gives the index of the first of equal keys, so that locations of `now` replace those of `before`.
        keys, first = np.unique(join_keys([now.keys, before.keys]), return_index=True)
        partition = np.concatenate([now.partition, before.partition])
        self._earlier = _KeyLocations(keys, partition[first], np.concatenate([now.bucket, before.bucket])[first])


def _keys(schema: TableSchema, rows: pa.RecordBatch) -> Keys:
    names = schema.primary_keys
    return normalise_keys([rows[name] for name in names], [schema.row_type.field(name).type for name in names])


# ── existing keys ───────────────────────────────────────────────────────────────────────────────


def _row_counts(table: TableHandle, read: IndexRead, partitions: _Partitions) -> dict[int, dict[int, int]]:
    """Rows in the files of each bucket, by number of the partition."""
    counts: dict[int, dict[int, int]] = {}
    for entry in live_entries(table, read.snapshot):
        of_partition = counts.setdefault(partitions.number(entry.partition), {})
        of_partition[entry.bucket] = of_partition.get(entry.bucket, 0) + entry.file.row_count
    return counts


def _find_keys(table: TableHandle, read: IndexRead, incoming: _Incoming, at: _KeyLocations) -> None:
    """Sets the locations of the keys that the table has."""
    where = _key_range(table, incoming)
    wanted = RowSelection(columns=table.schema.primary_keys, where=where)
    # All files, also level 0 of a first-row table, which readers do not see: its keys must not be written again.
    for split in _splits(table, read.snapshot, where):
        number = incoming.partitions.number(split.partition)
        for rows in read_split(table, split, wanted):
            at.note(_keys(table.schema, rows), number, split.bucket)


def _splits(table: TableHandle, snapshot: Snapshot | None, where: Predicate | None) -> list[Split]:
    """All files, merged by key where files are sorted by it; newer ones come later."""
    entries = live_entries(table, snapshot)
    if not table.options.clustering_overrides_keys:
        return splits_of(table, entries, where)
    upper, level_0 = ([entry for entry in entries if bool(entry.file.level) is above] for above in (True, False))
    vectors = vector_locations(table, snapshot)
    return [*splits_of(table, upper, where, vectors=vectors), *splits_of(table, level_0, where)]


def _key_range(table: TableHandle, incoming: _Incoming) -> Predicate | None:
    """The range of the first key column; None for types without such statistics."""
    first = table.schema.key_type.fields[0]
    if not isinstance(first.type, AtomicType) or first.type.root not in _RANGED_ROOTS:
        return None
    return incoming.range_of(first.name)


# ── what to do ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Moves:
    """Where rows are written, in order of arrival: by row the number of its `key` and of its `partition`.

    `partition` is −1 for rows that are dropped. `leaves` is the partition into which a −D is written before the row, −1
    for none. `end` has the partition of each key (not of each row) after all rows.
    """

    key: Numbers
    partition: Numbers
    leaves: Numbers
    end: Numbers


def _moves(options: TableOptions, key: Numbers, partition: Numbers, at: _KeyLocations) -> _Moves:
    """The moves of rows, given the number of the key and of the partition of each, and the keys' locations before."""
    # By key, and for one key in order of arrival.
    order = np.argsort(key, kind="stable")
    sorted_keys, sorted_partitions = key[order], partition[order]
    first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    # The partition of the key before each row: of the row before it, or of the table if it is the key's first row.
    before = np.where(first, at.partition[sorted_keys], np.append(_NOWHERE, sorted_partitions[:-1]))
    leaves = np.full(len(key), _NOWHERE)
    if options.merge_engine == "deduplicate":
        if not options.ignore_delete:
            leaves[order] = np.where(before != sorted_partitions, before, _NOWHERE)
        # A row is the last one of its key if the next row is the first one of another key.
        return _Moves(key, partition, leaves, sorted_partitions[np.append(first[1:], True)])
    # With the other merge engines a key stays in the partition of its first row.
    end = np.where(at.partition == _NOWHERE, sorted_partitions[first], at.partition)
    home = end[key]
    if options.merge_engine == "first-row":
        return _Moves(key, np.where(partition == home, home, _NOWHERE), leaves, end)
    return _Moves(key, home, leaves, end)


@dataclass(frozen=True, slots=True)
class _Buckets:
    """The bucket of each (key, partition) of a part.

    The code of such a pair is key · number of partitions + partition; `codes` are ascending.
    """

    codes: Numbers
    bucket: npt.NDArray[np.int32]
    partition_count: int

    def of(self, key: Numbers, partition: Numbers) -> npt.NDArray[np.int32]:
        """Buckets of pairs of keys and partitions; every pair must have a bucket."""
        return self.bucket[np.searchsorted(self.codes, key * self.partition_count + partition)]


def _buckets(
    moves: _Moves, at: _KeyLocations, count: int, row_counts: dict[int, dict[int, int]], rule: BucketRule
) -> _Buckets:
    """A bucket for every key in every partition that it is written to; in its old partition a key keeps its bucket.

    `count` is the number of partitions; `row_counts` of new keys are updated.

    Raises: InvalidArgumentError if a partition would have too many buckets.
    """
    written = moves.partition != _NOWHERE
    codes, first = np.unique(moves.key[written] * count + moves.partition[written], return_index=True)
    here = np.flatnonzero(at.partition != _NOWHERE)
    codes_here = here * count + at.partition[here]
    bucket = np.full(len(codes), _NOWHERE, dtype=np.int32)
    _, in_codes, in_here = np.intersect1d(codes, codes_here, assume_unique=True, return_indices=True)
    bucket[in_codes] = at.bucket[here[in_here]]
    new = np.flatnonzero(bucket == _NOWHERE)
    # Partition by partition; within one, keys fill the buckets in order of arrival. The rest of a division of a code by
    # `count` is the partition.
    new = new[np.lexsort((first[new], codes[new] % count))]
    partitions, starts = np.unique(codes[new] % count, return_index=True)
    for number, begin, end in zip(partitions.tolist(), starts, [*starts[1:], len(new)], strict=False):
        bucket[new[begin:end]] = fill_buckets(row_counts.setdefault(number, {}), end - begin, rule)
    # Locations that no row is written to still need a bucket: a −D may be, and `end` of first-row is such a location.
    rest = np.setdiff1d(np.arange(len(here)), in_here, assume_unique=True)
    all_codes = np.concatenate([codes, codes_here[rest]])
    all_buckets = np.concatenate([bucket, at.bucket[here[rest]].astype(np.int32)])
    order = np.argsort(all_codes, kind="stable")
    return _Buckets(all_codes[order], all_buckets[order], count)


# ── the rows ────────────────────────────────────────────────────────────────────────────────────


def _written(table: TableHandle, incoming: _Incoming, moves: _Moves, buckets: _Buckets) -> Iterator[BucketRows]:
    """The rows of a part and the −D before them, by partition and bucket."""
    partitions = incoming.partitions.rows
    columns = _partition_columns(table, partitions)
    begin = 0
    for rows in incoming.rows:
        members = slice(begin, begin + rows.num_rows)
        begin += rows.num_rows
        key, goal, leaves = moves.key[members], moves.partition[members], moves.leaves[members]
        written, deleting = np.flatnonzero(goal != _NOWHERE), np.flatnonzero(leaves != _NOWHERE)
        # A −D is a copy of the row that moves its key: `source` has the index of such a row twice.
        source = np.concatenate([deleting, written])
        # By row, and the −D before its row.
        order = np.lexsort((np.repeat([0, 1], [len(deleting), len(written)]), source))
        partition = np.concatenate([leaves[deleting], goal[written]])[order]
        is_delete = (np.arange(len(source)) < len(deleting))[order]
        source = source[order]
        placed = _with_partitions(rows.take(pa.array(source)), columns, partition, is_delete)
        yield from split_by_assigned_bucket(placed, partition, partitions, buckets.of(key[source], partition))


def _partition_columns(table: TableHandle, partitions: Sequence[bytes]) -> Mapping[str, pa.Array]:
    """Values of each partition column, by number of the partition."""
    fields = table.schema.partition_type.fields
    values = [decode_row([item.type for item in fields], partition) for partition in partitions]
    return {item.name: to_arrow_array([row[i] for row in values], item.type) for i, item in enumerate(fields)}


def _with_partitions(
    rows: pa.RecordBatch, columns: Mapping[str, pa.Array], partition: Numbers, is_delete: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """The rows with the values of the partitions that they are written to, and the kind −D where they delete."""
    arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name, values in columns.items():
        arrays[name] = values.take(pa.array(partition)).cast(rows.schema.field(name).type)
    kinds = np.where(is_delete, _DELETE, np.asarray(rows[VALUE_KIND])).astype(np.int8)
    arrays[VALUE_KIND] = pa.array(kinds)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=rows.schema)
