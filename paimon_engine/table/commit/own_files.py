"""Checks that the files of a commit still exist when it publishes them.

Until a snapshot names them, the files of a commit look like orphans, and a clean-up of orphan files may delete them:
ours, which announces it by a fence (`table.removal.fence`), or another engine's, which only looks at their age. So a
commit checks its files

1. on each try, if a fence is among the snapshots committed since its work began, or if some of these have expired;
2. before it publishes, if the last proof that they are safe is older than `SAFE_AGE_MS`: after long work, many retries,
   or a pause of the process. The metadata written by the try is checked then, too;
3. after it has published, if publishing took that long, or if it was the first snapshot of a branch: without a
   snapshot there can be no fence.

A check means: no plan of a clean-up names the file, and (in this order) the file exists. A commit that takes only
minutes and meets no fence makes no request for this. Elapsed time is that of the wall clock or that of the machine's
boot clock, whichever is longer: the one can be set back, the other may stop while the machine sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.conflict import Bucket, BucketConflict
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.external import store_of
from paimon_engine.table.files.new_paths import written_paths
from paimon_engine.table.reach.clean_up_plan import is_fence, plans
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_snapshot

SAFE_AGE_MS: Final = 300_000
"""Clean-ups by age delete no file as young as this: sensible minimum ages are some hours."""
_SNAPSHOTS_READ_MAX: Final = 8
"""If more snapshots were committed since, checking the files is cheaper than reading the snapshots for fences."""
_LISTED_FROM: Final = 4
"""Number of files in one directory from which on the directory is listed, instead of one request for each file."""


@dataclass(frozen=True, slots=True)
class WorkBegun:
    """When the work on a commit began, before its first file was written.

    `snapshot_id` is the id of the latest snapshot as known then, 0 if there was none. `clock_ms` is the wall clock in
    epoch milliseconds, `machine_s` the seconds since the machine was started.
    """

    snapshot_id: int
    clock_ms: int
    machine_s: float


def work_begins(table: TableHandle, latest: Snapshot | int | None) -> WorkBegun:
    """The current moment; `latest` is the latest snapshot, or its id, as it was just read."""
    number = latest.id if isinstance(latest, Snapshot) else latest or 0
    return WorkBegun(number, table.env.clock(), _machine_s())


def _machine_s() -> float:
    """Seconds since the machine was started, including sleep where the system counts it (Linux)."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class LostFiles:
    """Paths of files that a clean-up has deleted, or has planned to, with their buckets; None for metadata."""

    paths: Mapping[str, Bucket | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __str__(self) -> str:
        """Some of the files, as messages name them."""
        names = [path.rpartition("/")[2] for path in self.paths]
        return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"

    @property
    def is_metadata(self) -> bool:
        """Whether all of them are manifests or statistics, which belong to no bucket."""
        return all(bucket is None for bucket in self.paths.values())

    @property
    def conflicts(self) -> tuple[BucketConflict, ...]:
        """The buckets whose new files are lost."""
        return tuple(
            BucketConflict(*bucket, f"a clean-up or an abort has deleted {path}, or is about to")
            for path, bucket in self.paths.items()
            if bucket is not None
        )


class OwnFiles:
    """The files of one commit that no snapshot names yet, and the time up to which they are known to be safe."""

    def __init__(
        self, table: TableHandle, messages: Sequence[CommitMessage], statistics: str | None, begun: WorkBegun | None
    ) -> None:
        """Without `begun`, the first try checks the files."""
        self._table = table
        self._messages = messages
        self._statistics = statistics
        self._begun = begun
        self._seen_up_to = None if begun is None else begun.snapshot_id
        self._safe_at = begun
        self._known: dict[int, Snapshot] = {}

    def know(self, snapshots: Sequence[Snapshot]) -> None:
        """Remembers snapshots that were just read, so that they need not be read again."""
        self._known.update((snapshot.id, snapshot) for snapshot in snapshots)

    def lost_to_fences(self, latest: Snapshot | None, metadata: Sequence[str] = ()) -> LostFiles:
        """The lost files, if a fence may have been committed since the last check.

        `metadata` are files of earlier tries that will be used again. Files that this try writes after it has read
        `latest` need no check: a clean-up that plans to delete them commits its fence after `latest`, so this try loses
        the race against the fence, and the next try checks them.
        """
        if not metadata and not self._has_files():
            self._safe_at = self._safe_at or work_begins(self._table, None)
            return LostFiles()
        lost = self._lost(metadata) if self._may_be_fenced(latest) else LostFiles()
        self._seen_up_to = latest.id if latest else 0
        return lost

    def lost_since_last_check(self, metadata: Sequence[str], *, is_first: bool = False) -> LostFiles:
        """The lost files, among them those of `metadata`, if the last proof that they are safe is too old.

        For the first snapshot of a branch (`is_first`), which no fence can protect, they are always checked.
        """
        now = work_begins(self._table, None)
        is_young = self._safe_at is not None and _milliseconds(self._safe_at, now) <= SAFE_AGE_MS
        if is_young and not (is_first and self._has_files()):
            return LostFiles()
        return self._lost(metadata)

    def _has_files(self) -> bool:
        return self._statistics is not None or any(
            message.new_index_files or message.written_names() for message in self._messages
        )

    def _may_be_fenced(self, latest: Snapshot | None) -> bool:
        """Whether a clean-up may have committed a fence since the last check; true where snapshots cannot be read.

        `latest` is the newest snapshot now; those between it and the last check are read, if they are not too many.
        """
        seen = self._seen_up_to
        if seen is None:
            return True
        if latest is None:
            return seen > 0
        if latest.id <= seen:
            return latest.id < seen
        if is_fence(latest) or latest.id - seen > _SNAPSHOTS_READ_MAX:
            return True
        try:
            between = in_threads(self._table, self._snapshot, range(seen + 1, latest.id))
        except NotFoundError:
            return True
        return any(map(is_fence, between))

    def _snapshot(self, table: TableHandle, number: int) -> Snapshot:
        return self._known.get(number) or read_snapshot(table, number)

    def _lost(self, metadata: Sequence[str]) -> LostFiles:
        now = work_begins(self._table, None)
        files: dict[str, Bucket | None] = {**self._files(), **dict.fromkeys(metadata)}
        # First the plans, then the files: a clean-up deletes its files first and its plan last. So a file is either in
        # a plan that is read here, or its deletion is seen below.
        planned = {path.rpartition("/")[2] for plan in plans(self._table) for path in plan.paths}
        lost = {path for path in files if path.rpartition("/")[2] in planned}
        lost.update(missing_files(self._table, [path for path in files if path not in lost]))
        if not lost:
            self._safe_at = now
        return LostFiles({path: bucket for path, bucket in files.items() if path in lost})

    def _files(self) -> dict[str, Bucket | None]:
        """Paths of the messages' new files, with their buckets."""
        table = self._table
        found: dict[str, Bucket | None] = {}
        for message in self._messages:
            found.update(dict.fromkeys(written_paths(table, message), (message.partition, message.bucket)))
        if self._statistics is not None:
            found[table.paths.statistics(self._statistics)] = None
        return found


def _milliseconds(begin: WorkBegun, end: WorkBegun) -> float:
    return max(end.clock_ms - begin.clock_ms, (end.machine_s - begin.machine_s) * 1000)


def missing_files(table: TableHandle, paths: Sequence[str]) -> list[str]:
    """Those of the paths that do not exist. Raises: StorageError."""
    directories: dict[str, list[str]] = {}
    for path in paths:
        directories.setdefault(path.rpartition("/")[0], []).append(path)
    found = in_threads(table, _not_listed, list(directories.items()))
    # A listing may be out of date on some object stores; a request for one path is not.
    unlisted = [path for part in found for path in part]
    exist = in_threads(table, _exists, unlisted)
    return [path for path, exists in zip(unlisted, exist, strict=True) if not exists]


def _not_listed(table: TableHandle, directory_paths: tuple[str, list[str]]) -> list[str]:
    """The paths of a directory that its listing lacks; all of them if they are too few to list it."""
    directory, paths = directory_paths
    if len(paths) < _LISTED_FROM:
        return paths
    listed = {info.path for info in store_of(table, paths[0]).list(directory)}
    return [path for path in paths if path not in listed]


def _exists(table: TableHandle, path: str) -> bool:
    return store_of(table, path).exists(path)
