"""Compact: plan every bucket, rewrite on the executor, commit; plan again only the buckets that others changed."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paimon_engine.errors import ConflictError, InvalidArgumentError, naming
from paimon_engine.executor import Done, Executor, Failed
from paimon_engine.format.binary_row import decode_row
from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import IndexFile, VectorRange
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.paths import partition_text
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.predicate import parse_where
from paimon_engine.progress import OnProgress, counting
from paimon_engine.supported import check_writable
from paimon_engine.table.bucket_vectors import vector_files
from paimon_engine.table.commit import CommitRequest
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.commit_parts import commit_parts
from paimon_engine.table.distribute import distribute_postponed
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries
from paimon_engine.table.own_commits import find_own_commit
from paimon_engine.table.pruning import manifest_filter, matching_partitions, partition_predicate_parts
from paimon_engine.table.rewrite import RewriteTask, rewrite
from paimon_engine.table.scan import check_key_types
from paimon_engine.table.snapshots import latest_snapshot

logger = logging.getLogger(__name__)

ROUNDS_MAX = 4
"""Times that conflicting buckets are planned anew before they are left to the next run."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact a table, or the partitions that `where` chooses. `full` rewrites all runs into the highest level."""

    full: bool = False
    where: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BucketReport:
    """One bucket. `skipped` says why nothing was done; the numbers after are None where nothing was done yet."""

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


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    Totals cover the buckets in `buckets`, that is all that `where` chose. `failed` holds errors of single buckets.
    `rows_distributed` counts the postponed rows that were given a bucket, before anything else was done.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(slots=True)
class _Run:
    """State of one compaction over its rounds."""

    files: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    after: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    tasks: dict[Bucket, CompactTask] = field(default_factory=dict)
    skipped: dict[Bucket, str] = field(default_factory=dict)
    vectors: dict[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    snapshot_id: int | None = None
    conflicts: int = 0
    rows_distributed: int = 0

    def skip(self, bucket: Bucket, reason: str) -> None:
        """Notes why nothing happened to a bucket."""
        self.tasks.pop(bucket, None)
        self.skipped[bucket] = reason


def compact(
    table: TableHandle,
    spec: Compact,
    executor: Executor,
    *,
    commit_user: str | None = None,
    on_progress: OnProgress | None = None,
) -> CompactResult:
    """Compacts; buckets that fail or conflict do not stop the others.

    Raises: UnsupportedError if the engine cannot write the table; ConflictError if every bucket kept conflicting;
    the error of the first failed bucket if no bucket succeeded.
    """
    begun = time.monotonic()
    check_writable(table.options)
    checked_up_to = None
    if commit_user is not None and not spec.dry_run:
        own = find_own_commit(table, commit_user, (CommitKind.COMPACT,))
        if own.snapshot is not None:
            return CompactResult("already_done", own.snapshot.id, seconds=time.monotonic() - begun)
        checked_up_to = own.checked_up_to
    run = _Run()
    if table.schema.bucket_mode is BucketMode.POSTPONED and not spec.dry_run:
        distributed = distribute_postponed(table, _chosen(table, spec, latest_snapshot(table)), executor)
        run.snapshot_id, run.rows_distributed = distributed.snapshot_id, distributed.rows
        run.conflicts += distributed.conflicts
    only: frozenset[Bucket] | None = None
    for number in range(1, ROUNDS_MAX + 1):
        tasks = _plan(table, spec, run, only)
        if spec.dry_run or not tasks:
            break
        messages = _rewrite(table, tasks, executor, run, on_progress)
        request = CommitRequest(
            messages, CommitKind.COMPACT, commit_user or str(uuid.uuid4()), number, checked_up_to=checked_up_to
        )
        only = _commit(table, request, run)
        if not only:
            break
    else:
        if run.snapshot_id is None:
            raise ConflictError(
                f"{table.paths.root}: others changed the same buckets in {ROUNDS_MAX} rounds; run it later"
            )
        for bucket in only or ():
            run.skip(bucket, f"others changed it in {ROUNDS_MAX} rounds")
    return _result(table, spec, run, time.monotonic() - begun)


def _chosen(table: TableHandle, spec: Compact, snapshot: Snapshot | None) -> list[ManifestEntry]:
    """Live entries of the partitions that the spec chooses."""
    where = None if spec.where is None else parse_where(spec.where)
    chosen, other = partition_predicate_parts(table.schema, where)
    if other:
        keys = ", ".join(table.schema.partition_keys) or "none"
        raise InvalidArgumentError(f"{spec.where!r}: compaction is chosen by partition columns only ({keys})")
    found = live_entries(table, snapshot, may_hold=manifest_filter(table.schema, chosen))
    check_key_types(table, found)
    return matching_partitions(table.schema, found, chosen)


def _plan(table: TableHandle, spec: Compact, run: _Run, only: frozenset[Bucket] | None) -> list[CompactTask]:
    snapshot = latest_snapshot(table)
    run.vectors = vector_files(table, snapshot)
    tasks = []
    for bucket, members in by_bucket(_chosen(table, spec, snapshot)).items():
        if only is not None and bucket not in only:
            continue
        files = [entry.file for entry in members]
        run.files[bucket] = files
        if bucket[1] == POSTPONED_BUCKET:
            run.skip(bucket, "postponed rows: the next compaction gives them their buckets")
            continue
        deleted = {
            item.data_file: _deleted_count(item) for file in run.vectors.get(bucket, ()) for item in file.vectors
        }
        with naming(f"{table.paths.root}/manifest: entries of bucket {bucket[1]}"):
            planned = plan_bucket(
                *bucket, members[0].total_buckets, files, schema=table.schema, full=spec.full, deleted_counts=deleted
            )
        if isinstance(planned, NothingToDo):
            run.skip(bucket, planned.reason)
        else:
            run.tasks[bucket] = planned
            tasks.append(planned)
    return tasks


def _deleted_count(vector: VectorRange) -> int:
    """Rows that a vector deletes; one at least where its writer, of 0.9, did not say how many."""
    return 1 if vector.cardinality is None else vector.cardinality


def _rewrite(
    table: TableHandle,
    tasks: Sequence[CompactTask],
    executor: Executor,
    run: _Run,
    on_progress: OnProgress | None,
) -> list[CommitMessage]:
    """Messages of the tasks that succeeded. Moves between levels need no task."""
    prepared = [RewriteTask(table.plain(), task, run.vectors.get((task.partition, task.bucket), ())) for task in tasks]
    work = [item for item in prepared if not item.task.is_move]
    moves = [rewrite(table.env, item) for item in prepared if item.task.is_move]
    listener = counting(on_progress, "compact", len(work))
    outcomes = executor.map(rewrite, work, config=table.config, on_done=listener) if work else []
    messages = [*moves, *(outcome.value for outcome in outcomes if isinstance(outcome, Done))]
    failures = [
        (item.task, outcome) for item, outcome in zip(work, outcomes, strict=True) if isinstance(outcome, Failed)
    ]
    if failures and not messages:
        raise failures[0][1].error()
    for task, outcome in failures:
        logger.warning("bucket %d was not compacted: %s", task.bucket, outcome.message)
        run.failed.append(f"bucket {task.bucket}: {outcome.message}")
        run.skip((task.partition, task.bucket), f"failed: {outcome.message}")
    return messages


def _commit(table: TableHandle, request: CommitRequest, run: _Run) -> frozenset[Bucket]:
    """Commits what still applies; the buckets that conflict, to be planned anew."""
    parts = commit_parts(table, request)
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


def _result(table: TableHandle, spec: Compact, run: _Run, seconds: float) -> CompactResult:
    reports = tuple(_report(table, run, bucket) for bucket in run.files)
    status = "dry_run" if spec.dry_run else "committed" if run.snapshot_id is not None else "noop"
    after = [files for bucket, files in run.files.items() for files in [run.after.get(bucket, files)]]
    return CompactResult(
        status=status,
        snapshot_id=run.snapshot_id,
        files_before=sum(report.files_before for report in reports),
        files_after=sum(len(files) for files in after),
        bytes_before=sum(report.bytes_before for report in reports),
        bytes_after=sum(file.size_bytes for files in after for file in files),
        rows_before=sum(report.rows_before for report in reports),
        rows_after=sum(file.row_count for files in after for file in files),
        buckets=reports,
        rows_distributed=run.rows_distributed,
        conflicts=run.conflicts,
        failed=tuple(run.failed),
        seconds=seconds,
    )


def _report(table: TableHandle, run: _Run, bucket: Bucket) -> BucketReport:
    partition, number = bucket
    columns = table.schema.partition_type
    decoded = decode_row([item.type for item in columns], partition)
    texts = {
        item.name: None if value is None else partition_text(item.type, value, legacy_name=False)
        for item, value in zip(columns, decoded, strict=True)
    }
    before, after, task = run.files[bucket], run.after.get(bucket), run.tasks.get(bucket)
    return BucketReport(
        partition=texts,
        bucket=number,
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
    )
