"""What is live in the latest snapshot, looked at again after each snapshot of others: only what came since is read.

Others who commit add manifests at the end of the list. Where the list begins as it did at the last look, the rest of it
is what changed; otherwise manifests were merged, and everything is read anew. So a commit that has lost a race needs as
little time for its next try on a large table as on a small one.
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
class Seen:
    """Live entries, and what changed since the last look: None on the first one, and where that is not known."""

    live: Sequence[ManifestEntry]
    news: Sequence[ManifestEntry] | None


class GrowingView:
    """Manifests and live files of one snapshot after another, of some partitions only where they are given."""

    def __init__(self, table: TableHandle, partitions: Collection[bytes] | None = None) -> None:
        """Nothing is read yet."""
        self._table = table
        self._partitions = partitions
        self._snapshot: Snapshot | None = None
        self._merged: dict[FileIdentity, ManifestEntry] | None = None
        self._merged_from: Sequence[ManifestFile] = ()
        self.manifests: Sequence[ManifestFile] = ()
        """All manifests of the snapshot: base, then delta."""

    def look_at(self, snapshot: Snapshot | None) -> None:
        """Goes on to that snapshot. Raises: NotFoundError, CorruptTableError."""
        self._snapshot = snapshot
        self.manifests = [] if snapshot is None else snapshot_manifests(self._table, snapshot)

    def see(self) -> Seen:
        """What is live. Raises: NotFoundError, CorruptTableError."""
        news = self._news()
        if news is None:
            live = live_of(self._table, self._snapshot, self.manifests, self._partitions)
            self._merged = merge_entries(live)
        assert self._merged is not None
        self._merged_from = self.manifests
        return Seen(list(self._merged.values()), news)

    def _news(self) -> list[ManifestEntry] | None:
        """Entries of the manifests that were added at the end, once they are in what is live."""
        known = len(self._merged_from)
        if self._merged is None or list(self.manifests[:known]) != list(self._merged_from):
            return None
        news = list(entries_of(self._table, self.manifests[known:], self._partitions))
        try:
            merge_into(self._merged, news)
        except FoldError:
            # Read anew, so that the error names the manifests.
            self._merged = None
            return None
        return news
