"""Folding manifest entries into the set of live files.

A file is live when it was added and not removed since. A removal whose addition is not among the entries stays
as a removal: its addition is in an earlier manifest.

Source: `FileEntry.mergeEntries` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry


class FoldError(CorruptTableError):
    """Entries do not add up; `file_name` is the data file of which they say what cannot be."""

    def __init__(self, file_name: str, what: str) -> None:
        super().__init__(what)
        self.file_name = file_name


def merge_entries(entries: Iterable[ManifestEntry]) -> dict[FileIdentity, ManifestEntry]:
    """What remains of the entries, applied in order; each file at most once.

    Raises: FoldError if a file is added twice.
    """
    merged: dict[FileIdentity, ManifestEntry] = {}
    _apply(merged, entries)
    return merged


def merge_into(live: dict[FileIdentity, ManifestEntry], entries: Iterable[ManifestEntry]) -> None:
    """Applies entries, in order, to live files, which change in place.

    Raises: FoldError if a file is added twice, or a removal has no addition before it; `live` is invalid then.
    """
    for identity in _apply(live, entries):
        raise FoldError(identity.name, f"file {identity.name} of bucket {identity.bucket} is removed but is not live")


def _apply(merged: dict[FileIdentity, ManifestEntry], entries: Iterable[ManifestEntry]) -> list[FileIdentity]:
    """Applies entries in order; the removals whose additions are elsewhere."""
    elsewhere = []
    for entry in entries:
        identity = entry.identity
        present = merged.get(identity)
        if entry.kind is FileKind.ADD:
            if present is not None and present.kind is FileKind.ADD:
                what = f"file {entry.file.name} of bucket {entry.bucket} is added twice without a removal"
                raise FoldError(entry.file.name, what)
            merged[identity] = entry
        elif present is not None and present.kind is FileKind.ADD:
            del merged[identity]
        else:
            merged[identity] = entry
            elsewhere.append(identity)
    return elsewhere


def live_files(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries of live files, in order of addition.

    Raises: FoldError if a removal has no addition before it.
    """
    merged = merge_entries(entries)
    for entry in merged.values():
        if entry.kind is FileKind.DELETE:
            what = f"file {entry.file.name} of bucket {entry.bucket} is removed but was never added"
            raise FoldError(entry.file.name, what)
    return list(merged.values())


def by_bucket(entries: Iterable[ManifestEntry]) -> Mapping[tuple[bytes, int], list[ManifestEntry]]:
    """Entries by (partition, bucket), in order of first occurrence."""
    grouped: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    # Entries of a bucket often come one behind the other.
    for key, members in groupby(entries, attrgetter("partition", "bucket")):
        grouped.setdefault(key, []).extend(members)
    return grouped
