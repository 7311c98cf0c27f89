"""Planning a compaction: from the latest snapshot to a task per bucket, those that cost readers most first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from paimon_engine.errors import CorruptTableError, NotFoundError, naming
from paimon_engine.lsm.amplification import read_amplification
from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import IndexFile, VectorRange
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.snapshot_order import check_numbered
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.compaction.bucket_selection import BucketSelection, selected_entries
from paimon_engine.table.compaction.streams import compacted_by_streams, why_not
from paimon_engine.table.files.bucket_vectors import BucketVectors, vector_files
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import read_at_latest
from paimon_engine.units import local_wall_clock_ms

_USUAL_MEMORY_BYTES: Final = 352 << 20
"""More does not make a task faster, be its rows of 100 bytes or of 3 KB, and its runs 8 or 30; with a tenth less, one
with rows of 3 KB takes a quarter more of CPU time (measured)."""


@dataclass(frozen=True, slots=True)
class CompactionGoal:
    """Which buckets are compacted, and how far: `full` merges everything into the highest level.

    Buckets are split into tasks of about `task_bytes`; tasks that need more than `task_memory_bytes` are skipped.
    Without it none is, and each takes as much memory as makes it fast.
    """

    selection: BucketSelection
    full: bool = False
    task_bytes: int | None = None
    task_memory_bytes: int | None = None


@dataclass(slots=True)
class CompactionPlan:
    """The plan for a snapshot: `files` has each selected bucket, which then has a task or a reason for having none.

    `table` has the schema in which files are rewritten. `vectors` are the live index files with deletion vectors.
    """

    goal: CompactionGoal
    table: TableHandle
    snapshot: Snapshot | None
    vectors: Mapping[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)
    files: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    tasks: list[CompactTask] = field(default_factory=list)
    skipped: dict[Bucket, str] = field(default_factory=dict)


def idle_partitions(table: TableHandle, selection: BucketSelection) -> BucketSelection:
    """The selection with the partitions that are idle now: one to which a compaction has written is idle no longer."""
    if selection.idle_ms is None:
        return selection

    def partitions(snapshot: Snapshot | None) -> frozenset[bytes]:
        return frozenset(entry.partition for entry in selected_entries(table, snapshot, selection))

    return replace(selection, idle_ms=None, partitions=read_at_latest(table, partitions))


def plan_compaction(
    table: TableHandle, goal: CompactionGoal, *, only: Collection[Bucket] | None = None
) -> CompactionPlan:
    """Plans the selected buckets, of these `only` some if given, as the latest snapshot has them.

    Raises: InvalidArgumentError for a condition on columns other than partition columns; NotFoundError,
    CorruptTableError.
    """
    return read_at_latest(table, partial(_plan_at, table, goal, only))


def _plan_at(
    table: TableHandle, goal: CompactionGoal, only: Collection[Bucket] | None, snapshot: Snapshot | None
) -> CompactionPlan:
    """The plan at one snapshot: a task, or a reason for none, per selected bucket; the most useful tasks first."""
    table = table.newest()
    plan = CompactionPlan(goal, table, snapshot, vector_files(table, snapshot))
    streams = compacted_by_streams(table, snapshot)
    for bucket, entries in by_bucket(selected_entries(table, snapshot, goal.selection)).items():
        if only is not None and bucket not in only:
            continue
        plan.files[bucket] = [entry.file for entry in entries]
        if bucket[1] == POSTPONED_BUCKET:
            plan.skipped[bucket] = "postponed rows: the next compaction gives them their buckets"
            continue
        if bucket in streams:
            plan.skipped[bucket] = why_not(streams[bucket])
            continue
        planned = _plan_bucket(plan, bucket, entries[0].total_buckets)
        if isinstance(planned, NothingToDo):
            plan.skipped[bucket] = planned.reason
        else:
            plan.tasks.append(planned)
    plan.tasks.sort(key=lambda task: _by_need(plan, task))
    return plan


def _plan_bucket(plan: CompactionPlan, bucket: Bucket, total_buckets: int) -> CompactTask | NothingToDo:
    """The task of one bucket, within the goal's memory per task, or why there is none."""
    table, goal = plan.table, plan.goal
    if table.options.snapshot_ordering:
        check_numbered(plan.files[bucket])
    deleted = _deleted_counts(table, bucket, plan.vectors.get(bucket, ()))
    with naming(f"{table.paths.root}/manifest: entries of bucket {bucket[1]}"):
        planned = plan_bucket(
            *bucket,
            total_buckets,
            plan.files[bucket],
            schema=table.schema,
            full=goal.full,
            now_ms=local_wall_clock_ms(table.env.clock()),
            deleted_counts=deleted,
            schema_of=table.schema_of,
        )
    if isinstance(planned, NothingToDo):
        return planned
    if goal.task_memory_bytes is None:
        return planned.in_memory_of(_USUAL_MEMORY_BYTES)
    return planned.within(goal.task_memory_bytes)


def _by_need(plan: CompactionPlan, task: CompactTask) -> tuple[float, int, Bucket]:
    """Where reads cost most comes first, and of these where a compaction costs least."""
    bucket = (task.partition, task.bucket)
    return (
        -read_amplification(plan.files[bucket], plan.table.schema, plan.table.schema_of),
        task.bytes_to_rewrite,
        bucket,
    )


def _deleted_counts(table: TableHandle, bucket: Bucket, files: Sequence[IndexFile]) -> Mapping[str, int]:
    """Rows that the vectors of a bucket delete, by data file; counted in those whose writer, of 0.9, did not say.

    Vectors that cannot be read count as one row: reading the data file reports the error.
    """
    vectors = BucketVectors(table, *bucket, files)

    def count(item: VectorRange) -> int:
        if item.cardinality is not None:
            return item.cardinality
        try:
            deleted = vectors.deleted_rows(item.data_file)
        except (NotFoundError, CorruptTableError):
            return 1
        return 0 if deleted is None else len(deleted)

    return {item.data_file: count(item) for file in files for item in file.vectors}
