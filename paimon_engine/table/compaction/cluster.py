"""Clustering: the rows of a bucket come into new files in the order of a curve.

1. Samples of the columns say how the curve runs, and where it is cut into ranges of equal size.
2. Every row is read once, and gets its position on the curve and its range.
3. Each range is sorted by position and written by a separate task, in bounded memory.

Rows that are deleted by vectors stay behind. New files are numbered along the curve.

Source: `RangeShuffle`, `SortUtils`, `TableSorter` of the Java library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.layout import cast_rows
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.merge.curves import Curve, range_numbers, range_stops, to_column
from paimon_engine.merge.keys import Keys
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import stores_row_ids
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import RowMask, ScanOptions, bucket_location, read_data_file
from paimon_engine.table.files.files_ahead import files_ahead, in_turn
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.files.row_ids import for_rewriting
from paimon_engine.table.files.sorting import sort_rows
from paimon_engine.table.state.handle import PlainTable
from paimon_engine.types import to_arrow_schema

SAMPLE_ROWS: Final = 1 << 17
"""Rows of a bucket that are sampled: some 30 for each rank of a curve, enough to cut it into thousands of ranges."""
_POSITION: Final = "__paimon_curve_position"
_RANGE: Final = "__paimon_curve_range"
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""Multiplying by this spreads row numbers evenly, so that patterns in the order of rows do not bias the sample."""


@dataclass(frozen=True, slots=True)
class FilesTask:
    """Files of one bucket to be read, and the index files with their vectors. `unit` is the number of the bucket."""

    unit: int
    partition: bytes
    bucket: int
    files: tuple[DataFile, ...]
    vectors: tuple[IndexFile, ...]


@dataclass(frozen=True, slots=True)
class ClusterUnit:
    """How the rows of one bucket are ordered, and which of all ranges belong to it: from `first_range` on."""

    partition: bytes
    bucket: int
    total_buckets: int
    first_range: int
    curve: Curve
    stops: Keys


def files_tasks(unit: int, task: CompactTask, vectors: tuple[IndexFile, ...], task_bytes: int) -> list[FilesTask]:
    """The files of a bucket, divided among tasks that read about so many bytes."""
    groups: list[list[DataFile]] = [[]]
    size_bytes = 0
    for file in task.input_files:
        if groups[-1] and size_bytes + file.size_bytes > task_bytes:
            groups.append([])
            size_bytes = 0
        groups[-1].append(file)
        size_bytes += file.size_bytes
    return [FilesTask(unit, task.partition, task.bucket, tuple(files), vectors) for files in groups]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Reads about one in `steps[unit]` rows of some columns."""

    table: PlainTable
    columns: tuple[str, ...]
    steps: tuple[int, ...]

    def __call__(self, env: Env, task: FilesTask) -> pa.Table:
        """The sample of the task's files, deleted rows left out.

        Raises: NotFoundError, CorruptTableError.
        """
        table = self.table.load(env)
        location = bucket_location(table, task.partition, task.bucket)
        vectors = BucketVectors(table, task.partition, task.bucket, task.vectors)
        step = np.uint64(self.steps[task.unit])
        schema = to_arrow_schema(table.schema.row_type.project(self.columns))
        found: list[pa.RecordBatch] = []
        for file in task.files:
            numbers = np.arange(file.row_count, dtype=np.uint64)
            # The high bits are those that all bits of the number went into.
            chosen = np.flatnonzero((numbers * _SPREAD >> np.uint64(32)) % step == 0)
            found += read_data_file(
                table,
                location,
                file,
                self.columns,
                with_system_columns=False,
                mask=RowMask(vectors.deleted_rows(file.name), RowBitmap.of(chosen)),
            )
        return pa.Table.from_batches([cast_rows(rows, schema) for rows in found], schema)


def plan_unit(
    task: CompactTask, curve: Curve, samples: Sequence[pa.Table], range_count: int, first_range: int
) -> tuple[ClusterUnit, int]:
    """How the rows of a bucket are ordered, and how many ranges they are divided into."""
    sample = pa.concat_tables(samples).combine_chunks()
    batches = sample.to_batches() or [pa.RecordBatch.from_pylist([], sample.schema)]
    fitted = curve.fitted(batches[0])
    stops = range_stops(fitted.positions(batches[0]), range_count)
    unit = ClusterUnit(task.partition, task.bucket, task.total_buckets, first_range, fitted, stops)
    return unit, len(stops) + 1


@dataclass(frozen=True, slots=True)
class RowsWithCurvePosition:
    """Reads files with two more columns: the position of each row on the curve, and its range."""

    table: PlainTable
    columns: tuple[str, ...]
    units: tuple[ClusterUnit, ...]

    def __call__(self, env: Env, task: FilesTask) -> Iterator[pa.RecordBatch]:
        """The rows of the task's files. Raises: NotFoundError, CorruptTableError."""
        table = for_rewriting(self.table.load(env))
        location = bucket_location(table, task.partition, task.bucket)
        vectors = BucketVectors(table, task.partition, task.bucket, task.vectors)
        unit = self.units[task.unit]
        plain = to_arrow_schema(table.schema.row_type)
        kind = pa.binary() if unit.curve.order == "order" else pa.int64()
        schema = plain.append(pa.field(_POSITION, kind)).append(pa.field(_RANGE, pa.int32()))
        scan = ScanOptions(ahead=files_ahead(table, in_turn(location.directory, task.files)))
        for file in task.files:
            mask = RowMask(vectors.deleted_rows(file.name))
            names = table.schema.row_type.names
            for rows in read_data_file(table, location, file, names, with_system_columns=False, mask=mask, scan=scan):
                if not rows.num_rows:
                    continue
                positions = unit.curve.positions(rows.select(list(self.columns)))
                ranges = unit.first_range + range_numbers(positions, unit.stops)
                columns = [*cast_rows(rows, plain).columns, to_column(positions), pa.array(ranges.astype(np.int32))]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def range_of(rows: pa.RecordBatch) -> pa.Array:
    """The range of each row that `RowsWithCurvePosition` has read."""
    return rows[_RANGE]


@dataclass(frozen=True, slots=True)
class RangeWriting:
    """Writes the rows of one range in order; the message only adds files."""

    table: PlainTable
    units: tuple[ClusterUnit, ...]
    memory_bytes: int

    def __call__(self, env: Env, number: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, CommitMessage]:
        """The number of the bucket among the units, and the files; on failure they are deleted.

        Raises: UnsupportedError, StorageError.
        """
        table = for_rewriting(self.table.load(env))
        index = bisect_right([unit.first_range for unit in self.units], number) - 1
        unit = self.units[index]
        schema = to_arrow_schema(table.schema.row_type)
        writer = RollingWriter(table, unit.partition, unit.bucket, level=0, source=FileSource.COMPACT)
        try:
            for rows in sort_rows(batches, _POSITION, self.memory_bytes):
                writer.write(cast_rows(rows, schema))
            written = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return index, CommitMessage(unit.partition, unit.bucket, unit.total_buckets, compact_after=written)


def numbered_along(parts: Sequence[CommitMessage], task: CompactTask) -> list[CommitMessage]:
    """The parts with their rows numbered one after another, within the numbers that the old files have.

    Rows that store their numbers keep them.
    """
    number = min(file.min_sequence_number for file in task.input_files)
    found = []
    for part in parts:
        files: list[DataFile] = []
        for file in part.compact_after:
            if stores_row_ids(file):
                files.append(file)
                continue
            files.append(replace(file, min_sequence_number=number, max_sequence_number=number + file.row_count - 1))
            number += file.row_count
        found.append(replace(part, compact_after=tuple(files)))
    return found
