"""Delete rows: those that match a condition, in append tables with deletion vectors; no data file is rewritten.

Each bucket is a task: it finds the positions of matching rows in the files that may hold some, and writes an index file
with all vectors that changed. One commit takes all of them or none, so a delete that was interrupted is repeated
completely; after a conflict (others compacted the files, or deleted rows in them) it starts again.

Source: `AppendDeleteFileMaintainer` of the Java library; the commit is a COMPACT snapshot, as in 0.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from paimon_engine.action import Context, Result, action_once
from paimon_engine.arrow_values import as_numbers
from paimon_engine.env import Env
from paimon_engine.errors import ConflictError, UnsupportedError
from paimon_engine.executor import Done, values
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.predicate import Predicate, matching_rows, parse_where, root_columns
from paimon_engine.specs import ConditionText, Spec
from paimon_engine.supported import check_rows_rewritable
from paimon_engine.table.commit.abort import delete_uncommitted, interruptible, uncommitted
from paimon_engine.table.commit.commit import Committed, commit
from paimon_engine.table.commit.own_files import WorkBegun, work_begins
from paimon_engine.table.files.bucket_vectors import BucketVectors, vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import BucketLocation, RowMask, bucket_location, read_data_file
from paimon_engine.table.read.default_values import default_scalars, fill_nulls
from paimon_engine.table.read.scan import plan_splits, usable_conjuncts
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.snapshots import read_at_latest

ROUNDS_MAX = 4
"""Times that a delete is begun, while others change the same files."""

_POSITION = "_POSITION"


@dataclass(frozen=True, slots=True)
class DeleteRows(Spec):
    """Delete the rows for which the SQL condition `where` is true."""

    where: Annotated[ConditionText, "SQL condition over the columns: rows that match are deleted"]


@dataclass(frozen=True, slots=True)
class DeleteRowsResult(Result):
    """What was deleted; `status` is `committed`, `noop` or `already_done`.

    `files` counts the data files whose rows were deleted; `conflicts` buckets that others changed meanwhile.
    """

    status: str
    snapshot_id: int | None
    rows: int = 0
    files: int = 0
    conflicts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _DeleteTask:
    """The files of one bucket that may have matching rows, and the index files of their vectors."""

    table: PlainTable
    bucket: Bucket
    total_buckets: int
    files: tuple[DataFile, ...]
    vectors: tuple[IndexFile, ...]
    where: Predicate


@dataclass(frozen=True, slots=True)
class _Marked:
    message: CommitMessage
    rows: int
    files: int


@action_once(CommitKind.COMPACT, Maker.DELETE_ROWS, DeleteRowsResult)
def delete_rows(context: Context, spec: DeleteRows) -> DeleteRowsResult:
    """Deletes; with a `commit_user` once, however often it is called.

    Raises: UnsupportedError for tables without deletion vectors or with a primary key; InvalidArgumentError for the
    condition; ConflictError if others kept changing the files; StorageError.
    """
    table = context.table
    _check(table)
    where = parse_where(spec.where)
    conflicts = 0
    for _ in range(ROUNDS_MAX):
        with context.phases("plan"):
            tasks, work = read_at_latest(table, partial(_plan, table, where))
        marked = _mark_all(context, tasks)
        if not marked:
            return DeleteRowsResult("noop", None, conflicts=conflicts)
        messages = [item.message for item in marked]
        # Where nothing was deleted before, no index file shows that others have compacted the files meanwhile.
        needed = {
            (message.partition, message.bucket): [
                item.data_file for file in message.new_index_files for item in file.vectors
            ]
            for message in messages
        }
        request = replace(context.job.request(messages), needed_files=needed, begun=work)
        with uncommitted(table, messages), context.phases("commit"):
            outcome = commit(table, request)
        if isinstance(outcome, Committed) and not outcome.by_other_attempt:
            rows, files = sum(item.rows for item in marked), sum(item.files for item in marked)
            return DeleteRowsResult(outcome.status, outcome.snapshot.id, rows, files, conflicts)
        delete_uncommitted(table, messages)
        if isinstance(outcome, Committed):
            return DeleteRowsResult(outcome.status, outcome.snapshot.id)
        conflicts += len({(conflict.partition, conflict.bucket) for conflict in outcome.conflicts})
    raise ConflictError(
        f"{table.paths.root}: others changed the same files in {ROUNDS_MAX} rounds; nothing is deleted, run it later"
    )


def planned_bytes(table: TableHandle, spec: DeleteRows) -> int:
    """Bytes of the files that would be read now, those that may have matching rows, from metadata alone.

    Raises: as `delete_rows`, where it plans.
    """
    _check(table)
    tasks, _ = read_at_latest(table, partial(_plan, table, parse_where(spec.where)))
    return sum(file.size_bytes for task in tasks for file in task.files)


def _check(table: TableHandle) -> None:
    check_rows_rewritable(table.options)
    if table.schema.primary_keys:
        raise UnsupportedError(
            f"{table.paths.root} has a primary key: write the rows with the kind -D to delete them, as in "
            "table.write(rows, row_kinds=['-D', …])"
        )
    if not table.options.deletion_vectors_enabled:
        raise UnsupportedError(
            f"{table.paths.root}: rows of an append table are deleted by deletion vectors; create the table with "
            "'deletion-vectors.enabled' = 'true', or overwrite its partitions"
        )


def _plan(table: TableHandle, where: Predicate, snapshot: Snapshot | None) -> tuple[list[_DeleteTask], WorkBegun]:
    work = work_begins(table, snapshot)
    files: dict[Bucket, list[DataFile]] = {}
    for split in plan_splits(table, snapshot, where):
        found = [file for section in split.sections for run in section for file in run]
        files.setdefault((split.partition, split.bucket), []).extend(found)
    vectors = vector_files(table, snapshot)
    plain, total = table.plain(), table.options.bucket
    tasks = [
        _DeleteTask(plain, bucket, total, tuple(found), vectors.get(bucket, ()), where)
        for bucket, found in files.items()
    ]
    return tasks, work


def _mark_all(context: Context, tasks: Sequence[_DeleteTask]) -> list[_Marked]:
    with interruptible(context.table, lambda marked: [marked.message]):
        outcomes = context.run_tasks("delete", mark_rows, tasks)
    try:
        return [marked for marked in values(outcomes) if marked.rows]
    except Exception:
        delete_uncommitted(context.table, [outcome.value.message for outcome in outcomes if isinstance(outcome, Done)])
        raise


def mark_rows(env: Env, task: _DeleteTask) -> _Marked:
    """Marks the matching rows of a bucket in new index files.

    Raises: NotFoundError if a file is missing; CorruptTableError; InvalidArgumentError; StorageError: no file is left.
    """
    table = task.table.load(env)
    location = bucket_location(table, *task.bucket)
    vectors = BucketVectors(table, *task.bucket, task.vectors)
    rows = files = 0
    for file in task.files:
        found = _matching(table, location, file, task.where, vectors.deleted_rows(file.name))
        vectors.mark(file.name, found)
        rows += len(found)
        files += len(found) > 0
    try:
        new, replaced = vectors.finish()
    except BaseException:
        vectors.abort()
        raise
    message = CommitMessage(*task.bucket, task.total_buckets, new_index_files=new, deleted_index_files=replaced)
    return _Marked(message, rows, files)


def _matching(
    table: TableHandle, location: BucketLocation, file: DataFile, where: Predicate, deleted: RowBitmap | None
) -> RowBitmap:
    """The rows that match and are not deleted yet."""
    wanted = root_columns(where, table.schema.row_type.names)
    columns = [name for name in table.schema.row_type.names if name in wanted]
    defaults = default_scalars(table.schema)
    found = [np.empty(0, np.int64)]
    for rows in read_data_file(
        table,
        location,
        file,
        columns,
        with_system_columns=False,
        mask=RowMask(deleted),
        where=usable_conjuncts(table, where),
        position_column=_POSITION,
    ):
        filled = fill_nulls(rows, defaults)
        found.append(as_numbers(matching_rows(filled, where)[_POSITION]))
    return RowBitmap.of(np.concatenate(found))
