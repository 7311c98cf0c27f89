"""Which live files a reader looks for, and whether it pays to find them by way of columns (`live_columns`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from paimon_engine.meta.manifest import ManifestEntry, ManifestFile
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.metadata_memory import ENTRIES_KEPT_MAX

ENTRIES_MIN: Final = 1_000
"""Entries below which columns save nothing."""


class FoundFiles(NamedTuple):
    """Entries of live files, and the number of rows in all live files of their partitions, whatever their buckets."""

    entries: Sequence[ManifestEntry]
    row_count: int


class Choice(NamedTuple):
    """The request: of the partitions that occur, those that matter, and of these some buckets.

    `buckets` gives the numbers of the buckets that matter, for files of a partition that has so many, with a schema of
    that id; None for all. Without `statistics`, those of files may be missing from their entries.
    """

    partitions: Callable[[Sequence[bytes]], Collection[bytes]] | None = None
    buckets: Callable[[int, int], Collection[int] | None] | None = None
    statistics: bool = True

    def within(self, partitions: Collection[bytes] | None) -> Choice:
        """The same of these partitions only; None for all."""
        if partitions is None:
            return self
        matching = self.partitions
        if matching is None:
            return self._replace(partitions=lambda _: partitions)
        return self._replace(partitions=lambda found: matching([one for one in found if one in partitions]))


def worth_columns(table: TableHandle, manifests: Sequence[ManifestFile]) -> bool:
    """Whether `live_in_columns` takes less time.

    A writer that looks again remembers entries instead, if they are not too many.
    """
    memory, path_of = table.memory, table.paths.manifest
    count = sum(
        item.added_count + item.deleted_count
        for item in manifests
        if not table.remembers or memory.entries(path_of(item.name), item) is None
    )
    keeps = table.remembers and memory.is_asked_again() and count <= ENTRIES_KEPT_MAX
    return count >= ENTRIES_MIN and not keeps


def of_partitions(entries: Sequence[ManifestEntry], choice: Choice) -> list[ManifestEntry]:
    """Those of the entries whose partitions matter, looked at one by one."""
    if choice.partitions is None:
        return list(entries)
    wanted = frozenset(choice.partitions(list(dict.fromkeys(entry.partition for entry in entries))))
    return [entry for entry in entries if entry.partition in wanted]


def of_buckets(entries: Sequence[ManifestEntry], choice: Choice) -> list[ManifestEntry]:
    """Those of the entries whose buckets matter, looked at one by one."""
    if choice.buckets is None:
        return list(entries)
    kinds = {(entry.total_buckets, entry.file.schema_id) for entry in entries}
    numbers = {kind: choice.buckets(*kind) for kind in kinds}

    def matters(entry: ManifestEntry) -> bool:
        found = numbers[entry.total_buckets, entry.file.schema_id]
        return found is None or entry.bucket in found

    return [entry for entry in entries if matters(entry)]
