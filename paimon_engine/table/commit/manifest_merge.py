"""Merges base manifests at each commit, so that their number stays small.

1. **Full**: if the manifests that are small or hold DELETE entries reach a threshold in bytes, all of them are
   rewritten without the deleted files. Large manifests of partitions without deleted files stay as they are.
2. **Minor** otherwise: consecutive manifests are merged into one up to the target size. A DELETE entry stays if its ADD
   entry is in another manifest.

Both keep the set of live files and the order of changes. Manifests of later releases may have fields that cannot be
written into one file together; they are left as they are.

`compact_manifests` does the same without waiting for a threshold.

Source: `ManifestFileMerger` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.collection import without_collection
from paimon_engine.meta.file_set import merge_entries
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile, manifest_schema
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import MetadataWriter, may_hold_partitions, read_manifest


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
    entries = {item.name: read_manifest(table, item.name, item) for item in manifests if item.name in changing}
    removed = {e.identity for found in entries.values() for e in found if e.kind is FileKind.DELETE}
    partitions = {identity.partition for identity in removed}
    concerned = [
        item
        for item in manifests
        if item.name in changing or (removed and may_hold_partitions(table, item, partitions))
    ]
    if len(concerned) <= 1:
        return None
    rewritten: list[ManifestEntry] = []
    replaced: set[str] = set()
    for item in concerned:
        found = entries.get(item.name) or read_manifest(table, item.name, item)
        live = _live(found, removed)
        if item.name in changing or len(live) < len(found):
            replaced.add(item.name)
            rewritten += live
    if manifest_schema(rewritten) is None:
        return None
    return [*(item for item in manifests if item.name not in replaced), *writer.manifests(rewritten)]


def _live(entries: Sequence[ManifestEntry], removed: set[FileIdentity]) -> list[ManifestEntry]:
    return [entry for entry in entries if entry.kind is FileKind.ADD and entry.identity not in removed]


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
    entries = list(merge_entries(entry for item in group for entry in read_manifest(table, item.name, item)).values())
    return list(group) if manifest_schema(entries) is None else writer.manifests(entries)
