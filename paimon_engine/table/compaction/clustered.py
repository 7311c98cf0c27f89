"""Carrying out a compaction of files that are in the order of other columns than the key.

1. The keys of level 0 are read, and searched for in the files above: these are not in the order of keys, so their key
   columns are read, once for each few million keys. Rows that are found are marked in deletion vectors; `first-row`
   leaves the new row out instead.
2. The rows of level 0 are merged by key, and sorted in bounded memory. Files that are in order already are merged with
   them as they are read.

Delete records have done their work then: they are dropped, where Java keeps them in the new file.

Source: `ClusteringCompactManager`, `ClusteringKeyIndex`, `ClusteringFileRewriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.layout import BATCH_LIMIT, BatchLimit, cast_rows
from paimon_engine.lsm.clustered import ClusteredBucket
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.lsm.sections import Section, files_of
from paimon_engine.merge.curves import to_column
from paimon_engine.merge.functions import check_storable
from paimon_engine.merge.keys import Keys, are_among, join_keys, normalise_keys
from paimon_engine.merge.records import drop_retracts
from paimon_engine.meta.clustered_keys import has_same_order, order_columns
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import RowMask, ScanOptions, bucket_location, read_data_file
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.files.sorting import sort_rows
from paimon_engine.table.read.reader import merge_section
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import to_arrow_schema

KEYS_AT_ONCE: Final = 1 << 22
"""Keys that are searched for in one pass over the files."""
_SORTED_BATCHES: Final = 8
"""Memory of a sort, in batches of the limit: a quarter of a gigabyte for the usual one."""
_PLACE: Final = "__paimon_place_in_order"
_POSITION: Final = "__paimon_position_in_file"


class ClusteredRows:
    """The rows of a bucket, those of level 0 merged; what they replace is marked in `vectors`."""

    def __init__(
        self, table: TableHandle, partition: bytes, bucket: int, vectors: BucketVectors, limit: BatchLimit = BATCH_LIMIT
    ) -> None:
        """Nothing is read yet."""
        self._table = table
        self._location = bucket_location(table, partition, bucket)
        self._vectors = vectors
        self._scan = ScanOptions(limit)
        self._keeps_old = table.options.merge_engine == "first-row"
        self._known: Keys | None = None

    def replace(self, level_0: Iterable[Section], upper: Sequence[DataFile]) -> None:
        """Marks the rows of the upper files whose keys are in level 0; with `first-row`, remembers these keys.

        Raises: NotFoundError, CorruptTableError.
        """
        waiting: list[Keys] = []
        known: list[Keys] = []
        for keys in self._new_keys(level_0) if upper else ():
            waiting.append(keys)
            if sum(map(len, waiting)) >= KEYS_AT_ONCE:
                known += self._search(np.unique(join_keys(waiting)), upper)
                waiting = []
        if waiting:
            known += self._search(np.unique(join_keys(waiting)), upper)
        if known:
            self._known = np.unique(join_keys(known))

    def merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        """One row per key of a section of level 0, without deletes, and without rows that `first-row` leaves out."""
        names, limit = self._table.schema.row_type.names, self._scan.limit
        for rows in merge_section(self._table, self._location, section, names, limit=limit):
            check_storable(self._table.schema, rows)
            kept = drop_retracts(rows)
            if self._known is not None and kept.num_rows:
                kept = kept.filter(pa.array(~are_among(self._keys_of(kept), self._known)))
            yield kept

    def of_run(self, run: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        """The rows of upper files that are valid, one file after another, without deletes."""
        for file in run:
            mask = RowMask(self._vectors.marked_rows(file.name))
            names = self._table.schema.row_type.names
            for rows in self._read(file, names, with_system_columns=True, mask=mask):
                yield drop_retracts(rows)

    def all_of(self, bucket: ClusteredBucket) -> Iterator[pa.RecordBatch]:
        """The rows of all files, in any order."""
        self.replace(bucket.level_0, bucket.upper)
        for section in bucket.level_0:
            yield from self.merged(section)
        yield from self.of_run(bucket.upper)

    def _new_keys(self, level_0: Iterable[Section]) -> Iterator[Keys]:
        """The keys of the records of level 0, with those of deletes; `ignore-delete` is for deletes from before it."""
        ignores, names = self._table.options.ignore_delete, self._table.schema.trimmed_primary_keys
        for file in files_of(level_0):
            for rows in self._read(file, names, with_system_columns=ignores):
                found = drop_retracts(rows) if ignores else rows
                if found.num_rows:
                    yield self._keys_of(found)

    def _search(self, wanted: Keys, upper: Sequence[DataFile]) -> list[Keys]:
        """Marks the rows of these ascending keys; with `first-row` gives the keys that are there."""
        known: list[Keys] = []
        names = self._table.schema.trimmed_primary_keys
        for file in upper:
            positions: list[npt.NDArray[np.int64]] = []
            mask = RowMask(self._vectors.marked_rows(file.name))
            for rows in self._read(file, names, with_system_columns=False, mask=mask, position_column=_POSITION):
                keys = self._keys_of(rows)
                found = are_among(keys, wanted)
                if self._keeps_old and found.any():
                    known.append(np.unique(keys[found]))
                positions.append(np.asarray(rows[_POSITION])[found])
            if positions and not self._keeps_old:
                self._vectors.mark(file.name, RowBitmap.of(np.concatenate(positions)))
        return known

    def _read(self, file: DataFile, columns: Sequence[str], **how: Any) -> Iterator[pa.RecordBatch]:
        """Rows of a file, as `read_data_file` gives them."""
        return read_data_file(self._table, self._location, file, columns, scan=self._scan, **how)

    def _keys_of(self, rows: pa.RecordBatch) -> Keys:
        columns = self._table.schema.key_type
        return normalise_keys([rows[field.name] for field in columns], [field.type for field in columns])


def in_order(
    schema: TableSchema,
    batches: Iterable[pa.RecordBatch],
    limit: BatchLimit = BATCH_LIMIT,
    sorted_runs: Sequence[Iterator[pa.RecordBatch]] = (),
) -> Iterator[pa.RecordBatch]:
    """Rows with system columns in the order of files above level 0; `sorted_runs` have it already."""
    columns = order_columns(schema)
    assert columns is not None
    types = [field.type for field in columns]
    system = [pa.field(SEQUENCE_NUMBER, pa.int64()), pa.field(VALUE_KIND, pa.int8())]
    plain = pa.schema([*system, *to_arrow_schema(schema.row_type)])

    def placed(coming: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in coming:
            if rows.num_rows:
                places = normalise_keys([rows[name] for name in columns.names], types)
                yield cast_rows(rows, plain).append_column(_PLACE, to_column(places))

    memory_bytes = _SORTED_BATCHES * limit.size_bytes
    for rows in sort_rows(placed(batches), _PLACE, memory_bytes, [placed(run) for run in sorted_runs]):
        yield rows.select(plain.names)


def rewrite_clustered(table: TableHandle, task: CompactTask, index_files: tuple[IndexFile, ...]) -> CommitMessage:
    """Carries a task out whose rows come into the order of other columns; on failure the new files are deleted.

    Raises: NotFoundError if an input file is missing; CorruptTableError, StorageError, UnsupportedError.
    """
    vectors = BucketVectors(table, task.partition, task.bucket, index_files)
    source = ClusteredRows(table, task.partition, task.bucket, vectors, task.limit)
    level_0 = [section for group in task.rewrites for section in group if not section[0][0].level]
    writers: list[RollingWriter] = []
    try:
        source.replace(level_0, task.lookups)
        for group in task.rewrites:
            writer = RollingWriter(
                table,
                task.partition,
                task.bucket,
                level=task.output_level,
                source=FileSource.COMPACT,
                row_group_bytes=task.row_group_bytes,
            )
            writers.append(writer)
            for rows in _group_rows(table, source, group, task.limit):
                writer.write(rows)
        after = [file for writer in writers for file in writer.finish()]
        vectors.drop(file.name for file in task.rewritten_files)
        new_index_files, deleted_index_files = vectors.finish()
    except BaseException:
        for writer in writers:
            writer.abort()
        vectors.abort()
        raise
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=task.input_files,
        compact_after=tuple(after),
        new_index_files=new_index_files,
        deleted_index_files=deleted_index_files,
    )


def _group_rows(
    table: TableHandle, source: ClusteredRows, group: Sequence[Section], limit: BatchLimit
) -> Iterator[pa.RecordBatch]:
    """The rows of a group in order."""
    runs = [run for section in group if section[0][0].level for run in section]
    schemas = {file.schema_id: table.schema_of(file.schema_id) for run in runs for file in run}
    ordered = [run for run in runs if all(has_same_order(schemas[file.schema_id], table.schema) for file in run)]
    unordered = [run for run in runs if run not in ordered]

    def to_be_sorted() -> Iterator[pa.RecordBatch]:
        for section in group:
            if not section[0][0].level:
                yield from source.merged(section)
        for run in unordered:
            yield from source.of_run(run)

    return in_order(table.schema, to_be_sorted(), limit, [source.of_run(run) for run in ordered])
