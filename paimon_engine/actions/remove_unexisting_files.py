"""Remove data files that no longer exist from the table's manifests, so that the rest can be read again.

1. The data files of the latest snapshot are looked up in the store; one that is not listed is requested again by
   its name. A store that does not answer ends the run: no answer does not mean that a file is missing.
2. One commit of the kind OVERWRITE removes those that are missing. A dry run ends before it.

Their rows are lost. In a table with a primary key, older rows of the same keys in other files show again. Older
snapshots and tags are not changed: they always name these files. First check whether a file can be restored, from
a quarantine (`restore`) or a copy.

Source: `RemoveUnexistingFilesAction` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action_once
from paimon_engine.env import Env
from paimon_engine.executor import Executor, LocalExecutor, values
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import Count, DryRun, Spec
from paimon_engine.supported import check_complete_files
from paimon_engine.table.commit.commit import Conflict, commit
from paimon_engine.table.commit.job_commit import conflict_error
from paimon_engine.table.files.bucket_vectors import BucketVectors, vector_files
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.reach.reachability import DataPaths
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import is_latest, read_at_latest

_LOCAL_DIRECTORIES_MAX: Final = 256
"""Up to so many directories are listed by this process: handing them to a cluster would take longer."""


@dataclass(frozen=True, slots=True)
class RemoveUnexistingFiles(Spec):
    """Remove missing data files from the manifests; with at most `parallelism` directories at a time."""

    dry_run: DryRun = False
    parallelism: Annotated[Count | None, "look into no more directories at a time than this"] = None


@dataclass(frozen=True, slots=True)
class LostFile:
    """A data file that is missing."""

    path: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class RemoveUnexistingFilesResult(Result):
    """What was found; `status` is `committed`, `already_done`, `noop` or `dry_run` (then: what would be removed).

    `removed` names each file; `rows` counts those that are lost. `stopped` names files that were not looked up.
    """

    status: str
    snapshot_id: int | None = None
    files_checked: int = 0
    removed: tuple[LostFile, ...] = ()
    files: int = 0
    rows: int = 0
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@action_once(CommitKind.OVERWRITE, Maker.REMOVE_UNEXISTING_FILES, RemoveUnexistingFilesResult)
def remove_unexisting_files(context: Context, spec: RemoveUnexistingFiles) -> RemoveUnexistingFilesResult:
    """Removes what is missing; once for a `commit_user`. Safe to run concurrently with writers.

    Raises: NotFoundError if manifests are missing too (`remove_unexisting_manifests` first); ConflictError;
    UnsupportedError where a row needs several files; StorageError if the store does not answer.
    """
    table, executor = context.table, context.executor
    check_complete_files(table.options)
    latest, entries = read_at_latest(table, lambda newest: (newest, live_entries(table, newest)))
    inside = [entry for entry in entries if entry.file.external_path is None]
    stopped = tuple(
        f"{entry.file.external_path} is outside the table and is not looked up"
        for entry in entries
        if entry.file.external_path is not None
    )
    lost = _still_live(table, _lost(table, inside, spec.parallelism, executor), latest)
    status, snapshot_id = "dry_run" if lost else "noop", None
    if lost and not spec.dry_run:
        outcome = commit(table, context.job.request(_messages(table, [entry for entry, _ in lost], latest)))
        if isinstance(outcome, Conflict):
            raise conflict_error(table, outcome, "others wrote, run it again")
        status, snapshot_id = outcome.status, outcome.snapshot.id
    return RemoveUnexistingFilesResult(
        status,
        snapshot_id,
        len(inside),
        tuple(LostFile(path, entry.file.size_bytes, entry.file.row_count) for entry, path in lost),
        len(lost),
        rows_in(entry.file for entry, _ in lost),
        stopped,
    )


@dataclass(frozen=True)
class _ListTask:
    """A directory, and the paths that should be in it."""

    directory: str
    paths: tuple[str, ...]


def _lost(
    table: TableHandle, entries: Sequence[ManifestEntry], parallelism: int | None, executor: Executor
) -> list[tuple[ManifestEntry, str]]:
    """The entries whose data files the store does not have, with their paths; directories are listed as tasks."""
    paths = DataPaths(table)
    by_directory: dict[str, dict[str, ManifestEntry]] = {}
    for entry in entries:
        directory = paths.directory(entry)
        by_directory.setdefault(directory, {})[f"{directory}/{entry.file.name}"] = entry
    tasks = [_ListTask(directory, tuple(found)) for directory, found in sorted(by_directory.items())]
    if len(tasks) <= _LOCAL_DIRECTORIES_MAX:
        executor = LocalExecutor(parallelism or table.env.reader_threads, env=table.env)
    step = len(tasks) if parallelism is None else parallelism
    absent: set[str] = set()
    for begin in range(0, len(tasks), max(step, 1)):
        outcomes = executor.map(_missing_in, tasks[begin : begin + step], config=table.config)
        absent.update(path for missing in values(outcomes) for path in missing)
    return [
        (entry, path) for _, found in sorted(by_directory.items()) for path, entry in found.items() if path in absent
    ]


def _still_live(
    table: TableHandle, lost: Sequence[tuple[ManifestEntry, str]], seen: Snapshot | None
) -> list[tuple[ManifestEntry, str]]:
    """Those that the table still needs: others may have compacted and expired the rest since `seen`."""
    if not lost or seen is None or is_latest(table, seen):
        return list(lost)
    live = read_at_latest(table, lambda newest: {entry.identity for entry in live_entries(table, newest)})
    return [(entry, path) for entry, path in lost if entry.identity in live]


def _missing_in(env: Env, task: _ListTask) -> list[str]:
    there = {info.path for info in env.storage.list(task.directory)}
    # A listing may be old; a file is missing only if a request by its name does not find it either.
    return [path for path in task.paths if path not in there and not env.storage.exists(path)]


def _messages(table: TableHandle, entries: Sequence[ManifestEntry], latest: Snapshot | None) -> list[CommitMessage]:
    """The removals, by bucket; deletion vectors of missing files are removed too."""
    vectors = vector_files(table, latest)
    buckets: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry)
    messages = []
    for (partition, bucket, total), found in buckets.items():
        kept = BucketVectors(table, partition, bucket, vectors.get((partition, bucket), ()))
        kept.drop(entry.file.name for entry in found)
        new, replaced = kept.finish()
        before = tuple(entry.file for entry in found)
        messages.append(
            CommitMessage(
                partition,
                bucket,
                total,
                compact_before=before,
                new_index_files=new,
                deleted_index_files=replaced,
            )
        )
    return messages
