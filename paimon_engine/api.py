"""The facade that people type: `Table` and its verbs. Each verb is one call of an action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from paimon_engine import inspect
from paimon_engine.actions.alter_table import AlterResult, AlterTable, alter_table
from paimon_engine.actions.analyze import Analyze, AnalyzeResult, analyze
from paimon_engine.actions.commit import CommitResult, commit_messages
from paimon_engine.actions.compact import Compact, CompactResult, compact
from paimon_engine.actions.compact_manifests import (
    CompactManifests,
    CompactManifestsResult,
    compact_manifests,
)
from paimon_engine.actions.delete_rows import DeleteRows, DeleteRowsResult, delete_rows
from paimon_engine.actions.drop_partition import (
    DropPartition,
    DropPartitionResult,
    ExpirePartitions,
    drop_partition,
    expire_partitions,
)
from paimon_engine.actions.expire_snapshots import ExpireResult, ExpireSnapshots, expire_snapshots
from paimon_engine.actions.mark_partition_done import (
    MarkPartitionDone,
    MarkPartitionDoneResult,
    mark_partition_done,
)
from paimon_engine.actions.remove_orphan_files import (
    RemoveOrphanFiles,
    RemoveOrphanFilesResult,
    RestoreOrphanFiles,
    remove_orphan_files,
    restore_orphan_files,
)
from paimon_engine.actions.rescale import Rescale, RescaleResult, rescale
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, RewriteFileIndexResult, rewrite_file_index
from paimon_engine.actions.verify import Verify, VerifyResult, verify
from paimon_engine.actions.write import CommitName, WriteResult, write_arrow, write_frame
from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.executor import Executor
from paimon_engine.inspect.system_tables import open_system_table
from paimon_engine.meta.schema import VALUE_KIND, TableSchema
from paimon_engine.meta.schema_change import SchemaChange
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_engine.predicate import Condition
from paimon_engine.progress import OnProgress
from paimon_engine.table import catalog as tables
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.open_read import open_read
from paimon_engine.table.read import read_schema
from paimon_engine.table.read_request import ReadRequest
from paimon_engine.table.row_input import batches_of, with_kinds
from paimon_engine.table.snapshots import choose_snapshot, latest_snapshot_id
from paimon_engine.version_verbs import VersionVerbs, epoch_ms


class Table(VersionVerbs):
    """One table. Verbs look at the store anew each time; the schema is that of the moment the table was opened."""

    def __init__(self, handle: TableHandle, executor: Executor, system: str | None = None) -> None:
        """Use `Catalog.table` or `open_table`. `system` names a system table, whose rows are read instead."""
        self._source = handle
        self._executor = executor
        self._system = system

    @property
    def _handle(self) -> TableHandle:
        """The table itself, for all that is more than reading rows."""
        if self._system is not None:
            raise UnsupportedError(f"${self._system} is a system table: it can be read, and no more")
        return self._source

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._source.paths.root

    @property
    def schema(self) -> TableSchema:
        """Columns, keys and options; of a system table those of the table that it tells of."""
        return self._source.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return read_schema(self._source, None) if self._system is None else self._read(ReadRequest())[0]

    def __repr__(self) -> str:
        mark = "" if self._system is None else f"{tables.SYSTEM_MARK}{self._system}"
        return f"Table({self.path + mark!r})"

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def write(
        self,
        data: Any,
        row_kinds: Any = None,
        overwrite: Mapping[str, Any] | None = None,
        *,
        commit_user: str | None = None,
        commit_identifier: int = BATCH_COMMIT_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Writes and commits an Arrow table, record batch or record-batch reader, or a Spark DataFrame.

        `row_kinds` is an array of `+I -U +U -D` beside the rows, or the name of a column that holds them.
        `overwrite={}` replaces the partitions that rows come for (all rows of an unpartitioned table),
        `{"column": value}` those partitions. A `commit_user` makes repeating the call safe: it commits once.
        The snapshot keeps `properties`, and `watermark` (epoch milliseconds) unless it is at a later one already.

        Raises: InvalidArgumentError if rows do not fit; UnsupportedError; ConflictError; StorageError.
        """
        name = CommitName(commit_user, commit_identifier, watermark, properties)
        if _is_frame(data):
            if row_kinds is not None and not isinstance(row_kinds, str):
                raise InvalidArgumentError("rows of a DataFrame have no order: name the column that holds their kinds")
            return write_frame(
                self._handle, data, self._executor, overwrite=overwrite, kind_column=row_kinds, name=name
            )
        batches = batches_of(data)
        kind_column = row_kinds if isinstance(row_kinds, str) else None
        if row_kinds is not None and kind_column is None:
            kind_column = VALUE_KIND
            batches = with_kinds(batches, row_kinds)
        return write_arrow(self._handle, batches, overwrite=overwrite, kind_column=kind_column, name=name)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        commit_user: str,
        kind: str = "APPEND",
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Makes one snapshot of changes that were prepared elsewhere; once for this user and `kind`.

        `kind` is `APPEND` or `COMPACT`; `watermark` and `properties` are as for `write`. Files of the messages stay
        whatever happens: they are the caller's.

        Raises: InvalidArgumentError; ConflictError if files that the messages remove are gone; StorageError.
        """
        return commit_messages(
            self._handle, messages, commit_user=commit_user, kind=kind, watermark=watermark, properties=properties
        )

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """All rows, merged: of the latest snapshot, or of one chosen by id, tag or time.

        `where` is a SQL condition over the columns, or an expression: `(col("k") > 1) & col("s").like("a%")`.
        `timestamp` is epoch milliseconds or a datetime (a naive one is
        local time). An empty table gives no rows.

        `incremental=(from, to)` gives what changed after `from` up to `to`, two snapshot ids or two tags. With
        `with_row_kinds` a first column `rowkind` says `+I` or `+U`. Rows that went are not shown; the system table
        `$audit_log`, asked in the same way, shows them as `-U` and `-D`.

        `options` are for this read: `scan.*` ways to travel in time, `incremental-between` and its scan mode.

        Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
        """
        moment = None if timestamp is None else epoch_ms(timestamp)
        names, given = _names(columns), dict(options or {})
        request = ReadRequest(names, where, snapshot, tag, moment, branch, incremental, with_row_kinds, given, limit)
        schema, batches = self._read(request)
        return pa.Table.from_batches(batches, schema)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """As `to_arrow`, as a stream: memory stays bounded by runs × batch."""
        moment = None if timestamp is None else epoch_ms(timestamp)
        names, given = _names(columns), dict(options or {})
        request = ReadRequest(names, where, snapshot, tag, moment, branch, incremental, with_row_kinds, given, limit)
        schema, batches = self._read(request)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _read(self, request: ReadRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if self._system is None:
            return open_read(self._source, request)
        return open_system_table(self._source, self._system, request)

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────

    def compact(
        self,
        full: bool = False,  # noqa: FBT001, FBT002 - reads well as compact(full=True), and is in use so
        where: str | Condition | None = None,
        *,
        dry_run: bool = False,
        buckets: Sequence[int] | None = None,
        partition_idle_time: str | None = None,
        max_bytes: int | None = None,
        max_buckets: int | None = None,
        max_seconds: float | None = None,
        round_bytes: int | None = None,
        task_bytes: int | None = None,
        task_memory_bytes: int | None = None,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> CompactResult:
        """Merges sorted runs (small files on append tables); `full` takes everything to the highest level.

        `where` chooses partitions, `partition_idle_time`, such as `1 d`, those to which nobody has written for so long,
        `buckets` numbers of buckets. With `max_bytes` of files to rewrite, `max_buckets` or `max_seconds` the buckets
        that cost readers most are done, in commits of about `round_bytes`, and `buckets_left` in the result says
        whether another run finds work. A bucket is split into tasks of about `task_bytes`, each of which merges in
        about `task_memory_bytes`; `Compact` tells more.

        The result tells files, bytes, rows and read amplification before and after, per bucket, and why buckets were
        skipped; a dry run plans the same and writes nothing.

        Raises: UnsupportedError, InvalidArgumentError, ConflictError, StorageError.
        """
        spec = Compact(
            full,
            None if where is None else str(where),
            dry_run,
            buckets=buckets,
            partition_idle_time=partition_idle_time,
            max_bytes=max_bytes,
            max_buckets=max_buckets,
            max_seconds=max_seconds,
            round_bytes=round_bytes,
            task_bytes=task_bytes,
            task_memory_bytes=task_memory_bytes,
        )
        return compact(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def delete(
        self,
        where: str | Condition,
        *,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> DeleteRowsResult:
        """Deletes the rows of an append table with deletion vectors that match; no data file is rewritten.

        Rows of primary-key tables are deleted by writing them with the kind -D.

        Raises: UnsupportedError, InvalidArgumentError, ConflictError, StorageError.
        """
        spec = DeleteRows(str(where))
        return delete_rows(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def rescale(
        self,
        where: str | Condition | None = None,
        *,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RescaleResult:
        """Gives all partitions, or those that `where` chooses, as many buckets as the option `bucket` says by now.

        Their files are written anew in one OVERWRITE commit, which conflicts with what others write meanwhile.

        Raises: UnsupportedError, ConflictError, StorageError.
        """
        spec = Rescale(None if where is None else str(where), dry_run)
        return rescale(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def rewrite_file_index(
        self,
        where: str | Condition | None = None,
        *,
        rebuild: bool = False,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RewriteFileIndexResult:
        """Gives data files the indexes that `file-index.<type>.columns` ask for now; no data is rewritten.

        `where` chooses partitions. Files that have just these indexes are left, unless `rebuild` asks for all.

        Raises: InvalidArgumentError, UnsupportedError, ConflictError, StorageError.
        """
        spec = RewriteFileIndex(None if where is None else str(where), rebuild, dry_run)
        return rewrite_file_index(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def alter(self, changes: Sequence[SchemaChange | Mapping[str, Any]]) -> AlterResult:
        """Makes the next schema: `AddColumn`, `RenameColumn`, `UpdateColumnType`, `SetOption` …, in order, all or none.

        No file is rewritten: old rows are read through the new schema, which this object has from now on.

        Raises: InvalidArgumentError, UnsupportedError naming what cannot change so; ConflictError; StorageError.
        """
        result = alter_table(self._handle, AlterTable(changes))
        self._source = self._handle.newest()
        return result

    def compact_manifests(
        self,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - reads well as compact_manifests(dry_run=True)
        *,
        commit_user: str | None = None,
    ) -> CompactManifestsResult:
        """Rewrites the lists of the table's files to few large ones; no data file is touched.

        The result tells manifests, bytes and entries before and after; a dry run plans the same and writes nothing.

        Raises: UnsupportedError, ConflictError, StorageError.
        """
        return compact_manifests(self._handle, CompactManifests(dry_run), commit_user=commit_user)

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> AnalyzeResult:
        """Counts the rows and gathers statistics of these columns, for query planners; a snapshot names them.

        All columns that are not nested by default; `columns=[]` counts rows only. The system table `$statistics`
        shows what was found. Beyond 65,535 distinct values their count is an estimate.

        Raises: InvalidArgumentError for a missing or nested column; UnsupportedError, ConflictError, StorageError.
        """
        spec = Analyze(_names(columns))
        return analyze(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | datetime | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - reads well as expire_snapshots(dry_run=True), and is in use so
    ) -> ExpireResult:
        """Deletes old snapshots and the files that nothing else reaches: tags, branches and consumers keep theirs.

        `older_than` is epoch milliseconds or a datetime; what is not given comes from the table's options.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        limit = None if older_than is None else epoch_ms(older_than)
        return expire_snapshots(self._handle, ExpireSnapshots(retain_max, retain_min, limit, dry_run), self._executor)

    def drop_partition(
        self, *partitions: Mapping[str, Any], dry_run: bool = False, commit_user: str | None = None
    ) -> DropPartitionResult:
        """Drops the partitions that equal one of those: values by column, all of the columns or some of them.

        Raises: InvalidArgumentError, ConflictError, StorageError.
        """
        return drop_partition(self._handle, DropPartition(partitions, dry_run), commit_user=commit_user)

    def expire_partitions(
        self,
        expiration_time: str | timedelta | None = None,
        *,
        strategy: str | None = None,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        max_num: int | None = None,
        dry_run: bool = False,
        commit_user: str | None = None,
    ) -> DropPartitionResult:
        """Drops the partitions older than `expiration_time`; what is not given comes from the options `partition.*`.

        Partitions whose values stand for no time are kept; `stopped` of the result names them.

        Raises: InvalidArgumentError, UnsupportedError, ConflictError, StorageError.
        """
        age = expiration_time
        if isinstance(age, timedelta):
            age = f"{age // timedelta(milliseconds=1)} ms"
        spec = ExpirePartitions(age, strategy, timestamp_pattern, timestamp_formatter, max_num, dry_run)
        return expire_partitions(self._handle, spec, commit_user=commit_user)

    def mark_partition_done(self, *partitions: Mapping[str, Any]) -> MarkPartitionDoneResult:
        """Writes a `_SUCCESS` file into the directory of each partition; each with a value for every column.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        return mark_partition_done(self._handle, MarkPartitionDone(partitions))

    def remove_orphan_files(
        self,
        older_than: int | datetime | None = None,
        *,
        dry_run: bool = False,
        quarantine: bool = False,
    ) -> RemoveOrphanFilesResult:
        """Deletes old files that no snapshot, tag, branch or changelog names; what jobs that died have left.

        `older_than` is epoch milliseconds or a datetime, a day ago by default: it must be older than the longest
        running job. With `quarantine` files are moved aside, and `restore_orphan_files` brings them back. Nothing goes
        where anything cannot be read; `stopped` says so.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        limit = None if older_than is None else epoch_ms(older_than)
        return remove_orphan_files(self._handle, RemoveOrphanFiles(limit, dry_run, quarantine), self._executor)

    def restore_orphan_files(self, quarantine: str) -> RemoveOrphanFilesResult:
        """Brings back what `remove_orphan_files(quarantine=True)` moved aside; `quarantine` is the name it gave.

        Raises: InvalidArgumentError, StorageError.
        """
        return restore_orphan_files(self._handle, RestoreOrphanFiles(quarantine))

    def verify(self, depth: str = "files", *, on_progress: OnProgress | None = None) -> VerifyResult:
        """Checks that the table is whole; `problems` of the result is empty for a sound one. Nothing is written.

        `depth` is `metadata`, `files` (also that data files are there, with their size, indexes and deletion vectors)
        or `rows` (also the order, key ranges and statistics of all rows).

        Raises: InvalidArgumentError for another depth; StorageError.
        """
        return verify(self._handle, Verify(depth), self._executor, on_progress=on_progress)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot; None before the first commit."""
        return latest_snapshot_id(self._handle)

    def snapshots(self) -> pa.Table:
        """All snapshots, oldest first; columns as in the system table `$snapshots`."""
        return inspect.snapshots(self._handle)

    def files(self, snapshot: int | None = None, tag: str | None = None) -> pa.Table:
        """Live data files; columns as in the system table `$files`."""
        return inspect.files(self._handle, choose_snapshot(self._handle, snapshot=snapshot, tag=tag))


def _is_frame(data: Any) -> bool:
    """Whether the data is a Spark DataFrame; asked without importing pyspark."""
    return type(data).__module__.startswith("pyspark.")


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(columns)
