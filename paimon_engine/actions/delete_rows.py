"""Delete rows: those that match a condition, in append tables with deletion vectors; no data file is rewritten.

Each bucket is a task: it finds the positions of matching rows in the files that may hold some, and writes an index file
with all vectors that changed. With data evolution, rows whose columns are in several files are marked for the oldest of
these.

One commit takes all of them or none, so a delete that was interrupted is repeated completely. After a conflict it
starts again: if others compacted the files, deleted rows in them, or updated columns that the condition looks at.

Source: `AppendDeleteFileMaintainer` of the Java library; the commit is a COMPACT snapshot, as in 0.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import pyarrow as pa

from paimon_engine.action import Context, Result, action_once
from paimon_engine.arrow_values import as_numbers, of_numbers
from paimon_engine.env import Env
from paimon_engine.errors import ConflictError, UnsupportedError
from paimon_engine.executor import Done, values
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.layout import BATCH_LIMIT
from paimon_engine.meta.column_files import Group, anchor
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.predicate import Predicate, matching_rows, parse_where, root_columns
from paimon_engine.specs import ConditionText, Spec
from paimon_engine.supported import check_writable
from paimon_engine.table.commit.abort import commit_or_delete, delete_uncommitted, interruptible
from paimon_engine.table.commit.commit import Committed
from paimon_engine.table.commit.own_files import WorkBegun, work_begins
from paimon_engine.table.files.bucket_vectors import BucketVectors, vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import BucketLocation, RowMask, bucket_location, read_data_file
from paimon_engine.table.read.default_values import default_scalars, fill_nulls
from paimon_engine.table.read.reader import column_group_rows
from paimon_engine.table.read.scan import plan_splits, usable_conjuncts
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.snapshots import read_at_latest
from paimon_engine.types import is_blob

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
    """The files of one bucket that may have matching rows, and the index files of their vectors.

    Files of the same rows, where columns are in several, are a group; others are groups by themselves.
    """

    table: PlainTable
    bucket: Bucket
    total_buckets: int
    groups: tuple[Group, ...]
    vectors: tuple[IndexFile, ...]
    where: Predicate


@dataclass(frozen=True, slots=True)
class _Marked:
    """`files` are the names of all files of the groups with deleted rows."""

    message: CommitMessage
    rows: int
    files: tuple[str, ...]
    groups: int


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
        if table.options.data_evolution_enabled:
            groups = {(item.message.partition, item.message.bucket): item.files for item in marked}
            request = replace(request, read_groups=groups, read_fields=_fields(table, where))
        with context.phases("commit"):
            outcome = commit_or_delete(table, request)
        if isinstance(outcome, Committed) and not outcome.by_other_attempt:
            rows, files = sum(item.rows for item in marked), sum(item.groups for item in marked)
            return DeleteRowsResult(outcome.status, outcome.snapshot.id, rows, files, conflicts)
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
    return sum(file.size_bytes for task in tasks for group in task.groups for file in group)


def _check(table: TableHandle) -> None:
    check_writable(table.options)
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
    groups: dict[Bucket, list[Group]] = {}
    for split in plan_splits(table, snapshot, where):
        found = [tuple(file for run in section for file in run) for section in split.sections]
        groups.setdefault((split.partition, split.bucket), []).extend(found)
    vectors = vector_files(table, snapshot)
    plain, total = table.plain(), table.options.bucket
    tasks = [
        _DeleteTask(plain, bucket, total, tuple(found), vectors.get(bucket, ()), where)
        for bucket, found in groups.items()
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
    rows, touched = 0, list[Group]()
    for group in task.groups:
        marked = anchor(group).name
        if table.options.data_evolution_enabled:
            found = _matching_in_group(table, location, group, task.where, vectors.deleted_rows(marked))
        else:
            found = _matching(table, location, group[0], task.where, vectors.deleted_rows(marked))
        vectors.mark(marked, found)
        rows += len(found)
        touched += [group] if len(found) else []
    try:
        new, replaced = vectors.finish()
    except BaseException:
        vectors.abort()
        raise
    message = CommitMessage(*task.bucket, task.total_buckets, new_index_files=new, deleted_index_files=replaced)
    return _Marked(message, rows, tuple(file.name for group in touched for file in group), len(touched))


def _matching(
    table: TableHandle, location: BucketLocation, file: DataFile, where: Predicate, deleted: RowBitmap | None
) -> RowBitmap:
    """The rows that match and are not deleted yet."""
    columns = _columns(table, where)
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


def _columns(table: TableHandle, where: Predicate) -> list[str]:
    """The columns that the condition looks at, in order."""
    wanted = root_columns(where, table.schema.row_type.names)
    return [name for name in table.schema.row_type.names if name in wanted]


def _fields(table: TableHandle, where: Predicate) -> frozenset[int]:
    """Ids of the columns that the condition looks at."""
    return frozenset(table.schema.row_type.field(name).id for name in _columns(table, where))


def _matching_in_group(
    table: TableHandle, location: BucketLocation, group: Group, where: Predicate, deleted: RowBitmap | None
) -> RowBitmap:
    """The rows of files with columns of the same rows that match and are not deleted yet."""
    # Batches of no columns would have no rows.
    columns = _columns(table, where) or [next(field.name for field in table.schema.row_type if not is_blob(field.type))]
    defaults = default_scalars(table.schema)
    section = tuple((file,) for file in group)
    mask, first_row = RowMask(deleted), 0
    found = [np.empty(0, np.int64)]
    for rows in column_group_rows(table, location, section, columns, BATCH_LIMIT):
        count = rows.num_rows
        positions = of_numbers(np.arange(first_row, first_row + count), pa.int64())
        filled = fill_nulls(rows, defaults).append_column(_POSITION, positions)
        kept = mask.over(first_row, count)
        first_row += count
        found.append(as_numbers(matching_rows(filled if kept is None else filled.filter(kept), where)[_POSITION]))
    return RowBitmap.of(np.concatenate(found))
