"""Rescale: rewrite partitions to the number of buckets of the table's option `bucket`.

1. All files of the partitions with another number of buckets are read, at one snapshot.
2. Each new bucket is written by a separate task.
3. One OVERWRITE commit replaces all of them. It applies only if these are still the partitions' files: what others
   have written meanwhile is a conflict, and is never lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import UnsupportedError
from paimon_engine.executor import Done, values
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, Spec, Where
from paimon_engine.table.commit.abort import commit_or_delete, delete_uncommitted, interruptible
from paimon_engine.table.commit.commit import Conflict
from paimon_engine.table.commit.job_commit import conflict_error
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.bucket_selection import BucketSelection, selected_entries
from paimon_engine.table.compaction.rescale import RescaleTask, rescale_bucket, sources_of
from paimon_engine.table.files.bucket_vectors import vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.new_paths import check_files_writable
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

    `buckets` is the number that partitions have now, None if an earlier attempt has rescaled them. `partitions` counts
    those that had another number of buckets; files and bytes are theirs, which a dry run does not change.
    """

    status: str
    snapshot_id: int | None
    buckets: int | None = None
    partitions: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0


@action_once(CommitKind.OVERWRITE, Maker.RESCALE, RescaleResult)
def rescale(context: Context, spec: Rescale) -> RescaleResult:
    """Rescales; with a `commit_user` once, however often it is called.

    Raises: UnsupportedError for a table without a fixed number of buckets; InvalidArgumentError for the condition;
    ConflictError if others changed one of the partitions meanwhile: nothing was done then; StorageError.
    """
    table, snapshot = latest_with_schema(context.table)
    buckets = table.options.bucket
    check_files_writable(table)
    if table.schema.bucket_mode is not BucketMode.FIXED:
        raise UnsupportedError(
            f"{table.paths.root}: 'bucket' = '{buckets}' is not a fixed number of buckets: nothing to rescale"
        )
    tasks, removals = _plan(table, snapshot, spec)
    before = [file for message in removals for file in message.compact_before]
    status, snapshot_id, after = "dry_run" if spec.dry_run else "noop", None, before
    if tasks and not spec.dry_run:
        work = work_begins(table, snapshot)
        written = _write(context, tasks)
        request = replace(context.job.request([*removals, *written]), replaces_all=True, begun=work)
        with context.phases("commit"):
            outcome = commit_or_delete(table, request)
        if isinstance(outcome, Conflict):
            raise conflict_error(table, outcome, "nothing was rescaled, run it again when no writer is active")
        status, snapshot_id = outcome.status, outcome.snapshot.id
        if outcome.by_other_attempt:
            return RescaleResult(status, snapshot_id, buckets)
        after = [file for message in written for file in message.compact_after]
    return RescaleResult(
        status=status,
        snapshot_id=snapshot_id,
        buckets=buckets,
        partitions=len({message.partition for message in removals}),
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(file.size_bytes for file in before),
        bytes_after=sum(file.size_bytes for file in after),
    )


def planned_bytes(table: TableHandle, spec: Rescale) -> int:
    """Bytes of the files that a rescale would rewrite now, from metadata alone.

    Raises: as `rescale`, where it plans.
    """
    table, snapshot = latest_with_schema(table)
    _, removals = _plan(table, snapshot, spec)
    return sum(file.size_bytes for message in removals for file in message.compact_before)


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


def _write(context: Context, tasks: list[RescaleTask]) -> list[CommitMessage]:
    with interruptible(context.table):
        outcomes = context.run_tasks("rescale", rescale_bucket, tasks)
    try:
        return [message for message in values(outcomes) if not message.is_empty]
    except Exception:
        delete_uncommitted(context.table, [outcome.value for outcome in outcomes if isinstance(outcome, Done)])
        raise
