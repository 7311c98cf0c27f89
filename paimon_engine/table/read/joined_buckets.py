"""Files of a partition whose keys were given other buckets in between: they are merged as those of one bucket.

A rescale does so, and where the table chooses buckets for keys an overwrite. The versions of a key have to meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.schema import BucketMode
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle, bucket_path


def rescaled_partitions(entries: Sequence[ManifestEntry]) -> frozenset[bytes]:
    """Partitions of which the files are from different numbers of buckets."""
    counts: dict[bytes, set[int]] = defaultdict(set)
    for entry in entries:
        counts[entry.partition].add(entry.total_buckets)
    return frozenset(partition for partition, found in counts.items() if len(found) > 1)


def keys_may_move(table: TableHandle) -> bool:
    """Whether an overwrite gives the keys of a partition other buckets."""
    return table.schema.bucket_mode is BucketMode.DYNAMIC


def joined(entries: Sequence[ManifestEntry], partitions: frozenset[bytes]) -> list[ManifestEntry]:
    """The entries, those of the partitions as if these had one bucket."""
    return [replace(entry, bucket=0, total_buckets=1) if entry.partition in partitions else entry for entry in entries]


def by_joined_bucket(
    entries: Sequence[ManifestEntry], partitions: frozenset[bytes]
) -> dict[Bucket, list[ManifestEntry]]:
    """The entries as they are, by bucket; those of the partitions are all in the bucket 0."""
    found: dict[Bucket, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        found[entry.partition, 0 if entry.partition in partitions else entry.bucket].append(entry)
    return found


def directories_of(table: TableHandle, entries: Sequence[ManifestEntry]) -> dict[str, str]:
    """The directory of each file, by its name."""
    return {entry.file.name: bucket_path(table, entry.partition, entry.bucket) for entry in entries}


def names_of(split: Split) -> list[str]:
    """Names of the split's files."""
    return [file.name for section in split.sections for run in section for file in run]


def with_directories(split: Split, directories: Mapping[str, str]) -> Split:
    """The split, which knows where its files are."""
    return replace(split, directories={name: directories[name] for name in names_of(split)})
