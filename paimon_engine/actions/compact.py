"""Compact: plan every bucket, rewrite on the executor, commit; plan again only the buckets that others changed.

1. Buckets are planned, those that cost readers most first.
2. A round takes as many of them as a commit should hold and the budget has left; the others wait or are left.
3. Large buckets are split into parts, which run side by side; the parts of a bucket are committed as one.
4. The buckets that wait, and those that others changed meanwhile, are planned again from the latest snapshot.
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, PaimonError, naming
from paimon_engine.executor import Done, Executor, Failed
from paimon_engine.lsm.amplification import expected_files, read_amplification
from paimon_engine.lsm.budget import Budget, Round
from paimon_engine.lsm.parts import split_task
from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.progress import OnProgress, counting
from paimon_engine.specs import Amount, Count, DryRun, Duration, Index, Size, Spec, Where
from paimon_engine.supported import check_writable
from paimon_engine.table.commit.abort import delete_uncommitted
from paimon_engine.table.commit.commit import CommitRequest
from paimon_engine.table.commit.commit_parts import commit_parts
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.bucket_choice import Choice, chosen_entries, deleted_counts
from paimon_engine.table.compaction.key_samples import key_samples
from paimon_engine.table.compaction.rewrite import RewriteTask, join_parts, rewrite
from paimon_engine.table.files.bucket_vectors import vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.partitions import texts_of_key
from paimon_engine.table.state.snapshots import latest_snapshot, latest_with_schema, seen_at_latest
from paimon_engine.table.write.distribute import distribute_postponed
from paimon_engine.units import local_wall_clock_ms

logger = logging.getLogger(__name__)

ROUNDS_MAX = 4
"""Times that conflicting buckets are planned anew before they are left to the next run."""
ROUND_BYTES: Final = 32 << 30
"""A commit holds about so many rewritten bytes: what a run that is stopped may lose."""
TIMED_ROUND_BYTES: Final = 2 << 30
"""As `ROUND_BYTES`, where the time is limited: rounds are what it is checked between."""
_PART_BYTES_MIN: Final = 512 << 20
_PART_FILES: Final = 4


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
class BucketReport:
    """One bucket. `skipped` says why nothing was done; the numbers after are None where nothing was done yet.

    `read_amplification_before` and `_after` are how much more a read does than it would after a full compaction: runs
    that it merges, or on append tables files that it opens for each one needed; in a dry run what is to be expected.
    `tasks` is the number of parts in which the bucket is compacted. `is_left` says that the budget, not the bucket, is
    why nothing (on append tables: not everything) was done.
    """

    partition: Mapping[str, str | None]
    bucket: int
    files_before: int
    bytes_before: int
    rows_before: int
    files_after: int | None = None
    bytes_after: int | None = None
    rows_after: int | None = None
    sorted_runs: int | None = None
    rewritten_bytes: int = 0
    memory_bytes: int = 0
    reason: str | None = None
    skipped: str | None = None
    read_amplification_before: float = 0.0
    read_amplification_after: float | None = None
    tasks: int = 0
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class CompactResult(Result):
    """What a compaction did; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    Totals are of `buckets`, all that `where` chose; a dry run changes none. `failed` holds errors of single buckets.
    `rows_distributed` counts the postponed rows that were given a bucket, before anything else was done. `buckets_left`
    counts the buckets that the budget did not allow: another run finds work. Read amplification, as in `buckets`, is
    here the mean over all bytes.
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


@dataclass(slots=True)
class _Run:
    """State of one compaction over its rounds."""

    spec: Compact
    budget: Budget
    begun: float = field(default_factory=time.monotonic)
    idle: frozenset[bytes] | None = None
    files: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    after: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    tasks: dict[Bucket, CompactTask] = field(default_factory=dict)
    task_counts: dict[Bucket, int] = field(default_factory=dict)
    skipped: dict[Bucket, str] = field(default_factory=dict)
    left: dict[Bucket, str] = field(default_factory=dict)
    tries: Counter[Bucket] = field(default_factory=Counter)
    vectors: dict[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    first_failure: PaimonError | None = None
    has_rewritten: bool = False
    snapshot_id: int | None = None
    rounds: int = 0
    conflicts: int = 0
    rows_distributed: int = 0
    seen: Snapshot | None = None
    vanished: frozenset[Bucket] = frozenset()

    def skip(self, bucket: Bucket, reason: str) -> None:
        """Notes why nothing happened to a bucket."""
        self.tasks.pop(bucket, None)
        self.skipped[bucket] = reason

    def leave(self, task: CompactTask, reason: str) -> None:
        """Notes what the budget did not allow."""
        bucket = (task.partition, task.bucket)
        self.left[bucket] = reason
        self.skip(bucket, f"left: {reason}")


@action
def compact(context: Context, spec: Compact) -> CompactResult:
    """Compacts; buckets that fail or conflict do not stop the others.

    Raises: UnsupportedError if the engine cannot write the table; InvalidArgumentError; ConflictError if every bucket
    kept conflicting; the error of the first failed bucket if no bucket succeeded.
    """
    table, executor, commit_user, on_progress = (
        context.table,
        context.executor,
        context.commit_user,
        context.on_progress,
    )
    run, table = _Run(spec, _budget(spec)), table.remembering()
    check_writable(table.options)
    checked_up_to, parts_before = None, 0
    if commit_user is not None and not spec.dry_run:
        own = find_own_commit(table, commit_user, CommitKind.COMPACT, BATCH_COMMIT_IDENTIFIER)
        if own.snapshot is not None:
            return CompactResult("already_done", own.snapshot.id)
        checked_up_to, parts_before = own.checked_up_to, own.parts
    if spec.partition_idle_time is not None:
        run.idle = seen_at_latest(table, partial(_partitions, table, spec))
    if table.schema.bucket_mode is BucketMode.POSTPONED and not spec.dry_run:
        table, snapshot = latest_with_schema(table)
        distributed = distribute_postponed(table, _chosen(table, spec, snapshot), executor)
        run.snapshot_id, run.rows_distributed = distributed.snapshot_id, distributed.rows
        run.conflicts += distributed.conflicts
    request = CommitRequest((), CommitKind.COMPACT, commit_user or str(uuid.uuid4()), checked_up_to=checked_up_to)
    table, tasks = seen_at_latest(table, partial(_plan, table, run, None))
    if spec.dry_run:
        _expect(table, run, tasks, executor)
        return _result(table, run)
    while tasks:
        taken = _next_round(run, tasks)
        if not taken.chosen:
            break
        run.rounds += 1
        request = replace(request, begun=work_begins(table, run.seen))
        messages = _rewrite(table, taken.chosen, executor, run, on_progress)
        # A job that is repeated goes on where it was stopped, but does not begin again once it was through.
        part = identifier_of(Maker.JOB, parts_before + run.rounds)
        identifier = part if taken.later or run.failed or run.vanished else BATCH_COMMIT_IDENTIFIER
        again = _commit(table, replace(request, messages=messages, commit_identifier=identifier), run, part)
        again |= run.vanished
        run.vanished = frozenset()
        waiting = {(task.partition, task.bucket) for task in taken.later} | _may_try_again(run, again)
        tasks = []
        if waiting:
            table, tasks = seen_at_latest(table, partial(_plan, table, run, frozenset(waiting)))
    _check_outcome(table, run)
    return _result(table, run)


def _budget(spec: Compact) -> Budget:
    """Raises InvalidArgumentError for a choice of no bucket."""
    if spec.buckets is not None and not spec.buckets:
        raise InvalidArgumentError("buckets=[]: give numbers of buckets, from 0 on")
    by_default = ROUND_BYTES if spec.max_seconds is None else TIMED_ROUND_BYTES
    return Budget(spec.max_bytes, spec.max_buckets, spec.round_bytes or by_default)


def _next_round(run: _Run, tasks: Sequence[CompactTask]) -> Round:
    """What to do now; what is left is noted."""
    max_seconds = run.spec.max_seconds
    if run.rounds and max_seconds is not None and time.monotonic() - run.begun >= max_seconds:
        taken = Round(left=tuple((task, f"max_seconds={max_seconds} were over") for task in tasks))
    else:
        taken = run.budget.next_round(tasks)
    for task, reason in taken.left:
        run.leave(task, reason)
    run.tasks |= {(task.partition, task.bucket): task for task in taken.chosen}
    run.left |= {(task.partition, task.bucket): reason for task, reason in taken.shortened}
    return taken


def _may_try_again(run: _Run, conflicting: frozenset[Bucket]) -> set[Bucket]:
    """Buckets that others changed, without those that they changed too often."""
    run.tries.update(conflicting)
    for bucket in conflicting:
        if run.tries[bucket] >= ROUNDS_MAX:
            run.skip(bucket, f"others changed it in {ROUNDS_MAX} rounds")
    return {bucket for bucket in conflicting if run.tries[bucket] < ROUNDS_MAX}


def _check_outcome(table: TableHandle, run: _Run) -> None:
    """Raises what kept every bucket from being compacted."""
    if run.first_failure is not None and not run.has_rewritten:
        raise run.first_failure
    if run.snapshot_id is None and any(count >= ROUNDS_MAX for count in run.tries.values()):
        raise ConflictError(f"{table.paths.root}: others changed the same buckets in {ROUNDS_MAX} rounds; run it later")


# ── planning ────────────────────────────────────────────────────────────────────────────────────


def _chosen(table: TableHandle, spec: Compact, snapshot: Snapshot | None) -> list[ManifestEntry]:
    """Live entries that the spec chooses."""
    buckets = None if spec.buckets is None else frozenset(spec.buckets)
    return chosen_entries(table, snapshot, Choice(spec.where, spec.partition_idle_time, buckets))


def _partitions(table: TableHandle, spec: Compact, snapshot: Snapshot | None) -> frozenset[bytes]:
    """Partitions that the spec chooses."""
    return frozenset(entry.partition for entry in _chosen(table, spec, snapshot))


def _plan(
    table: TableHandle, run: _Run, only: frozenset[Bucket] | None, snapshot: Snapshot | None
) -> tuple[TableHandle, list[CompactTask]]:
    """The table with the schema to rewrite in; tasks of all chosen buckets, or of `only` these, in order of need."""
    table = table.newest()
    run.seen = snapshot
    run.vectors = vector_files(table, snapshot)
    tasks = []
    # A partition to which this run has written is no longer idle.
    asked = replace(run.spec, partition_idle_time=None)
    for bucket, members in by_bucket(_chosen(table, asked, snapshot)).items():
        if (only is not None and bucket not in only) or (run.idle is not None and bucket[0] not in run.idle):
            continue
        files = [entry.file for entry in members]
        run.files[bucket] = files
        if bucket[1] == POSTPONED_BUCKET:
            run.skip(bucket, "postponed rows: the next compaction gives them their buckets")
            continue
        planned = _plan_bucket(table, run, bucket, members[0].total_buckets)
        if isinstance(planned, NothingToDo):
            run.skip(bucket, planned.reason)
        else:
            run.tasks[bucket] = planned
            tasks.append(planned)
    return table, sorted(tasks, key=lambda task: _by_need(table, run, task))


def _plan_bucket(table: TableHandle, run: _Run, bucket: Bucket, total_buckets: int) -> CompactTask | NothingToDo:
    deleted = deleted_counts(table, bucket, run.vectors.get(bucket, ()))
    with naming(f"{table.paths.root}/manifest: entries of bucket {bucket[1]}"):
        planned = plan_bucket(
            *bucket,
            total_buckets,
            run.files[bucket],
            schema=table.schema,
            full=run.spec.full,
            now_ms=local_wall_clock_ms(table.env.clock()),
            deleted_counts=deleted,
        )
    if isinstance(planned, NothingToDo) or run.spec.task_memory_bytes is None:
        return planned
    return planned.within(run.spec.task_memory_bytes)


def _by_need(table: TableHandle, run: _Run, task: CompactTask) -> tuple[float, int, Bucket]:
    """Where reads cost most comes first, and of these where a compaction costs least."""
    bucket = (task.partition, task.bucket)
    return -read_amplification(run.files[bucket], table.schema), task.bytes_to_rewrite, bucket


def _parts(
    table: TableHandle, run: _Run, tasks: Sequence[CompactTask], executor: Executor
) -> list[tuple[CompactTask, ...]]:
    """The parts of each task; how many is noted."""
    usual_bytes = max(_PART_FILES * table.options.target_file_size_bytes, _PART_BYTES_MIN)
    # What is cut is read twice at the ends: in vain where nothing runs side by side.
    part_bytes = run.spec.task_bytes or (usual_bytes if executor.parallelism > 1 else sys.maxsize)
    samples = key_samples(table, tasks, part_bytes, executor)
    parts = [split_task(task, table.schema, part_bytes, samples) for task in tasks]
    run.task_counts |= {(task.partition, task.bucket): len(of) for task, of in zip(tasks, parts, strict=True)}
    return parts


def _expect(table: TableHandle, run: _Run, tasks: Sequence[CompactTask], executor: Executor) -> None:
    """What the rounds would do, as far as a plan tells."""
    while tasks:
        taken = _next_round(run, tasks)
        _parts(table, run, taken.chosen, executor)
        run.rounds += bool(taken.chosen)
        tasks = taken.later


def _rewrite(
    table: TableHandle, tasks: Sequence[CompactTask], executor: Executor, run: _Run, on_progress: OnProgress | None
) -> list[CommitMessage]:
    """Messages of the tasks that succeeded. Moves between levels need no task."""
    messages, work = [], []
    for task, parts in zip(tasks, _parts(table, run, tasks, executor), strict=True):
        vectors = run.vectors.get((task.partition, task.bucket), ())
        if task.is_move:
            messages.append(rewrite(table.env, RewriteTask(table.plain(), task, vectors)))
        else:
            work.append((task, [RewriteTask(table.plain(), part, vectors, len(parts) > 1) for part in parts]))
    items = [item for _, prepared in work for item in prepared]
    if len(items) < executor.parallelism and run.spec.task_memory_bytes is None:
        items = [replace(item, reads_ahead=True) for item in items]
    listener = counting(on_progress, "compact", len(items))
    outcomes = iter(executor.map(rewrite, items, config=table.config, on_done=listener) if items else [])
    for task, prepared in work:
        joined = _joined(table, run, task, list(islice(outcomes, len(prepared))))
        messages += [] if joined is None else [joined]
    run.has_rewritten |= bool(messages)
    return messages


def _joined(
    table: TableHandle, run: _Run, task: CompactTask, outcomes: Sequence[Done[CommitMessage] | Failed]
) -> CommitMessage | None:
    """The message of a task; None if one of its parts failed: what the others wrote is deleted."""
    done = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
    bucket = (task.partition, task.bucket)
    failed = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    try:
        if failed is None:
            return done[0] if len(done) == 1 else join_parts(table, task, run.vectors.get(bucket, ()), done)
        error, said = failed.error(), failed.message
    except PaimonError as raised:
        error, said = raised, str(raised)
    delete_uncommitted(table, done)
    if isinstance(error, NotFoundError) and run.tries[bucket] < ROUNDS_MAX - 1 and run.seen != latest_snapshot(table):
        # Others have replaced the files, and an expiry has deleted them.
        run.vanished |= {bucket}
        return None
    logger.warning("bucket %d was not compacted: %s", task.bucket, said)
    run.failed.append(f"bucket {task.bucket}: {said}")
    run.first_failure = run.first_failure or error
    run.skip(bucket, f"failed: {said}")
    return None


def _commit(table: TableHandle, request: CommitRequest, run: _Run, part: int) -> frozenset[Bucket]:
    """Commits what still applies, as a `part` if that is not all; the buckets that conflict, to be planned anew."""
    if not request.messages:
        return frozenset()
    parts = commit_parts(table, request, part)
    run.conflicts += len(parts.conflicting)
    if parts.snapshot is not None:
        run.snapshot_id = parts.snapshot.id
        run.after.update({(m.partition, m.bucket): _applied(run, m) for m in parts.committed})
    return parts.conflicting


def _applied(run: _Run, message: CommitMessage) -> list[DataFile]:
    gone = {file.name for file in message.compact_before}
    kept = [file for file in run.files[message.partition, message.bucket] if file.name not in gone]
    return [*kept, *message.compact_after]


# ── report ──────────────────────────────────────────────────────────────────────────────────────


def _result(table: TableHandle, run: _Run) -> CompactResult:
    reports = tuple(_report(table, run, bucket) for bucket in run.files)
    status = "dry_run" if run.spec.dry_run else "committed" if run.snapshot_id is not None else "noop"
    after = [files for bucket, files in run.files.items() for files in [run.after.get(bucket, files)]]
    bytes_before = sum(report.bytes_before for report in reports)
    before_sum = sum(report.read_amplification_before * report.bytes_before for report in reports)
    after_sum = sum(r.bytes_before * (r.read_amplification_after or r.read_amplification_before) for r in reports)
    return CompactResult(
        status=status,
        snapshot_id=run.snapshot_id,
        files_before=sum(report.files_before for report in reports),
        files_after=sum(len(files) for files in after),
        bytes_before=bytes_before,
        bytes_after=sum(file.size_bytes for files in after for file in files),
        rows_before=sum(report.rows_before for report in reports),
        rows_after=sum(file.row_count for files in after for file in files),
        buckets=reports,
        rows_distributed=run.rows_distributed,
        conflicts=run.conflicts,
        failed=tuple(run.failed),
        buckets_left=len(run.left),
        rounds=run.rounds,
        read_amplification_before=before_sum / max(1, bytes_before),
        read_amplification_after=after_sum / max(1, bytes_before),
    )


def _report(table: TableHandle, run: _Run, bucket: Bucket) -> BucketReport:
    before, after, task = run.files[bucket], run.after.get(bucket), run.tasks.get(bucket)
    later = expected_files(task, before, table.schema) if task is not None and after is None else after
    return BucketReport(
        partition=texts_of_key(table, bucket[0]),
        bucket=bucket[1],
        files_before=len(before),
        bytes_before=sum(file.size_bytes for file in before),
        rows_before=sum(file.row_count for file in before),
        files_after=None if after is None else len(after),
        bytes_after=None if after is None else sum(file.size_bytes for file in after),
        rows_after=None if after is None else sum(file.row_count for file in after),
        sorted_runs=None if task is None else task.run_count,
        rewritten_bytes=0 if task is None else task.bytes_to_rewrite,
        memory_bytes=0 if task is None else task.memory_bytes,
        reason=None if task is None else task.reason,
        skipped=run.skipped.get(bucket) if task is None else None,
        read_amplification_before=read_amplification(before, table.schema),
        read_amplification_after=None if later is None else read_amplification(later, table.schema),
        tasks=0 if task is None else run.task_counts.get(bucket, 0),
        is_left=bucket in run.left,
    )
