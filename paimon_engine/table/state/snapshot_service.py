"""The interface to a server that manages the snapshots of a table, such as a REST catalog.

A table without one keeps its snapshots as files, and creating `snapshot-<n+1>` if absent is the commit. Where a REST
catalog manages a table, the server's latest snapshot is the latest one, no matter which snapshot files exist in
storage, and only the server creates the next one.

Source: `SnapshotCommit`, `SnapshotLoader` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot

if TYPE_CHECKING:
    from paimon_engine.table.state.handle import TableHandle


class SnapshotService(Protocol):
    """Snapshots of the branches of one table, kept by a server.

    Legal: `latest(table)` before each try, and again after an answer got lost.
    Illegal: to create a snapshot file as well; the server would not know of it.
    """

    def latest(self, table: TableHandle) -> Snapshot | None:
        """The newest snapshot of the handle's branch; None before the first commit. Raises: NotFoundError."""
        ...

    def read(self, table: TableHandle, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id as the server knows it, None if it knows none."""
        ...

    def publish(
        self, table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]
    ) -> bool:
        """Make `snapshot` the successor of `base`: True if this call did, False if `base` is not the latest any more.

        `changes` are the files that the snapshot adds and removes. Atomic; sent once, never repeated by itself.
        Raises: OutcomeUnknownError if the answer got lost.
        """
        ...

    def roll_back(self, table: TableHandle, target: Snapshot, *, tag: str | None, latest: Snapshot) -> None:
        """Make `target` (by its `tag`, if one is given) the latest snapshot, if `latest` still is.

        Raises: ConflictError if it is not; NotFoundError.
        """
        ...

    def full_name(self) -> str:
        """The table's name as the server knows it: `database.table`."""
        ...

    def mark_done(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        """Notify the server that no more rows will come to partitions: values by column. May be repeated.

        Raises: StorageError, NotFoundError.
        """
        ...

    def add_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        """Add partitions to the server's list of them, without rows; those that are there are fine. May be repeated.

        Raises: StorageError, NotFoundError, UnsupportedError if the server keeps no such list.
        """
        ...
