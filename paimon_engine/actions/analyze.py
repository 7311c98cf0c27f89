"""Analyze: read the table, compute the column statistics that query planners use, and commit them.

The rows are those of the latest snapshot, merged; splits are read as tasks. The snapshot made names the statistics
file and changes nothing else; later snapshots keep it until the schema changes.

Source: `PaimonAnalyzeTableColumnCommand`, `FileStoreCommitImpl.commitStatistics` of the Java library. Difference:
without columns named, those of nested types are left out instead of refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from paimon_engine.action import Context, Result, action_once
from paimon_engine.env import Env
from paimon_engine.errors import InvalidArgumentError, OutcomeUnknownError, PaimonError
from paimon_engine.executor import values
from paimon_engine.meta.column_sketch import ColumnSketch, has_statistics
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.meta.table_statistics import TableStatistics, column_to_json
from paimon_engine.specs import Name, Spec
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.read.reader import RowSelection, check_rows, read_split
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.state.statistics import write_statistics
from paimon_engine.table.state.unneeded import delete_unneeded


@dataclass(frozen=True, slots=True)
class Analyze(Spec):
    """Analyze these columns; None: all that are not nested, an empty list: no column, only the number of rows."""

    columns: Annotated[Sequence[Name] | None, "names of columns; by default all that are not nested"] = None


@dataclass(frozen=True, slots=True)
class AnalyzeResult(Result):
    """What an analysis found; `status` is `committed`, `already_done` (by an earlier attempt) or `noop` (no snapshot).

    `columns` maps each column's name to its statistics, as in the statistics file.
    """

    status: str
    snapshot_id: int | None
    rows: int | None = None
    bytes: int | None = None
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    statistics_file: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AnalyzeTask:
    """One split, and the columns to look at."""

    table: PlainTable
    split: Split
    columns: tuple[str, ...]


@action_once(CommitKind.ANALYZE, Maker.JOB, AnalyzeResult)
def analyze(context: Context, spec: Analyze) -> AnalyzeResult:
    """Computes statistics of the latest snapshot and commits them; once for a `commit_user`.

    Raises: InvalidArgumentError naming a column that is missing or nested; UnsupportedError; ConflictError.
    """
    table = context.table
    check_metadata_writable(table.options)
    snapshot = latest_snapshot(table)
    if snapshot is None:
        return AnalyzeResult("noop", None)
    table = table.at_schema(snapshot.schema_id)
    work = work_begins(table, snapshot)
    statistics = _statistics(context, table, snapshot, _columns(table, spec))
    name = write_statistics(table, statistics)
    with context.phases("commit"):
        outcome = _commit_or_clean(table, replace(context.job.request(), statistics=name, begun=work), name)
    if outcome.by_other_attempt:
        delete_unneeded(table.env.storage, [table.paths.statistics(name)])
        return AnalyzeResult(outcome.status, outcome.snapshot.id)
    return AnalyzeResult(
        status=outcome.status,
        snapshot_id=outcome.snapshot.id,
        rows=statistics.merged_record_count,
        bytes=statistics.merged_record_size,
        columns={column: column_to_json(found) for column, found in statistics.columns.items()},
        statistics_file=name,
    )


def planned_bytes(table: TableHandle, spec: Analyze) -> int:  # noqa: ARG001 - as of all actions
    """Bytes of the files whose rows would be read now, all columns included; from metadata only."""
    return sum(entry.file.size_bytes for entry in live_entries(table, latest_snapshot(table)))


def _columns(table: TableHandle, spec: Analyze) -> tuple[str, ...]:
    if spec.columns is None:
        return tuple(column.name for column in table.schema.row_type if has_statistics(column))
    nested = [name for name in spec.columns if not has_statistics(table.schema.row_type.field(name))]
    if nested:
        raise InvalidArgumentError(f"column {nested[0]!r} has a nested type; there are no statistics of nested types")
    return tuple(dict.fromkeys(spec.columns))


def _statistics(context: Context, table: TableHandle, snapshot: Snapshot, columns: tuple[str, ...]) -> TableStatistics:
    """Statistics of the merged rows of the snapshot; read as tasks, one per split, and merged here.

    The size is an estimate: the bytes of the live files, times the share of their rows that is left after the merge.
    """
    # Rows are counted by a column: a read of none has no batches to count.
    looked_at = columns or table.schema.row_type.names[:1]
    check_rows(table, RowSelection(tuple(looked_at)))
    tasks = [AnalyzeTask(table.plain(), split, tuple(looked_at)) for split in plan_splits(table, snapshot)]
    found = values(context.run_tasks("analyze", sketch_split, tasks))
    rows = sum(count for count, _ in found)
    sketches = [ColumnSketch(table.schema.row_type.field(name)) for name in columns]
    for _, parts in found:
        for sketch, part in zip(sketches, parts, strict=False):
            sketch.merge(part)
    stored_rows = snapshot.total_record_count or 0
    stored_bytes = sum(entry.file.size_bytes for entry in live_entries(table, snapshot))
    return TableStatistics(
        snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        merged_record_count=rows,
        merged_record_size=int(stored_bytes * rows / stored_rows) if stored_rows else 0,
        columns={sketch.column.name: sketch.finish() for sketch in sketches},
    )


def sketch_split(env: Env, task: AnalyzeTask) -> tuple[int, list[ColumnSketch]]:
    """Number of rows of a split, and a sketch of each of the task's columns that can be analyzed."""
    table = task.table.load(env)
    fields = [table.schema.row_type.field(name) for name in task.columns]
    sketches = [ColumnSketch(column) for column in fields if has_statistics(column)]
    rows = 0
    for batch in read_split(table, task.split, RowSelection(task.columns)):
        rows += batch.num_rows
        for sketch in sketches:
            sketch.add(batch[sketch.column.name])
    return rows, sketches


def _commit_or_clean(table: TableHandle, request: CommitRequest, name: str) -> Committed:
    """Commits; deletes the statistics file if certainly no snapshot names it."""
    try:
        outcome = commit(table, request)
    except OutcomeUnknownError:
        raise
    except PaimonError:
        delete_unneeded(table.env.storage, [table.paths.statistics(name)])
        raise
    assert isinstance(outcome, Committed), "statistics change no files"
    return outcome
