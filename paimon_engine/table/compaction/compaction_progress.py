"""The progress of a compaction over its rounds: the state of each bucket, and the used part of the budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.errors import ConflictError
from paimon_engine.lsm.amplification import expected_files, read_amplification
from paimon_engine.lsm.budget import Budget, Round
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.commit.commit_parts import Parts
from paimon_engine.table.compaction.compaction_plan import CompactionPlan
from paimon_engine.table.compaction.compaction_round import BucketFailure, RoundOutcome, TaskParts
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.partitions import texts_of_key

logger = logging.getLogger(__name__)

TRIES_MAX: Final = 4
"""Rounds in which others may change a bucket that is being compacted; then it is left to the next run."""


@dataclass(frozen=True, slots=True)
class BucketReport:
    """One bucket. `skipped` says why nothing was done; the numbers after are None where nothing was done yet.

    `read_amplification_before` and `_after` are how much more a read does than it would after a full compaction: runs
    that it merges, or on append tables files that it opens for each one needed; in a dry run the expected values.
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


@dataclass(slots=True)
class BucketProgress:
    """A bucket: its files when it was planned last, then what was decided, then its files `after` the commit.

    `tries` counts the rounds in which others changed it.
    """

    before: list[DataFile] = field(default_factory=list)
    task: CompactTask | None = None
    part_count: int = 0
    skipped: str | None = None
    is_left: bool = False
    tries: int = 0
    after: list[DataFile] | None = None

    @property
    def latest_files(self) -> list[DataFile]:
        """The files of now."""
        return self.before if self.after is None else self.after

    def skip(self, reason: str) -> None:
        """Notes that nothing happens to the bucket, and why."""
        self.task = None
        self.skipped = reason

    def commit(self, message: CommitMessage) -> None:
        """Notes what has been committed."""
        gone = {file.name for file in message.compact_before}
        self.after = [*(file for file in self.before if file.name not in gone), *message.compact_after]

    def report(self, table: TableHandle, key: Bucket) -> BucketReport:
        """What the result says about it."""
        task, before, after = self.task, self.before, self.after
        schema, schema_of = table.schema, table.schema_of
        later = expected_files(task, before, schema, schema_of) if task is not None and after is None else after
        return BucketReport(
            partition=texts_of_key(table, key[0]),
            bucket=key[1],
            files_before=len(before),
            bytes_before=sum(file.size_bytes for file in before),
            rows_before=rows_in(before),
            files_after=None if after is None else len(after),
            bytes_after=None if after is None else sum(file.size_bytes for file in after),
            rows_after=None if after is None else rows_in(after),
            sorted_runs=None if task is None else task.run_count,
            rewritten_bytes=0 if task is None else task.bytes_to_rewrite,
            memory_bytes=0 if task is None else task.memory_bytes,
            reason=None if task is None else task.reason,
            skipped=self.skipped if task is None else None,
            read_amplification_before=read_amplification(before, schema, schema_of),
            read_amplification_after=None if later is None else read_amplification(later, schema, schema_of),
            tasks=0 if task is None else self.part_count,
            is_left=self.is_left,
        )


@dataclass(slots=True)
class CompactionProgress:
    """All buckets of a compaction, what it may still do, and what failed. No round begins after `max_seconds`.

    `done_by_other` is the snapshot by which another attempt of the same job has completed it meanwhile.
    """

    budget: Budget
    max_seconds: float | None = None
    begun: float = field(default_factory=time.monotonic)
    buckets: dict[Bucket, BucketProgress] = field(default_factory=dict)
    rounds: int = 0
    conflicts: int = 0
    failures: list[BucketFailure] = field(default_factory=list)
    has_rewritten: bool = False
    snapshot_id: int | None = None
    done_by_other: Snapshot | None = None

    def planned(self, plan: CompactionPlan) -> None:
        """Notes what a plan says of its buckets."""
        for key, files in plan.files.items():
            self.buckets.setdefault(key, BucketProgress()).before = files
        for key, reason in plan.skipped.items():
            self.buckets[key].skip(reason)
        for task in plan.tasks:
            self._of(task).task = task

    def next_round(self, tasks: Sequence[CompactTask]) -> Round:
        """What to do now; what is skipped permanently is noted."""
        if self.rounds and self.max_seconds is not None and time.monotonic() - self.begun >= self.max_seconds:
            taken = Round(left=tuple((task, f"max_seconds={self.max_seconds} were over") for task in tasks))
        else:
            taken = self.budget.next_round(tasks)
        for task, reason in taken.left:
            self._of(task).is_left = True
            self._of(task).skip(f"left: {reason}")
        for task in taken.chosen:
            self._of(task).task = task
        for task, _ in taken.shortened:
            self._of(task).is_left = True
        self.rounds += bool(taken.chosen)
        return taken

    def split(self, tasks: Sequence[TaskParts]) -> None:
        """Notes how buckets are compacted, and in how many parts."""
        for task, parts in tasks:
            self._of(task).task = task
            self._of(task).part_count = len(parts)

    def rewritten(self, outcome: RoundOutcome) -> frozenset[Bucket]:
        """Notes what was rewritten and what failed; the buckets that others changed meanwhile, for another plan."""
        self.has_rewritten |= bool(outcome.messages)
        outdated = set()
        for failure in outcome.failures:
            bucket = self.buckets[failure.bucket]
            if failure.is_outdated and bucket.tries < TRIES_MAX - 1:
                outdated.add(failure.bucket)
                continue
            logger.warning("bucket %d was not compacted: %s", failure.bucket[1], failure.message)
            self.failures.append(failure)
            bucket.skip(f"failed: {failure.message}")
        return frozenset(outdated)

    def committed(self, parts: Parts) -> frozenset[Bucket]:
        """Notes what was committed; the buckets that others changed meanwhile."""
        self.conflicts += len(parts.conflicting)
        self.done_by_other = parts.done
        if parts.snapshot is not None:
            self.snapshot_id = parts.snapshot.id
        for message in parts.committed:
            self.buckets[message.partition, message.bucket].commit(message)
        return parts.conflicting

    def changed_by_others(self, keys: Iterable[Bucket]) -> set[Bucket]:
        """Of buckets that others changed, those to be planned again: all but those that they changed too often."""
        again = set()
        for key in keys:
            bucket = self.buckets[key]
            bucket.tries += 1
            if bucket.tries < TRIES_MAX:
                again.add(key)
            else:
                bucket.skip(f"others changed it in {TRIES_MAX} rounds")
        return again

    def reports(self, table: TableHandle) -> tuple[BucketReport, ...]:
        """What the result says about each bucket."""
        return tuple(bucket.report(table, key) for key, bucket in self.buckets.items())

    def check_outcome(self, table: TableHandle, *, has_committed: bool) -> None:
        """Raises what kept every bucket from being compacted."""
        if self.failures and not self.has_rewritten:
            raise self.failures[0].error
        if not has_committed and any(bucket.tries >= TRIES_MAX for bucket in self.buckets.values()):
            raise ConflictError(
                f"{table.paths.root}: others changed the same buckets in {TRIES_MAX} rounds; run it later"
            )

    def _of(self, task: CompactTask) -> BucketProgress:
        return self.buckets[task.partition, task.bucket]
