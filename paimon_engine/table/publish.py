"""The moment of a commit: the next snapshot becomes visible, or somebody else's did.

Source: `RenamingSnapshotCommit`, `CatalogSnapshotCommit` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.snapshots import write_hint


def publish(table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]) -> bool:
    """Make `snapshot` the latest after `base`, of which `changes` tell: True if this call did, False if others were.

    Atomic. Raises: OutcomeUnknownError if the answer got lost; StorageError if nothing was done.
    """
    if table.door is not None:
        return table.door.publish(table, snapshot, base, changes)
    if not table.env.storage.create(table.paths.snapshot(snapshot.id), snapshot_to_json(snapshot).encode()):
        return False
    write_hint(table, table.paths.latest_hint, snapshot.id)
    if snapshot.id == 1:
        write_hint(table, table.paths.earliest_hint, 1)
    return True
