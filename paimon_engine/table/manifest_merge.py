"""Keeping the list of base manifests short, at every commit.

1. **Full**: when manifests that hold removals, or are small, add up to a threshold, all of them are rewritten without
   the removed files; large manifests of untouched partitions stay as they are.
2. **Minor** otherwise: neighbours are gathered up to the target size and folded into one; removals whose addition
   lies elsewhere stay.

Both keep the set of live files and the order of changes.

Source: `ManifestFileMerger` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.meta.file_set import merge_entries
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import MetadataWriter, read_manifest


def merge_manifests(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter
) -> list[ManifestFile]:
    """The base manifests of the next snapshot; those that were folded are replaced by new ones."""
    full = _full_merge(table, manifests, writer)
    return _minor_merge(table, manifests, writer) if full is None else full


def _full_merge(
    table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter
) -> list[ManifestFile] | None:
    """None if it is not due."""
    target = table.options.manifest_target_file_size_bytes
    changing = [item for item in manifests if item.deleted_count > 0 or item.size_bytes < target]
    if sum(item.size_bytes for item in changing) < table.options.manifest_full_compaction_threshold_size_bytes:
        return None
    entries = {item.name: read_manifest(table, item.name, item) for item in changing}
    removed = {e.identity for found in entries.values() for e in found if e.kind is FileKind.DELETE}
    kept: list[ManifestFile] = []
    rewritten: list[ManifestEntry] = []
    for item in manifests:
        found = entries.get(item.name) or read_manifest(table, item.name, item)
        live = [e for e in found if e.kind is FileKind.ADD and e.identity not in removed]
        if item.name not in entries and len(live) == len(found):
            kept.append(item)
        else:
            rewritten += live
    return [*kept, *writer.manifests(rewritten)]


def _minor_merge(table: TableHandle, manifests: Sequence[ManifestFile], writer: MetadataWriter) -> list[ManifestFile]:
    target = table.options.manifest_target_file_size_bytes
    merged: list[ManifestFile] = []
    group: list[ManifestFile] = []
    for item in manifests:
        group.append(item)
        if sum(member.size_bytes for member in group) >= target:
            merged += _fold(table, group, writer)
            group = []
    if len(group) >= table.options.manifest_merge_min_count:
        return merged + _fold(table, group, writer)
    return merged + group


def _fold(table: TableHandle, group: Sequence[ManifestFile], writer: MetadataWriter) -> list[ManifestFile]:
    if len(group) == 1:
        return list(group)
    entries = merge_entries(entry for item in group for entry in read_manifest(table, item.name, item))
    return writer.manifests(list(entries.values()))
