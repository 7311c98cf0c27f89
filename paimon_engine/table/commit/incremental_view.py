"""The live files of the latest snapshot, read incrementally after each lost race.

Other commits append manifests to the end of the manifest list. If the list still begins as it did when it was last
read, only the manifests after that are read; otherwise manifests were merged, and all are read again. So the next try
of a commit that lost a race takes as little time on a large table as on a small one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from paimon_engine.meta.file_set import FoldError, merge_entries, merge_into
from paimon_engine.meta.manifest import FileIdentity, ManifestEntry, ManifestFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import entries_of, live_of, snapshot_manifests


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """Live entries, and the entries added since they were last read: None if that is not known, as the first time."""

    live: Sequence[ManifestEntry]
    new_entries: Sequence[ManifestEntry] | None


class IncrementalView:
    """Manifests and live files of one snapshot after another; only of some partitions, if these are given."""

    def __init__(self, table: TableHandle, partitions: Collection[bytes] | None = None) -> None:
        """Nothing is read yet."""
        self._table = table
        self._partitions = partitions
        self._snapshot: Snapshot | None = None
        self._merged: dict[FileIdentity, ManifestEntry] | None = None
        self._merged_from: Sequence[ManifestFile] = ()
        self.manifests: Sequence[ManifestFile] = ()
        """All manifests of the snapshot: base, then delta."""

    def advance_to(self, snapshot: Snapshot | None) -> None:
        """Moves on to that snapshot; reads its manifest lists. Raises: NotFoundError, CorruptTableError."""
        self._snapshot = snapshot
        self.manifests = [] if snapshot is None else snapshot_manifests(self._table, snapshot)

    def live_files(self) -> LiveFiles:
        """The live files of the snapshot. Raises: NotFoundError, CorruptTableError."""
        new_entries = self._new_entries()
        if new_entries is None:
            live = live_of(self._table, self._snapshot, self.manifests, self._partitions)
            self._merged = merge_entries(live)
        assert self._merged is not None
        self._merged_from = self.manifests
        return LiveFiles(list(self._merged.values()), new_entries)

    def _new_entries(self) -> list[ManifestEntry] | None:
        """Merges the manifests that were appended into the live files; returns their entries.

        None if the list does not begin as before.
        """
        known = len(self._merged_from)
        if self._merged is None or list(self.manifests[:known]) != list(self._merged_from):
            return None
        new_entries = list(entries_of(self._table, self.manifests[known:], self._partitions))
        try:
            merge_into(self._merged, new_entries)
        except FoldError:
            # Reading all of them again raises an error that names the manifests.
            self._merged = None
            return None
        return new_entries
