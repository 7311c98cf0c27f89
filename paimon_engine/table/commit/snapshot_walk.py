"""From a snapshot to the latest one by number, for who has just read it: one request for each, and no listing."""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import stored_snapshot

_STEPS_MAX: Final = 16
"""Snapshots after which a listing is quicker."""


def snapshots_after(table: TableHandle, known: Snapshot, *, is_old: bool = False) -> list[Snapshot] | None:
    """The snapshots that follow `known`, oldest first; None if looking anew is better, as there are too many.

    `known` was read a moment ago: if it goes before the next snapshot is made, `table.commit.lineage` finds out. Where
    it `is_old`, it is looked at again if nothing follows it, since those that did may have expired; None if it is gone.
    """
    found: list[Snapshot] = []
    while len(found) < _STEPS_MAX:
        try:
            found.append(stored_snapshot(table, known.id + 1 + len(found)))
        except NotFoundError:
            return None if is_old and not _is_still_there(table, found[-1] if found else known) else found
    return None


def _is_still_there(table: TableHandle, snapshot: Snapshot) -> bool:
    try:
        return stored_snapshot(table, snapshot.id) == snapshot
    except NotFoundError:
        return False
