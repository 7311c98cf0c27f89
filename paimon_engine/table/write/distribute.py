"""Giving postponed rows their buckets: the files of bucket −2 go, files of real buckets come, in one commit.

The buckets of a partition are as many as it has, else `postpone.default-bucket-num`. Rows are written in their order of
arrival, with new sequence numbers, as a writer of a table with that number of buckets would.

Source: `PostponeBucketCompactSplitSource`, `PostponeBucketCommittableRewriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.executor import Done, Executor, values
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.schema import SEQUENCE_NUMBER
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.commit.abort import delete_uncommitted, uncommitted
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.commit.own_files import WorkBegun, work_begins
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.write.postponed import in_arrival_order
from paimon_engine.table.write.writer import TableWriter, WriteState, write_state


@dataclass(frozen=True, slots=True)
class DistributeTask:
    """The postponed files of a partition, oldest rows first, and the state of the table as one with fixed buckets."""

    partition: bytes
    files: tuple[DataFile, ...]
    state: WriteState


def distribute(env: Env, task: DistributeTask) -> list[CommitMessage]:
    """Writes the rows of postponed files into real buckets; on failure no file is left.

    Raises: NotFoundError if a file is missing: another process has distributed it.
    """
    table = task.state.table.load(env)
    written = TableWriter(table, task.state).write_rows(_rows(table, task))
    return [CommitMessage(task.partition, POSTPONED_BUCKET, POSTPONED_BUCKET, compact_before=task.files), *written]


def _rows(table: TableHandle, task: DistributeTask) -> Iterator[pa.RecordBatch]:
    location = bucket_location(table, task.partition, POSTPONED_BUCKET)
    for file in task.files:
        for rows in read_data_file(
            table, location, file, table.schema.row_type.names, with_system_columns=True, is_sorted=False
        ):
            yield rows.drop_columns([SEQUENCE_NUMBER])


@dataclass(frozen=True, slots=True)
class Distributed:
    """Outcome of distributing postponed rows: `snapshot_id` is None if there were none, or others were faster."""

    snapshot_id: int | None
    rows: int = 0
    conflicts: int = 0


def distribute_postponed(table: TableHandle, entries: Sequence[ManifestEntry], executor: Executor) -> Distributed:
    """Distributes the postponed files among the entries, a task per partition.

    Partitions whose files others distribute at the same time are left to them.


    Raises: the error of the first task that failed, once the files of the others are deleted; ConflictError,
    StorageError.
    """
    waiting = {bucket[0]: found for bucket, found in by_bucket(entries).items() if bucket[1] == POSTPONED_BUCKET}
    if not waiting:
        return Distributed(None)
    state = write_state(table)
    work = work_begins(table, state.read.snapshot if state.read else None)
    states = _states(table, state, list(waiting))
    tasks = [
        DistributeTask(partition, tuple(in_arrival_order([entry.file for entry in found])), state)
        for (partition, found), state in zip(waiting.items(), states, strict=True)
    ]
    outcomes = executor.map(distribute, tasks, config=table.config)
    messages = [message for outcome in outcomes if isinstance(outcome, Done) for message in outcome.value]
    try:
        values(outcomes)
    except Exception:
        delete_uncommitted(table, messages)
        raise
    return _commit(table, messages, work)


def _states(table: TableHandle, state: WriteState, partitions: Sequence[bytes]) -> list[WriteState]:
    """State for writing into the real buckets of each partition."""
    default = table.options.postpone_default_bucket_num

    def of(partition: bytes) -> WriteState:
        count = state.total_buckets.get(partition, default)
        plain = replace(state.table, options={**state.table.options, "bucket": str(count)})
        next_sequence = {bucket: number for bucket, number in state.next_sequence.items() if bucket[0] == partition}
        return WriteState(plain, next_sequence, {partition: count})

    return [of(partition) for partition in partitions]


def _commit(table: TableHandle, messages: list[CommitMessage], work: WorkBegun) -> Distributed:
    # Postponed files go once, so that repeating the commit under another name is harmless.
    user, conflicts = table.env.new_id(), 0
    while messages:
        with uncommitted(table, messages):
            outcome = commit(table, CommitRequest(messages, CommitKind.COMPACT, user, begun=work))
        if isinstance(outcome, Committed):
            rows = sum(file.row_count for message in messages for file in message.compact_before)
            return Distributed(outcome.snapshot.id, rows, conflicts)
        lost = {conflict.partition for conflict in outcome.conflicts}
        conflicts += len(lost)
        delete_uncommitted(table, [message for message in messages if message.partition in lost])
        messages = [message for message in messages if message.partition not in lost]
    return Distributed(None, conflicts=conflicts)
