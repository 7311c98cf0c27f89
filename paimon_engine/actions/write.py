"""Write rows: append, upsert, overwrite; from Arrow in this process, from a DataFrame or files as tasks.

Rows from files are read by the tasks themselves, so that data never passes the driver. Each task's rows get sequence
numbers behind those of the tasks before it, so that the order of the files decides which row of a key is newer.
Rows of a DataFrame have no order; give the table a `sequence.field` if keys may repeat in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Annotated, Any, Final, Literal

import pyarrow as pa

from paimon_engine.action import Context, Phases, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError, UnsupportedError, shown
from paimon_engine.executor import ByGroup, Executor, TaskRows
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.schema import VALUE_KIND, BucketMode
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from paimon_engine.secrecy import check_address
from paimon_engine.specs import Address, ConditionText, Index, Name, PartitionValues, Spec, Texts, check_fields
from paimon_engine.table.commit.abort import all_messages, delete_uncommitted, interruptible, uncommitted
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, commit
from paimon_engine.table.commit.commit_callbacks import waiting_failures
from paimon_engine.table.commit.job_commit import look_up_commit
from paimon_engine.table.commit.origins import origin_now
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.commit.patience import Patience
from paimon_engine.table.files.commit_message import CommitMessage, MessageOrigin
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write.chain_overwrites import drop_outdated
from paimon_engine.table.write.grouping import KEYS_CHOOSE, key_groups
from paimon_engine.table.write.overwrites import overwrite_scope, overwrite_spec
from paimon_engine.table.write.part_writer import PART_SEQUENCES
from paimon_engine.table.write.repeated_writes import warn_of_earlier_commits, warn_of_later_commit
from paimon_engine.table.write.shuffled import WriteKeys, WritePart, WriteRests
from paimon_engine.table.write.source_files import plan_files, read_rows, source_bytes, write_files
from paimon_engine.table.write.source_table import SourceTable, plan_table, read_unit_rows, write_units
from paimon_engine.table.write.source_table import source_table as plan_source
from paimon_engine.table.write.writer import WriteState, rewrite_uncommitted, write_batches, write_state

_ORDERS: Final = 1 << 20
"""Parts of rows that can be prepared concurrently, each with a separate range of sequence numbers."""


TABLE: Final = "paimon"
"""The format of a source that is a table."""


@dataclass(frozen=True, slots=True)
class Write(Spec):
    """Write the rows of files, in the order given: paths or wildcards; `json` has one object a line.

    With `format` `paimon` the source is another table, `database.table` or the path of its directory: its latest rows,
    or those at a tag or snapshot; all tasks read the same snapshot. `overwrite` replaces instead of adding: `{}` the
    partitions that rows come for (the whole table where it has none), `{"column": value}` the partitions with that
    value. `row_kind_column` names a column with `+I -U +U -D`. `watermark` (epoch milliseconds) and `properties` go
    into the snapshot.
    """

    source: Annotated[Address | Sequence[Address], "path or glob of the files, or a list of them; or a table"]
    format: Annotated[
        Literal["parquet", "orc", "avro", "csv", "json", "paimon"], "their format; `paimon` for a table"
    ] = "parquet"
    overwrite: Annotated[PartitionValues | None, "replace these partitions; with {} those that rows come for"] = None
    row_kind_column: Annotated[Name | None, "column that says +I, -U, +U or -D of each row"] = None
    watermark: Annotated[
        int | None, "epoch milliseconds that the snapshot is at, unless it is at a later time already"
    ] = None
    properties: Annotated[Texts | None, "names and texts that the snapshot keeps"] = None
    source_columns: Annotated[Sequence[Name] | None, "columns of a source table to read; all without it"] = None
    source_where: Annotated[ConditionText | None, "SQL condition over the columns of a source table"] = None
    source_tag: Annotated[Name | None, "tag of a source table to read at"] = None
    source_snapshot: Annotated[Index | None, "snapshot of a source table to read at"] = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for a wrong field, or an address that is empty or contains a password."""
        check_fields(self)
        addresses = [self.source] if isinstance(self.source, str) else self.source
        for address in addresses:
            if not address.strip():
                # A store would take it for the directory of the process.
                raise InvalidArgumentError(
                    f"write: source={address!r} names nothing; give the path of a file, or a wildcard"
                )
            check_address(address, "the source")
        given = [name for name in _OF_TABLES if getattr(self, name) is not None]
        if self.format != TABLE and given:
            raise InvalidArgumentError(f"write: {given[0]} is for a source table; it needs format='{TABLE}'")
        if self.format == TABLE and len(addresses) != 1:
            raise InvalidArgumentError("write: a source table is one; name it alone")

    @property
    def source_name(self) -> str:
        """Name or path of the source table."""
        return self.source if isinstance(self.source, str) else self.source[0]

    def read_of_source(self) -> ReadRequest:
        """What is read of the source table. Raises: InvalidArgumentError."""
        columns = None if self.source_columns is None else tuple(self.source_columns)
        return ReadRequest(columns=columns, where=self.source_where, tag=self.source_tag, snapshot=self.source_snapshot)


_OF_TABLES: Final = ("source_columns", "source_where", "source_tag", "source_snapshot")


@dataclass(frozen=True, slots=True)
class WriteResult(Result):
    """What a write did; `status` is `committed`, `already_done` (by an earlier attempt) or `noop` (no rows).

    `warnings` say what stays of an earlier job whose work it did again, or which later commit made it `already_done`.
    `source_snapshot_id` is the snapshot of a source table that was read.
    """

    status: str
    snapshot_id: int | None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    buckets: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    source_snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class CommitAttributes(Spec):
    """Under which name a write commits, and what its snapshot says besides.

    A name given by the caller makes repeating the write safe. `earlier_user` made the same write before.
    """

    user: str | None = None
    identifier: int = BATCH_COMMIT_IDENTIFIER
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    earlier_user: str | None = None


# ── the three ways in ───────────────────────────────────────────────────────────────────────────


@waiting_failures()
def write_arrow(
    table: TableHandle,
    batches: Iterable[pa.RecordBatch],
    *,
    overwrite: Mapping[str, Any] | None = None,
    kind_column: str | None = None,
    name: CommitAttributes | None = None,
) -> WriteResult:
    """Writes batches in this process and commits them.

    Raises: InvalidArgumentError if rows do not fit; UnsupportedError; ConflictError; StorageError.
    """
    is_once = table.schema.bucket_mode is BucketMode.CROSS_PARTITION and not isinstance(batches, Sequence)
    # Rows whose keys others move meanwhile get buckets again; those of a stream are kept in memory for that.
    source = _Replay(batches) if is_once else batches
    remembering = table.remembering()

    def produce(state: WriteState) -> list[CommitMessage]:
        return write_batches(remembering, state, source, kind_column=kind_column)

    return _write(table, produce, overwrite, name or CommitAttributes(), by_partition=True)


class _Replay:
    """Batches that can be read again although they come only once."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._coming = iter(batches)
        self._seen: list[pa.RecordBatch] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._seen
        for batch in self._coming:
            self._seen.append(batch)
            yield batch


@waiting_failures()
def write_frame(
    table: TableHandle,
    frame: Any,
    executor: Executor,
    *,
    overwrite: Mapping[str, Any] | None = None,
    kind_column: str | None = None,
    name: CommitAttributes | None = None,
) -> WriteResult:
    """Writes a DataFrame: its tasks write large parts of buckets directly; the remaining rows are shuffled by bucket.

    Raises: as `write_arrow`.
    """

    def produce(state: WriteState) -> list[CommitMessage]:
        return _write_shuffled(table, state, frame, executor, kind_column)

    return _write(table, produce, overwrite, name or CommitAttributes())


@action
def write(context: Context, spec: Write) -> WriteResult:
    """Writes the rows of files, or of another table, as tasks and commits them.

    Raises: as `write_arrow`; NotFoundError if no file matches, or there is no such table.
    """
    table, executor = context.table, context.executor
    name = CommitAttributes(
        context.commit_user, watermark=spec.watermark, properties=spec.properties, earlier_user=context.earlier_user
    )
    sources: list[SourceTable] = []

    def produce(state: WriteState) -> list[CommitMessage]:
        tasks: Sequence[Any]
        with context.phases("plan"):
            if spec.format != TABLE:
                tasks, run, read = plan_files(table, state, spec.source, spec.format, spec.row_kind_column), *_OF_FILES
            else:
                # Whatever is written again has to be of the same snapshot.
                sources[:] = sources or [plan_source(context.other_table(spec.source_name), spec.read_of_source())]
                tasks, run, read = plan_table(table, state, sources[0], spec.row_kind_column), *_OF_UNITS
        # Where files of one commit have no order, too, all rows of a key go to one task.
        if len(tasks) > 1 and (table.schema.bucket_mode in KEYS_CHOOSE or table.options.snapshot_ordering):
            kind_column = None if table.options.rowkind_field else VALUE_KIND
            with context.phases("write"):
                return _write_shuffled(table, state, TaskRows(read, tasks), executor, kind_column)
        outcomes = context.run_tasks("write", run, tasks)
        return all_messages(table, outcomes)

    done = _write(table, produce, spec.overwrite, name, phases=context.phases)
    return replace(done, source_snapshot_id=sources[0].snapshot_id) if sources else done


_OF_FILES: Final[tuple[Callable[..., list[CommitMessage]], Callable[..., Iterator[pa.RecordBatch]]]] = (
    write_files,
    read_rows,
)
_OF_UNITS: Final[tuple[Callable[..., list[CommitMessage]], Callable[..., Iterator[pa.RecordBatch]]]] = (
    write_units,
    read_unit_rows,
)


def planned_bytes(table: TableHandle, spec: Write, source: SourceTable | None = None) -> int:
    """Bytes of the source, files or a table, and of the table where its keys have to be read; from metadata alone.

    Raises: NotFoundError if no file matches; StorageError.
    """
    size_bytes = source_bytes(spec.source, table.config) if source is None else source.size_bytes
    if table.schema.bucket_mode is BucketMode.CROSS_PARTITION:
        size_bytes += sum(entry.file.size_bytes for entry in live_entries(table, latest_snapshot(table)))
    return size_bytes


def write_is_done(table: TableHandle, spec: Write, commit_user: str) -> bool:
    """Whether an attempt under that name has committed the write already."""
    kind = CommitKind.APPEND if spec.overwrite is None else CommitKind.OVERWRITE
    return look_up_commit(table, commit_user, kind, BATCH_COMMIT_IDENTIFIER).done is not None


def _write_shuffled(
    table: TableHandle, state: WriteState, source: Any, executor: Executor, kind_column: str | None
) -> list[CommitMessage]:
    """Messages of rows that are shuffled: by key where keys choose buckets, else by bucket, unless they fill files."""
    if table.schema.bucket_mode not in KEYS_CHOOSE:
        split = WritePart(state, kind_column)
        outcomes = executor.shuffle(source, split=split, run=WriteRests(state), config=table.config)
        return all_messages(table, outcomes)
    groups = key_groups(table.schema, kind_column, executor.parallelism)
    run = WriteKeys(replace(state, assigners=groups.assigners), kind_column)
    outcomes = executor.shuffle(source, split=ByGroup(groups), run=run, config=table.config)
    return all_messages(table, outcomes)


# ── preparing ───────────────────────────────────────────────────────────────────────────────────


def prepare_arrow(
    table: TableHandle, batches: Iterable[pa.RecordBatch], *, kind_column: str | None = None, order: int = 0
) -> list[CommitMessage]:
    """Writes batches in this process and leaves the commit to others; after a failure no file is left.

    Of rows of one key that are prepared side by side, those of the higher `order` are newer.

    Raises: InvalidArgumentError; UnsupportedError where only the commit can tell which bucket a key is in;
    StorageError.
    """
    _check_order(order)
    state, origin = _state_to_prepare(table, by_partition=True)
    state = replace(state, sequence_offset=order * PART_SEQUENCES)
    return [replace(item, origin=origin) for item in write_batches(table, state, batches, kind_column=kind_column)]


def prepare_frame(
    table: TableHandle, frame: Any, executor: Executor, *, kind_column: str | None = None
) -> list[CommitMessage]:
    """As `prepare_arrow`, of a DataFrame, by tasks."""
    state, origin = _state_to_prepare(table)
    split, run = WritePart(state, kind_column), WriteRests(state)
    with interruptible(table):
        outcomes = executor.shuffle(frame, split=split, run=run, config=table.config)
    return [replace(message, origin=origin) for message in all_messages(table, outcomes)]


def _check_order(order: Any) -> None:
    """Raises InvalidArgumentError unless it is a number of a part."""
    if type(order) is not int or not 0 <= order < _ORDERS:
        raise InvalidArgumentError(f"order={shown(order)}: give an integer from 0 to {_ORDERS - 1}")


def _state_to_prepare(table: TableHandle, *, by_partition: bool = False) -> tuple[WriteState, MessageOrigin]:
    if table.schema.bucket_mode in KEYS_CHOOSE:
        raise UnsupportedError(
            f"{table.paths.root}: rows cannot be prepared apart from their commit, since which bucket a key is in is "
            "decided among all writers at the commit; write them, or give the table a fixed number of buckets "
            "('bucket') and all partition columns in its primary key"
        )
    # First the table's definition, then its state: the commit checks what is committed in between.
    origin = origin_now(table)
    return write_state(table.remembering(), by_partition=by_partition), origin


# ── writing and committing ──────────────────────────────────────────────────────────────────────


def _write(
    table: TableHandle,
    produce: Callable[[WriteState], list[CommitMessage]],
    overwrite: Mapping[str, Any] | None,
    name: CommitAttributes,
    *,
    by_partition: bool = False,
    phases: Phases | None = None,
) -> WriteResult:
    """Writes and commits what `produce` makes; calls it again if others changed the index of buckets.

    `by_partition`: it writes in this process, which can look up partitions as rows of them come.
    """
    begun = time.monotonic()
    table = table.remembering()
    kind = CommitKind.APPEND if overwrite is None else CommitKind.OVERWRITE
    job = look_up_commit(table, name.user, kind, name.identifier)
    if job.done is not None:
        drop_outdated(table, job.done, is_first=False)
        later = warn_of_later_commit(table, job.done, name.identifier)
        return WriteResult("already_done", job.done.id, seconds=time.monotonic() - begun, warnings=later)
    spec = None if overwrite is None else overwrite_spec(table, overwrite)
    state = write_state(table, replacing=spec is not None, by_partition=by_partition)
    begun_on = state.read.snapshot if state.read is not None and state.read.snapshot is not None else job.checked_up_to
    work = work_begins(table, begun_on)
    with interruptible(table):
        messages = produce(state)
    patience = Patience(table.options)
    for tries in count(1):
        scope = None if spec is None else overwrite_scope(table, spec, messages)
        is_empty = not messages and (scope is None or scope.partitions is not None)
        if is_empty and not table.options.creates_empty_snapshots:
            return WriteResult("noop", None, seconds=time.monotonic() - begun)
        request = replace(
            job.request(messages),
            overwrite=scope,
            watermark=name.watermark,
            properties=name.properties,
            read=state.read,
            begun=work,
        )
        with (phases or Phases())("commit"):
            outcome = _commit_or_clean(table, request, keeps_conflicting=not patience.is_over(tries))
        if isinstance(outcome, Committed):
            drop_outdated(table, outcome.snapshot, is_first=not outcome.by_other_attempt)
            stays = warn_of_earlier_commits(table, name.earlier_user, kind, name.identifier)
            return replace(_result(outcome, messages, time.monotonic() - begun), warnings=stays)
        state, messages = _assigned_again(table, outcome, request, produce)
    raise AssertionError("the last try gives an outcome or raises")


def _result(committed: Committed, messages: Sequence[CommitMessage], seconds: float) -> WriteResult:
    files = [file for message in messages for file in message.new_files]
    return WriteResult(
        status=committed.status,
        snapshot_id=committed.snapshot.id,
        rows=rows_in(files),
        files=len(files),
        bytes=sum(file.size_bytes for file in files),
        buckets=len({(message.partition, message.bucket) for message in messages}),
        seconds=seconds,
    )


def _assigned_again(
    table: TableHandle,
    conflict: Conflict,
    request: CommitRequest,
    produce: Callable[[WriteState], list[CommitMessage]],
) -> tuple[WriteState, list[CommitMessage]]:
    """The same rows in the buckets that they belong into now, and the files of the messages in conflict deleted.

    With dynamic buckets the rows come from the files written before, and only those of partitions in conflict. Where
    keys are unique over all partitions, these files also hold rows at their old partitions, so everything is written
    again.

    Raises: as `write_batches`; the messages' files are deleted then.
    """
    partitions = {item.partition for item in conflict.conflicts}
    again = [message for message in request.messages if message.partition in partitions]
    kept = [message for message in request.messages if message.partition not in partitions]
    try:
        state = write_state(table, replacing=request.overwrite is not None)
        if table.schema.bucket_mode is BucketMode.CROSS_PARTITION:
            written = produce(state)
        else:
            written = rewrite_uncommitted(table, state, again)
    except BaseException:
        delete_uncommitted(table, request.messages)
        raise
    delete_uncommitted(table, again)
    if request.read is None or request.read.hash_files is None:
        return state, written
    # What is kept was placed by the index that was read at first.
    before = [file for file in request.read.hash_files if file.partition not in partitions]
    now = [file for file in state.read.hash_files or () if file.partition in partitions]
    return replace(state, read=replace(state.read, hash_files=(*before, *now))), [*kept, *written]


def _commit_or_clean(
    table: TableHandle, request: CommitRequest, *, keeps_conflicting: bool = False
) -> Committed | Conflict:
    """Commits; deletes the data files where they are certainly in no snapshot.

    A conflict over where keys belong is given back with `keeps_conflicting`, and the files stay.

    Raises: as `commit`; ConflictError for other conflicts.
    """
    with uncommitted(table, request.messages):
        outcome = commit(table, request)
    if isinstance(outcome, Conflict):
        if keeps_conflicting and table.schema.bucket_mode in KEYS_CHOOSE and not outcome.is_lost:
            return outcome
        delete_uncommitted(table, request.messages)
        why = "configure clean-ups to keep younger files" if outcome.is_lost else "others wrote while this write ran"
        raise ConflictError(f"{table.paths.root}: {outcome.conflicts[0].reason}; {why}, run it again")
    if outcome.by_other_attempt:
        delete_uncommitted(table, request.messages)
    return outcome
