"""Merges base manifests at each commit, so that their number stays small.

1. **Full**: if the manifests that are small or hold DELETE entries reach a threshold in bytes, all of them are
   rewritten without the deleted files. Large manifests of partitions without deleted files stay as they are.
2. **Minor** otherwise: consecutive manifests are merged into one up to the target size. A DELETE entry stays if its ADD
   entry is in another manifest.

Both keep the set of live files and the order of changes. Manifests of later releases may have fields that cannot be
written into one file together; they are left as they are.

Where there are many entries, they are copied as bytes (`table.state.stored_entries`); the others are read and written
one by one.

`compact_manifests` does the same without waiting for a threshold.

Source: `ManifestFileMerger` of the Java library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paimon_engine.collection import without_collection
from paimon_engine.meta.file_set import merge_entries
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile, manifest_schema
from paimon_engine.meta.manifest_columns import are_among
from paimon_engine.table.state.entry_choice import ENTRIES_MIN
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import may_hold_partitions, read_manifest, read_manifests
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.stored_entries import Kept, StoredEntries, entries_at, read_as_stored

_NEVER: Final = (-1, -1)
"""Before all places of entries."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """Thresholds: bytes of a large manifest, bytes that trigger a full merge, manifests that trigger a minor one."""

    target_bytes: int
    full_bytes: int
    minor_count: int


def merge_manifests(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter
) -> list[ManifestFile]:
    """The base manifests of the next snapshot; merged ones are replaced by new manifests."""
    options = table.options
    limits = _Limits(
        options.manifest_target_file_size_bytes,
        options.manifest_full_compaction_threshold_size_bytes,
        options.manifest_merge_min_count,
    )
    return _merge(table, manifests, writer, limits)


def compact_manifests(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter
) -> list[ManifestFile]:
    """As `merge_manifests`, without a threshold: no DELETE entry is left, and at most one small manifest.

    Returns the same manifests if there is nothing to do.
    """
    return _merge(table, manifests, writer, _Limits(table.options.manifest_target_file_size_bytes, 1, 1))


def _merge(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter, limits: _Limits
) -> list[ManifestFile]:
    with without_collection():
        full = _full_merge(table, manifests, writer, limits)
        return _minor_merge(table, manifests, writer, limits) if full is None else full


def _full_merge(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter, limits: _Limits
) -> list[ManifestFile] | None:
    """The manifests after a full merge; None if it is not due, or would change nothing."""
    changing = {item.name for item in manifests if item.deleted_count > 0 or item.size_bytes < limits.target_bytes}
    if sum(item.size_bytes for item in manifests if item.name in changing) < limits.full_bytes:
        return None
    parts = _as_stored(table, [item for item in manifests if item.name in changing])
    found = None if parts is None else _full_copies(table, manifests, parts, writer)
    return _full_rewrite(table, manifests, changing, writer) if found is None else found.manifests


def _full_rewrite(
    table: TableHandle, manifests: Sequence[ManifestFile], changing: set[str], writer: MetadataWriter
) -> list[ManifestFile] | None:
    """A full merge entry by entry; None if it would change nothing."""
    merged = [item for item in manifests if item.name in changing]
    entries = {item.name: found for item, found in zip(merged, read_manifests(table, merged), strict=True)}
    partitions = {e.partition for found in entries.values() for e in found if e.kind is FileKind.DELETE}
    concerned = _concerned(table, manifests, changing, partitions)
    if len(concerned) <= 1:
        return None
    removed = {
        entry.identity: (number, index)
        for number, item in enumerate(concerned)
        for index, entry in enumerate(entries.get(item.name, ()))
        if entry.kind is FileKind.DELETE
    }
    rewritten: list[ManifestEntry] = []
    replaced: set[str] = set()
    for number, item in enumerate(concerned):
        found = entries.get(item.name) or read_manifest(table, item.name, item)
        live = _live(found, number, removed)
        if item.name in changing or len(live) < len(found):
            replaced.add(item.name)
            rewritten += live
    if manifest_schema(rewritten) is None:
        return None
    return [*(item for item in manifests if item.name not in replaced), *writer.manifests(rewritten)]


def _concerned(
    table: TableHandle, manifests: Sequence[ManifestFile], changing: Collection[str], partitions: Collection[bytes]
) -> list[ManifestFile]:
    """Those that change, and others that may hold files of partitions in which files are removed."""
    return [
        item
        for item in manifests
        if item.name in changing or (partitions and may_hold_partitions(table, item, partitions))
    ]


def _live(
    entries: Sequence[ManifestEntry], number: int, removed: Mapping[FileIdentity, tuple[int, int]]
) -> list[ManifestEntry]:
    """Additions in the manifest of that number that no later entry removes, given where each file is removed last.

    A file is added again by a rollback to a new snapshot, and by a compaction after one.
    """
    return [
        entry
        for index, entry in enumerate(entries)
        if entry.kind is FileKind.ADD and removed.get(entry.identity, _NEVER) < (number, index)
    ]


def _minor_merge(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter, limits: _Limits
) -> list[ManifestFile]:
    merged: list[ManifestFile] = []
    group: list[ManifestFile] = []
    for item in manifests:
        group.append(item)
        if sum(member.size_bytes for member in group) >= limits.target_bytes:
            merged += _fold(table, group, writer)
            group = []
    if len(group) >= limits.minor_count:
        return merged + _fold(table, group, writer)
    return merged + group


def _fold(table: TableHandle, group: Sequence[ManifestFile], writer: MetadataWriter) -> list[ManifestFile]:
    if len(group) <= 1:
        return list(group)
    parts = _as_stored(table, group)
    if parts is not None:
        return _copied(table, parts, _kept_when_folded(parts), writer)
    entries = list(merge_entries(entry for some in read_manifests(table, group) for entry in some).values())
    return list(group) if manifest_schema(entries) is None else writer.manifests(entries)


# ── entries as they are stored ──────────────────────────────────────────────────────────────────


class _Full(NamedTuple):
    """The manifests after a full merge; None if it would change nothing."""

    manifests: list[ManifestFile] | None


def _as_stored(table: TableHandle, manifests: Sequence[ManifestFile]) -> list[StoredEntries] | None:
    """The entries of each manifest as they are stored; None for few, and where they cannot be copied."""
    if sum(item.added_count + item.deleted_count for item in manifests) < ENTRIES_MIN:
        return None
    return read_as_stored(table, manifests)


def _full_copies(
    table: TableHandle, manifests: Sequence[ManifestFile], parts: Sequence[StoredEntries], writer: MetadataWriter
) -> _Full | None:
    """A full merge of the manifests that change, whose entries are given; None if others cannot be copied."""
    known = {part.manifest.name: part for part in parts}
    concerned = _concerned(table, manifests, known, {one for part in parts for one in part.partitions_of_removals()})
    if len(concerned) <= 1:
        return _Full(None)
    others = read_as_stored(table, [item for item in concerned if item.name not in known])
    if others is None:
        return None
    found = {**known, **{part.manifest.name: part for part in others}}
    ordered = [found[item.name] for item in concerned]
    both = [
        (part, kept)
        for part, kept in zip(ordered, _kept_in_full(ordered), strict=True)
        if part.manifest.name in known or not kept.all()
    ]
    replaced = {part.manifest.name for part, _ in both}
    copied = _copied(table, [part for part, _ in both], [kept for _, kept in both], writer)
    return _Full([*(item for item in manifests if item.name not in replaced), *copied])


def _kept_in_full(parts: Sequence[StoredEntries]) -> list[Kept]:
    """Additions of files that no later entry removes."""
    kept = [part.kinds == FileKind.ADD for part in parts]
    names = np.unique(np.concatenate([part.names[~adds] for part, adds in zip(parts, kept, strict=True)]))
    if not len(names):
        return kept
    removals = [(~adds).nonzero()[0] for adds in kept]
    removing = zip(entries_at(parts, removals), _in_order(removals), strict=True)
    removed = {entry.identity: place for entry, place in removing}
    maybe = [(adds & are_among(part.names, names)).nonzero()[0] for part, adds in zip(parts, kept, strict=True)]
    left = zip(entries_at(parts, maybe), _in_order(maybe), strict=True)
    for adds, places in zip(kept, maybe, strict=True):
        adds[places] = [removed.get(one.identity, _NEVER) < place for one, place in islice(left, len(places))]
    return kept


def _in_order(places: Sequence[NDArray[np.int64]]) -> Iterator[tuple[int, int]]:
    """Places of entries in several manifests, with the number of the manifest in front."""
    return ((number, place) for number, found in enumerate(places) for place in found.tolist())


def _kept_when_folded(parts: Sequence[StoredEntries]) -> list[Kept]:
    """What stays of the entries when they are applied in order. Raises: as `merge_entries`."""
    names = np.concatenate([part.names for part in parts])
    _, number, count = np.unique(names, return_inverse=True, return_counts=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    shared = [one.nonzero()[0] for one in np.split(count[number] > 1, ends)]
    kept = [np.ones(len(part), bool) for part in parts]
    entries = entries_at(parts, shared)
    staying = {id(entry) for entry in merge_entries(entries).values()}
    left = iter(entries)
    for stays, places in zip(kept, shared, strict=True):
        stays[places] = [id(entry) in staying for entry in islice(left, len(places))]
    return kept


def _copied(
    table: TableHandle, parts: Sequence[StoredEntries], kept: Sequence[Kept], writer: MetadataWriter
) -> list[ManifestFile]:
    """New manifests of the entries that stay, which are remembered if those of the old ones are."""
    manifests = writer.copies(parts, kept)
    if table.remembers:
        memory, path_of = table.memory, table.paths.manifest
        known = [memory.entries(path_of(part.manifest.name), part.manifest) for part in parts]
        entries = [
            one for found, stays in zip(known, kept, strict=True) for one in compress(found or (), stays.tolist())
        ]
        left = iter(entries)
        for item in manifests if None not in known else ():
            memory.put_entries(path_of(item.name), item, tuple(islice(left, item.added_count + item.deleted_count)))
    return manifests
