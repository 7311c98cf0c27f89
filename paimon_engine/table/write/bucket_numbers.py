"""State of the buckets that a writer writes to: next sequence numbers, and numbers of buckets.

Both come from the live files. A table may have a hundred thousand of them, and a writer of a few rows needs those of
one partition: it looks up partitions as rows of them come, so that manifests of other partitions are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import read_at_latest

_LOOKUPS_MAX: Final = 2
"""Lookups of single partitions. A manifest can contain many partitions and is read by each lookup, so the next one, for
partitions later in the rows, is of all partitions."""


def ignores_files(table: TableHandle) -> bool:
    """Whether rows need no sequence numbers and no buckets, so the existing files do not matter.

    No table changes between a fixed number of buckets and none once it has a snapshot.
    """
    return not table.schema.primary_keys and table.options.bucket < 1


class BucketNumbers:
    """The next sequence number of each bucket, and the number of buckets of each partition; all if `has_all`."""

    def __init__(
        self,
        table: TableHandle,
        next_sequence: Mapping[tuple[bytes, int], int] = MappingProxyType({}),
        total_buckets: Mapping[bytes, int] = MappingProxyType({}),
        *,
        has_all: bool = False,
    ) -> None:
        """Starts with a known state."""
        self.next_sequence = dict(next_sequence)
        self.total_buckets = dict(total_buckets)
        self._table = table
        self._has_all = has_all
        self._looked_up: set[bytes] = set()
        self._lookups = 0

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Adds the live files of some partitions."""
        for entry in entries:
            bucket = (entry.partition, entry.bucket)
            self.next_sequence[bucket] = max(self.next_sequence.get(bucket, 0), entry.file.max_sequence_number + 1)
            if entry.bucket != POSTPONED_BUCKET:
                self.total_buckets[entry.partition] = entry.total_buckets

    def look_up(self, partitions: Collection[bytes]) -> None:
        """Adds the live files of these partitions in the latest snapshot, if they are not known yet.

        That snapshot may be newer than the one that the write began with: sequence numbers need only be higher than
        those of rows that came before.

        Raises: NotFoundError, CorruptTableError.
        """
        unknown = set(partitions) - self._looked_up
        if self._has_all or not unknown:
            return
        self._has_all = self._lookups == _LOOKUPS_MAX
        wanted = None if self._has_all else unknown
        self.add(read_at_latest(self._table, lambda snapshot: live_entries(self._table, snapshot, wanted)))
        self._looked_up |= unknown
        self._lookups += 1
