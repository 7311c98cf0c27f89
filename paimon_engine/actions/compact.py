"""Compact: plan every bucket, rewrite on the executor, commit; plan again only the buckets that others changed.

1. Buckets are planned, those that cost readers most first (`table.compaction.compaction_plan`). 2. A round takes as
   many of them as a commit should hold and the budget has left; the others wait for a later round or run.
3. Large buckets are split into parts, which run at the same time (`table.compaction.compaction_round`); the parts of a
   bucket are committed as one.
4. The buckets that wait, and those that others changed meanwhile, are planned again from the latest snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.lsm.budget import Budget
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.progress import in_round
from paimon_engine.specs import Amount, Count, DryRun, Duration, Index, Size, Spec, Where
from paimon_engine.table.commit.commit_parts import commit_parts
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.bucket_selection import BucketSelection, selected_entries
from paimon_engine.table.compaction.compaction_plan import (
    CompactionGoal,
    CompactionPlan,
    idle_partitions,
    plan_compaction,
)
from paimon_engine.table.compaction.compaction_progress import BucketReport, CompactionProgress
from paimon_engine.table.compaction.compaction_round import carry_out, leave_to_streams, split_tasks
from paimon_engine.table.files.new_paths import check_files_writable
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_with_schema
from paimon_engine.table.write.distribute import Distributed, distribute_postponed

ROUND_BYTES: Final = 32 << 30
"""A commit holds about so many rewritten bytes: what a run that is stopped may lose."""
TIMED_ROUND_BYTES: Final = 2 << 30
"""As `ROUND_BYTES`, where the time is limited: rounds are what it is checked between."""


_DISTRIBUTIONS_MAX: Final = 3
"""If a clean-up has deleted the new files of a distribution, its rows are still there to be distributed again."""


@dataclass(frozen=True, slots=True)
class Compact(Spec):
    """Compact a table, or a part of it. `full` rewrites all runs into the highest level.

    Which buckets: `where` chooses partitions; `partition_idle_time`, such as `1 d`, those whose newest file is older;
    `buckets` numbers.

    How much: at most `max_bytes` of files to rewrite and `max_buckets` buckets, those that cost readers most first;
    after `max_seconds` no round begins. Each round ends with a commit of about `round_bytes` of rewritten files
    (32 GiB, 2 GiB with `max_seconds`), so that what is done stays done. A bucket with a primary key that alone is
    larger than `max_bytes` is left; of a bucket without one, what fits is done.

    How: a bucket is split, where its keys allow, into tasks of about `task_bytes` (4 target files, at least 512 MiB, if
    several run at once); each merges in `task_memory_bytes` by estimate, and what that is too little for is skipped.
    Without it a task takes as much as makes it fast, about 352 MiB, and more only where its rows or runs need it.
    """

    full: Annotated[bool, "merge everything into the highest level"] = False
    where: Where = None
    dry_run: DryRun = False
    buckets: Annotated[Sequence[Index] | None, "numbers of the buckets to compact; all without them"] = None
    partition_idle_time: Annotated[
        Duration | None, "only partitions to which nothing was written for so long, such as 1 d"
    ] = None
    max_bytes: Annotated[Size | None, "rewrite no more than this, such as 50 gb: what costs readers most first"] = None
    max_buckets: Annotated[Count | None, "compact no more buckets than this"] = None
    max_seconds: Annotated[Amount | None, "begin no round after this time"] = None
    round_bytes: Annotated[Size | None, "commit each time that about so much was rewritten"] = None
    task_bytes: Annotated[Size | None, "split larger buckets into tasks of about this size, where keys allow"] = None
    task_memory_bytes: Annotated[Size | None, "memory of a task, by estimate; buckets that need more are skipped"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class CompactResult(Result):
    """What a compaction did; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    Totals are of `buckets`, all that `where` chose; a dry run changes none. `failed` lists errors of single buckets.
    `rows_distributed` counts the postponed rows that were given a bucket, before anything else was done. `buckets_left`
    counts the buckets that the budget did not allow. Another run finds work there, unless `max_bytes` has no room for
    the smallest part of any: `status` is `noop` then, and the reasons in `buckets` say how much is needed. Read
    amplification, as in `buckets`, is here the mean over all bytes. `levels` are numbers of files by level.
    """

    status: str
    snapshot_id: int | None
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_before: int = 0
    rows_after: int = 0
    buckets: tuple[BucketReport, ...] = ()
    rows_distributed: int = 0
    conflicts: int = 0
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    buckets_left: int = 0
    rounds: int = 0
    read_amplification_before: float = 0.0
    read_amplification_after: float = 0.0
    levels_before: Mapping[str, int] = field(default_factory=dict)
    levels_after: Mapping[str, int] = field(default_factory=dict)


@action_once(CommitKind.COMPACT, Maker.JOB, CompactResult)
def compact(context: Context, spec: Compact) -> CompactResult:
    """Compacts; buckets that fail or conflict do not stop the others.

    Raises: UnsupportedError if the engine cannot write the table; InvalidArgumentError; ConflictError if every bucket
    kept conflicting; the error of the first failed bucket if no bucket succeeded.
    """
    selection, progress = _selection(spec), CompactionProgress(_budget(spec), spec.max_seconds)
    table = context.table.remembering()
    check_files_writable(table)
    goal = _goal(table, selection, spec)
    distributed = Distributed(None) if spec.dry_run else _distribute(context, table, selection)
    with context.phases("plan"):
        plan = plan_compaction(table, goal)
    progress.planned(plan)
    if spec.dry_run:
        _expect_rounds(context, plan, progress)
        return _result("dry_run", plan.table, progress, distributed)
    plan = _run_rounds(context, plan, progress)
    has_committed = (progress.snapshot_id or distributed.snapshot_id) is not None
    if progress.done_by_other is not None and not has_committed:
        return CompactResult("already_done", progress.done_by_other.id)
    progress.check_outcome(plan.table, has_committed=has_committed)
    return _result("committed" if has_committed else "noop", plan.table, progress, distributed)


def planned_bytes(table: TableHandle, spec: Compact) -> int:
    """Bytes of the files that a compaction would rewrite now, within its limits, from metadata alone.

    Where rows are postponed, the files of their future buckets are not known: all chosen files count.

    Raises: as `compact`, where it plans.
    """
    selection, progress = _selection(spec), CompactionProgress(_budget(spec), spec.max_seconds)
    table = table.remembering()
    plan = plan_compaction(table, _goal(table, selection, spec))
    if any(number == POSTPONED_BUCKET for _, number in plan.files):
        return sum(file.size_bytes for files in plan.files.values() for file in files)
    progress.planned(plan)
    tasks: Sequence[CompactTask] = plan.tasks
    rewritten_bytes = 0
    while tasks:
        taken = progress.next_round(tasks)
        rewritten_bytes += sum(task.bytes_to_rewrite for task in taken.chosen)
        tasks = taken.later
    return rewritten_bytes


def _goal(table: TableHandle, selection: BucketSelection, spec: Compact) -> CompactionGoal:
    return CompactionGoal(idle_partitions(table, selection), spec.full, spec.task_bytes, spec.task_memory_bytes)


def _selection(spec: Compact) -> BucketSelection:
    """Raises InvalidArgumentError for a choice of no bucket."""
    if spec.buckets is not None and not spec.buckets:
        raise InvalidArgumentError("buckets=[]: give numbers of buckets, from 0 on")
    buckets = None if spec.buckets is None else frozenset(spec.buckets)
    return BucketSelection(spec.where, spec.partition_idle_time, buckets)


def _budget(spec: Compact) -> Budget:
    by_default = ROUND_BYTES if spec.max_seconds is None else TIMED_ROUND_BYTES
    return Budget(spec.max_bytes, spec.max_buckets, spec.round_bytes or by_default)


def _distribute(context: Context, table: TableHandle, selection: BucketSelection) -> Distributed:
    """Distributes postponed rows to buckets, in a separate commit; repeats it if that was refused and rows remain."""
    done = Distributed(None)
    if table.schema.bucket_mode is not BucketMode.POSTPONED:
        return done
    for _ in range(_DISTRIBUTIONS_MAX):
        table, snapshot = latest_with_schema(table)
        with context.phases("distribute"):
            more = distribute_postponed(table, selected_entries(table, snapshot, selection), context.executor)
        done = Distributed(more.snapshot_id or done.snapshot_id, done.rows + more.rows, done.conflicts + more.conflicts)
        if not more.conflicts:
            break
    return done


def _expect_rounds(context: Context, plan: CompactionPlan, progress: CompactionProgress) -> None:
    """Notes what the rounds would do, as far as a plan can say."""
    tasks: Sequence[CompactTask] = plan.tasks
    while tasks:
        taken = progress.next_round(tasks)
        progress.split(split_tasks(plan, taken.chosen, context.executor))
        tasks = taken.later


def _run_rounds(context: Context, plan: CompactionPlan, progress: CompactionProgress) -> CompactionPlan:
    """Rewrites and commits until nothing is left to do; gives the last plan."""
    job = context.job
    while plan.tasks:
        taken = progress.next_round(plan.tasks)
        if not taken.chosen:
            break
        begun = work_begins(plan.table, plan.snapshot)
        with context.phases("plan"):
            tasks = split_tasks(plan, taken.chosen, context.executor)
        progress.split(tasks)
        listener = in_round(context.on_progress, progress.rounds)
        with context.phases("merge"):
            outcome = carry_out(plan, tasks, context.executor, on_progress=listener)
        outdated = progress.rewritten(outcome) | leave_to_streams(plan, outcome)
        # A repeated job continues where it was stopped, but does not begin again if it had finished.
        part = identifier_of(Maker.JOB, job.parts + progress.rounds)
        is_part = taken.later or progress.failures or outdated
        conflicting: frozenset[Bucket] = frozenset()
        if outcome.messages:
            identifier = part if is_part else job.identifier
            asked = replace(job.request(outcome.messages), commit_identifier=identifier, begun=begun)
            with context.phases("commit"):
                conflicting = progress.committed(commit_parts(plan.table, asked, part))
        waiting = {(task.partition, task.bucket) for task in taken.later}
        waiting |= progress.changed_by_others(outdated | conflicting)
        if not waiting:
            break
        with context.phases("plan"):
            plan = plan_compaction(plan.table, plan.goal, only=waiting)
        progress.planned(plan)
    return plan


def _result(status: str, table: TableHandle, progress: CompactionProgress, distributed: Distributed) -> CompactResult:
    """The report of a compaction, of all buckets that were planned."""
    reports = progress.reports(table)
    after = [file for bucket in progress.buckets.values() for file in bucket.latest_files]
    bytes_before = sum(report.bytes_before for report in reports)
    before_sum = sum(report.read_amplification_before * report.bytes_before for report in reports)
    after_sum = sum(r.bytes_before * (r.read_amplification_after or r.read_amplification_before) for r in reports)
    return CompactResult(
        status=status,
        snapshot_id=progress.snapshot_id or distributed.snapshot_id,
        files_before=sum(report.files_before for report in reports),
        files_after=len(after),
        bytes_before=bytes_before,
        bytes_after=sum(file.size_bytes for file in after),
        rows_before=sum(report.rows_before for report in reports),
        rows_after=rows_in(after),
        buckets=reports,
        rows_distributed=distributed.rows,
        conflicts=distributed.conflicts + progress.conflicts,
        failed=tuple(f"bucket {failure.bucket[1]}: {failure.message}" for failure in progress.failures),
        buckets_left=sum(report.is_left for report in reports),
        rounds=progress.rounds,
        read_amplification_before=before_sum / max(1, bytes_before),
        read_amplification_after=after_sum / max(1, bytes_before),
        levels_before=_by_level(file for bucket in progress.buckets.values() for file in bucket.before),
        levels_after=_by_level(after),
    )


def _by_level(files: Iterable[DataFile]) -> dict[str, int]:
    """Numbers of files by level, as JSON has names."""
    counted = Counter(file.level for file in files)
    return {str(level): counted[level] for level in sorted(counted)}
