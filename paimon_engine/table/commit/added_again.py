"""Files that a commit adds once more after an earlier commit has removed them.

This engine and Java 0.9 apply the entries of manifests in order. Java 1.4 and 2.0, and pypaimon, leave out every file
that any entry removes, also if a later entry adds it again: they would not see its rows, and a merge of manifests by
Java would lose them. So the manifests that remove such a file are merged with those that add it before.

Within one commit nothing can be done about it, so that such a file must not be in its changes.

Example: a compaction moves a file to level 5, `rollback_to_as_latest` moves it back to level 0, and the next compaction
moves it to level 5 again. Or `rewrite_file_index` gives a file the indexes that it had before. Or a branch that went
back to an earlier state is merged.

Source: `FileEntry.readDeletedEntries` of the Java library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.manifest_columns import are_among, hashes_of_names
from paimon_engine.table.state.entry_choice import ENTRIES_MIN
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import may_hold_partitions, read_manifests
from paimon_engine.table.state.stored_entries import entries_at, read_as_stored


def without_unchanged(changes: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
    """The changes of one commit, without files that it would remove and add again as they are."""
    removed = {entry.file.name: entry for entry in changes if entry.kind is FileKind.DELETE}
    added = (entry for entry in changes if entry.kind is FileKind.ADD and entry.file.name in removed)
    same = {entry.identity for entry in added if replace(entry, kind=FileKind.DELETE) == removed[entry.file.name]}
    return [entry for entry in changes if entry.identity not in same] if same else changes


def old_files(changes: Sequence[ManifestEntry], *, adds_old_files: bool) -> set[FileIdentity]:
    """The added files that an earlier commit can have removed.

    These are files that are removed under the same name, on another level or with other indexes; with
    `adds_old_files`, as of a merged branch, all of them. Other files are new.
    """
    removed = {entry.file.name for entry in changes if entry.kind is FileKind.DELETE}
    added = (entry for entry in changes if entry.kind is FileKind.ADD)
    return {entry.identity for entry in added if adds_old_files or entry.file.name in removed}


def removes_any(table: TableHandle, manifests: Iterable[ManifestFile], files: Collection[FileIdentity]) -> bool:
    """Whether a manifest has an entry that removes one of the files. Raises: NotFoundError, CorruptTableError."""
    if not files:
        return False
    partitions = {one.partition for one in files}
    removing = [item for item in manifests if item.deleted_count and may_hold_partitions(table, item, partitions)]
    return any(entry.identity in files for entry in _removals(table, removing, files))


def _removals(
    table: TableHandle, manifests: Sequence[ManifestFile], files: Collection[FileIdentity]
) -> Iterator[ManifestEntry]:
    """The entries that remove files, or of many those that remove files of these names."""
    parts = None
    if sum(item.added_count + item.deleted_count for item in manifests) >= ENTRIES_MIN:
        parts = read_as_stored(table, manifests)
    if parts is not None:
        names = np.unique(hashes_of_names([one.name.encode() for one in files]))
        places = [((part.kinds == FileKind.DELETE) & are_among(part.names, names)).nonzero()[0] for part in parts]
        yield from entries_at(parts, places)
        return
    for entries in read_manifests(table, manifests):
        yield from (entry for entry in entries if entry.kind is FileKind.DELETE)
