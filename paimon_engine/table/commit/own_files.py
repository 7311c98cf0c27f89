"""Are the files of a commit still there when it publishes them?

Files that nothing names yet may be deleted by a clean-up: by ours, which tells of it (`table.removal.fence`), or by
another engine's, which goes by age alone. So a commit looks after its files

1. on every try, if snapshots came since its work began and a fence is among them, or some of them are gone;
2. before it publishes, if it last knew them to be safe more than `SAFE_AGE_MS` ago: long work, a process that was held
   up, many retries. The metadata of the try counts among its files then;
3. after it has published, if that took so long; or if it was the first snapshot of a branch, which no fence keeps out.

To look means: no plan of a clean-up names the file, and then, it is there. A commit that is made within minutes, and
first time, asks for nothing. Time is that of the wall clock or of the machine since it started, whichever says more:
one of them stands still while a machine sleeps, the other may be set back.
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
from paimon_engine.table.reach.clean_up_plan import is_fence, plans
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_snapshot

SAFE_AGE_MS: Final = 300_000
"""A clean-up that goes by age deletes nothing so young: the shortest age that makes sense is some hours."""
_SNAPSHOTS_READ_MAX: Final = 8
"""If more came since, it is cheaper to look after the files than to look for fences."""
_LISTED_FROM: Final = 4
"""Files in one directory from which on it is listed instead of asking for each."""


@dataclass(frozen=True, slots=True)
class WorkBegun:
    """When the work on a commit began, before its first file was written.

    `snapshot_id` is an id that the latest snapshot had by then, 0 if there was none. `clock_ms` is the wall clock's
    time, `machine_s` that of the machine since it started.
    """

    snapshot_id: int
    clock_ms: int
    machine_s: float


def work_begins(table: TableHandle, latest: Snapshot | int | None) -> WorkBegun:
    """Now; `latest` is the latest snapshot, or its id, as it was read a moment ago."""
    number = latest.id if isinstance(latest, Snapshot) else latest or 0
    return WorkBegun(number, table.env.clock(), _machine_s())


def _machine_s() -> float:
    """Goes on while the machine sleeps, where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Lost:
    """Paths of files that a clean-up has deleted, or is about to, with their buckets; None for metadata."""

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
        """The buckets whose changes are lost."""
        return tuple(
            BucketConflict(*bucket, f"a clean-up has deleted {path}, or is about to, before it was committed")
            for path, bucket in self.paths.items()
            if bucket is not None
        )


class OwnFiles:
    """The files of one commit to which nothing refers yet, and until when they are known to be safe."""

    def __init__(
        self, table: TableHandle, messages: Sequence[CommitMessage], statistics: str | None, begun: WorkBegun | None
    ) -> None:
        """Where nobody tells when the work has `begun`, the first try looks after the files."""
        self._table = table
        self._messages = messages
        self._statistics = statistics
        self._begun = begun
        self._seen_up_to = None if begun is None else begun.snapshot_id
        self._safe_at = begun
        self._known: dict[int, Snapshot] = {}

    def know(self, snapshots: Sequence[Snapshot]) -> None:
        """Takes note of snapshots that were just read, so that they need not be read again."""
        self._known.update((snapshot.id, snapshot) for snapshot in snapshots)

    def lost_to_fences(self, latest: Snapshot | None, metadata: Sequence[str] = ()) -> Lost:
        """Which files a clean-up has deleted, or is about to, if one may have come since the last look.

        `metadata` are files of earlier tries that are to be used again; what a try has written itself after it has read
        `latest` is in no plan whose fence it does not meet.
        """
        if not metadata and not self._has_files():
            self._safe_at = self._safe_at or work_begins(self._table, None)
            return Lost()
        lost = self._lost(metadata) if self._may_be_fenced(latest) else Lost()
        self._seen_up_to = latest.id if latest else 0
        return lost

    def lost_with_age(self, metadata: Sequence[str], *, is_first: bool = False) -> Lost:
        """Which of the files, and of those of `metadata`, are lost.

        Not looked for if they are young; of the first snapshot of a branch (`is_first`) they always are.
        """
        now = work_begins(self._table, None)
        is_young = self._safe_at is not None and _milliseconds(self._safe_at, now) <= SAFE_AGE_MS
        if is_young and not (is_first and self._has_files()):
            return Lost()
        return self._lost(metadata)

    def _has_files(self) -> bool:
        return self._statistics is not None or any(
            message.new_index_files or message.written_names() for message in self._messages
        )

    def _may_be_fenced(self, latest: Snapshot | None) -> bool:
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

    def _lost(self, metadata: Sequence[str]) -> Lost:
        now = work_begins(self._table, None)
        files: dict[str, Bucket | None] = {**self._files(), **dict.fromkeys(metadata)}
        # In this order: a clean-up deletes first, and removes its plan then.
        planned = {path.rpartition("/")[2] for plan in plans(self._table) for path in plan.paths}
        lost = {path for path in files if path.rpartition("/")[2] in planned}
        lost.update(missing_files(self._table, [path for path in files if path not in lost]))
        if not lost:
            self._safe_at = now
        return Lost({path: bucket for path, bucket in files.items() if path in lost})

    def _files(self) -> dict[str, Bucket | None]:
        """Paths of what the messages brought, with their buckets. What lies outside of the table is no clean-up's."""
        table = self._table
        found: dict[str, Bucket | None] = {}
        for message in self._messages:
            bucket = (message.partition, message.bucket)
            directory = bucket_path(table, *bucket)
            after = (*message.new_files, *message.compact_after, *message.changelog_files)
            outside = {name for file in after if file.external_path for name in (file.name, *file.extra_files)}
            written = [f"{directory}/{name}" for name in message.written_names() if name not in outside]
            written += [table.paths.index(file.name) for file in message.new_index_files if file.external_path is None]
            found.update(dict.fromkeys(written, bucket))
        if self._statistics is not None:
            found[table.paths.statistics(self._statistics)] = None
        return found


def _milliseconds(begin: WorkBegun, end: WorkBegun) -> float:
    return max(end.clock_ms - begin.clock_ms, (end.machine_s - begin.machine_s) * 1000)


def missing_files(table: TableHandle, paths: Sequence[str]) -> list[str]:
    """Those of the paths where no file is. Raises: StorageError."""
    directories: dict[str, list[str]] = {}
    for path in paths:
        directories.setdefault(path.rpartition("/")[0], []).append(path)
    found = in_threads(table, _not_listed, list(directories.items()))
    # A listing may come late; what is asked for by its name is there or not.
    doubtful = [path for part in found for path in part]
    there = in_threads(table, _exists, doubtful)
    return [path for path, is_there in zip(doubtful, there, strict=True) if not is_there]


def _not_listed(table: TableHandle, place: tuple[str, list[str]]) -> list[str]:
    directory, paths = place
    if len(paths) < _LISTED_FROM:
        return paths
    listed = {info.path for info in table.env.storage.list(directory)}
    return [path for path in paths if path not in listed]


def _exists(table: TableHandle, path: str) -> bool:
    return table.env.storage.exists(path)
