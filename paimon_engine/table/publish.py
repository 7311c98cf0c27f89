"""The moment of a commit: the next snapshot becomes visible, or somebody else's did.

A committer may be held up between its look at the latest snapshot and the creation of the next one, while others commit
and expire: then the number that it wants is free again, and what it makes is no part of the table. So it looks again.

Source: `RenamingSnapshotCommit`, `CatalogSnapshotCommit` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileIdentity, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries, read_manifest, read_manifest_list
from paimon_engine.table.snapshots import read_snapshot, snapshot_ids, write_hint


def publish(table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]) -> bool:
    """Make `snapshot` the latest after `base`, of which `changes` tell: True if this call did, False if others were.

    Atomic. Raises: OutcomeUnknownError if the answer got lost; StorageError if nothing was done.
    """
    if table.door is not None:
        return table.door.publish(table, snapshot, base, changes)
    if not table.env.storage.create(table.paths.snapshot(snapshot.id), snapshot_to_json(snapshot).encode()):
        return False
    if not stands(table, snapshot):
        return False
    write_hint(table, table.paths.latest_hint, snapshot.id)
    if snapshot.id == 1:
        write_hint(table, table.paths.earliest_hint, 1)
    return True


def stands(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether an own snapshot in the store was made in time; one that came too late is removed again."""
    if table.door is not None or _is_in_line(table, snapshot):
        return True
    table.env.storage.delete([table.paths.snapshot(snapshot.id)])
    return False


def _is_in_line(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether a stored snapshot is part of the table's history, and not one that came after its number had expired.

    Snapshots expire oldest first. So one whose predecessor is there was made in time, and so was one without a
    successor; else its successor must go on from what it holds.
    """
    if snapshot.id > 1 and table.env.storage.exists(table.paths.snapshot(snapshot.id - 1)):
        return True
    newer = [number for number in snapshot_ids(table) if number > snapshot.id]
    if not newer:
        return True
    try:
        successor = read_snapshot(table, snapshot.id + 1)
        before = read_manifest_list(table, successor.base_manifest_list, successor.base_manifest_list_size)
        entries = (entry for item in before for entry in read_manifest(table, item.name, item))
        return _identities(live_files(entries)) == _identities(live_entries(table, snapshot))
    except NotFoundError:
        return False


def _identities(entries: Iterable[ManifestEntry]) -> set[FileIdentity]:
    return {entry.identity for entry in entries}
