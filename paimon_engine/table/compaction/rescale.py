"""Writing one bucket of a partition whose number of buckets changes, out of the rows of the old buckets.

The hash of a key modulo the old and the new number decides both buckets, so that only old buckets that are equal to the
new one modulo the greatest common divisor of the two numbers can hold its rows.

Rows keep their sequence numbers, and what the merge engine has made of them; nothing passes a writer a second time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.lsm.clustered import clustered_bucket
from paimon_engine.lsm.levels import key_order, level_count
from paimon_engine.lsm.sections import sections
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import check_storable, sequence_order
from paimon_engine.merge.records import drop_retracts
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.table.compaction.clustered import ClusteredRows, in_order
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.bucketing import bucket_numbers
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import RowMask, ScanOptions, bucket_location, read_data_file
from paimon_engine.table.files.files_ahead import files_ahead, in_turn
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.read.reader import merge_section
from paimon_engine.table.state.handle import PlainTable, TableHandle


@dataclass(frozen=True, slots=True)
class RescaleTask:
    """One new bucket: the files and vectors of the old buckets that may hold its rows, in order of these buckets."""

    table: PlainTable
    partition: bytes
    bucket: int
    files: Mapping[int, tuple[DataFile, ...]]
    vectors: Mapping[int, tuple[IndexFile, ...]]


def sources_of(bucket: int, buckets_before: int, buckets_after: int) -> list[int]:
    """Old buckets that may hold rows of a new one."""
    step = math.gcd(buckets_before, buckets_after)
    return list(range(bucket % step, buckets_before, step))


def rescale_bucket(env: Env, task: RescaleTask) -> CommitMessage:
    """Writes the new bucket's files; on failure they are deleted. The message removes nothing.

    Raises: NotFoundError if a file is missing; CorruptTableError, UnsupportedError, StorageError.
    """
    table = task.table.load(env)
    keyed = bool(table.schema.primary_keys)
    files = [file for members in task.files.values() for file in members]
    is_clustered = table.options.clustering_overrides_keys
    level = 1 if is_clustered else level_count(files, table.options.levels_of_keys()) - 1 if keyed else 0
    source = FileSource.COMPACT if keyed else FileSource.APPEND
    writer = RollingWriter(table, task.partition, task.bucket, level=level, source=source)
    try:
        read = _in_order if is_clustered else _merged if keyed else _appended
        for rows in read(table, task):
            writer.write(rows)
        written = tuple(writer.finish())
    except BaseException:
        writer.abort()
        raise
    return CommitMessage(task.partition, task.bucket, table.options.bucket, compact_after=written)


def _merged(table: TableHandle, task: RescaleTask) -> Iterator[pa.RecordBatch]:
    """Rows of the new bucket by key. A key is in one old bucket, so no merge is needed between these."""
    runs = [_of_old_bucket(table, task, number) for number in task.files]
    order = replace(sequence_order(table.options), by_arrival=True)
    for window in merge_runs(runs, table.schema.key_type, order):
        yield deduplicate(window)


def _in_order(table: TableHandle, task: RescaleTask) -> Iterator[pa.RecordBatch]:
    """Rows of the new bucket, where they are in the order of other columns than the key."""

    def found() -> Iterator[pa.RecordBatch]:
        for number, files in task.files.items():
            vectors = BucketVectors(table, task.partition, number, task.vectors.get(number, ()))
            rows = ClusteredRows(table, task.partition, number, vectors)
            for batch in rows.all_of(clustered_bucket(files, table.schema, table.schema_of)):
                yield _of_bucket(table, task.bucket, batch)

    return in_order(table.schema, found())


def _of_old_bucket(table: TableHandle, task: RescaleTask, number: int) -> Iterator[pa.RecordBatch]:
    location = bucket_location(table, task.partition, number)
    vectors = BucketVectors(table, task.partition, number, task.vectors.get(number, ()))
    names = table.schema.row_type.names
    for section in sections(task.files[number], key_order(table.schema.key_type), table.options.sort_spill_threshold):
        for rows in merge_section(table, location, section, names, vectors=vectors):
            check_storable(table.schema, rows)
            kept = _of_bucket(table, task.bucket, rows if table.options.is_chain_table else drop_retracts(rows))
            if kept.num_rows:
                yield kept


def _appended(table: TableHandle, task: RescaleTask) -> Iterator[pa.RecordBatch]:
    for number, files in task.files.items():
        location = bucket_location(table, task.partition, number)
        vectors = BucketVectors(table, task.partition, number, task.vectors.get(number, ()))
        ordered = sorted(files, key=lambda item: item.min_sequence_number)
        scan = ScanOptions(ahead=files_ahead(table, in_turn(location.directory, ordered)))
        for file in ordered:
            mask = RowMask(vectors.deleted_rows(file.name))
            names = table.schema.row_type.names
            for rows in read_data_file(table, location, file, names, with_system_columns=False, mask=mask, scan=scan):
                yield _of_bucket(table, task.bucket, rows)


def _of_bucket(table: TableHandle, bucket: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pa.array(np.equal(bucket_numbers(table.schema, rows), bucket)))
