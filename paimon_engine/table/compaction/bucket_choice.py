"""Which buckets of a table a compaction is about, and what of their rows is deleted by vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import IndexFile, VectorRange
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.predicate import parse_where
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.old_keys import with_keys_of_today
from paimon_engine.table.read.pruning import entry_filter, partition_predicate_parts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.units import local_wall_clock_ms


@dataclass(frozen=True, slots=True)
class Choice:
    """Partitions that match a condition, in which no file is younger than `idle_ms`, and numbers of buckets."""

    where: str | None = None
    idle_ms: int | None = None
    buckets: frozenset[int] | None = None


def chosen_entries(table: TableHandle, snapshot: Snapshot | None, choice: Choice) -> list[ManifestEntry]:
    """Live entries of the chosen buckets.

    Raises: InvalidArgumentError if the condition is not about partition columns alone.
    """
    where = None if choice.where is None else parse_where(choice.where)
    chosen, other = partition_predicate_parts(table.schema, where)
    if other:
        keys = ", ".join(table.schema.partition_keys) or "none"
        raise InvalidArgumentError(
            f"{str(choice.where)[:200]!r}: compaction is chosen by partition columns only ({keys})"
        )
    found = live_entries(table, snapshot, where=entry_filter(table.schema, chosen))
    found = with_keys_of_today(table, found)
    if choice.idle_ms is not None:
        found = _idle(table, found, choice.idle_ms)
    return found if choice.buckets is None else [entry for entry in found if entry.bucket in choice.buckets]


def _idle(table: TableHandle, entries: Sequence[ManifestEntry], idle_ms: int) -> list[ManifestEntry]:
    """Entries of partitions in which no file is younger; a file that does not say its age may be."""
    before = local_wall_clock_ms(table.env.clock()) - idle_ms
    busy = {
        entry.partition
        for entry in entries
        if entry.file.creation_time_ms is None or entry.file.creation_time_ms > before
    }
    return [entry for entry in entries if entry.partition not in busy]


def deleted_counts(table: TableHandle, bucket: Bucket, files: Sequence[IndexFile]) -> Mapping[str, int]:
    """Rows that the vectors of a bucket delete, by data file; counted in those whose writer, of 0.9, did not say.

    Vectors that cannot be read count as one row: whoever reads the data file says what is wrong.
    """
    vectors = BucketVectors(table, *bucket, files)

    def count(item: VectorRange) -> int:
        if item.cardinality is not None:
            return item.cardinality
        try:
            deleted = vectors.deleted_rows(item.data_file)
        except (NotFoundError, CorruptTableError):
            return 1
        return 0 if deleted is None else len(deleted)

    return {item.data_file: count(item) for file in files for item in file.vectors}
