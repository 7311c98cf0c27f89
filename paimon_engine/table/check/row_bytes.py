"""How many bytes a look at all rows of a table reads, from its metadata."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.table.reach.reachability import Root, every_root, root_files, with_branch_paths
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import read_manifest
from paimon_engine.table.state.side_by_side import in_threads


def bytes_of_rows(table: TableHandle) -> int:
    """Bytes of the data files that a look at all rows reads: of all snapshots, tags and branches, each file once.

    Raises: PaimonError if the metadata cannot be read.
    """
    roots, _ = every_root(table)
    manifests = {item.name: item for root in roots for item in _manifests_of_root(table, root)}
    found = in_threads(table, _entries_of, list(manifests.values()))
    sizes = {
        (entry.partition, entry.bucket, entry.file.name): entry.file.size_bytes
        for entries in found
        for entry in entries
        if entry.kind is FileKind.ADD
    }
    return sum(sizes.values())


def _entries_of(table: TableHandle, manifest: ManifestFile) -> list[ManifestEntry]:
    return read_manifest(table, manifest.name, manifest)


def _manifests_of_root(table: TableHandle, root: Root) -> Sequence[ManifestFile]:
    """Manifests that name what a root reaches."""
    if root.is_changelog:
        return ()
    files = root_files(with_branch_paths(table, root.branch), root.snapshot)
    return (*files.manifests, *files.changelog_manifests)
