"""Update columns: new values for some columns of rows that are named by their ids, in tables with data evolution.

Files of a table with data evolution may have some of the columns of a range of row ids. For each range with rows that
are updated, one file of just the updated columns is added beside the files that are there. Rows of the range for which
no value came keep theirs, which are read for that; of columns of BLOB, which have files of their own, only the new
values are written. No file is removed, and other columns are neither read nor written.

Each range is a task. One commit takes all new files or none. It conflicts if others have replaced files of a range
meanwhile, or have written one of the columns of it: then the new files are made again from what is there now.

Source: `DataEvolutionPartialWriteOperator` of the Java library (2.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paimon_engine.action import Context, Result, action_once
from paimon_engine.arrow_values import as_numbers, of_numbers
from paimon_engine.env import Env
from paimon_engine.errors import ConflictError, InvalidArgumentError, UnsupportedError
from paimon_engine.executor import Done, values
from paimon_engine.format.layout import BATCH_LIMIT, copied
from paimon_engine.meta.column_files import Group, blob_shares, column_groups
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.files_beside import vector_columns
from paimon_engine.meta.row_tracking import first_row_id
from paimon_engine.meta.schema import ROW_ID, VALUE_KIND
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.abort import commit_or_delete, delete_uncommitted, interruptible
from paimon_engine.table.commit.commit import Committed
from paimon_engine.table.commit.index_changes import check_indexes_of_columns
from paimon_engine.table.commit.own_files import WorkBegun, work_begins
from paimon_engine.table.files.columns_writer import ColumnsWriter
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import bucket_location
from paimon_engine.table.files.new_paths import check_files_writable
from paimon_engine.table.read.reader import column_group_rows
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import read_at_latest
from paimon_engine.table.write.row_input import RowInput
from paimon_engine.types import to_arrow

ROUNDS_MAX: Final = 4
"""Times that an update is begun, while others change the same rows."""

_NAMED_MAX: Final = 5
"""Row ids that a message names."""
_SLICE_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True)
class UpdateColumnsResult(Result):
    """What was updated; `status` is `committed`, `noop` (no rows) or `already_done`.

    `rows` are those that new values came for, deleted ones included; `files` and `bytes` those that were added.
    `conflicts` counts the buckets that others changed meanwhile.
    """

    status: str
    snapshot_id: int | None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    conflicts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _UpdateTask:
    """A range of row ids, its files, and new values of some of its rows, in the order of the ids in `_ROW_ID`."""

    table: PlainTable
    bucket: Bucket
    total_buckets: int
    group: Group
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class NewValues:
    """What is updated: batches with the column `_ROW_ID` and one or more of the table's, which are gone through once.

    The snapshot keeps `properties`.
    """

    batches: Iterable[pa.RecordBatch]
    properties: Mapping[str, str] | None = None


@action_once(CommitKind.APPEND, Maker.UPDATE_COLUMNS, UpdateColumnsResult)
def update_columns(context: Context, new: NewValues) -> UpdateColumnsResult:
    """Updates; with a `commit_user` once, however often it is called.

    Raises: UnsupportedError for tables without data evolution, and for VECTOR columns in files of their own;
    InvalidArgumentError if rows do not fit, or there is no row with an id; ConflictError if others kept changing the
    same rows; StorageError.
    """
    table = context.table.remembering()
    _check(table)
    rows = _ordered_rows(table, new.batches)
    if not rows.num_rows:
        return UpdateColumnsResult("noop", None)
    fields = frozenset(table.schema.row_type.field(name).id for name in rows.schema.names if name != ROW_ID)
    conflicts = 0
    for _ in range(ROUNDS_MAX):
        with context.phases("plan"):
            tasks, work = read_at_latest(table, partial(_plan, table, rows, fields))
        messages = _write_all(replace(context, table=table), tasks)
        needed: dict[Bucket, list[str]] = {}
        for task in tasks:
            needed.setdefault(task.bucket, []).extend(file.name for file in task.group)
        request = replace(
            context.job.request(messages),
            properties=new.properties,
            needed_files=needed,
            read_groups=needed,
            read_fields=fields,
            updated_fields=fields,
            begun=work,
        )
        with context.phases("commit"):
            outcome = commit_or_delete(table, request)
        if isinstance(outcome, Committed) and not outcome.by_other_attempt:
            files = [file for message in messages for file in message.new_files]
            return UpdateColumnsResult(
                outcome.status,
                outcome.snapshot.id,
                rows=rows.num_rows,
                files=len(files),
                bytes=sum(file.size_bytes for file in files),
                conflicts=conflicts,
            )
        if isinstance(outcome, Committed):
            return UpdateColumnsResult(outcome.status, outcome.snapshot.id)
        conflicts += len({(conflict.partition, conflict.bucket) for conflict in outcome.conflicts})
    raise ConflictError(
        f"{table.paths.root}: others changed the same rows in {ROUNDS_MAX} rounds; nothing is updated, run it later"
    )


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def _check(table: TableHandle) -> None:
    if not table.options.data_evolution_enabled:
        raise UnsupportedError(
            f"{table.paths.root}: columns of rows are updated in tables with 'data-evolution.enabled' = 'true'; in a "
            "table with a primary key write the rows, with 'merge-engine' = 'partial-update' some of their columns"
        )
    check_files_writable(table)


def _ordered_rows(table: TableHandle, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The rows in the order of their ids, their columns in the table's types, behind `_ROW_ID`."""
    found = [_row_batch(table, batch) for batch in batches]
    if not found:
        return pa.table({ROW_ID: pa.array([], pa.int64())})
    columns = {tuple(batch.schema.names) for batch in found}
    if len(columns) > 1:
        raise InvalidArgumentError(
            "the batches of an update have different columns: give all of them the same ones in the same order, or "
            "update twice"
        )
    rows = pa.Table.from_batches(found)
    ids = as_numbers(rows[ROW_ID].combine_chunks())
    if (ids[1:] > ids[:-1]).all():
        return rows
    order = np.argsort(ids, kind="stable")
    twice = ids[order][1:][ids[order][1:] == ids[order][:-1]]
    if len(twice):
        raise InvalidArgumentError(
            f"{ROW_ID} {_some(twice)}: new values come more than once for a row; leave one of them"
        )
    return rows.take(of_numbers(order, pa.int64()))


def _row_batch(table: TableHandle, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The ids and the columns of a batch, in the table's types. Raises: InvalidArgumentError, UnsupportedError."""
    if ROW_ID not in batch.schema.names:
        raise InvalidArgumentError(
            f"the rows of an update lack the column {ROW_ID}, which says which rows they are; read it from the system "
            "table $row_tracking"
        )
    names = [name for name in batch.schema.names if name != ROW_ID]
    if not names:
        raise InvalidArgumentError(f"the rows of an update have no column but {ROW_ID}; add those with new values")
    _check_columns(table, names)
    schema = table.schema
    given = replace(schema, row_type=schema.row_type.project(tuple(names)))
    ids = batch[ROW_ID]
    if not pa.types.is_integer(ids.type):
        raise InvalidArgumentError(f"column {ROW_ID} must have integers, not {ids.type}; cast it to int64")
    if ids.null_count:
        raise InvalidArgumentError(
            f"column {ROW_ID} has {ids.null_count} nulls: rows without an id cannot be updated; leave them out"
        )
    rows = RowInput(given).read(batch.select(names)).drop_columns([VALUE_KIND])
    return pa.RecordBatch.from_arrays([ids.cast(pa.int64()), *rows.columns], names=[ROW_ID, *rows.schema.names])


def _check_columns(table: TableHandle, names: Sequence[str]) -> None:
    """Raises: InvalidArgumentError, UnsupportedError naming a column that cannot be updated."""
    schema = table.schema
    unknown = [name for name in names if name not in schema.row_type]
    if unknown:
        raise InvalidArgumentError(
            f"the table has no column {', '.join(map(repr, unknown))}; its columns are "
            f"{', '.join(schema.row_type.names)}"
        )
    for name in names:
        if name in schema.partition_keys:
            raise InvalidArgumentError(f"column {name!r} is a partition column: rows do not move between partitions")
        if name in vector_columns(schema):
            # Java takes such values from the file of the oldest schema and the first columns, not from the newest file.
            raise UnsupportedError(
                f"column {name!r} is in files of its own ('vector.file.format'), and Java would not read the new "
                "ones; write the rows again with all columns"
            )


def _some(ids: NDArray[np.int64]) -> str:
    shown = ", ".join(map(str, ids[:_NAMED_MAX].tolist()))
    return shown if len(ids) <= _NAMED_MAX else f"{shown} and {len(ids) - _NAMED_MAX} more"


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────


def _plan(
    table: TableHandle, rows: pa.Table, fields: frozenset[int], snapshot: Snapshot | None
) -> tuple[list[_UpdateTask], WorkBegun]:
    """A task for each range of ids with rows that are updated.

    Raises: InvalidArgumentError if there is no row with an id.
    """
    work = work_begins(table, snapshot)
    ids = as_numbers(rows[ROW_ID].combine_chunks())
    found = np.zeros(len(ids), bool)
    plain, tasks = table.plain(), []
    for bucket, entries in by_bucket(live_entries(table, snapshot)).items():
        for group in column_groups(entry.file for entry in entries):
            first = first_row_id(group[0])
            if first is None:
                continue
            begin, end = np.searchsorted(ids, [first, first + group[0].row_count])
            if begin == end:
                continue
            found[begin:end] = True
            some = _apart(rows.slice(begin, end - begin))
            tasks.append(_UpdateTask(plain, bucket, entries[0].total_buckets, group, some))
    if not found.all():
        raise InvalidArgumentError(
            f"{table.paths.root} has no row with the {ROW_ID} {_some(ids[~found])}: it may have been overwritten, or "
            "its partition dropped; read the ids again from $row_tracking"
        )
    check_indexes_of_columns(table, snapshot, {task.bucket[0] for task in tasks}, fields)
    return tasks, work


def _apart(rows: pa.Table) -> pa.Table:
    """The rows in memory of their own: a slice goes to a task together with all that it is a slice of."""
    columns = [pa.chunked_array([copied(chunk) for chunk in column.chunks], column.type) for column in rows.columns]
    return pa.table(columns, names=rows.schema.names)


def _write_all(context: Context, tasks: Sequence[_UpdateTask]) -> list[CommitMessage]:
    with interruptible(context.table):
        outcomes = context.run_tasks("update", write_columns, tasks)
    try:
        return list(values(outcomes))
    except Exception:
        delete_uncommitted(context.table, [outcome.value for outcome in outcomes if isinstance(outcome, Done)])
        raise


def write_columns(env: Env, task: _UpdateTask) -> CommitMessage:
    """Writes the files of the updated columns of a range; after a failure no file is left.

    Raises: NotFoundError if a file is missing; CorruptTableError; StorageError.
    """
    table = task.table.load(env)
    first, count = first_row_id(task.group[0]) or 0, task.group[0].row_count
    writer = ColumnsWriter(table, *task.bucket, [name for name in task.rows.schema.names if name != ROW_ID])
    places = as_numbers(task.rows[ROW_ID].combine_chunks()) - first
    try:
        if writer.columns:
            for batch in _all_rows(table, task, writer.columns, places):
                writer.write(batch)
        for name, older in blob_shares(task.group, table.schema, table.schema_of, writer.blobs).items():
            _write_blobs(writer, name, task.rows[name], places, count, has_older=bool(older))
        files = writer.finish(first, count)
    except BaseException:
        writer.abort()
        raise
    return CommitMessage(*task.bucket, task.total_buckets, new_files=files)


def _write_blobs(
    writer: ColumnsWriter,
    name: str,
    values: pa.ChunkedArray,
    places: NDArray[np.int64],
    count: int,
    *,
    has_older: bool,
) -> None:
    """The values at their places; the other rows keep theirs, which are nulls if no older file has some."""

    def keep(rows: int) -> None:
        if has_older or not rows:
            writer.keep_blobs(name, rows)
        else:
            writer.write_blobs(name, pa.nulls(rows, values.type))

    done = begin = 0
    for chunk in values.chunks:
        here = places[begin : begin + len(chunk)]
        begin += len(chunk)
        cuts = np.flatnonzero(np.diff(here) != 1) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(chunk)]):
            if start == stop:
                continue
            keep(int(here[start]) - done)
            writer.write_blobs(name, chunk.slice(start, stop - start))
            done = int(here[stop - 1]) + 1
    keep(count - done)


def _all_rows(
    table: TableHandle, task: _UpdateTask, names: Sequence[str], places: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """The columns of all rows of the range, in order, with the new values at these places."""
    new = task.rows.select(names)
    if new.num_rows == task.group[0].row_count:
        for begin in range(0, new.num_rows, _SLICE_ROWS):
            yield from new.slice(begin, _SLICE_ROWS).combine_chunks().to_batches()
        return
    section = tuple((file,) for file in task.group)
    done = 0
    for batch in column_group_rows(table, bucket_location(table, *task.bucket), section, names, BATCH_LIMIT):
        begin, end = np.searchsorted(places, [done, done + batch.num_rows])
        if begin == end:
            yield batch
        else:
            some = new.slice(begin, end - begin).combine_chunks()
            yield _with_new(table, batch, some, places[begin:end] - done)
        done += batch.num_rows


def _with_new(table: TableHandle, batch: pa.RecordBatch, new: pa.Table, places: NDArray[np.int64]) -> pa.RecordBatch:
    """The batch with the new rows at these places."""
    taken = np.arange(batch.num_rows)
    taken[places] = batch.num_rows + np.arange(len(places))
    indices = of_numbers(taken, pa.int64())
    columns = []
    for name in batch.schema.names:
        kind = to_arrow(table.schema.row_type.field(name).type)
        old = batch[name] if batch[name].type == kind else batch[name].cast(kind)
        columns.append(pc.take(pa.concat_arrays([old, *new[name].chunks]), indices))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
