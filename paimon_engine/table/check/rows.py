"""Do the rows of data files keep what the manifests say of them?

Each live file is read completely, as a task, in the columns it was written with:

1. number of rows, range of sequence numbers, row kinds, first and last key (`table.files.entry_check`, as in every
   read);
2. all rows belong to the partition of the file, and to its bucket: by their keys where the number of buckets is fixed,
   by the hash index where it is dynamic;
3. keys ascend within the file, and a key comes once; postponed files have no order; where a file holds its keys once
   more in front of the rows, they are the same;
4. no value is outside the bounds of its column's statistics, and nulls and delete records are as many as counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.env import Env
from paimon_engine.errors import NotFoundError, naming
from paimon_engine.executor import Executor, Failed
from paimon_engine.format import parquet
from paimon_engine.format.binary_row import decode_row
from paimon_engine.format.hash_index import Hashes
from paimon_engine.format.parquet_page_sizes import check_page_sizes
from paimon_engine.merge.keys import normalise_keys
from paimon_engine.meta.blobs import is_blob_file
from paimon_engine.meta.clustered_keys import ends_type
from paimon_engine.meta.cut_bounds import cut_values, may_be_cut, upper
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.row_tracking import statistics_columns, stores_row_ids, with_tracking
from paimon_engine.meta.schema import KEY_PREFIX, VALUE_KIND, BucketMode, TableSchema
from paimon_engine.meta.stats import (
    FORMAT_STATS,
    ColumnStats,
    SimpleStats,
    StatsCollector,
    from_simple_stats,
    parse_stats_mode,
)
from paimon_engine.progress import OnProgress, counting
from paimon_engine.table.check.findings import FINDINGS, problem_of
from paimon_engine.table.files.blob_file import BlobFile
from paimon_engine.table.files.bucketing import bucket_numbers, partition_codes
from paimon_engine.table.files.data_file import BucketLocation, data_file_path, read_data_file, read_stored_keys
from paimon_engine.table.files.external import store_of
from paimon_engine.table.files.file_filter import counts_nan, is_float
from paimon_engine.table.files.hash_index import key_hashes, read_hashes
from paimon_engine.table.reach.reachability import with_branch_paths
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.types import AtomicType, RowType, has_char

_NO_KEYS: Final = (
    "has no columns {}, as paimon-rust writes files; newer Java and others read it, Java 0.9 refuses to merge it if it "
    "is a Parquet file, and a compaction that rewrites it puts them in"
)
_CUT_BOUND: Final = (
    "column {}: its largest value is cut to microseconds in the manifest, as pypaimon writes it; filters still find "
    "its rows here, but readers that trust the bound may not, and a compaction that rewrites the file notes it rightly"
)
_NOT_IN_ORDER: Final = (
    "its rows are not in the order of {}: filters on them read more of it; a compaction that rewrites it sorts them"
)
_CUT_PARTITION: Final = (
    "partition column {}: its value is cut to microseconds in the manifest, as pypaimon writes it; every reader gives "
    "the cut value, and a compaction that rewrites the file keeps that one"
)
_NULL_PARTITION: Final = (
    "its partition has a null in another form than Java writes, as pypaimon does: every reader gives the null, but "
    "lists the partition apart from that of Java's files"
)
_RETRACTING: Final = [1, 3]
"""Row kinds −U and −D."""


@dataclass(frozen=True)
class FileToRead:
    """A live file, the branch that reaches it, and the hash index of its bucket where buckets are dynamic."""

    branch: str
    entry: ManifestEntry
    hash_index: IndexFile | None = None


@dataclass(frozen=True)
class FileFindings:
    """What is wrong with the rows of the file at `path`, and notes that are not damage."""

    path: str
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class _FileCheckTask:
    table: PlainTable
    entry: ManifestEntry
    path: str
    hash_index: IndexFile | None


def read_rows(
    table: TableHandle,
    files: Sequence[FileToRead],
    executor: Executor,
    *,
    on_progress: OnProgress | None = None,
) -> Iterator[FileFindings]:
    """What each of the files is like."""
    tasks = []
    for file in files:
        entry = file.entry
        # A file is read with the very schema that it was written with.
        plain = replace(with_branch_paths(table, file.branch).plain(), schema_id=entry.file.schema_id)
        path = data_file_path(table, entry.partition, entry.bucket, entry.file)
        tasks.append(_FileCheckTask(plain, entry, path, file.hash_index))
    listener = counting(on_progress, "verify", len(tasks))
    outcomes = executor.map(_look_at, tasks, config=table.config, on_done=listener)
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, Failed):
            yield FileFindings(task.path, [problem_of(outcome)])
        else:
            yield outcome.value


def _look_at(env: Env, task: _FileCheckTask) -> FileFindings:
    try:
        return _check_file(task.table.load(env), task)
    except NotFoundError:
        return FileFindings(task.path)  # reported already, as a missing file
    except FINDINGS as error:
        return FileFindings(task.path, [str(error)])


def _check_file(table: TableHandle, task: _FileCheckTask) -> FileFindings:
    """Reads the complete file and compares its rows with the manifest."""
    file = task.entry.file
    if is_blob_file(file):
        # Its index and every value, each with a checksum; a manifest has nothing else of it.
        with closing(
            BlobFile(table, BucketLocation(task.path.rpartition("/")[0], task.entry.partition), file)
        ) as blobs:
            blobs.check()
        return FileFindings(task.path)
    if stores_row_ids(file):
        table = replace(table, schema=with_tracking(table.schema))
    schema = table.schema
    has_keys = bool(schema.primary_keys)
    columns = schema.row_type
    try:
        hashes = None if task.hash_index is None else read_hashes(table, task.hash_index)
    except FINDINGS:
        hashes = None  # reported already
    if file.format == "parquet":
        with store_of(table, task.path).open(task.path) as stream:
            check_page_sizes(stream, parquet.footer(stream, task.path), task.path, trusts_footer=False)
    # Postponed rows have no order.
    has_order = task.entry.bucket >= 0
    ordered_by = ends_type(schema, file.level) if has_keys and has_order else None
    check = _FileCheck(task.entry, schema, ordered_by=ordered_by, hashes=hashes)
    location = BucketLocation(task.path.rpartition("/")[0], task.entry.partition)
    twice = has_keys and not schema.table_options.thin_files
    with closing(read_stored_keys(table, location, file)) as keys:
        stored = _Taking(keys)
        if twice and not stored.has_columns:
            twice = False
            check.note(_NO_KEYS.format(", ".join(KEY_PREFIX + name for name in schema.key_type.names)))
        stored_rows = read_data_file(
            table, location, file, columns.names, with_system_columns=has_keys, is_sorted=has_order, as_stored=True
        )
        for batch in stored_rows:
            check.add(batch)
            if twice and batch.num_rows:
                check.hold_against(stored.take(batch.num_rows), batch)
    with naming(f"{task.path}: statistics in its manifest"):
        check.finish()
    return FileFindings(task.path, check.problems, check.notes)


class _Taking:
    """Batches of one file in other shares than those in which they come."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    @property
    def has_columns(self) -> bool:
        """Whether the first batch has any, if there is one."""
        self._left = next(self._batches, None) if self._left is None else self._left
        return self._left is None or self._left.num_columns > 0

    def take(self, count: int) -> pa.RecordBatch:
        """The next rows; fewer at the end."""
        parts, found = [], 0
        while found < count:
            batch = next(self._batches, None) if self._left is None else self._left
            if batch is None:
                break
            parts.append(batch.slice(0, count - found))
            self._left = batch.slice(count - found) if batch.num_rows > count - found else None
            found += parts[-1].num_rows
        return pa.concat_batches(parts) if parts else pa.record_batch([])


def _has_null(key_type: RowType, columns: Sequence[pa.Array]) -> bool:
    """Whether a key is null where it must not be."""
    return any(column.null_count and not field.type.nullable for field, column in zip(key_type, columns, strict=True))


class _FileCheck:
    """Sees the batches of one file, in order."""

    def __init__(
        self, entry: ManifestEntry, schema: TableSchema, *, ordered_by: RowType | None, hashes: Hashes | None
    ) -> None:
        self._entry = entry
        self._hashes = hashes
        self._file = entry.file
        self._schema = schema
        self._ordered_by = ordered_by
        self._is_by_key = ordered_by is not None and ordered_by == schema.key_type
        self._last: pa.RecordBatch | None = None
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._rows = 0
        self._retracting = 0
        self._is_misplaced = False
        self._has_other_keys = False
        columns = schema.row_type
        modes = [parse_stats_mode("full")] * len(columns.fields)
        # Of the three, ORC's way gathers most and widens nothing.
        self._stats = StatsCollector([field.type for field in columns], modes, FORMAT_STATS["orc"])

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes in a batch; system columns first, where the table has keys."""
        if batch.num_rows == 0:
            return
        self._stats.add(batch.select(self._schema.row_type.names))
        if self._schema.primary_keys:
            kinds = pc.is_in(batch[VALUE_KIND], value_set=pa.array(_RETRACTING, pa.int8()))
            self._retracting += pc.sum(kinds).as_py() or 0
        if self._ordered_by is not None and not self._problems:
            self._order(self._ordered_by, batch.select(self._ordered_by.names))
        self._check_bucket_of_rows(batch)
        self._rows += batch.num_rows

    def hold_against(self, stored: pa.RecordBatch, batch: pa.RecordBatch) -> None:
        """Compares the keys in front of the rows with those in the rows just added."""
        key_type = self._schema.key_type
        keys = batch.select(key_type.names)
        if stored.num_rows != keys.num_rows:
            self._problems.append("lacks keys in front of its rows")
            return
        columns = [one.cast(other.type) for one, other in zip(stored.columns, keys.columns, strict=True)]
        if _has_null(key_type, columns) or _has_null(key_type, keys.columns):
            self._problems.append("a key is null")
            return
        types = [field.type for field in key_type]
        differing = np.flatnonzero(normalise_keys(columns, types) != normalise_keys(keys.columns, types))
        if len(differing) and not self._has_other_keys:
            self._has_other_keys = True
            row = self._rows - batch.num_rows + int(differing[0])
            self._problems.append(f"row {row} has another key than the one in front of it")

    def _check_bucket_of_rows(self, batch: pa.RecordBatch) -> None:
        """Notes the first row of the batch that belongs to another partition or bucket, or is not in the hash index."""
        schema, entry = self._schema, self._entry
        _, partitions = partition_codes(schema, batch)
        if partitions != [entry.partition]:
            self._check_other_partitions(partitions)
        if self._hashes is not None and not self._is_misplaced:
            unknown = np.flatnonzero(~np.isin(key_hashes(schema, batch), self._hashes))
            if len(unknown):
                self._is_misplaced = True
                self._problems.append(
                    f"the key of row {self._rows + int(unknown[0])} is not in the bucket's hash index"
                )
        is_fixed = schema.bucket_mode is BucketMode.FIXED and entry.bucket >= 0 and entry.total_buckets > 0
        if not is_fixed or self._is_misplaced:
            return
        found = bucket_numbers(schema.with_options({"bucket": str(entry.total_buckets)}), batch)
        elsewhere = np.flatnonzero(found != entry.bucket)
        if len(elsewhere):
            self._is_misplaced = True
            row = int(elsewhere[0])
            self._problems.append(f"row {self._rows + row} belongs to bucket {found[row]}, not to {entry.bucket}")

    def _check_other_partitions(self, partitions: Sequence[bytes]) -> None:
        columns = self._schema.partition_type
        types = [field.type for field in columns]
        cut = [field.name for field in columns if may_be_cut(field.type)]
        if cut and {cut_values(types, partition) for partition in partitions} == {self._entry.partition}:
            self.note(_CUT_PARTITION.format(", ".join(cut)))
        elif [decode_row(types, one) for one in partitions] == [decode_row(types, self._entry.partition)]:
            self.note(_NULL_PARTITION)
        else:
            self._problems.append("has rows of another partition")

    def _order(self, columns: RowType, rows: pa.RecordBatch) -> None:
        """Keys must ascend; another order only makes filters faster, so a row out of order is no problem of its own."""
        if _has_null(columns, rows.columns):
            self._problems.append("a key is null")
            return
        with_last = rows if self._last is None else pa.concat_batches([self._last, rows])
        normal: npt.NDArray[Any] = normalise_keys(with_last.columns, [field.type for field in columns])
        # 0.0 and −0.0 are two keys to Java, and one here.
        may_repeat = not self._is_by_key or any(map(is_float, columns))
        ascends = normal[1:] >= normal[:-1] if may_repeat else normal[1:] > normal[:-1]
        wrong = np.flatnonzero(~ascends)
        if len(wrong) and self._is_by_key:
            row = int(wrong[0]) + 1 + self._rows - (0 if self._last is None else 1)
            self._problems.append(f"its keys do not ascend at row {row}")
        elif len(wrong):
            self.note(_NOT_IN_ORDER.format(", ".join(columns.names)))
        self._last = rows.slice(rows.num_rows - 1)

    def note(self, what: str) -> None:
        """Adds a note on the file."""
        self._notes.append(what)

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file, each thing once."""
        return list(dict.fromkeys(self._problems))

    @property
    def notes(self) -> list[str]:
        """Notes on the file, each once."""
        return list(dict.fromkeys(self._notes))

    def finish(self) -> None:
        """Holds all rows against the manifest.

        Raises: CorruptTableError if its statistics cannot be decoded.
        """
        file, columns = self._file, self._schema.row_type
        found = dict(zip(columns.names, self._stats.finish(), strict=True))
        if self._schema.primary_keys and file.delete_row_count not in (None, self._retracting):
            what = f"has {self._retracting} delete records, its manifest says {file.delete_row_count}"
            self._problems.append(what)
        known = statistics_columns(self._schema, file)
        self._compare(known, file.value_stats, found)
        if self._schema.primary_keys:
            self._compare(self._schema.key_type, file.key_stats, found)

    def _compare(self, columns: RowType, stats: SimpleStats, found: dict[str, ColumnStats]) -> None:
        """Compares one set of statistics with what was found, column by column."""
        if not stats.null_counts:
            return
        listed = from_simple_stats([field.type for field in columns], stats)
        for field, noted in zip(columns, listed, strict=True):
            if not isinstance(field.type, AtomicType):
                continue
            actual = found[field.name]
            if noted.null_count not in (None, actual.null_count):
                what = f"has {actual.null_count} nulls, its statistics say {noted.null_count}"
                self._problems.append(f"column {field.name} {what}")
            # Where there is a NaN no bounds were gathered; those of ORC files leave it out, and count spaces of CHARs.
            is_other = not counts_nan(self._file) and (is_float(field) or has_char(field.type))
            if actual.min is None or is_other:
                continue
            if noted.max is not None and noted.max < actual.max <= upper(field.type, noted.max):
                self.note(_CUT_BOUND.format(field.name))
                continue
            for outside, bound in (
                (noted.min is not None and actual.min < noted.min, f"{actual.min!r}, below {noted.min!r}"),
                (noted.max is not None and actual.max > noted.max, f"{actual.max!r}, above {noted.max!r}"),
            ):
                if outside:
                    self._problems.append(f"column {field.name} has {bound}, the bound in its statistics")
