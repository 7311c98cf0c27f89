"""Rescale: bring partitions to the number of buckets that the table's option `bucket` asks for.

1. All files of the partitions with another number of buckets are read, at one snapshot.
2. Each new bucket is written by a task of its own.
3. One OVERWRITE commit replaces all of them. It applies only if these are still the partitions' files: what others
   have written meanwhile is a conflict, and is never lost.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, UnsupportedError
from paimon_engine.executor import Done, Executor, values
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.progress import OnProgress, counting
from paimon_engine.specs import DryRun, Spec, Where
from paimon_engine.supported import check_writable
from paimon_engine.table.commit.abort import delete_uncommitted, uncommitted
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.bucket_selection import BucketSelection, selected_entries
from paimon_engine.table.compaction.rescale import RescaleTask, rescale_bucket, sources_of
from paimon_engine.table.files.bucket_vectors import vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_with_schema


@dataclass(frozen=True, slots=True)
class Rescale(Spec):
    """Give partitions as many buckets as the option `bucket` says by now; all, or those that `where` chooses."""

    where: Where = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RescaleResult(Result):
    """What a rescale did; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    `partitions` counts those that had another number of buckets; files and bytes are theirs.
    """

    status: str
    snapshot_id: int | None
    buckets: int
    partitions: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0


@action
def rescale(context: Context, spec: Rescale) -> RescaleResult:
    """Rescales; with a `commit_user` once, however often it is called.

    Raises: UnsupportedError for a table without a fixed number of buckets; InvalidArgumentError for the condition;
    ConflictError if others changed one of the partitions meanwhile: nothing was done then; StorageError.
    """
    table, executor, commit_user, on_progress = (
        context.table,
        context.executor,
        context.commit_user,
        context.on_progress,
    )
    table, snapshot = latest_with_schema(table)
    buckets = table.options.bucket
    check_writable(table.options)
    if table.schema.bucket_mode is not BucketMode.FIXED:
        raise UnsupportedError(
            f"{table.paths.root}: 'bucket' = '{buckets}' is not a fixed number of buckets: nothing to rescale"
        )
    identifier, checked_up_to = identifier_of(Maker.RESCALE), None
    if commit_user is not None and not spec.dry_run:
        own = find_own_commit(table, commit_user, CommitKind.OVERWRITE, identifier)
        if own.snapshot is not None:
            return RescaleResult("already_done", own.snapshot.id, buckets)
        checked_up_to = own.checked_up_to
    tasks, removals = _plan(table, snapshot, spec)
    before = [file for message in removals for file in message.compact_before]
    snapshot_id, after = None, []
    if tasks and not spec.dry_run:
        work = work_begins(table, snapshot)
        written = _write(table, tasks, executor, on_progress)
        after = [file for message in written for file in message.compact_after]
        request = CommitRequest(
            [*removals, *written],
            CommitKind.OVERWRITE,
            commit_user or str(uuid.uuid4()),
            identifier,
            checked_up_to=checked_up_to,
            replaces_all=True,
            begun=work,
        )
        snapshot_id = _commit(table, request, written)
    return RescaleResult(
        status="dry_run" if spec.dry_run else "noop" if snapshot_id is None else "committed",
        snapshot_id=snapshot_id,
        buckets=buckets,
        partitions=len({message.partition for message in removals}),
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(file.size_bytes for file in before),
        bytes_after=sum(file.size_bytes for file in after),
    )


def _plan(
    table: TableHandle, snapshot: Snapshot | None, spec: Rescale
) -> tuple[list[RescaleTask], list[CommitMessage]]:
    """A task per new bucket, and messages that remove the old ones."""
    wanted = table.options.bucket
    vectors = vector_files(table, snapshot)
    found = by_bucket(selected_entries(table, snapshot, BucketSelection(spec.where)))
    partitions: dict[bytes, dict[int, list[ManifestEntry]]] = {}
    for (partition, number), entries in sorted(found.items()):
        if entries[0].total_buckets != wanted:
            partitions.setdefault(partition, {})[number] = entries
    tasks, removals = [], []
    for partition, old in partitions.items():
        files = {number: tuple(entry.file for entry in entries) for number, entries in old.items()}
        marks = {number: vectors[partition, number] for number in old if (partition, number) in vectors}
        count = next(iter(old.values()))[0].total_buckets
        for number in range(wanted):
            sources = [source for source in sources_of(number, count, wanted) if source in files]
            if sources:
                chosen = {source: files[source] for source in sources}
                marked = {source: marks[source] for source in sources if source in marks}
                tasks.append(RescaleTask(table.plain(), partition, number, chosen, marked))
        removals += [
            CommitMessage(partition, number, count, compact_before=members, deleted_index_files=marks.get(number, ()))
            for number, members in files.items()
        ]
    return tasks, removals


def _write(
    table: TableHandle, tasks: list[RescaleTask], executor: Executor, on_progress: OnProgress | None
) -> list[CommitMessage]:
    listener = counting(on_progress, "rescale", len(tasks))
    outcomes = executor.map(rescale_bucket, tasks, config=table.config, on_done=listener)
    try:
        return [message for message in values(outcomes) if not message.is_empty]
    except Exception:
        delete_uncommitted(table, [outcome.value for outcome in outcomes if isinstance(outcome, Done)])
        raise


def _commit(table: TableHandle, request: CommitRequest, written: list[CommitMessage]) -> int:
    with uncommitted(table, written):
        outcome = commit(table, request)
    if isinstance(outcome, Committed):
        if outcome.by_other_attempt:
            delete_uncommitted(table, written)
        return outcome.snapshot.id
    delete_uncommitted(table, written)
    raise ConflictError(
        f"{table.paths.root}: {outcome.conflicts[0].reason}; nothing was rescaled, run it again while nobody writes"
    )
