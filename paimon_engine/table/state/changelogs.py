"""Changelogs that outlive their snapshots: `changelog/changelog-<id>` holds the JSON of a snapshot that has expired.

Where the table writes changelog files, these are what such a changelog keeps. Where it writes none
(`changelog-producer` = `none`), the data files that the commit added are the changelog: it keeps the manifest lists of
the snapshot, and of the files in its delta those that a writer, not a compaction, has made.

Source: `Changelog`, `ChangelogManager`, `ChangelogDeletion`, `SnapshotDeletion` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from paimon_engine.errors import NotFoundError, PaimonError, damaged
from paimon_engine.meta.manifest import FileSource, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot, parse_snapshot, snapshot_to_json
from paimon_engine.table.state.handle import TableHandle, numbered
from paimon_engine.table.state.hints import hint_of, settle_hints, write_hint
from paimon_engine.table.state.snapshots import latest_snapshot_id, read_snapshot

CHANGELOG_PREFIX: Final = "changelog-"
_NONE_LEFT: Final = -1
"""What Java writes as the newest changelog's number when a rollback has taken all of them."""


def changelog_ids(table: TableHandle) -> list[int]:
    """Ids of the changelogs that outlive their snapshots, ascending."""
    return numbered(table.env, table.paths.changelog_dir, CHANGELOG_PREFIX)


def read_changelog(table: TableHandle, snapshot_id: int) -> Snapshot:
    """The expired snapshot whose changelog is kept.

    Raises: NotFoundError, CorruptTableError.
    """
    path = table.paths.changelog(snapshot_id)
    found = parse_snapshot(table.env.storage.read(path), path)
    if found.id != snapshot_id:
        raise damaged(path, f"the file holds the changelog of snapshot {found.id}")
    return found


@dataclass(frozen=True, slots=True)
class Commit:
    """What changes are read of: a snapshot, or one that has expired and whose changelog is kept."""

    snapshot: Snapshot
    is_expired: bool


def read_commit(table: TableHandle, snapshot_id: int) -> Commit:
    """The snapshot, or where it has expired its changelog.

    Raises: NotFoundError, CorruptTableError.
    """
    try:
        return Commit(read_snapshot(table, snapshot_id), is_expired=False)
    except NotFoundError:
        try:
            return Commit(read_changelog(table, snapshot_id), is_expired=True)
        except NotFoundError:
            pass
        raise


def earliest_change_id(table: TableHandle, earliest_snapshot_id: int) -> int:
    """The oldest id from which on every commit's changes can be read: by its snapshot, or by its changelog."""
    earliest = earliest_snapshot_id
    for number in reversed([number for number in changelog_ids(table) if number < earliest]):
        if number != earliest - 1:
            break
        earliest = number
    return earliest


def keeps_delta(on_branch: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the data files that the commit added are its changelog: now, or when it was made.

    Options may have changed since. What is not known is taken for a yes, which deletes less.
    """
    if on_branch.options.changelog_producer == "none":
        return True
    try:
        return on_branch.schema_of(snapshot.schema_id).table_options.changelog_producer == "none"
    except PaimonError:
        return True


def is_change(entry: ManifestEntry) -> bool:
    """Whether a file in a delta was made by a writer, as far as is known: a compaction changes no rows."""
    return entry.file.file_source in (None, FileSource.APPEND)


def without_lost_changelog(table: TableHandle, snapshot: Snapshot) -> Snapshot:
    """A tag's snapshot, to be made a snapshot again: without its changelog if that is gone.

    Java's expiry deletes the changelog of a snapshot although a tag still names it.
    """
    name = snapshot.changelog_manifest_list
    if name is None or table.env.storage.exists(table.paths.manifest(name)):
        return snapshot
    return replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )


# ── keep and forget ─────────────────────────────────────────────────────────────────────────────


def write_changelog(table: TableHandle, snapshot: Snapshot) -> None:
    """Makes the changelog of a snapshot. May be repeated."""
    table.env.storage.overwrite(table.paths.changelog(snapshot.id), snapshot_to_json(snapshot).encode())


def keep_changelog(table: TableHandle, snapshot: Snapshot) -> bool:
    """Makes the changelog of a snapshot that is about to go. May be repeated.

    False if another run has expired the snapshot meanwhile, and perhaps the changelog, too, whose files are gone then;
    or if a rollback has removed the snapshot.
    """
    storage, paths = table.env.storage, table.paths
    if not storage.exists(paths.snapshot(snapshot.id)):
        return False
    had_one = storage.exists(paths.changelog(snapshot.id))
    write_changelog(table, snapshot)
    if storage.exists(paths.snapshot(snapshot.id)):
        return True
    if snapshot.id <= (latest_snapshot_id(table) or 0):
        needed = _lists_of_changes(table, snapshot)
        # A commit without changes needs no file: then who removed its snapshot had made this changelog, or had not.
        if all(storage.exists(paths.manifest(name)) for name in needed) if needed else had_one:
            return True
    storage.delete([paths.changelog(snapshot.id)])
    return False


def _lists_of_changes(table: TableHandle, snapshot: Snapshot) -> list[str]:
    """The manifest lists that tell what a commit changed."""
    delta = [snapshot.delta_manifest_list] if keeps_delta(table, snapshot) else []
    changelog = snapshot.changelog_manifest_list
    return delta if changelog is None else [*delta, changelog]


def hint_kept(table: TableHandle, newest_id: int) -> None:
    """Says which changelog is the newest, unless that is said already."""
    path = table.paths.latest_changelog_hint
    if hint_of(table, path) != newest_id:
        write_hint(table, path, newest_id)


def forget_oldest(table: TableHandle, ids: list[int], earliest_left: int | None) -> None:
    """Removes the oldest changelogs, oldest first, and says which one is the oldest from now on.

    Without any left, the hints go too.
    """
    storage, paths = table.env.storage, table.paths
    for snapshot_id in sorted(ids):
        storage.delete([paths.changelog(snapshot_id)])
    if earliest_left is not None:
        write_hint(table, paths.earliest_changelog_hint, earliest_left)
    elif ids:
        storage.delete([paths.earliest_changelog_hint, paths.latest_changelog_hint])


def forget_newest(table: TableHandle, ids: list[int]) -> None:
    """Removes the newest changelogs, newest first, as a rollback does."""
    storage, paths = table.env.storage, table.paths
    if not ids:
        return
    left = [number for number in changelog_ids(table) if number < min(ids)]
    write_hint(table, paths.latest_changelog_hint, max(left, default=_NONE_LEFT))
    for snapshot_id in sorted(ids, reverse=True):
        storage.delete([paths.changelog(snapshot_id)])
    if left:
        # Others may have removed these, with the hint, before it was written.
        settle_hints(table, paths.changelog_dir)
