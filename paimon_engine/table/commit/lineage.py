"""Whether a snapshot is part of the table's history, that is, whether later snapshots build on it.

A snapshot is committed by creating the file of the next id if it is absent. A commit can be so slow that another one
takes that id, and an expiry deletes that snapshot again. Then the slow process succeeds in creating the file, although
the table's history continues without it. Such a snapshot must not count as a commit.

Example: a commit prepares `snapshot-8` on 7 and is paused. Others commit 8 to 40; an expiry removes 1 to 30. The paused
process now creates `snapshot-8`, as there is no such file. Its rows are in no later snapshot.

Expiry removes the oldest snapshots first. So as long as the base of a commit (7) exists, the next id (8) was never
removed. Once the base is removed, the snapshot after ours decides: if it builds on ours, its base manifests hold the
files that are live after ours. The changes of ours alone are not enough: others can have removed the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.errors import NotFoundError, OutcomeUnknownError
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestFile
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries, read_manifest, read_manifest_list, writer_of
from paimon_engine.table.state.snapshots import existing_snapshot_ids, read_snapshot

_LOOKS_MAX: Final = 5
"""How often snapshots are listed again because the next one expired while it was read."""


def follows(table: TableHandle, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Whether a snapshot that was just created on `base` is part of the history; checked before success is reported.

    Raises: OutcomeUnknownError if it has already expired, so that this cannot be decided.
    """
    if base is not None:
        try:
            # Another snapshot with the id of the base: a rollback removed the base, and others committed since.
            return read_snapshot(table, base.id).delta_manifest_list == base.delta_manifest_list
        except NotFoundError:
            pass
    return is_in_line(table, snapshot)


def is_in_line(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether a stored snapshot is part of the history.

    It is if it is the latest, and the one before exists or it is the only one of a table that exists; if it is not the
    latest, it builds on the one before, or the next one builds on it.

    Raises: OutcomeUnknownError if it expires while this is checked.
    """
    for _ in range(_LOOKS_MAX):
        ids = existing_snapshot_ids(table)
        if snapshot.id not in ids:
            break
        later = [number for number in ids if number > snapshot.id]
        if not later:
            # Expiry removes the oldest first. If the one before is missing and an older one exists, the one before
            # was removed by a rollback, and this file was created late.
            return snapshot.id - 1 in ids or (ids[0] == snapshot.id and schema_exists(table, snapshot))
        if later[0] != snapshot.id + 1:
            # A late file: expiry removes the oldest first. But ids are listed in several looks, between which all up to
            # the later ones may have expired, this one too: then the gap says nothing.
            if table.env.storage.exists(table.paths.snapshot(snapshot.id)):
                return False
            continue
        if snapshot.id - 1 in ids and _builds_on_before(table, snapshot):
            return True
        try:
            return _builds_on(table, read_snapshot(table, later[0]), snapshot)
        except NotFoundError:
            continue
    raise OutcomeUnknownError(
        f"{table.paths.snapshot(snapshot.id)} expired before it was certain that later snapshots build on it; "
        "check whether its changes are in the table before you commit again"
    )


def schema_exists(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the schema of a snapshot is there. It is not if the branch or the table was deleted."""
    return table.schema_service is not None or table.env.storage.exists(table.paths.schema(snapshot.schema_id))


def _builds_on_before(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether it builds on the snapshot before it: then its id was never removed."""
    try:
        return _builds_on(table, snapshot, read_snapshot(table, snapshot.id - 1))
    except NotFoundError:
        return False


def _builds_on(table: TableHandle, later: Snapshot, earlier: Snapshot) -> bool:
    """Whether the base manifests of `later` hold the files that are live after `earlier`.

    Raises: NotFoundError if a list or manifest is missing, as those of a late snapshot's base are after an expiry.
    """
    base = _base_of(table, later)
    names = {manifest.name for manifest in base}
    delta = read_manifest_list(table, earlier.delta_manifest_list, earlier.delta_manifest_list_size)
    if any(manifest.name in names for manifest in delta):
        return True
    entries = delta_entries(table, earlier)
    if not entries:
        return _inherits(table, later, earlier, base)
    added = {entry.identity for entry in entries if entry.kind is FileKind.ADD}
    removed = {entry.identity for entry in entries} - added
    # Manifests were merged since: files that `earlier` removed are no longer in the base, files that it added are.
    live = _live_in(table, base)
    if not added <= live or removed & live:
        return False
    # Another commit, e.g. an overwrite, can have removed the same files, or added the same ones again: all live files
    # decide. This comes last because it reads the base of `earlier`, which may be gone if nothing builds on it.
    return _live_in(table, [*_base_of(table, earlier), *delta]) == live


def _inherits(table: TableHandle, later: Snapshot, earlier: Snapshot, base: Sequence[ManifestFile]) -> bool:
    """As `_builds_on`, for a commit that changed no data file: compares its indexes, statistics and manifests.

    False where it is unclear: repeating such a commit does no harm.
    """
    if later.index_manifest != earlier.index_manifest:
        return False
    if earlier.commit_kind is CommitKind.ANALYZE and later.statistics != earlier.statistics:
        return False
    before = _base_of(table, earlier)
    names = {manifest.name for manifest in base}
    # What it has merged, the next commit has no reason to merge again.
    writer = writer_of(earlier.base_manifest_list)
    merged = {manifest.name for manifest in before if writer_of(manifest.name) == writer}
    if merged:
        return not merged.isdisjoint(names)
    return names == {manifest.name for manifest in before} or _live_in(table, before) == _live_in(table, base)


def _base_of(table: TableHandle, snapshot: Snapshot) -> list[ManifestFile]:
    return read_manifest_list(table, snapshot.base_manifest_list, snapshot.base_manifest_list_size)


def _live_in(table: TableHandle, manifests: Sequence[ManifestFile]) -> set[FileIdentity]:
    live: set[FileIdentity] = set()
    for manifest in manifests:
        for entry in read_manifest(table, manifest.name, manifest):
            (live.add if entry.kind is FileKind.ADD else live.discard)(entry.identity)
    return live
