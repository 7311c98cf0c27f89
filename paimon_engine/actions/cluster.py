"""Cluster: store rows with similar values of some columns in the same files, so that filters on these read few files.

1. Buckets of append tables (partitions, where there are no buckets) are planned as a compaction of all their files.
2. A round takes as many of them as a commit should hold and the budget has left.
3. Samples of the columns say how the rows are ordered, and cut each bucket into ranges; the rows are read once and
   brought together by range; each range is sorted and written by a separate task.
4. A COMPACT commit replaces the files that were read, and no others: what was inserted meanwhile stays as it is, while
   Java replaces whole partitions. Buckets whose files others have replaced are planned again.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import ConflictError, InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.executor import ByGroup, Done, Failed, TaskRows, values
from paimon_engine.lsm.budget import Budget, Round
from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.plan import CompactTask, plan_clustering
from paimon_engine.merge.curves import COLUMNS_MAX, Curve, Order
from paimon_engine.meta.commit_identifier import Maker, identifier_of, part_of
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.progress import in_round
from paimon_engine.specs import DryRun, Duration, Name, Size, Spec, Where
from paimon_engine.supported import check_rows_rewritable
from paimon_engine.table.commit.abort import delete_uncommitted, interruptible
from paimon_engine.table.commit.commit import CommitRequest
from paimon_engine.table.commit.commit_parts import commit_parts
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.bucket_selection import BucketSelection, selected_entries
from paimon_engine.table.compaction.cluster import (
    SAMPLE_ROWS,
    FilesTask,
    RangeWriting,
    RowsWithCurvePosition,
    Sampling,
    files_tasks,
    numbered_along,
    plan_unit,
    range_of,
)
from paimon_engine.table.compaction.rewrite import join_parts
from paimon_engine.table.files.bucket_vectors import vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries
from paimon_engine.table.state.partitions import texts_of_key
from paimon_engine.table.state.snapshots import latest_snapshot, read_at_latest, snapshots_of_user
from paimon_engine.types import AtomicType
from paimon_engine.units import MIB

logger = logging.getLogger(__name__)

ROUNDS_MAX: Final = 4
"""Times that conflicting buckets are planned again before they are left to the next run."""
ROUND_BYTES: Final = 32 << 30
"""A commit holds about so many rewritten bytes: what a run that is stopped may lose."""
TASK_MEMORY_BYTES: Final = 256 * MIB
_TASK_BYTES_MIN: Final = 512 * MIB
_TASK_FILES: Final = 4
_ORDERS: Final[tuple[Order, ...]] = ("order", "zorder", "hilbert")
_ZORDER_COLUMNS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Cluster(Spec):
    """Cluster an append table, or a part of it, by columns.

    `columns` are by default those of the option `clustering.columns`. `order` is `order`, which sorts by one column
    after another, or `zorder` or `hilbert`, which serve filters on any of the columns; by default the option
    `clustering.strategy`, else `order` for one column, `zorder` for up to four, and `hilbert`.

    Which buckets: `where` chooses partitions; `partition_idle_time`, such as `1 d`, those whose newest file is older.
    How much: `max_bytes` of files to rewrite; the others are left. Each round ends with a commit of about `round_bytes`
    of them (32 GiB). How: files of `target_file_bytes` (by default as the table says), written by tasks for about
    `task_bytes` (4 target files, at least 512 MiB), each of which sorts in `task_memory_bytes` (256 MiB).
    """

    columns: Annotated[Sequence[Name], "columns to cluster by; by default as the option clustering.columns says"] = ()
    order: Annotated[Name | None, "order, zorder or hilbert; by default as the option clustering.strategy says"] = None
    where: Where = None
    dry_run: DryRun = False
    partition_idle_time: Annotated[
        Duration | None, "only partitions to which nothing was written for so long, such as 1 d"
    ] = None
    max_bytes: Annotated[Size | None, "rewrite no more than this, such as 50 gb"] = None
    round_bytes: Annotated[Size | None, "commit each time that about so much was rewritten"] = None
    target_file_bytes: Annotated[Size | None, "size of new files"] = None
    task_bytes: Annotated[Size | None, "what a task writes"] = None
    task_memory_bytes: Annotated[Size | None, "what a task sorts in; more is spilled to its disk"] = None


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One bucket, or one partition of a table without buckets. `skipped` says why nothing was done.

    The numbers after are None where nothing was done, or not yet; in a dry run `files_after` is the expected number.
    `tasks` is the number of ranges in which the rows were written. `is_left` says that the budget was used up before.
    """

    partition: Mapping[str, str | None]
    bucket: int
    files_before: int
    bytes_before: int
    rows_before: int
    files_after: int | None = None
    bytes_after: int | None = None
    rows_after: int | None = None
    tasks: int = 0
    skipped: str | None = None
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class ClusterResult(Result):
    """What a clustering did; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    Totals cover `partitions`, that is all that `where` chose; in a dry run `files_after` is the expected number.
    `failed` holds errors of single buckets; `partitions_left` counts those that the budget did not allow.
    """

    status: str
    snapshot_id: int | None
    columns: tuple[str, ...] = ()
    order: str = ""
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_before: int = 0
    rows_after: int = 0
    partitions: tuple[ClusterReport, ...] = ()
    partitions_left: int = 0
    conflicts: int = 0
    rounds: int = 0
    failed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class _ClusteringState:
    """State of one clustering over its rounds."""

    table: TableHandle
    spec: Cluster
    curve: Curve
    columns: tuple[str, ...]
    budget: Budget
    idle: frozenset[bytes] | None = None
    files: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    after: dict[Bucket, Sequence[DataFile]] = field(default_factory=dict)
    vectors: dict[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)
    task_counts: dict[Bucket, int] = field(default_factory=dict)
    skipped: dict[Bucket, str] = field(default_factory=dict)
    left: dict[Bucket, str] = field(default_factory=dict)
    tries: Counter[Bucket] = field(default_factory=Counter)
    done: frozenset[Bucket] = frozenset()
    failed: list[str] = field(default_factory=list)
    first_failure: PaimonError | None = None
    snapshot_id: int | None = None
    done_by_other: Snapshot | None = None
    rounds: int = 0
    conflicts: int = 0
    seen: Snapshot | None = None

    @property
    def task_bytes(self) -> int:
        """About what a task reads or writes."""
        return self.spec.task_bytes or max(_TASK_FILES * self.target_bytes, _TASK_BYTES_MIN)

    @property
    def target_bytes(self) -> int:
        """Size of new files."""
        return self.table.options.target_file_size_bytes

    def fail(self, bucket: Bucket, error: PaimonError) -> None:
        """Notes that a bucket could not be clustered; the others continue."""
        logger.warning("bucket %d was not clustered: %s", bucket[1], error)
        self.failed.append(f"bucket {bucket[1]}: {error}")
        self.first_failure = self.first_failure or error
        self.skipped[bucket] = f"failed: {error}"


@action_once(CommitKind.COMPACT, Maker.CLUSTER, ClusterResult)
def cluster(context: Context, spec: Cluster) -> ClusterResult:
    """Clusters; buckets that fail or conflict do not stop the others. With a `commit_user`, each bucket once.

    Raises: UnsupportedError for tables whose rows are ordered by a key; InvalidArgumentError for the columns, the
    condition or the limits; ConflictError if every bucket kept conflicting; the first failure if nothing succeeded.
    """
    table, job = context.table, context.job
    run = _begin(table, spec)
    if job.parts:
        run.done = _done_before(table, job.user)
    _choose_idle(run)
    with context.phases("plan"):
        tasks = read_at_latest(table, partial(_plan, run, None))
    while tasks:
        taken = _next_round(run, tasks)
        if not taken.chosen or spec.dry_run:
            tasks = list(taken.later)
            continue
        begun = work_begins(table, run.seen)
        listener = in_round(context.on_progress, run.rounds)
        messages = _rewrite(replace(context, on_progress=listener), run, taken.chosen)
        # A repeated job continues where it was stopped, but does not start again if it had finished.
        part = identifier_of(Maker.CLUSTER, job.parts + run.rounds)
        identifier = part if taken.later or run.first_failure is not None else job.identifier
        request = replace(job.request(messages), commit_identifier=identifier, begun=begun)
        with context.phases("commit"):
            again = _commit(run, request, part)
        waiting = {(task.partition, task.bucket) for task in taken.later} | again
        tasks = read_at_latest(table, partial(_plan, run, frozenset(waiting))) if waiting else []
    if run.snapshot_id is None:
        if run.done_by_other is not None:
            return ClusterResult("already_done", run.done_by_other.id)
        if run.first_failure is not None:
            raise run.first_failure
        if any(count >= ROUNDS_MAX for count in run.tries.values()):
            raise ConflictError(f"{table.paths.root}: others replaced the same files in {ROUNDS_MAX} rounds")
    return _result(run)


def planned_bytes(table: TableHandle, spec: Cluster) -> int:
    """Bytes of the files that a clustering would rewrite now, within its limits, from metadata alone.

    Raises: as `cluster`, where it plans.
    """
    run = _begin(table, spec)
    _choose_idle(run)
    tasks = read_at_latest(table, partial(_plan, run, None))
    rewritten_bytes = 0
    while tasks:
        taken = _next_round(run, tasks)
        rewritten_bytes += sum(task.bytes_to_rewrite for task in taken.chosen)
        tasks = list(taken.later)
    return rewritten_bytes


# ── arguments ───────────────────────────────────────────────────────────────────────────────────


def _begin(table: TableHandle, spec: Cluster) -> _ClusteringState:
    """The run, with a table that writes files of the requested size."""
    check_rows_rewritable(table.options)
    _check_unordered(table)
    columns = tuple(spec.columns) or table.options.clustering_columns
    curve = _curve(table, spec, columns)
    if spec.target_file_bytes is not None:
        requested = {"target-file-size": f"{spec.target_file_bytes} b"}
        table = replace(
            table,
            schema=table.schema.with_options(requested),
            dynamic_options={**table.dynamic_options, **requested},
            _schemas={},
        )
    budget = Budget(spec.max_bytes, None, spec.round_bytes or ROUND_BYTES)
    return _ClusteringState(table, spec, curve, columns, budget)


def _choose_idle(run: _ClusteringState) -> None:
    """Notes which partitions are idle now, where only those are to be clustered."""
    if run.spec.partition_idle_time is not None:
        selection = BucketSelection(run.spec.where, run.spec.partition_idle_time)
        chosen = selected_entries(run.table, latest_snapshot(run.table), selection)
        run.idle = frozenset(entry.partition for entry in chosen)


def _check_unordered(table: TableHandle) -> None:
    """Raises UnsupportedError where rows must stay in the order that they have."""
    root = table.paths.root
    if table.schema.primary_keys:
        raise UnsupportedError(
            f"{root}: files of a table with a primary key are sorted by that key, and merged by it; only append tables "
            "are clustered. Give the columns that are filtered by a file index, or put them first in the key"
        )
    if table.schema.bucket_mode is not BucketMode.UNAWARE and table.options.bucket_append_ordered:
        raise UnsupportedError(
            f"{root}: rows of a bucket are read in the order in which they were written; set 'bucket-append-ordered' = "
            "'false' if no reader relies on it"
        )


def _curve(table: TableHandle, spec: Cluster, columns: Sequence[str]) -> Curve:
    """The order of the spec, or else of the table's options; every rule on its columns is checked here.

    Raises: InvalidArgumentError, UnsupportedError naming the column or the order.
    """
    if not columns:
        raise InvalidArgumentError("give the columns to cluster by, or set the option 'clustering.columns'")
    if len(set(columns)) != len(columns):
        raise InvalidArgumentError(f"columns {', '.join(columns)}: each can be given once")
    constant = [name for name in columns if name in table.schema.partition_keys]
    if constant:
        raise InvalidArgumentError(f"column {constant[0]!r} is the same in all rows of a partition; leave it out")
    types = [table.schema.row_type.field(name).type for name in columns]
    for name, kind in zip(columns, types, strict=True):
        if not isinstance(kind, AtomicType):
            raise UnsupportedError(f"column {name!r} has a nested type, whose values have no order; leave it out")
    order = spec.order or table.options.clustering_strategy
    if order == "auto":
        order = "order" if len(columns) == 1 else "zorder" if len(columns) <= _ZORDER_COLUMNS_MAX else "hilbert"
    found: Order | None = next((known for known in _ORDERS if known == order), None)
    if found is None:
        raise InvalidArgumentError(f"order {order!r}; use {', '.join(_ORDERS)}")
    if found != "order" and len(columns) > COLUMNS_MAX:
        raise InvalidArgumentError(f"{len(columns)} columns: a curve takes at most {COLUMNS_MAX}, and serves few best")
    # Along one column all orders are the same, and curves would only see ranks.
    return Curve("order" if len(columns) == 1 else found, tuple(types))


def _done_before(table: TableHandle, commit_user: str) -> frozenset[Bucket]:
    """Buckets that earlier rounds of the same job have committed."""
    whole = identifier_of(Maker.CLUSTER)
    rounds = [item for item in snapshots_of_user(table, commit_user) if part_of(whole, item.commit_identifier)]
    return frozenset((entry.partition, entry.bucket) for item in rounds for entry in delta_entries(table, item))


# ── planning ────────────────────────────────────────────────────────────────────────────────────


def _plan(run: _ClusteringState, only: frozenset[Bucket] | None, snapshot: Snapshot | None) -> list[CompactTask]:
    """Tasks of all chosen buckets, or of `only` these."""
    # A handle that was opened before a column was added would drop the column's values.
    run.table, run.seen = run.table.newest(), snapshot
    run.vectors = vector_files(run.table, snapshot)
    tasks = []
    for bucket, members in by_bucket(selected_entries(run.table, snapshot, BucketSelection(run.spec.where))).items():
        if (only is not None and bucket not in only) or (run.idle is not None and bucket[0] not in run.idle):
            continue
        run.files[bucket] = [entry.file for entry in members]
        if bucket in run.done:
            run.skipped[bucket] = "an earlier attempt of the same job has clustered it"
            continue
        planned = plan_clustering(*bucket, members[0].total_buckets, run.files[bucket])
        if isinstance(planned, NothingToDo):
            run.skipped[bucket] = planned.reason
        else:
            tasks.append(planned)
    return tasks


def _next_round(run: _ClusteringState, tasks: Sequence[CompactTask]) -> Round:
    taken = run.budget.next_round(tasks)
    for task, reason in taken.left:
        run.left[task.partition, task.bucket] = reason
        run.skipped[task.partition, task.bucket] = f"left: {reason}"
    for task in taken.chosen:
        run.task_counts[task.partition, task.bucket] = _range_count(run, task)
    run.rounds += bool(taken.chosen)
    return taken


def _range_count(run: _ClusteringState, task: CompactTask) -> int:
    return max(1, math.ceil(task.bytes_to_rewrite / run.task_bytes))


# ── rewriting ───────────────────────────────────────────────────────────────────────────────────


def _rewrite(context: Context, run: _ClusteringState, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    """Messages of the buckets that succeeded. Where rows of a round cannot be read, each bucket is tried alone."""
    try:
        return _rewrite_together(context, run, tasks)
    except PaimonError as error:
        if len(tasks) > 1:
            return [message for task in tasks for message in _rewrite(context, run, [task])]
        run.fail((tasks[0].partition, tasks[0].bucket), error)
        return []


def _rewrite_together(context: Context, run: _ClusteringState, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    """Messages of the tasks' buckets, in their order: samples, ranges, then sorted rows by range.

    Raises: the first failure, once the files of all tasks are deleted.
    """
    plain = run.table.plain()
    reads = [
        part
        for number, task in enumerate(tasks)
        for part in files_tasks(number, task, run.vectors.get((task.partition, task.bucket), ()), run.task_bytes)
    ]
    steps = tuple(max(1, task.rows_to_rewrite // SAMPLE_ROWS) for task in tasks)
    sampling = Sampling(plain, run.columns, steps)
    samples = values(context.run_tasks("sample", sampling, reads))
    units, range_count = [], 0
    for number, task in enumerate(tasks):
        own = [sample for part, sample in zip(reads, samples, strict=True) if part.unit == number]
        unit, count = plan_unit(task, run.curve, own, _range_count(run, task), range_count)
        units.append(unit)
        run.task_counts[task.partition, task.bucket] = count
        range_count += count
    source = RowsWithCurvePosition(plain, run.columns, tuple(units))
    rows: TaskRows[FilesTask] = TaskRows(source, reads)
    writing = RangeWriting(plain, tuple(units), run.spec.task_memory_bytes or TASK_MEMORY_BYTES)
    with context.phases("sort"), interruptible(run.table, lambda written: [written[1]]):
        outcomes = context.executor.shuffle(rows, split=ByGroup(range_of), run=writing, config=run.table.config)
    failures = [outcome.error() for outcome in outcomes if isinstance(outcome, Failed)]
    done = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
    if failures:
        delete_uncommitted(run.table, [message for _, message in done])
        raise failures[0]
    parts = [[message for number, message in done if number == index] for index in range(len(tasks))]
    return [_joined(run, task, found) for task, found in zip(tasks, parts, strict=True)]


def _joined(run: _ClusteringState, task: CompactTask, parts: Sequence[CommitMessage]) -> CommitMessage:
    """The parts in order of their ranges as one message, which also drops the vectors of the old files."""
    vectors = run.vectors.get((task.partition, task.bucket), ())
    try:
        return join_parts(run.table, task, vectors, numbered_along(parts, task))
    except BaseException:
        delete_uncommitted(run.table, parts)
        raise


def _commit(run: _ClusteringState, request: CommitRequest, part: int) -> set[Bucket]:
    """Commits what still applies; the buckets to be planned again, without those that others replaced too often."""
    if not request.messages:
        return set()
    parts = commit_parts(run.table, request, part)
    run.conflicts += len(parts.conflicting)
    run.done_by_other = parts.done
    if parts.snapshot is not None:
        run.snapshot_id = parts.snapshot.id
        run.after.update({(m.partition, m.bucket): m.compact_after for m in parts.committed})
    run.tries.update(parts.conflicting)
    for bucket in parts.conflicting:
        if run.tries[bucket] >= ROUNDS_MAX:
            run.skipped[bucket] = f"others replaced its files in {ROUNDS_MAX} rounds"
    return {bucket for bucket in parts.conflicting if run.tries[bucket] < ROUNDS_MAX}


# ── report ──────────────────────────────────────────────────────────────────────────────────────


def _result(run: _ClusteringState) -> ClusterResult:
    """The report of a clustering, of all buckets that were chosen."""
    reports = tuple(_report(run, bucket) for bucket in run.files)
    after = [file for bucket, files in run.files.items() for file in run.after.get(bucket, files)]
    is_dry = run.spec.dry_run
    return ClusterResult(
        status="dry_run" if is_dry else "committed" if run.snapshot_id is not None else "noop",
        snapshot_id=run.snapshot_id,
        columns=run.columns,
        order=run.curve.order,
        files_before=sum(report.files_before for report in reports),
        files_after=sum(
            report.files_before if report.files_after is None else report.files_after for report in reports
        ),
        bytes_before=sum(report.bytes_before for report in reports),
        bytes_after=sum(file.size_bytes for file in after),
        rows_before=sum(report.rows_before for report in reports),
        rows_after=sum(file.row_count for file in after),
        partitions=reports,
        partitions_left=len(run.left),
        conflicts=run.conflicts,
        rounds=run.rounds,
        failed=tuple(run.failed),
    )


def _report(run: _ClusteringState, bucket: Bucket) -> ClusterReport:
    """What was done to one bucket; in a dry run with the expected number of files."""
    before, after = run.files[bucket], run.after.get(bucket)
    bytes_before = sum(file.size_bytes for file in before)
    expected = None
    if run.spec.dry_run and bucket in run.task_counts:
        expected = max(run.task_counts[bucket], math.ceil(bytes_before / run.target_bytes))
    return ClusterReport(
        partition=texts_of_key(run.table, bucket[0]),
        bucket=bucket[1],
        files_before=len(before),
        bytes_before=bytes_before,
        rows_before=sum(file.row_count for file in before),
        files_after=expected if after is None else len(after),
        bytes_after=None if after is None else sum(file.size_bytes for file in after),
        rows_after=None if after is None else sum(file.row_count for file in after),
        tasks=run.task_counts.get(bucket, 0),
        skipped=None if after is not None else run.skipped.get(bucket),
        is_left=bucket in run.left,
    )
