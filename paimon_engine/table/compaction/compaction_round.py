"""A round of a compaction: the tasks of some buckets are carried out on an executor, the larger ones in parts.

A bucket whose task fails does not stop the others: what was written for it is deleted, and the failure is a value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from paimon_engine.errors import NotFoundError, PaimonError
from paimon_engine.executor import Done, Executor, Failed
from paimon_engine.lsm.parts import split_task
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.meta.conflict import Bucket
from paimon_engine.progress import OnProgress, counting
from paimon_engine.table.commit.abort import delete_uncommitted, interruptible
from paimon_engine.table.compaction.compaction_plan import CompactionPlan
from paimon_engine.table.compaction.key_samples import key_samples
from paimon_engine.table.compaction.rewrite import RewriteTask, join_parts, rewrite
from paimon_engine.table.compaction.streams import compacted_by_streams, may_have_streams
from paimon_engine.table.compaction.uncounted_deletes import without_needless_rewrites
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.snapshots import latest_snapshot

PART_BYTES_MIN: Final = 512 << 20
_PART_FILES: Final = 4
"""A part writes about this many files of the target size, where the size of parts is not given."""

TaskParts = tuple[CompactTask, tuple[CompactTask, ...]]
"""The task of a bucket, and the parts that together do its work: the task itself, if it is not split."""


@dataclass(frozen=True, slots=True)
class BucketFailure:
    """A bucket that was not compacted, and why. `is_outdated`: others have replaced its files, which are deleted."""

    bucket: Bucket
    error: PaimonError
    message: str
    is_outdated: bool


@dataclass(slots=True)
class RoundOutcome:
    """What a round has made: files that are not committed yet, and the buckets that failed."""

    messages: list[CommitMessage] = field(default_factory=list)
    failures: list[BucketFailure] = field(default_factory=list)


def split_tasks(plan: CompactionPlan, tasks: Sequence[CompactTask], executor: Executor) -> list[TaskParts]:
    """Each task with its parts, as large as the plan's goal says; first files are looked into that may not need one."""
    table, part_bytes = plan.table, plan.goal.task_bytes
    if part_bytes is None:
        # The ends of parts are read twice: useless where no parts run at the same time.
        usual_bytes = max(_PART_FILES * table.options.target_file_size_bytes, PART_BYTES_MIN)
        part_bytes = usual_bytes if executor.parallelism > 1 else sys.maxsize
    tasks = without_needless_rewrites(table, tasks, executor)
    samples = key_samples(table, tasks, part_bytes, executor)
    return [(task, split_task(task, table.schema, part_bytes, samples)) for task in tasks]


def carry_out(
    plan: CompactionPlan, tasks: Sequence[TaskParts], executor: Executor, *, on_progress: OnProgress | None
) -> RoundOutcome:
    """Rewrites the files of some buckets. Moves between levels need no task on the executor."""
    table, outcome = plan.table, RoundOutcome()
    work: list[tuple[CompactTask, list[RewriteTask]]] = []
    for task, parts in tasks:
        vectors = plan.vectors.get((task.partition, task.bucket), ())
        if task.is_move:
            outcome.messages.append(rewrite(table.env, RewriteTask(table.plain(), task, vectors)))
        else:
            work.append((task, [RewriteTask(table.plain(), part, vectors, len(parts) > 1) for part in parts]))
    items = [item for _, of_bucket in work for item in of_bucket]
    if len(items) < executor.parallelism and plan.goal.task_memory_bytes is None:
        items = [replace(item, task=item.task.in_smaller_batches(), reads_ahead=True) for item in items]
    listener = counting(on_progress, "compact", len(items))
    with interruptible(table):
        done = iter(executor.map(rewrite, items, config=table.config, on_done=listener) if items else [])
    for task, of_bucket in work:
        joined = _joined(plan, task, list(islice(done, len(of_bucket))))
        if isinstance(joined, BucketFailure):
            outcome.failures.append(joined)
        else:
            outcome.messages.append(joined)
    return outcome


def leave_to_streams(plan: CompactionPlan, outcome: RoundOutcome) -> frozenset[Bucket]:
    """Takes out of an outcome the buckets that a streaming job has compacted since the plan, and deletes their files.

    A writer that got new rows for a bucket meanwhile has a view of it in which the files to be replaced are there.
    """
    table = plan.table
    if not may_have_streams(table) or (latest := latest_snapshot(table)) == plan.snapshot:
        return frozenset()
    streams = compacted_by_streams(table, latest)
    left: list[CommitMessage] = []
    kept: list[CommitMessage] = []
    for message in outcome.messages:
        (left if (message.partition, message.bucket) in streams else kept).append(message)
    outcome.messages = kept
    delete_uncommitted(table, left)
    return frozenset((message.partition, message.bucket) for message in left)


def _joined(
    plan: CompactionPlan, task: CompactTask, outcomes: Sequence[Done[CommitMessage] | Failed]
) -> CommitMessage | BucketFailure:
    """The message of a task. If one of its parts failed, what the others wrote is deleted."""
    table, bucket = plan.table, (task.partition, task.bucket)
    done = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
    failed = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    try:
        if failed is None:
            return done[0] if len(done) == 1 else join_parts(table, task, plan.vectors.get(bucket, ()), done)
        error, message = failed.error(), failed.message
    except PaimonError as raised:
        error, message = raised, str(raised)
    delete_uncommitted(table, done)
    is_outdated = isinstance(error, NotFoundError) and plan.snapshot != latest_snapshot(table)
    return BucketFailure(bucket, error, message, is_outdated)
