"""Reads the snapshots after a known one by their ids: one request for each, and no listing."""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import stored_snapshot

_STEPS_MAX: Final = 16
"""Number of snapshots from which on a listing is faster."""


def snapshots_after(table: TableHandle, known: Snapshot, *, is_old: bool = False) -> list[Snapshot] | None:
    """The snapshots that follow `known`, oldest first; None if the caller should list them instead.

    None is returned if there are too many. With `is_old`, `known` was not read just now: if nothing seems to follow it,
    it is read again, since it and its followers may have expired; None if it is missing. If a `known` that was read
    just now expires before the next snapshot is created, `table.commit.lineage` notices.
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
