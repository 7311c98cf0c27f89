"""Rewrite file index: give data files the indexes that the table's options require; the data is not changed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import ConflictError, InvalidArgumentError
from paimon_engine.executor import Done, Failed
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.predicate import parse_where
from paimon_engine.progress import in_round
from paimon_engine.specs import DryRun, Spec, Where
from paimon_engine.supported import check_rows_rewritable
from paimon_engine.table.commit.commit_parts import Parts, commit_parts
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.compaction.reindex import Reindexed, ReindexTask, is_current, reindex
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.file_index import wanted_indexes
from paimon_engine.table.read.pruning import matching_partitions, partition_predicate_parts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_at_latest

logger = logging.getLogger(__name__)

ROUNDS_MAX = 4
"""Times that conflicting buckets are done again before they are left to the next run."""


@dataclass(frozen=True, slots=True)
class RewriteFileIndex(Spec):
    """Index the files of a table, or of the partitions that `where` chooses.

    Files that have exactly these indexes are left, unless `rebuild` is given: after options such as the size of
    a bloom filter changed.
    """

    where: Where = None
    rebuild: Annotated[bool, "also files that have these indexes, after options of an index changed"] = False
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RewriteFileIndexResult(Result):
    """What was done; `status` is `committed`, `noop`, `dry_run` or `already_done`.

    Of all `files` that were chosen, `files_indexed` got new indexes, `files_cleared` lost theirs, and `files_current`
    had what they should have; in a dry run, `files_indexed` and `files_cleared` are those that would. The rest is in
    `failed`, or in buckets that others kept changing (`conflicts` counts these buckets over all rounds).
    """

    status: str
    snapshot_id: int | None
    files: int = 0
    files_indexed: int = 0
    files_cleared: int = 0
    files_current: int = 0
    bytes_read: int = 0
    index_bytes: int = 0
    conflicts: int = 0
    failed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class _IndexRewriteState:
    """State over the rounds, by bucket."""

    chosen: dict[Bucket, int] = field(default_factory=dict)
    stale: dict[Bucket, list[DataFile]] = field(default_factory=dict)
    done: list[tuple[DataFile, Reindexed]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    snapshot_id: int | None = None
    conflicts: int = 0
    seen: Snapshot | None = None


@action_once(CommitKind.COMPACT, Maker.REWRITE_FILE_INDEX, RewriteFileIndexResult)
def rewrite_file_index(context: Context, spec: RewriteFileIndex) -> RewriteFileIndexResult:
    """Indexes files; those that fail, and buckets that others change meanwhile, do not stop the others.

    Raises: InvalidArgumentError, UnsupportedError if the options require impossible indexes, or if the engine
    cannot write the table; ConflictError if every bucket kept conflicting; the error of the first file if all failed.
    """
    table, job = context.table, context.job
    check_rows_rewritable(table.options)
    wanted_indexes(table.schema)
    run = _IndexRewriteState()
    only: frozenset[Bucket] | None = None
    for number in range(1, ROUNDS_MAX + 1):
        with context.phases("plan"):
            stale = read_at_latest(table, partial(_plan, table, spec, run, only))
        if spec.dry_run or not stale:
            break
        begun_work = work_begins(table, run.seen)
        listener = in_round(context.on_progress, number)
        messages, work = _reindex(replace(context, on_progress=listener), stale, run)
        part = identifier_of(Maker.REWRITE_FILE_INDEX, job.parts + number)
        identifier = part if run.failed else job.identifier
        request = replace(job.request(messages), commit_identifier=identifier, begun=begun_work)
        with context.phases("commit"):
            parts = commit_parts(table, request, part)
        if parts.done is not None and run.snapshot_id is None:
            return RewriteFileIndexResult("already_done", parts.done.id)
        only = _note(run, parts, work)
        if not only:
            break
    else:
        if run.snapshot_id is None:
            raise ConflictError(
                f"{table.paths.root}: others changed the same buckets in {ROUNDS_MAX} rounds; run it later"
            )
    return _result(table, spec, run)


def planned_bytes(table: TableHandle, spec: RewriteFileIndex) -> int:
    """Bytes of the files that would be read now for new indexes, from metadata alone.

    Raises: as `rewrite_file_index`, where it plans.
    """
    stale = read_at_latest(table, partial(_plan, table, spec, _IndexRewriteState(), None))
    return sum(entry.file.size_bytes for entry in stale) if _any(table) else 0


def _plan(
    table: TableHandle,
    spec: RewriteFileIndex,
    run: _IndexRewriteState,
    only: frozenset[Bucket] | None,
    snapshot: Snapshot | None,
) -> list[ManifestEntry]:
    """Files whose indexes are not what they should be."""
    run.seen = snapshot
    # Postponed rows get other files before anybody reads them.
    entries = [entry for entry in live_entries(table, snapshot) if entry.bucket >= 0]
    if spec.where is not None:
        chosen, other = partition_predicate_parts(table.schema, parse_where(spec.where))
        if other:
            keys = ", ".join(table.schema.partition_keys) or "none"
            raise InvalidArgumentError(f"{spec.where!r}: files are chosen by partition columns only ({keys})")
        entries = matching_partitions(table.schema, entries, chosen)
    entries = [entry for entry in entries if only is None or (entry.partition, entry.bucket) in only]
    run.chosen |= {bucket: len(members) for bucket, members in by_bucket(entries).items()}
    current = in_threads(table, _has_wanted_indexes, entries)
    stale = [entry for entry, good in zip(entries, current, strict=True) if not good or (spec.rebuild and _any(table))]
    stale_by_bucket = by_bucket(stale)
    for bucket in by_bucket(entries):
        run.stale[bucket] = [entry.file for entry in stale_by_bucket.get(bucket, ())]
    return stale


def _has_wanted_indexes(table: TableHandle, entry: ManifestEntry) -> bool:
    return is_current(table, entry.partition, entry.bucket, entry.file)


def _any(table: TableHandle) -> bool:
    return bool(table.options.file_index_types)


def _reindex(
    context: Context, entries: Sequence[ManifestEntry], run: _IndexRewriteState
) -> tuple[list[CommitMessage], dict[Bucket, list[tuple[DataFile, Reindexed]]]]:
    """A message for each bucket of which a file succeeded, and what was done in it."""
    plain = context.table.plain()
    work = [ReindexTask(plain, entry.partition, entry.bucket, entry.file) for entry in entries]
    outcomes = context.run_tasks("rewrite_file_index", reindex, work)
    failures = [
        (entry, outcome) for entry, outcome in zip(entries, outcomes, strict=True) if isinstance(outcome, Failed)
    ]
    if len(failures) == len(entries):
        raise failures[0][1].error()
    for entry, outcome in failures:
        logger.warning("data file %s was not indexed: %s", entry.file.name, outcome.message)
        run.failed.append(f"data file {entry.file.name}: {outcome.message}")
    done: dict[Bucket, list[tuple[DataFile, Reindexed]]] = {}
    totals: dict[Bucket, int] = {}
    unchanged: dict[Bucket, set[str]] = {}
    for entry, made in zip(entries, outcomes, strict=True):
        if not isinstance(made, Done):
            continue
        bucket = entry.partition, entry.bucket
        if made.value.file == entry.file:
            # Indexes in the manifest came out as they were.
            unchanged.setdefault(bucket, set()).add(entry.file.name)
        else:
            done.setdefault(bucket, []).append((entry.file, made.value))
            totals[bucket] = entry.total_buckets
    for bucket, names in unchanged.items():
        run.stale[bucket] = [file for file in run.stale[bucket] if file.name not in names]
    messages = [
        CommitMessage(
            *bucket,
            totals[bucket],
            compact_before=tuple(before for before, _ in pairs),
            compact_after=tuple(after.file for _, after in pairs),
        )
        for bucket, pairs in done.items()
    ]
    return messages, done


def _note(
    run: _IndexRewriteState, parts: Parts, work: dict[Bucket, list[tuple[DataFile, Reindexed]]]
) -> frozenset[Bucket]:
    """Takes down what was committed; the buckets to be done again."""
    run.conflicts += len(parts.conflicting)
    if parts.snapshot is not None:
        run.snapshot_id = parts.snapshot.id
        for message in parts.committed:
            run.done += work[message.partition, message.bucket]
    return parts.conflicting


def _result(table: TableHandle, spec: RewriteFileIndex, run: _IndexRewriteState) -> RewriteFileIndexResult:
    """The report of all rounds, or of what a dry run would do."""
    files, stale = sum(run.chosen.values()), [file for members in run.stale.values() for file in members]
    if spec.dry_run:
        indexed = len(stale) if _any(table) else 0
        return RewriteFileIndexResult(
            "dry_run",
            None,
            files=files,
            files_indexed=indexed,
            files_cleared=len(stale) - indexed,
            files_current=files - len(stale),
            bytes_read=sum(file.size_bytes for file in stale) if indexed else 0,
        )
    indexed = sum(after.index_bytes > 0 for _, after in run.done)
    return RewriteFileIndexResult(
        "noop" if run.snapshot_id is None else "committed",
        run.snapshot_id,
        files=files,
        files_indexed=indexed,
        files_cleared=len(run.done) - indexed,
        files_current=files - len(stale),
        bytes_read=sum(file.size_bytes for file, after in run.done if after.index_bytes),
        index_bytes=sum(after.index_bytes for _, after in run.done),
        conflicts=run.conflicts,
        failed=tuple(run.failed),
    )
