"""Writing rows: Arrow batches in, new data files and commit messages out; nothing is visible before the commit.

1. Each batch is cast to the table's columns (`table.write.row_input`) and split by partition and bucket.
2. Rows get their sequence numbers in order of arrival and wait in memory, bucket by bucket.
3. When all buckets together exceed the write buffer, the largest are flushed. On primary-key tables a flush sorts by
   key, leaves one row per key and makes level-0 files; on append tables it adds to the bucket's open file.

A driver makes the `WriteState` once; any number of tasks may write from it concurrently if each gets a separate
range of sequence numbers (`sequence_offset`). Where it is not known before how many rows each will get, a task writes
only rows that fill files (`table.write.part_writer`) and passes on the others, to be grouped by bucket.

Source: `MergeTreeWriter`, `AppendOnlyWriter`, `AbstractFileStoreWrite` of the Java library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.merge.chosen_rows import ChosenRows
from paimon_engine.merge.counts import counted_columns, with_partial_counts
from paimon_engine.merge.functions import MergeFunction, check_storable, merge_function, sequence_order
from paimon_engine.merge.sorted_parts import sorted_parts
from paimon_engine.merge.window import SequenceOrder
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.schema import SEQUENCE_NUMBER, BucketMode
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.commit.commit import IndexRead
from paimon_engine.table.files.bucketing import BucketRows, split_by_bucket
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.files.hash_index import hash_files
from paimon_engine.table.files.new_paths import check_files_writable
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.state.handle import PlainTable, TableHandle, bucket_path
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import read_at_latest
from paimon_engine.table.write.bucket_numbers import BucketNumbers, ignores_files
from paimon_engine.table.write.cross_partition import assign_rows
from paimon_engine.table.write.dynamic_buckets import DynamicBuckets, bucket_rule
from paimon_engine.table.write.grouping import KEYS_CHOOSE
from paimon_engine.table.write.joined_flushes import join_flushes
from paimon_engine.table.write.postponed import postponed_prefix
from paimon_engine.table.write.row_input import RowInput

_BUFFER_BYTES_MAX: Final = 1 << 30
"""Arrow counts the bytes of a string column in 31 bits; a buffer must be joined into one batch to be sorted."""

_PART_BYTES_MAX: Final = 64 << 20
"""Arrow bytes of a batch that are taken in at a time, if they are more than one row."""

_KEPT_SHARE: Final = 0.5
"""A full buffer is flushed down to this share, largest buckets first, so that small buckets make fewer files."""


@dataclass(frozen=True)
class WriteState:
    """State of the table that writers need before they start, as plain values.

    `next_sequence` has the next sequence number of each (partition, bucket) that has files, `total_buckets` the
    number of buckets of each partition that has files; both of all partitions if the state `has_all`, else a writer
    looks up those that it meets. `sequence_offset` is added to every sequence number.
    `keeps_changelog` is false where rows replace others: readers of changes would not see what that did.
    `read` is what buckets are chosen by where their number is not fixed. A task is `assigner` out of `assigners`, each
    of which gets all rows of its keys. `write_id` is in the name of each file of postponed rows, and says which of
    them were written together.
    """

    table: PlainTable
    next_sequence: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    total_buckets: Mapping[bytes, int] = field(default_factory=dict)
    sequence_offset: int = 0
    keeps_changelog: bool = False
    read: IndexRead = field(default_factory=lambda: IndexRead(None))
    assigners: int = 1
    assigner: int = 0
    write_id: str = ""
    has_all: bool = True


def write_state(table: TableHandle, *, replacing: bool = False, by_partition: bool = False) -> WriteState:
    """State for writing to the latest snapshot. An overwrite is `replacing`: present files mean nothing to it.

    With `by_partition` nothing is read of partitions before rows of them come, if the table's buckets allow that: one
    writer then reads little of a large table's metadata; many writers would each read it.

    Raises: UnsupportedError if the engine cannot write this table; CorruptTableError if a dynamic bucket has no index.
    """
    check_files_writable(table)
    if replacing:
        return _state(table, None, replacing=True)
    return read_at_latest(table, partial(_state, table, replacing=False, by_partition=by_partition))


def _state(table: TableHandle, snapshot: Snapshot | None, *, replacing: bool, by_partition: bool = False) -> WriteState:
    """What writers need of the snapshot: sequence numbers, numbers of buckets, hash indexes if keys choose buckets.

    With `by_partition` the writer looks up the partitions of its rows later, if its mode allows that.
    """
    mode = table.schema.bucket_mode
    # Where keys choose their buckets, the index of all keys is read with the files that it belongs to.
    has_all = mode in KEYS_CHOOSE or not (by_partition or ignores_files(table))
    numbers = BucketNumbers(table)
    if has_all:
        numbers.add(live_entries(table, snapshot))
    next_sequence, total_buckets = numbers.next_sequence, numbers.total_buckets
    index = _hash_indexes(table, snapshot, next_sequence) if mode is BucketMode.DYNAMIC else None
    return WriteState(
        table.plain(),
        next_sequence,
        total_buckets,
        keeps_changelog=table.options.changelog_producer == "input" and not replacing,
        # An overwrite of all rows does not need the partitions of their keys.
        read=IndexRead(snapshot, index, all_keys=mode is BucketMode.CROSS_PARTITION and not replacing),
        write_id=table.env.new_id(),
        has_all=has_all or snapshot is None,
    )


def _hash_indexes(
    table: TableHandle, snapshot: Snapshot | None, with_files: Iterable[tuple[bytes, int]]
) -> tuple[IndexFile, ...]:
    files = hash_files(live_index_files(table, snapshot))
    for partition, bucket in with_files:
        if (partition, bucket) not in files:
            # Its keys would be taken for new ones, and could get another bucket.
            raise CorruptTableError(
                f"{bucket_path(table, partition, bucket)}: the bucket has files but no hash index; read the rows of "
                "its partition and write them back as an overwrite"
            )
    return tuple(files.values())


def write_batches(
    table: TableHandle, state: WriteState, batches: Iterable[pa.RecordBatch], *, kind_column: str | None = None
) -> list[CommitMessage]:
    """Writes all rows; one message per bucket that got files, in order of first arrival.

    `kind_column` names a column of row kinds: int8, or text such as `-D`. It is not stored.
    After a failure no file is left.

    Raises: InvalidArgumentError if rows do not fit the table; StorageError.
    """
    check_files_writable(table)
    return TableWriter(table, state, kind_column=kind_column).write_all(batches)


def write_rests(table: TableHandle, state: WriteState, rests: Iterable[pa.RecordBatch]) -> list[CommitMessage]:
    """Writes what `table.write.part_writer` handed on of some buckets, ordered by part; as `write_batches`."""
    return TableWriter(table, state).write_rows(rests)


def rewrite_uncommitted(
    table: TableHandle, state: WriteState, messages: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Writes the rows of uncommitted files again, with another state. The files are kept.

    Rows of a key keep their order, as they are in one bucket. Rows that were merged when they were written stay merged,
    unless changelog files hold every row.
    """
    return TableWriter(table, state).write_rows(_rows_of(table, messages))


def _rows_of(table: TableHandle, messages: Sequence[CommitMessage]) -> Iterator[pa.RecordBatch]:
    columns = table.schema.row_type.names
    for message in messages:
        location = bucket_location(table, message.partition, message.bucket)
        for file in message.changelog_files or message.new_files:
            for rows in read_data_file(table, location, file, columns, with_system_columns=True):
                yield rows.drop_columns([SEQUENCE_NUMBER])


class TableWriter:
    """Buffers rows by bucket and turns them into files."""

    def __init__(self, table: TableHandle, state: WriteState, *, kind_column: str | None = None) -> None:
        """Nothing is written before the buffer is full."""
        self._table = table
        self._state = state
        self._input = RowInput(table.schema, kind_column)
        self._buckets: dict[tuple[bytes, int], BucketBuffer] = {}
        self._bytes_pending = 0
        self._limit_bytes = min(table.options.write_buffer_size_bytes, _BUFFER_BYTES_MAX)
        self._rule = bucket_rule(table.schema, state.assigners, state.assigner)
        is_dynamic = table.schema.bucket_mode is BucketMode.DYNAMIC
        self._dynamic = DynamicBuckets(table, state.read.hash_files or (), self._rule) if is_dynamic else None
        self._numbers = BucketNumbers(
            table,
            state.next_sequence,
            state.total_buckets,
            has_all=state.has_all or ignores_files(table),
        )

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> list[CommitMessage]:
        """Writes the batches and finishes; takes everything back if that fails.

        Raises: InvalidArgumentError if rows do not fit the table; StorageError.
        """
        return self.write_rows(self._table_rows(batches))

    def _table_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counted = counted_columns(self._table.schema)
        parts = (part for batch in batches for part in _parts(batch))
        return (with_partial_counts(self._input.read(part), counted) for part in parts)

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> list[CommitMessage]:
        """As `write_all`, of table rows: `_VALUE_KIND`, all columns, and `_SEQUENCE_NUMBER` where they are numbered."""
        try:
            if self._table.schema.bucket_mode is BucketMode.CROSS_PARTITION:
                self._add(assign_rows(self._table, self._state.read, batches, self._rule))
            else:
                assign = self._dynamic.assign if self._dynamic else None
                for rows in batches:
                    parts = list(split_by_bucket(self._table.schema, rows, assign))
                    self._numbers.look_up({part.partition for part in parts})
                    self._add(parts)
            return self._finish()
        except BaseException:
            self._abort()
            raise

    def _add(self, parts: Iterable[BucketRows]) -> None:
        for part in parts:
            self._add_part(part)
            if self._bytes_pending > self._limit_bytes:
                self._flush_largest(self._buckets.values())

    def _add_part(self, part: BucketRows) -> None:
        bucket = self._bucket(part)
        before = bucket.bytes_pending
        bucket.add(part.chosen)
        self._bytes_pending += bucket.bytes_pending - before

    def _finish(self) -> list[CommitMessage]:
        """Flushes everything; the messages of all buckets."""
        total_buckets = self._table.options.bucket
        files = {location: bucket.finish() for location, bucket in self._buckets.items()}
        index = self._dynamic.write_index() if self._dynamic else {}
        messages = []
        for location, new_files in files.items():
            new, before = index.get(location, (None, None))
            message = CommitMessage(
                *location,
                total_buckets,
                new_files,
                changelog_files=self._buckets[location].changelog,
                new_index_files=(new,) if new else (),
                deleted_index_files=(before,) if before else (),
            )
            messages.append(message)
        return [message for message in messages if not message.is_empty]

    def _abort(self) -> None:
        """Deletes all files written so far."""
        for bucket in self._buckets.values():
            bucket.abort()
        self._buckets.clear()
        if self._dynamic:
            self._dynamic.abort()

    def _bucket(self, part: BucketRows) -> BucketBuffer:
        location = part.partition, part.bucket
        known = self._buckets.get(location)
        if known is None:
            self._check_total_buckets(*location)
            known = self._buckets[location] = self._new_bucket(*location, self._first_sequence_number(part))
        return known

    def _first_sequence_number(self, part: BucketRows) -> int:
        if ignores_files(self._table):
            return 0  # the order of these rows is not needed
        if SEQUENCE_NUMBER in part.chosen.batch.schema.names:
            return int(part.chosen.gathered([SEQUENCE_NUMBER])[SEQUENCE_NUMBER][0].as_py())
        return self._numbers.next_sequence.get((part.partition, part.bucket), 0) + self._state.sequence_offset

    def _new_bucket(self, partition: bytes, number: int, first: int) -> BucketBuffer:
        if number == POSTPONED_BUCKET:
            return _PostponedBucket(self._table, partition, first, self._state.write_id)
        if self._table.schema.primary_keys:
            return _KeyedBucket(self._table, partition, number, first, keeps_changelog=self._state.keeps_changelog)
        return _AppendBucket(self._table, partition, number, first)

    def _check_total_buckets(self, partition: bytes, number: int) -> None:
        present = self._numbers.total_buckets.get(partition)
        wanted = self._table.options.bucket
        if present is not None and present != wanted and number != POSTPONED_BUCKET:
            raise InvalidArgumentError(
                f"{bucket_path(self._table, partition, number)}: the partition has {present} buckets, but 'bucket' = "
                f"'{wanted}'; overwrite the partition to change its number of buckets"
            )

    def _flush_largest(self, buckets: Iterable[BucketBuffer], kept_share: float = _KEPT_SHARE) -> None:
        for bucket in sorted(buckets, key=lambda item: item.bytes_pending, reverse=True):
            if self._bytes_pending <= self._limit_bytes * kept_share:
                break
            self._bytes_pending -= bucket.bytes_pending
            bucket.flush()
            bucket.has_files = True
        # The rows that still wait must not keep the batches that they share with those that are written.
        for bucket in self._buckets.values():
            self._bytes_pending += bucket.part_from_others()


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, a few at a time where they are large, so that a full buffer is flushed before the next."""
    step = max(1, _PART_BYTES_MAX * batch.num_rows // max(1, batch.nbytes))
    if step >= batch.num_rows:
        yield batch
        return
    yield from (batch.slice(begin, step) for begin in range(0, batch.num_rows, step))


class BucketBuffer(ABC):
    """Rows of one bucket that wait for their flush."""

    def __init__(self, table: TableHandle, partition: bytes, number: int, first_sequence_number: int) -> None:
        self._table = table
        self._partition = partition
        self._number = number
        self._next_sequence_number = first_sequence_number
        self._pending: list[ChosenRows] = []
        self.bytes_pending = 0
        self.has_files = False
        self.changelog: tuple[DataFile, ...] = ()

    def add(self, rows: ChosenRows) -> None:
        """Takes in rows behind all before."""
        self._pending.append(rows)
        self.bytes_pending += rows.nbytes

    def part_from_others(self) -> int:
        """Copies the waiting rows out of batches that other buckets have rows in, too; by how many bytes they grow."""
        grown = 0
        for number, rows in enumerate(self._pending):
            if rows.positions is not None:
                own = self._pending[number] = ChosenRows(rows.gathered())
                grown += own.nbytes - rows.nbytes
        self.bytes_pending += grown
        return grown

    def give_up(self) -> Iterator[pa.RecordBatch]:
        """The waiting rows with their sequence numbers, for another writer."""
        return (self._numbered(rows.gathered()) for rows in self._take_pending())

    @abstractmethod
    def flush(self) -> None:
        """Writes the waiting rows."""

    @abstractmethod
    def finish(self) -> tuple[DataFile, ...]:
        """Writes the waiting rows and closes all files."""

    @abstractmethod
    def abort(self) -> None:
        """Deletes all files."""

    def _numbered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the next sequence numbers in front, unless they are numbered."""
        if SEQUENCE_NUMBER in rows.schema.names:
            return rows
        numbers = np.arange(self._next_sequence_number, self._next_sequence_number + rows.num_rows, dtype=np.int64)
        self._next_sequence_number += rows.num_rows
        return rows.add_column(0, SEQUENCE_NUMBER, pa.array(numbers))

    def _take_pending(self) -> list[ChosenRows]:
        pending, self._pending, self.bytes_pending = self._pending, [], 0
        return pending

    def _writer(self, *, changelog: bool = False, prefix: str = "") -> RollingWriter:
        return RollingWriter(
            self._table,
            self._partition,
            self._number,
            level=0,
            source=FileSource.APPEND,
            first_sequence_number=self._next_sequence_number,
            changelog=changelog,
            prefix=prefix,
        )


class _KeyedBucket(BucketBuffer):
    """A bucket of a primary-key table: every flush makes new files, sorted, one row per key.

    With `keeps_changelog`, separate files contain every written row, sorted in the same way.
    """

    def __init__(
        self,
        table: TableHandle,
        partition: bytes,
        number: int,
        first_sequence_number: int,
        *,
        keeps_changelog: bool,
    ) -> None:
        super().__init__(table, partition, number, first_sequence_number)
        self._keeps_changelog = keeps_changelog
        self._merge: MergeFunction = merge_function(table.schema)
        order = sequence_order(table.options)
        # Rows wait in order of arrival, so that a stable sort by key leaves each key's versions oldest first.
        self._order = SequenceOrder(order.user_columns, order.descending, by_arrival=True)
        self._writers: list[RollingWriter] = []
        self._files: list[DataFile] = []

    def flush(self) -> None:
        """Sorts and merges the pending rows and writes level-0 files, and all rows as changelog if it is kept."""
        if not self._pending:
            return
        pending = self._take_pending()
        first = None if SEQUENCE_NUMBER in pending[0].batch.schema.names else self._next_sequence_number
        if first is not None:
            self._next_sequence_number += sum(rows.num_rows for rows in pending)
        merged, every = self._new_writer(), self._new_writer(changelog=True) if self._keeps_changelog else None
        for part in sorted_parts(pending, self._table.schema.key_type, self._order, first_number=first):
            rows = self._merge(part)
            check_storable(self._table.schema, rows)
            merged.write(rows)
            if every is not None:
                every.write(part.rows)
        self._files += merged.finish()
        if every is not None:
            self.changelog += every.finish()

    def _new_writer(self, *, changelog: bool = False) -> RollingWriter:
        """A writer whose files `abort` deletes."""
        self._writers.append(self._writer(changelog=changelog))
        return self._writers[-1]

    def finish(self) -> tuple[DataFile, ...]:
        self.flush()
        if len(self._files) > 1 and self._table.options.snapshot_ordering:
            joined = self._new_writer()
            self._files = join_flushes(self._table, self._partition, self._number, self._files, joined)
        return tuple(self._files)

    def abort(self) -> None:
        for writer in self._writers:
            writer.abort()


class _AppendBucket(BucketBuffer):
    """A bucket of an append table: one file stays open over all flushes, rows keep their order."""

    def __init__(self, table: TableHandle, partition: bytes, number: int, first_sequence_number: int) -> None:
        super().__init__(table, partition, number, first_sequence_number)
        self._open = self._writer()

    def flush(self) -> None:
        for rows in self._take_pending():
            self._open.write(rows.gathered(self._table.schema.row_type.names))
        self._open.close_row_group()

    def finish(self) -> tuple[DataFile, ...]:
        self.flush()
        return self._open.finish()

    def abort(self) -> None:
        self._open.abort()


class _PostponedBucket(BucketBuffer):
    """Rows that get their bucket later: one file stays open over all flushes, rows keep their order, none is merged."""

    def __init__(self, table: TableHandle, partition: bytes, first_sequence_number: int, write_id: str) -> None:
        super().__init__(table, partition, POSTPONED_BUCKET, first_sequence_number)
        self._open = self._writer(prefix=postponed_prefix(write_id))

    def flush(self) -> None:
        for rows in self.give_up():
            check_storable(self._table.schema, rows)
            self._open.write(rows)
        self._open.close_row_group()

    def finish(self) -> tuple[DataFile, ...]:
        self.flush()
        return self._open.finish()

    def abort(self) -> None:
        self._open.abort()
