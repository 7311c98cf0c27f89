"""Which buckets of a table a compaction, a clustering or a rescaling selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.predicate import parse_where
from paimon_engine.table.files.old_keys import with_keys_of_today
from paimon_engine.table.read.pruning import entry_filter, partition_predicate_parts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.units import local_wall_clock_ms


@dataclass(frozen=True, slots=True)
class BucketSelection:
    """Buckets that meet all conditions; a condition that is None is met by all.

    `where` is a SQL condition on partition columns. With `idle_ms` no file of the partition is younger than that.
    `partitions` are serialized partition keys, `buckets` numbers.
    """

    where: str | None = None
    idle_ms: int | None = None
    buckets: frozenset[int] | None = None
    partitions: frozenset[bytes] | None = None


def selected_entries(table: TableHandle, snapshot: Snapshot | None, selection: BucketSelection) -> list[ManifestEntry]:
    """Live entries of the selected buckets.

    Raises: InvalidArgumentError if `where` is not about partition columns alone; NotFoundError, CorruptTableError.
    """
    where = None if selection.where is None else parse_where(selection.where)
    on_partitions, other = partition_predicate_parts(table.schema, where)
    if other:
        keys = ", ".join(table.schema.partition_keys) or "none"
        raise InvalidArgumentError(
            f"{str(selection.where)[:200]!r}: compaction is chosen by partition columns only ({keys})"
        )
    found = live_entries(table, snapshot, where=entry_filter(table, on_partitions))
    found = with_keys_of_today(table, found)
    if selection.partitions is not None:
        found = [entry for entry in found if entry.partition in selection.partitions]
    if selection.idle_ms is not None:
        found = _idle(table, found, selection.idle_ms)
    return found if selection.buckets is None else [entry for entry in found if entry.bucket in selection.buckets]


def _idle(table: TableHandle, entries: Sequence[ManifestEntry], idle_ms: int) -> list[ManifestEntry]:
    """Entries of partitions in which no file is younger; a file that does not say its age may be."""
    before = local_wall_clock_ms(table.env.clock()) - idle_ms
    busy = {
        entry.partition
        for entry in entries
        if entry.file.creation_time_ms is None or entry.file.creation_time_ms > before
    }
    return [entry for entry in entries if entry.partition not in busy]
