"""Rows of keys that are unique over all partitions: where does each go, and what becomes of the row that is there?

No index file stores where a key is. A write reads the keys of the table that lie between the smallest and the largest
of its own, and keeps the locations of those that it writes. Where a row has another partition than its key's last row:

| merge engine | what happens |
| --- | --- |
| deduplicate | a −D goes into the old partition, then the row into its own; with `ignore-delete` no −D, as in Java |
| partial-update, aggregation | the row goes into the old partition, and takes on its partition columns |
| first-row | the row is dropped |

The rows of one key must all go to one writer, in order. The work is then a few array operations: rows are sorted by
key, and each is compared with the one before it. A key without a location gets a bucket of its partition that has free
capacity. Capacity is counted in rows of files, so a key counts as often as it was written since its last compaction.

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
from paimon_engine.options import TableOptions
from paimon_engine.predicate import And, Compare, Predicate
from paimon_engine.table.commit.commit import IndexRead
from paimon_engine.table.files.bucketing import BucketRows, partition_codes, split_by_assigned_bucket
from paimon_engine.table.read.reader import RowSelection, read_split
from paimon_engine.table.read.scan import splits_of
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.write.bucket_assignment import BucketRule, fill_buckets
from paimon_engine.types import INTEGER_ROOTS, STRING_ROOTS, AtomicType

Numbers = npt.NDArray[np.int64]

_DELETE = 3
_NOWHERE = -1
_RANGED_ROOTS = INTEGER_ROOTS | STRING_ROOTS
"""Types of a key column by whose range files are left out."""


def assign_rows(
    table: TableHandle, read: IndexRead, batches: Iterable[pa.RecordBatch], rule: BucketRule
) -> Iterator[BucketRows]:
    """The rows to be written, by partition and bucket, in order of arrival; given table rows, in order of arrival.

    Takes the rows in parts, each as large as the write buffer, and holds the keys of all parts in memory.

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
        """Takes in rows behind all before."""
        if not rows.num_rows:
            return
        codes, partitions = partition_codes(self._schema, rows)
        numbers = np.array([self.partitions.number(partition) for partition in partitions], dtype=np.int64)
        self.rows.append(rows)
        self.keys.append(_keys(self._schema, rows))
        self.numbers.append(numbers[codes])

    def range_of(self, column: str) -> tuple[object, object]:
        """Smallest and largest value of a column."""
        bounds = [pc.min_max(rows[column]) for rows in self.rows]
        return min(bound["min"].as_py() for bound in bounds), max(bound["max"].as_py() for bound in bounds)


@dataclass(slots=True)
class _KeyLocations:
    """Where keys are: number of the partition, and bucket; −1 for keys that are nowhere. `keys` are ascending."""

    keys: Keys
    partition: Numbers
    bucket: Numbers

    def note(self, keys: Keys, partition: Numbers | int, bucket: Numbers | int) -> None:
        """Fills in the locations of those of the keys that are here."""
        indices = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        here = np.flatnonzero(self.keys[indices] == keys)
        self.partition[indices[here]] = partition if isinstance(partition, int) else partition[here]
        self.bucket[indices[here]] = bucket if isinstance(bucket, int) else bucket[here]


class _Assigner:
    """Assigns rows to buckets batch by batch, and remembers the locations of the keys of earlier batches."""

    def __init__(self, table: TableHandle, read: IndexRead, rule: BucketRule) -> None:
        self._table = table
        self._read = read
        self._rule = rule
        self._partitions = _Partitions()
        self._row_counts = _row_counts(table, read, self._partitions)
        self._moved: _KeyLocations | None = None

    def assign(self, batches: Sequence[pa.RecordBatch]) -> Iterator[BucketRows]:
        """The rows of the batches, which come behind all before."""
        incoming = _Incoming(self._table, self._partitions)
        for rows in batches:
            incoming.add(rows)
        if not incoming.rows:
            return
        keys, key_of_row = np.unique(join_keys(incoming.keys), return_inverse=True)
        at = _KeyLocations(keys, np.full(len(keys), _NOWHERE), np.full(len(keys), _NOWHERE))
        if self._read.all_keys and self._read.snapshot is not None:
            _find_keys(self._table, self._read, incoming, at)
        if self._moved is not None:
            at.note(self._moved.keys, self._moved.partition, self._moved.bucket)
        moves = _moves(self._table.options, key_of_row.reshape(-1), np.concatenate(incoming.numbers), at)
        buckets = _buckets(moves, at, len(self._partitions.rows), self._row_counts, self._rule)
        self._remember(_KeyLocations(keys, moves.end, buckets.of(np.arange(len(keys)), moves.end).astype(np.int64)))
        yield from _written(self._table, incoming, moves, buckets)

    def _remember(self, now: _KeyLocations) -> None:
        before = self._moved
        if before is None:
            self._moved = now
            return
        keys, first = np.unique(join_keys([now.keys, before.keys]), return_index=True)
        partition = np.concatenate([now.partition, before.partition])
        self._moved = _KeyLocations(keys, partition[first], np.concatenate([now.bucket, before.bucket])[first])


def _keys(schema: TableSchema, rows: pa.RecordBatch) -> Keys:
    names = schema.primary_keys
    return normalise_keys([rows[name] for name in names], [schema.row_type.field(name).type for name in names])


# ── what is there ───────────────────────────────────────────────────────────────────────────────


def _row_counts(table: TableHandle, read: IndexRead, partitions: _Partitions) -> dict[int, dict[int, int]]:
    """Rows in the files of each bucket, by number of the partition."""
    counts: dict[int, dict[int, int]] = {}
    for entry in live_entries(table, read.snapshot):
        of_partition = counts.setdefault(partitions.number(entry.partition), {})
        of_partition[entry.bucket] = of_partition.get(entry.bucket, 0) + entry.file.row_count
    return counts


def _find_keys(table: TableHandle, read: IndexRead, incoming: _Incoming, at: _KeyLocations) -> None:
    """Fills in the locations of the keys that the table has."""
    where = _key_range(table, incoming)
    wanted = RowSelection(columns=table.schema.primary_keys, where=where)
    # Not only what readers get to see: with first-row, a key is taken before its row leaves level 0.
    for split in splits_of(table, live_entries(table, read.snapshot), where):
        number = incoming.partitions.number(split.partition)
        for rows in read_split(table, split, wanted):
            at.note(_keys(table.schema, rows), number, split.bucket)


def _key_range(table: TableHandle, incoming: _Incoming) -> Predicate | None:
    """What the keys of the write have in common, in their first column."""
    first = table.schema.key_type.fields[0]
    if not isinstance(first.type, AtomicType) or first.type.root not in _RANGED_ROOTS:
        return None
    low, high = incoming.range_of(first.name)
    return And((Compare(">=", first.name, low), Compare("<=", first.name, high)))


# ── what to do ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Moves:
    """What becomes of the rows, in order of arrival: `key` of each row and the `partition` that it goes into.

    `partition` is −1 for rows that are dropped. `leaves` is the partition that a −D goes into before the row, or −1.
    `end` is the partition that each key is in after all rows.
    """

    key: Numbers
    partition: Numbers
    leaves: Numbers
    end: Numbers


def _moves(options: TableOptions, key: Numbers, partition: Numbers, at: _KeyLocations) -> _Moves:
    order = np.argsort(key, kind="stable")
    sorted_keys, sorted_partitions = key[order], partition[order]
    first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    before = np.where(first, at.partition[sorted_keys], np.append(_NOWHERE, sorted_partitions[:-1]))
    leaves = np.full(len(key), _NOWHERE)
    if options.merge_engine == "deduplicate":
        if not options.ignore_delete:
            leaves[order] = np.where(before != sorted_partitions, before, _NOWHERE)
        return _Moves(key, partition, leaves, sorted_partitions[np.append(first[1:], True)])
    # The others keep a key where its first row went.
    end = np.where(at.partition == _NOWHERE, sorted_partitions[first], at.partition)
    home = end[key]
    if options.merge_engine == "first-row":
        return _Moves(key, np.where(partition == home, home, _NOWHERE), leaves, end)
    return _Moves(key, home, leaves, end)


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Bucket of each (key, partition) of the write; `codes` are ascending."""

    codes: Numbers
    bucket: npt.NDArray[np.int32]
    partition_count: int

    def of(self, key: Numbers, partition: Numbers) -> npt.NDArray[np.int32]:
        """Buckets of keys in partitions, all of them known."""
        return self.bucket[np.searchsorted(self.codes, key * self.partition_count + partition)]


def _buckets(
    moves: _Moves, at: _KeyLocations, count: int, row_counts: dict[int, dict[int, int]], rule: BucketRule
) -> _Buckets:
    """A bucket for every key in every partition that it goes into or leaves; a key in its old partition keeps its own.

    `count` is the number of partitions.

    Raises: InvalidArgumentError if a partition would have too many buckets.
    """
    goes = moves.partition != _NOWHERE
    arriving = moves.key[goes] * count + moves.partition[goes]
    codes, first = np.unique(arriving, return_index=True)
    here = np.flatnonzero(at.partition != _NOWHERE)
    codes_here = here * count + at.partition[here]
    bucket = np.full(len(codes), _NOWHERE, dtype=np.int32)
    keeps, in_codes, in_here = np.intersect1d(codes, codes_here, assume_unique=True, return_indices=True)
    del keeps
    bucket[in_codes] = at.bucket[here[in_here]]
    new = np.flatnonzero(bucket == _NOWHERE)
    # Buckets fill up in the order in which keys come, partition by partition.
    new = new[np.lexsort((first[new], codes[new] % count))]
    partitions, starts = np.unique(codes[new] % count, return_index=True)
    for number, begin, end in zip(partitions.tolist(), starts, [*starts[1:], len(new)], strict=False):
        bucket[new[begin:end]] = fill_buckets(row_counts.setdefault(number, {}), end - begin, rule)
    rest = np.setdiff1d(np.arange(len(here)), in_here, assume_unique=True)
    all_codes = np.concatenate([codes, codes_here[rest]])
    all_buckets = np.concatenate([bucket, at.bucket[here[rest]].astype(np.int32)])
    order = np.argsort(all_codes, kind="stable")
    return _Buckets(all_codes[order], all_buckets[order], count)


# ── the rows ────────────────────────────────────────────────────────────────────────────────────


def _written(table: TableHandle, incoming: _Incoming, moves: _Moves, buckets: _Buckets) -> Iterator[BucketRows]:
    partitions = incoming.partitions.rows
    columns = _partition_columns(table, partitions)
    begin = 0
    for rows in incoming.rows:
        members = slice(begin, begin + rows.num_rows)
        begin += rows.num_rows
        key, goes, leaves = moves.key[members], moves.partition[members], moves.leaves[members]
        stays, left = np.flatnonzero(goes != _NOWHERE), np.flatnonzero(leaves != _NOWHERE)
        source = np.concatenate([left, stays])
        # The -D of a row goes before it.
        order = np.lexsort((np.repeat([0, 1], [len(left), len(stays)]), source))
        partition = np.concatenate([leaves[left], goes[stays]])[order]
        is_delete = (np.arange(len(source)) < len(left))[order]
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
    """The rows with the columns of their partitions, and the kind -D where they delete."""
    arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name, values in columns.items():
        arrays[name] = values.take(pa.array(partition)).cast(rows.schema.field(name).type)
    kinds = np.where(is_delete, _DELETE, np.asarray(rows[VALUE_KIND])).astype(np.int8)
    arrays[VALUE_KIND] = pa.array(kinds)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=rows.schema)
