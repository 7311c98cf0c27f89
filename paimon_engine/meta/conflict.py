"""Do these changes still apply to the live files?

Each check is a function from live files and changes to the buckets in conflict, with the reason.

Source: `ConflictDetection` of the Java library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.binary_row import decode_row, row_order
from paimon_engine.meta.column_files import check_covered, column_groups
from paimon_engine.meta.file_set import by_bucket, merge_entries
from paimon_engine.meta.files_beside import is_beside
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry
from paimon_engine.meta.row_tracking import first_row_id
from paimon_engine.types import RowType

Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class BucketConflict:
    """A bucket whose changes no longer apply."""

    partition: bytes
    bucket: int
    reason: str


def find_conflicts(
    live: Sequence[ManifestEntry],
    changes: Sequence[ManifestEntry],
    *,
    key_type: RowType | None,
    overwrite: bool,
    by_columns: bool = False,
) -> list[BucketConflict]:
    """Buckets of `changes` that do not apply to `live`; empty when all apply.

    `key_type` is the trimmed primary key, None where levels are no sorted runs. `by_columns`: files may have some of
    the columns, and others may have added columns to rows that the changes bring into another file with other
    neighbours.
    """
    live_by_bucket = by_bucket(live)
    found = []
    for (partition, bucket), entries in by_bucket(changes).items():
        before = live_by_bucket.get((partition, bucket), [])
        reason = _total_buckets_changed(before, entries, overwrite=overwrite) or _does_not_apply(
            before, entries, key_type, by_columns=by_columns
        )
        if reason is not None:
            found.append(BucketConflict(partition, bucket, reason))
    return found


def not_concerning(added: Sequence[ManifestEntry], changes: Sequence[ManifestEntry]) -> bool:
    """Whether changes that have applied still do after `added`, as far as that is known without the live files.

    So it is where others have only removed files that the changes do not name, and added files of level 0.
    """
    buckets = {(entry.partition, entry.bucket): entry.total_buckets for entry in changes}
    names = {entry.file.name for entry in changes}
    return all(
        (entry.partition, entry.bucket) not in buckets
        or (
            entry.total_buckets == buckets[entry.partition, entry.bucket]
            and entry.file.name not in names
            and (entry.kind is FileKind.DELETE or entry.file.level == 0)
        )
        for entry in added
    )


def find_bucket_changes(live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry]) -> list[BucketConflict]:
    """Buckets of `changes` in partitions that have another number of buckets by now; no other check is made."""
    partitions: dict[bytes, list[ManifestEntry]] = {}
    for entry in live:
        partitions.setdefault(entry.partition, []).append(entry)
    found = []
    for (partition, bucket), entries in by_bucket(changes).items():
        reason = _total_buckets_changed(partitions.get(partition, []), entries, overwrite=False)
        if reason is not None:
            found.append(BucketConflict(partition, bucket, reason))
    return found


def find_unknown(live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry]) -> list[BucketConflict]:
    """Buckets with live files that `changes`, meant to remove all, do not remove."""
    removed = {
        (entry.partition, entry.bucket, entry.file.level, entry.file.name)
        for entry in changes
        if entry.kind is FileKind.DELETE
    }
    return [
        BucketConflict(entry.partition, entry.bucket, f"others have added {entry.file.name}")
        for entry in live
        if (entry.partition, entry.bucket, entry.file.level, entry.file.name) not in removed
    ]


def find_updates(
    live: Sequence[ManifestEntry],
    known: Mapping[Bucket, Collection[str]],
    fields: Collection[int],
    columns_of: Callable[[DataFile], RowType],
) -> list[BucketConflict]:
    """Files of others with some of the columns `fields`, by id, of rows whose files by now are `known` by name."""
    seen = [entry for entry in live if entry.file.name in known[entry.partition, entry.bucket]]
    whole = [entry.file for entry in seen if not is_beside(entry.file)]
    ranges = sorted({(first_row_id(file) or 0, file.row_count) for file in whole})
    starts = [first for first, _ in ranges]
    found = []
    for entry in live:
        bucket, file = (entry.partition, entry.bucket), entry.file
        first = first_row_id(file)
        place = -1 if first is None else bisect_right(starts, first) - 1
        if file.name in known[bucket] or place < 0 or (first or 0) >= sum(ranges[place]):
            continue
        if not set(fields).isdisjoint(one.id for one in columns_of(file)):
            found.append(BucketConflict(*bucket, f"others have updated the same columns, in {file.name}"))
    return found


def _total_buckets_changed(
    live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry], *, overwrite: bool
) -> str | None:
    if overwrite:
        return None
    before = {entry.total_buckets for entry in live if entry.total_buckets > 0}
    after = {entry.total_buckets for entry in changes if entry.total_buckets > 0}
    if before and after and before != after:
        return (
            f"the partition has {sorted(before)} buckets, the change was made for {sorted(after)}; overwrite to rescale"
        )
    return None


def _does_not_apply(
    live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry], key_type: RowType | None, *, by_columns: bool
) -> str | None:
    """Why the changes cannot be made on the live files of a bucket; None if they can."""
    try:
        merged = merge_entries([*live, *changes])
        if by_columns:
            _check_columns(merged.values(), changes)
    except CorruptTableError as error:
        return str(error)
    gone = sorted(entry.file.name for entry in merged.values() if entry.kind is FileKind.DELETE)
    if gone:
        return f"files to be replaced were already removed: {', '.join(gone[:3])}" + (" …" if len(gone) > 3 else "")
    return None if key_type is None else _overlap(list(merged.values()), key_type)


def _check_columns(merged: Iterable[ManifestEntry], changes: Sequence[ManifestEntry]) -> None:
    """Checks that files of the same rows are side by side, and that files of BLOB columns are for all new rows.

    Others may have added such files for some of the rows that a compaction joins. Raises: CorruptTableError.
    """
    added = {entry.file.name for entry in changes if entry.kind is FileKind.ADD}
    files = (entry.file for entry in merged if entry.kind is FileKind.ADD)
    # New rows get ids of their own later, and so do their values.
    for group in column_groups(file for file in files if not is_beside(file) or first_row_id(file) is not None):
        if not added.isdisjoint(file.name for file in group):
            check_covered(group)


def _overlap(entries: Sequence[ManifestEntry], key_type: RowType) -> str | None:
    """Which two files of one level above 0 have keys in common, as a text; None if the levels are sorted runs.

    Only neighbours by their smallest key are compared: if any overlap, some neighbours do.
    """
    types = [field.type for field in key_type]
    levels: Mapping[int, list[ManifestEntry]] = {
        level: [entry for entry in entries if entry.file.level == level]
        for level in {entry.file.level for entry in entries}
    }
    for level, members in levels.items():
        if level == 0:
            continue
        keys = sorted(
            (row_order(decode_row(types, e.file.min_key)), row_order(decode_row(types, e.file.max_key)), e.file.name)
            for e in members
        )
        for (_, high, left), (low, _, right) in pairwise(keys):
            if high >= low:
                return f"files {left} and {right} of level {level} overlap in their keys"
    return None
