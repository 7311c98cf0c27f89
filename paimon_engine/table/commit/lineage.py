"""Is a snapshot one that the later ones build on?

A snapshot is made by creating the file of the next id if it is absent. A commit may be so slow that others take that id
and an expiry removes it again: then the slow one can create the file too, beside a table that has long gone on without
it. Such a snapshot must not count as a commit.

Expiry goes oldest first. So as long as the snapshot that a commit was made on is there, the next id was never removed.
Once it is gone, the snapshot that follows ours tells: if it builds on ours, it holds what ours has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.errors import NotFoundError, OutcomeUnknownError
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries, read_manifest, read_manifest_list
from paimon_engine.table.state.snapshots import read_snapshot, row_of_snapshots

_LOOKS_MAX: Final = 5
"""Times that snapshots are listed anew because the next one has expired while it was read."""


def follows(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Whether a snapshot just created on `base` is the table's, asked before anybody hears of it.

    Raises: OutcomeUnknownError if it has expired already, so that nobody can tell.
    """
    if base is not None:
        try:
            # Another one in its place: it was rolled back, and others have gone on.
            return read_snapshot(table, base.id).delta_manifest_list == base.delta_manifest_list
        except NotFoundError:
            pass
    return is_in_line(table, snapshot)


def is_in_line(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether a stored snapshot is the latest, or the next one builds on it, or it builds on the one before.

    Raises: OutcomeUnknownError if it expires meanwhile.
    """
    for _ in range(_LOOKS_MAX):
        ids = row_of_snapshots(table)
        if snapshot.id not in ids:
            break
        later = [number for number in ids if number > snapshot.id]
        if not later:
            # Expiry goes oldest first: if the one before is gone and an older one is not, it was taken back.
            return snapshot.id - 1 in ids or ids[0] == snapshot.id
        if later[0] != snapshot.id + 1:
            return False
        if snapshot.id - 1 in ids and _builds_on_before(table, snapshot):
            return True
        try:
            return _builds_on(table, read_snapshot(table, later[0]), snapshot)
        except NotFoundError:
            continue
    raise OutcomeUnknownError(
        f"{table.paths.snapshot(snapshot.id)} expired before it was certain that others build on it; "
        "look whether its changes are in the table before committing again"
    )


def _builds_on_before(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether it builds on the snapshot before: then its id was never removed."""
    try:
        return _builds_on(table, snapshot, read_snapshot(table, snapshot.id - 1))
    except NotFoundError:
        return False


def _builds_on(table: TableHandle, later: Snapshot, earlier: Snapshot) -> bool:
    """Whether the base of `later` holds what `earlier` has changed."""
    base = read_manifest_list(table, later.base_manifest_list, later.base_manifest_list_size)
    names = {manifest.name for manifest in base}
    delta = read_manifest_list(table, earlier.delta_manifest_list, earlier.delta_manifest_list_size)
    if any(manifest.name in names for manifest in delta):
        return True
    entries = delta_entries(table, earlier)
    if not entries:
        return _inherits(table, later, earlier)
    added = {entry.identity for entry in entries if entry.kind is FileKind.ADD}
    removed = {entry.identity for entry in entries} - added
    # Manifests were merged: what was removed is in the base no more, what was added is.
    live = _live_in(table, base)
    return added <= live and not removed & live


def _inherits(table: TableHandle, later: Snapshot, earlier: Snapshot) -> bool:
    """As `_builds_on`, of a commit that changed no data file: its indexes and statistics went on.

    In doubt no: such a thing is found done, or does no harm, when it is done once more.
    """
    if later.index_manifest != earlier.index_manifest:
        return False
    if earlier.commit_kind is CommitKind.ANALYZE and later.statistics != earlier.statistics:
        return False
    before, after = (read_manifest_list(table, item.base_manifest_list) for item in (earlier, later))
    same_manifests = {manifest.name for manifest in before} == {manifest.name for manifest in after}
    return same_manifests or _live_in(table, before) == _live_in(table, after)


def _live_in(table: TableHandle, manifests: Sequence[ManifestFile]) -> set[FileIdentity]:
    live: set[FileIdentity] = set()
    for manifest in manifests:
        for entry in read_manifest(table, manifest.name, manifest):
            (live.add if entry.kind is FileKind.ADD else live.discard)(entry.identity)
    return live
