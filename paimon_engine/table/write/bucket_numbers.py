"""State of the buckets that a writer writes to: next sequence numbers, and numbers of buckets.

Both come from the live files. A table may have a hundred thousand of them, and a writer of a few rows needs those of
one partition: it looks up partitions as rows of them come, so that manifests of other partitions are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import entries_of, live_of, snapshot_manifests
from paimon_engine.table.state.metadata_memory import KnownNumbers
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
        _add(entries, self.next_sequence, self.total_buckets)

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
        wanted = None if self._has_all else frozenset(unknown)
        found = read_at_latest(self._table, partial(_numbers, self._table, wanted))
        for bucket, number in found.next_sequence.items():
            self.next_sequence[bucket] = max(self.next_sequence.get(bucket, 0), number)
        self.total_buckets |= found.total_buckets
        self._looked_up |= unknown
        self._lookups += 1


def _add(
    entries: Iterable[ManifestEntry], next_sequence: dict[tuple[bytes, int], int], total_buckets: dict[bytes, int]
) -> None:
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        number = entry.file.max_sequence_number + 1
        if next_sequence.get(bucket, 0) < number:
            next_sequence[bucket] = number
        if entry.bucket != POSTPONED_BUCKET:
            total_buckets[entry.partition] = entry.total_buckets


def _numbers(table: TableHandle, partitions: frozenset[bytes] | None, snapshot: Snapshot | None) -> KnownNumbers:
    """Of the live files in a snapshot, of these partitions or all.

    A writer of many small commits remembers the numbers. If the manifests begin as they did then, and what was appended
    adds files only, it reads no others: buckets with thousands of files are not gone through at each commit.
    """
    manifests = [] if snapshot is None else snapshot_manifests(table, snapshot)
    known = table.memory.numbers(partitions) if table.remembers and partitions is not None else None
    if known is not None and manifests[: len(known.manifests)] == known.manifests:
        added = list(entries_of(table, manifests[len(known.manifests) :], partitions))
        if all(entry.kind is FileKind.ADD for entry in added):
            return _remembered(
                table, partitions, KnownNumbers(manifests, known.next_sequence, known.total_buckets), added
            )
    live = live_of(table, snapshot, manifests, partitions)
    return _remembered(table, partitions, KnownNumbers(manifests, {}, {}), live)


def _remembered(
    table: TableHandle, partitions: frozenset[bytes] | None, known: KnownNumbers, entries: Iterable[ManifestEntry]
) -> KnownNumbers:
    """What is known, and these entries too."""
    next_sequence, total_buckets = dict(known.next_sequence), dict(known.total_buckets)
    _add(entries, next_sequence, total_buckets)
    found = KnownNumbers(known.manifests, next_sequence, total_buckets)
    if table.remembers and partitions is not None:
        table.memory.put_numbers(partitions, found)
    return found
