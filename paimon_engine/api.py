"""The facade that people type: `Table` and its verbs. Each verb is one call of an action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_engine import actions, inspect
from paimon_engine.clean_up_verbs import CleanUpVerbs
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError, UnsupportedError, shown
from paimon_engine.executor import Executor
from paimon_engine.maintenance_verbs import MaintenanceVerbs
from paimon_engine.meta.names import checked_user
from paimon_engine.meta.schema import VALUE_KIND, TableSchema
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_engine.predicate import Condition
from paimon_engine.progress import OnProgress
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.read.reader import read_schema
from paimon_engine.table.state import warehouse as tables
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import choose_snapshot, latest_snapshot_id
from paimon_engine.types import to_arrow_schema
from paimon_engine.verbs import MomentLike, time_of
from paimon_engine.version_verbs import VersionVerbs

if TYPE_CHECKING:
    from paimon_engine.inspect.waits import Wait
    from paimon_engine.meta.schema_change import SchemaChange
    from paimon_engine.table.files.commit_message import CommitMessage


class Table(MaintenanceVerbs, CleanUpVerbs, VersionVerbs):
    """One table. Verbs look at the store again each time; the schema is that of the moment the table was opened."""

    def __init__(self, handle: TableHandle, executor: Executor, system: str | None = None) -> None:
        """Use `Catalog.table` or `open_table`. `system` names a system table, whose rows are read instead."""
        self._source = handle
        self._executor = executor
        self._system = system

    @property
    def _handle(self) -> TableHandle:
        """The table itself, for all that is more than reading rows."""
        if self._system is not None:
            raise UnsupportedError(f"${self._system} is a system table: it can only be read")
        return self._source

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._source.paths.root

    @property
    def schema(self) -> TableSchema:
        """Columns, keys and options; of a system table those of the table that it describes."""
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
        earlier_user: str | None = None,
    ) -> actions.write.WriteResult:
        """Writes and commits an Arrow table, record batch or reader, a data frame of pandas or polars, or one of Spark.

        A Spark DataFrame is written by tasks of its session if the table has no `SparkExecutor`.
        `row_kinds` is an array of `+I -U +U -D`, one per row, or the name of a column that contains them.
        `overwrite={}` replaces the partitions that rows come for (all rows of an unpartitioned table),
        `{"column": value}` those partitions. A `commit_user` makes repeating the call safe: it commits once, or
        once for each `commit_identifier`, which a stream counts up.
        The snapshot keeps `properties`, and `watermark` (epoch milliseconds) unless it is at a later one already.
        `earlier_user` is the `commit_user` of a write that is done again on purpose: `warnings` of the result say which
        of its rows are not replaced.

        Raises: InvalidArgumentError if rows do not fit; UnsupportedError; ConflictError; StorageError.
        """
        name = actions.write.CommitAttributes(commit_user, commit_identifier, watermark, properties, earlier_user)
        kind_column, batches = self._rows_to_write(data, row_kinds)
        if batches is None:
            frame, executor = self._frame_to_write(data)
            return actions.write.write_frame(
                self._handle, frame, executor, overwrite=overwrite, kind_column=kind_column, name=name
            )
        return actions.write.write_arrow(self._handle, batches, overwrite=overwrite, kind_column=kind_column, name=name)

    def update_columns(
        self,
        data: Any,
        *,
        commit_user: str | None = None,
        properties: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.update_columns.UpdateColumnsResult:
        """Gives some columns new values, in a table with `data-evolution.enabled`, and commits them.

        `data` is an Arrow table, record batch or reader, or a data frame of pandas or polars, with the column `_ROW_ID`
        of the rows, as the system table `$row_tracking` shows it, and the columns that are updated. Other rows keep
        their values, and other columns are neither read nor written. The rows come into memory.

        Raises: UnsupportedError for other tables; InvalidArgumentError if rows do not fit, or
        there is no row with an id; ConflictError; StorageError.
        """
        _, batches = self._rows_to_write(data, None)
        if batches is None:
            raise InvalidArgumentError("a Spark DataFrame cannot update columns; give its rows: frame.toArrow()")
        from paimon_engine.action import Context

        context = Context(self._handle, self._executor, checked_user(commit_user), on_progress)
        return actions.update_columns.update_columns(context, actions.update_columns.NewValues(batches, properties))

    def prepare_write(self, data: Any, row_kinds: Any = None, *, order: int = 0) -> list[CommitMessage]:
        """Writes data files as `write` does, and leaves it to `commit` to make them a snapshot, or to `abort`.

        So many processes can write rows that appear at once. The messages go from one to another as JSON
        (`CommitMessage.to_json`, `from_json`); their files are orphans for clean-ups until they are committed.

        Where rows of one key are prepared side by side, the table's `sequence.field` decides which are newer; without
        one those of the higher `order`, 0 to 1,048,575. Of equal order nothing says it, as of two jobs that write at
        the same time; what is read then is what Java reads, and compactions leave it.
        Rows of a Spark DataFrame are numbered by its partitions, so that it takes no `order`.

        Raises: as `write`; UnsupportedError for tables whose keys choose their buckets (`bucket` = -1 with a primary
        key, or a key without a partition column).
        """
        kind_column, batches = self._rows_to_write(data, row_kinds)
        if batches is None:
            if order:
                raise InvalidArgumentError("order= is for rows that this process writes; a DataFrame has none")
            return actions.write.prepare_frame(self._handle, *self._frame_to_write(data), kind_column=kind_column)
        return actions.write.prepare_arrow(self._handle, batches, kind_column=kind_column, order=order)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        commit_user: str,
        kind: str = "APPEND",
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> actions.commit.CommitResult:
        """Makes one snapshot of changes that were prepared elsewhere; once for this user and `kind`.

        `kind` is `APPEND` or `COMPACT`; `watermark` and `properties` are as for `write`. Files of the messages stay
        whatever happens: they are the caller's. What `prepare_write` made is committed once, also under another user.

        Raises: InvalidArgumentError, also for messages of another table, of one that was dropped and created again, or
        of an earlier schema; ConflictError if files that the messages remove, or their own, were deleted, by an abort
        or a clean-up; StorageError.
        """
        return actions.commit.commit_messages(
            self._handle, messages, commit_user=commit_user, kind=kind, watermark=watermark, properties=properties
        )

    def abort(self, messages: Sequence[CommitMessage]) -> actions.commit.AbortResult:
        """Deletes the files of messages that will not be committed.

        What a snapshot, tag, branch or changelog has by now stays, so an abort after the commit deletes nothing. A
        commit after the abort is refused. Where something is deleted, an empty snapshot is made, which refuses a
        commit of these messages that is on its way. May be repeated.

        Raises: InvalidArgumentError for messages of another table; StorageError.
        """
        return actions.commit.abort_messages(self._handle, messages, self._executor)

    def keep_messages(self, messages: Sequence[CommitMessage]) -> str:
        """Stores messages in a file of the table, if they are too large to be passed on; returns its name.

        `forget_messages` deletes it; else the removal of orphan files does.
        """
        from paimon_engine.table.files.kept_messages import keep_messages

        return keep_messages(self._handle, messages)

    def kept_messages(self, name: str) -> list[CommitMessage]:
        """The messages that `keep_messages` stored.

        Raises: NotFoundError if they were deleted; InvalidArgumentError if it is not such a name.
        """
        from paimon_engine.table.files.kept_messages import kept_messages

        return kept_messages(self._handle, name)

    def forget_messages(self, name: str) -> None:
        """Deletes what `keep_messages` stored; it may be deleted already. Files of the messages stay."""
        from paimon_engine.table.files.kept_messages import forget_messages

        forget_messages(self._handle, name)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: MomentLike | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """All rows, merged: of the latest snapshot, or of one chosen by id, tag or time.

        `where` is a SQL condition over the columns, or an expression: `(col("k") > 1) & col("s").like("a%")`.
        `timestamp` is epoch milliseconds, a datetime (a naive one is local time) or an age such as `7 d`. An empty
        table gives no rows.

        `incremental=(from, to)` gives what changed after `from` up to `to`, two snapshot ids or two tags. With
        `with_row_kinds` a first column `rowkind` says `+I` or `+U`. Rows that went are not shown; the system table
        `$audit_log`, read in the same way, shows them as `-U` and `-D`.

        `options` are for this read: `scan.*` ways to travel in time, `incremental-between` and its scan mode.

        Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError; ConflictError if the table was
        dropped and created again since it was opened.
        """
        schema, batches = self._read(self._request(locals()))
        return pa.Table.from_batches(batches, schema)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: MomentLike | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """As `to_arrow`, as a stream: memory stays bounded by runs × batch."""
        schema, batches = self._read(self._request(locals()))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_spark(
        self,
        columns: Sequence[str] | None = None,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: MomentLike | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """As `to_arrow`, a lazy Spark DataFrame in the session of the table's `SparkExecutor`.

        The snapshot is chosen now: the DataFrame stays at it, as long as its files exist. A tag
        keeps them: `create_tag(name, time_retained="1 d")`, then `to_spark(tag=name)`; once the snapshot has expired,
        actions fail with Spark's own error, `FAILED_READ_FILE.FILE_NOT_EXIST`, wherever Spark reads files itself.
        Those are the files that need no merge, in which it skips columns and rows that a query does not need; all
        others are read by the engine in Spark tasks, for which `columns` and `where` say the same. Filters on
        partition columns drop files of either kind, see `docs/spark.md`.

        Raises: as `to_arrow`; InvalidArgumentError without a `SparkExecutor`; UnsupportedError for timestamps of more
        than 6 digits; SparkError.
        """
        request = self._request(locals())
        if not _is_spark(self._executor):
            raise InvalidArgumentError(
                "to_spark needs a Spark session: open the table by Catalog(..., executor=SparkExecutor(session))"
            )
        from paimon_engine.spark.read import read_frame

        return read_frame(self._executor, self._source, request, self._system)

    def export(
        self,
        target: str,
        format: str = "parquet",  # noqa: A002 - what users of files call it
        columns: Sequence[str] | None = None,
        *,
        where: str | Condition | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        partition_by: Sequence[str] | None = None,
        if_exists: str = "error",
        storage_options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> actions.export_files.ExportResult:
        """Writes rows to files for other programs: `parquet`, `orc`, `avro`, `csv`, or `json` with one object a line.

        The target is one file; with `partition_by` a directory with directories `column=value`, of which `[]` makes one
        without these. It is there completely or not at all: on an object store a directory is complete when it has
        its file `_SUCCESS`. `if_exists` is `error`, `ignore`, or `replace`, which replaces a file, or a directory
        that an export has made. `storage_options` are those of the target's store, by default the table's.

        Raises: InvalidArgumentError; ConflictError if the target is there; NotFoundError; StorageError.
        """
        given, open_store = locals(), None
        if storage_options is not None:
            options = dict(storage_options)
            open_store = lambda address: EnvConfig(address, options).build()  # noqa: E731 - one of two, and short
        return self._act(
            actions.export_files.export_files, actions.export_files.ExportFiles, given, open_store=open_store
        )

    def _request(self, given: Mapping[str, Any]) -> ReadRequest:
        """What is to be read; `given` are the arguments of a verb, `locals()` at its begin.

        Raises: InvalidArgumentError.
        """
        asked = {name: value for name, value in given.items() if name not in ("self", "timestamp")}
        asked["columns"] = names_of(asked["columns"])
        asked["timestamp_ms"] = time_of(self._source, "timestamp", given["timestamp"])
        asked["options"] = {} if asked["options"] is None else asked["options"]
        return ReadRequest(**asked)

    def _rows_to_write(self, data: Any, row_kinds: Any) -> tuple[str | None, Iterator[pa.RecordBatch] | None]:
        """The column that contains row kinds, and the batches of the data; no batches of a Spark DataFrame."""
        from paimon_engine.table.write.row_input import batches_of, with_kinds

        kind_column = row_kinds if isinstance(row_kinds, str) else None
        if _is_frame(data):
            if row_kinds is not None and kind_column is None:
                raise InvalidArgumentError("rows of a DataFrame have no order: name the column with their kinds")
            return kind_column, None
        batches = batches_of(data)
        if row_kinds is None or kind_column is not None:
            return kind_column, batches
        return VALUE_KIND, with_kinds(batches, row_kinds)

    def _frame_to_write(self, frame: Any) -> tuple[Any, Executor]:
        """A Spark DataFrame with the table's kinds of timestamps, and what runs its tasks."""
        from paimon_engine.spark.dataframe import with_moments_of

        executor = self._executor if _is_spark(self._executor) else _executor_of(frame)
        return with_moments_of(frame, to_arrow_schema(self._handle.schema.row_type)), executor

    def _read(self, request: ReadRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if self._system is None:
            return open_read(self._source, request)
        from paimon_engine.inspect.system_tables import open_system_table

        return open_system_table(self._source, self._system, request)

    def alter(self, changes: Sequence[SchemaChange | Mapping[str, Any]]) -> actions.alter_table.AlterResult:
        """Makes the next schema: `AddColumn`, `RenameColumn`, `UpdateColumnType`, `SetOption` …, in order, all or none.

        No file is rewritten: old rows are read through the new schema, which this object has from now on.

        Raises: InvalidArgumentError, UnsupportedError naming what cannot change so; ConflictError; StorageError.
        """
        result = self._act(actions.alter_table.alter_table, actions.alter_table.AlterTable, locals())
        self._source = self._handle.newest()
        return result

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot; None before the first commit."""
        return latest_snapshot_id(self._handle)

    def snapshots(self, newer_than: int = 0) -> pa.Table:
        """Snapshots with an id above `newer_than`, oldest first; columns as in the system table `$snapshots`."""
        return inspect.snapshots(self._handle, newer_than)

    def look(self, wait: Wait) -> dict[str, Any] | None:
        """What a wait of `read_wait` waits for, as plain JSON values; None where it is not there yet.

        Raises: InvalidArgumentError, UnsupportedError for conditions that can never be met.
        """
        return wait.look(self._handle)

    def files(self, snapshot: int | None = None, tag: str | None = None) -> pa.Table:
        """Live data files; columns as in the system table `$files`."""
        asked = ReadRequest(snapshot=snapshot, tag=tag)
        return inspect.files(self._handle, choose_snapshot(self._handle, snapshot=asked.snapshot, tag=asked.tag))


def names_of(names: Sequence[str] | None, argument: str = "columns") -> tuple[str, ...] | None:
    """Names that were given as the argument, as a value that does not change; None if they were not given.

    Raises: InvalidArgumentError for a value that is not a list of names, such as a single text.
    """
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidArgumentError(f"{argument}={shown(names)}: give a list of names")
    return tuple(names)


def _is_frame(data: Any) -> bool:
    """Whether the data is a Spark DataFrame; found out without importing pyspark for other data."""
    if not type(data).__module__.startswith("pyspark."):
        return False
    from paimon_engine.spark.dataframe import is_dataframe

    return is_dataframe(data)


def _executor_of(frame: Any) -> Executor:
    """Tasks in the session of a Spark DataFrame."""
    from paimon_engine.spark.executor import SparkExecutor

    return SparkExecutor(frame.sparkSession)


def _is_spark(executor: Executor) -> bool:
    """Whether tasks run in a Spark session; found out without importing pyspark."""
    return any(kind.__module__.startswith("paimon_engine.spark.") for kind in type(executor).__mro__)
