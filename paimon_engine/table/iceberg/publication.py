"""Bringing the Iceberg metadata of a table up to its latest snapshot.

1. The newest metadata that shows this table's history is the base; what shows later snapshots than there are, or
   others of the same id, is of an earlier history (a rollback, a table that was dropped) and goes.
2. Each snapshot after the base becomes one of Iceberg's, from the files that its commit added and removed. Where there
   is no base, or a snapshot is missing between, the latest one is written from all its files, and history begins again.
3. `v<id>.metadata.json` is created if absent: of two runs one wins, the other deletes what it wrote. Then the hint
   names the newest version, the catalog shows it, if the table names one, and old files are deleted.
4. The result is looked at again: of runs at the same time, the one that writes last sees what the others have done.
   Nothing is deleted that the newest metadata has.

So a run that died leaves nothing but work for the next one, and each version shows a snapshot that exists. What it
shows are files of the latest snapshot, which no clean-up deletes; before snapshots are rolled back or expire with
their files, `publish` takes them out of the metadata.

Source: `IcebergCommitCallback` of the Java library. Differences: it begins again after each commit that it missed, does
not notice that snapshots were rolled back, and writes commits to branches into the metadata of the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import ConflictError, CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.meta.iceberg.manifests import AvroRecord, Content, after, is_live, live_counts, merged
from paimon_engine.meta.iceberg.metadata import (
    Metadata,
    current,
    metadata_text,
    new_metadata,
    shows,
    snapshot_entry,
    with_refs,
    with_snapshot,
)
from paimon_engine.meta.iceberg.schemas import iceberg_schema, partition_fields
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.servers.iceberg_catalog import Shown
from paimon_engine.storage.publication import create_own
from paimon_engine.table.iceberg.catalogs import catalog_of
from paimon_engine.table.iceberg.files import data_entry, is_shown, shown_files, shows_vectors, vector_entries
from paimon_engine.table.iceberg.place import Place, is_location_of, metadata_directory, place_of
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries
from paimon_engine.table.state.snapshots import (
    HELD_PREFIX,
    earliest_snapshot_id,
    latest_snapshot,
    list_tags,
    stored_snapshot,
)

_TRIES: Final = 10
_STEPS_MAX: Final = 100
"""Snapshots after the base up to which each of them gets into the metadata."""


def keeps_iceberg(table: TableHandle) -> bool:
    """Whether the table has Iceberg metadata; branches have none."""
    return table.options.iceberg_storage != "disabled" and table.paths.branch == MAIN_BRANCH


def check_iceberg(table: TableHandle) -> None:
    """Raises InvalidArgumentError or UnsupportedError if the metadata of the table could not be written."""
    if keeps_iceberg(table):
        metadata_directory(table)
        iceberg_schema(table.schema)
        catalog = catalog_of(table)
        if catalog is not None:
            catalog.check(table.schema)


def publish(table: TableHandle) -> None:
    """Brings the metadata up to the latest snapshot and the tags; safe to repeat, and to run beside others.

    Raises: ConflictError if others keep changing it; InvalidArgumentError if it is that of another table;
    CorruptTableError, UnsupportedError, StorageError.
    """
    table, missing = table.newest(), None
    for _ in range(_TRIES):
        snapshot = latest_snapshot(table)
        if snapshot is None:
            return
        try:
            if _publish(table, snapshot) and _is_settled(table):
                return
        except NotFoundError as error:
            # Another run has replaced the base, or the snapshot has expired, while it was read.
            missing = error
    if missing is not None:
        raise missing
    raise ConflictError(
        f"others keep changing the Iceberg metadata of {table.paths.root}; the next commit brings it up to date"
    )


def _is_settled(table: TableHandle) -> bool:
    """Whether the newest metadata shows what the table is now, and the hint names it.

    Of runs at the same time, each may replace what another one has written for the same snapshot: the one that writes
    last sees it here.
    """
    snapshot, place = latest_snapshot(table), place_of(table)
    versions = place.versions()
    if snapshot is None or not versions or versions[-1] != snapshot.id:
        return snapshot is None
    found = place.metadata(snapshot.id)
    is_same = shows(current(found), snapshot) and found == _of_today(table, found) and _is_whole(place, found)
    catalog = catalog_of(table)
    is_shown_there = catalog is None or catalog.shows(_shown(place_of(table, found), found))
    return is_same and is_shown_there and place.hint() == snapshot.id


def _shown(place: Place, metadata: Metadata) -> Shown:
    """What a catalog is to show."""
    path = place.as_written(place.version_path(metadata["current-snapshot-id"]))
    if ":" not in path:
        path = os.path.abspath(path)
    return Shown(place.table.paths.root, path, place.table.schema, metadata)


def _is_whole(place: Place, metadata: Metadata) -> bool:
    """Whether all manifests of the current snapshot exist: a late run may have deleted what it had replaced."""
    try:
        manifests = place.manifests(current(metadata)["manifest-list"])
    except NotFoundError:
        return False
    return {place.here(one["manifest_path"]) for one in manifests} <= place.paths()


def _publish(table: TableHandle, snapshot: Snapshot) -> bool:
    """One try: whether the metadata shows the snapshot, or a later one, now."""
    place = place_of(table)
    versions = place.versions()
    place.check_owner(versions)
    if snapshot.id < max(versions, default=0) <= _latest_id(table):
        # Others have committed and published meanwhile.
        return False
    base = _base(place, versions, snapshot)
    place = place_of(table, base)
    if base is None:
        return _begin(place, snapshot, versions)
    run = _Run(place, base)
    if base["current-snapshot-id"] < snapshot.id and not run.catch_up(snapshot):
        place.delete(place.written)
        return _begin(place, snapshot, versions)
    return run.finish(snapshot, versions)


def _base(place: Place, versions: Sequence[int], snapshot: Snapshot) -> Metadata | None:
    """The newest metadata up to the snapshot, if it shows a snapshot of this history; None if there is none.

    None also where the table was renamed or copied since: all paths in the metadata are those of before.
    """
    table = place.table
    older = [version for version in versions if version <= snapshot.id]
    if not older:
        return None
    try:
        found = place.metadata(older[-1])
        if not is_location_of(table, found["location"]):
            return None
        shown = stored_snapshot(table, found["current-snapshot-id"])
    except (CorruptTableError, NotFoundError):
        return None
    wanted = table.options.iceberg_format_version
    if found["format-version"] > wanted:
        raise InvalidArgumentError(
            f"option 'metadata.iceberg.format-version' = '{wanted}', and the Iceberg metadata of {table.paths.root} "
            f"already has version {found['format-version']}, which cannot be lowered"
        )
    is_ours = found["format-version"] == wanted and shows(current(found), shown) and _is_whole(place, found)
    return found if is_ours and found["current-schema-id"] <= table.schema.id else None


def _begin(place: Place, snapshot: Snapshot, versions: Sequence[int]) -> bool:
    """Writes the snapshot from all its files; whether this run has done it."""
    table = place.table
    stale = _files_of(place, versions)
    if snapshot.id in versions:
        place.delete([place.version_path(snapshot.id)])
    fields = partition_fields(table.schema)
    empty = new_metadata(table.options.iceberg_format_version, table.env.new_id(), place.location, fields)
    run = _Run(place, empty)
    run.begin(snapshot)
    return run.finish(snapshot, versions, stale)


def _files_of(place: Place, versions: Sequence[int], kept: Sequence[Metadata] = ()) -> list[str]:
    """Manifests and lists of metadata that is replaced, but for the snapshots in `kept`.

    What cannot be read is left to the clean-up of orphans.
    """
    lists: dict[str, None] = {}
    for version in versions:
        try:
            lists.update(dict.fromkeys(one["manifest-list"] for one in place.metadata(version)["snapshots"]))
        except (CorruptTableError, NotFoundError):
            continue
    for one in kept:
        lists.pop(one["manifest-list"], None)
    return _files_of_lists(place, list(lists))


def _files_of_lists(place: Place, lists: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for path in lists:
        try:
            found.update(dict.fromkeys(place.here(one["manifest_path"]) for one in place.manifests(path)))
        except (CorruptTableError, NotFoundError):
            continue
        finally:
            found[place.here(path)] = None
    return list(found)


@dataclass
class _Run:
    """Metadata that grows by snapshots; `changed` says whether it differs from what is stored."""

    place: Place
    metadata: Metadata

    def catch_up(self, snapshot: Snapshot) -> bool:
        """Adds all snapshots up to this one; False if one of them is missing."""
        table, first = self.place.table, self.metadata["current-snapshot-id"] + 1
        if snapshot.id - first >= _STEPS_MAX:
            return False
        try:
            missed = [stored_snapshot(table, number) for number in range(first, snapshot.id)]
        except NotFoundError:
            return False
        for one in [*missed, snapshot]:
            self._step(one)
        return True

    def begin(self, snapshot: Snapshot) -> None:
        """Adds the snapshot with all files that Iceberg sees of it."""
        place = self.place
        entries = [data_entry(place, entry, snapshot.id) for entry in shown_files(place.table, snapshot)]
        manifests = place.write_manifests(entries, snapshot.id)
        change = _Change(entries, [], "append")
        self._add(snapshot, manifests, self._vectors(snapshot), change)

    def _step(self, snapshot: Snapshot) -> None:
        """Adds the snapshot after the current one."""
        place = self.place
        manifests = place.manifests(current(self.metadata)["manifest-list"])
        data = [one for one in manifests if one["content"] == Content.DATA]
        changes = delta_entries(place.table, snapshot)
        new, gone = _changes(place, changes)
        removed: list[AvroRecord] = []
        if any(entry.kind is FileKind.DELETE for entry in changes):
            data, removed = self._without(data, new, gone, snapshot.id)
        entries = [data_entry(place, entry, snapshot.id) for entry in new.values()]
        data = _merged(place, [*data, *place.write_manifests(entries, snapshot.id)], snapshot.id)
        kind = "replace" if snapshot.commit_kind == CommitKind.COMPACT else "overwrite"
        self._add(snapshot, data, self._vectors(snapshot), _Change(entries, removed, kind if removed else "append"))

    def _without(
        self, manifests: Sequence[AvroRecord], new: dict[str, ManifestEntry], gone: set[str], snapshot_id: int
    ) -> tuple[list[AvroRecord], list[AvroRecord]]:
        """The manifests without these files, and their entries; files that are there already leave `new`."""
        kept, removed = [], []
        for manifest in manifests:
            entries = [entry for entry in self.place.entries(manifest) if is_live(entry)]
            names = [entry["data_file"]["file_path"].rpartition("/")[2] for entry in entries]
            for name in names:
                # Its level has changed.
                new.pop(name, None)
            hit = [name in gone for name in names]
            if not any(hit):
                kept.append(manifest)
                continue
            removed += [entry for entry, is_hit in zip(entries, hit, strict=True) if is_hit]
            rewritten = [after(entry, snapshot_id, is_removed=hit[index]) for index, entry in enumerate(entries)]
            kept += self.place.write_manifests(rewritten, snapshot_id)
        return kept, removed

    def _vectors(self, snapshot: Snapshot) -> list[AvroRecord]:
        if not shows_vectors(self.place.table):
            return []
        entries = vector_entries(self.place, snapshot)
        return self.place.write_manifests(entries, snapshot.id, Content.DELETES) if entries else []

    def _add(
        self, snapshot: Snapshot, data: Sequence[AvroRecord], vectors: Sequence[AvroRecord], change: _Change
    ) -> None:
        table, metadata = self.place.table, self.metadata
        path = self.place.write_list([*data, *vectors])
        newest = table.schema.id
        known = metadata["schemas"]
        schemas = [*known, *(iceberg_schema(table.schema_of(one)) for one in _missing_schemas(table, known))]
        entry = snapshot_entry(snapshot, _summary(change, data, vectors), path, newest)
        self.metadata = with_snapshot(metadata, entry, schemas, table.env.clock())

    # ── publishing ──────────────────────────────────────────────────────────────────────────────

    def finish(self, snapshot: Snapshot, versions: Sequence[int], stale: Sequence[str] = ()) -> bool:
        """Stores the metadata, and deletes what is not needed any more; False if another run was faster."""
        place, table = self.place, self.place.table
        before = self.metadata["snapshots"]
        self.metadata = _of_today(table, self.metadata)
        data, path = metadata_text(self.metadata), place.version_path(snapshot.id)
        if place.written:
            if not create_own(place.storage, path, data):
                place.delete(place.written)
                return False
        elif place.storage.read(path) != data:
            place.storage.overwrite(path, data)
        place.write_hint(snapshot.id)
        catalog = catalog_of(table)
        if catalog is not None:
            if snapshot.id < max(place.versions()) <= _latest_id(table):
                # Others have shown a later one by now.
                return False
            # Before anything is deleted that it shows.
            catalog.show(_shown(place, self.metadata))
        kept = self.metadata["snapshots"]
        dropped = [one["manifest-list"] for one in before[: len(before) - len(kept)]]
        old = _files_of_lists(place, dropped)
        if catalog is not None:
            # Those that stayed while the catalog could not be told.
            old += _files_of(place, [one for one in versions if one < snapshot.id][:-1], kept)
        self._delete_versions(snapshot, versions)
        _delete_unused(place, [*stale, *old])
        place.write_hint(max(place.versions(), default=snapshot.id))
        return True

    def _delete_versions(self, snapshot: Snapshot, versions: Sequence[int]) -> None:
        """Deletes metadata files of another history, and old ones as the table asks."""
        options, place = self.place.table.options, self.place
        newer = [one for one in versions if one > snapshot.id and one > _latest_id(place.table)]
        first = snapshot.id - options.iceberg_previous_versions_max
        older = [one for one in versions if one < first] if options.iceberg_delete_after_commit else []
        place.delete(place.version_path(one) for one in (*older, *newer))


def _delete_unused(place: Place, paths: Sequence[str]) -> None:
    """Deletes manifests and lists that the newest metadata does not have; all stay if that is not known."""
    if not paths:
        return
    try:
        snapshots = place.metadata(place.versions()[-1])["snapshots"]
        # What is between the oldest and the newest one, and not in them, was made since the oldest one.
        lists = [one["manifest-list"] for one in (snapshots[0], snapshots[-1])]
        in_use = {place.here(one["manifest_path"]) for path in lists for one in place.manifests(path)}
    except (IndexError, CorruptTableError, NotFoundError):
        return
    in_use.update(place.here(one["manifest-list"]) for one in snapshots)
    place.delete([path for path in paths if path not in in_use])


def _latest_id(table: TableHandle) -> int:
    latest = latest_snapshot(table)
    return 0 if latest is None else latest.id


@dataclass(frozen=True)
class _Change:
    """What a snapshot changes, as Iceberg sees it."""

    added: Sequence[AvroRecord]
    removed: Sequence[AvroRecord]
    operation: str


def _changes(place: Place, entries: Sequence[ManifestEntry]) -> tuple[dict[str, ManifestEntry], set[str]]:
    """Files that Iceberg sees newly, and names of files that it might have seen, and must not any more."""
    new: dict[str, ManifestEntry] = {}
    gone: set[str] = set()
    for entry in entries:
        name = entry.file.name
        if entry.kind is FileKind.DELETE:
            new.pop(name, None)
            gone.add(name)
        elif is_shown(place.table, entry.file):
            gone.discard(name)
            new[name] = entry
    return new, gone


def _merged(place: Place, manifests: Sequence[AvroRecord], snapshot_id: int) -> list[AvroRecord]:
    """The manifests, small ones merged where there are many."""
    options = place.table.options
    target = options.manifest_target_file_size_bytes
    small = [one for one in manifests if one["manifest_length"] < target * 2 // 3]
    is_much = sum(one["manifest_length"] for one in small) >= target
    if len(small) < options.iceberg_compaction_min_file_num:
        return list(manifests)
    if len(small) < options.iceberg_compaction_max_file_num and not is_much:
        return list(manifests)
    names = {one["manifest_path"] for one in small}
    entries = [merged(entry, snapshot_id) for one in small for entry in place.entries(one)]
    kept = [one for one in manifests if one["manifest_path"] not in names]
    found = [*kept, *place.write_manifests([entry for entry in entries if entry is not None], snapshot_id)]
    own = [place.here(path) for path in names if place.here(path) in place.written]
    place.delete(own)
    return found


def _missing_schemas(table: TableHandle, known: Sequence[AvroRecord]) -> range:
    return range(max((one["schema-id"] for one in known), default=-1) + 1, table.schema.id + 1)


def _summary(change: _Change, data: Sequence[AvroRecord], vectors: Sequence[AvroRecord]) -> dict[str, str]:
    """The summary of a snapshot; `data` and `vectors` are all its manifests."""
    added, removed = [[entry["data_file"] for entry in entries] for entries in (change.added, change.removed)]
    files, rows = live_counts(data)
    vector_files, positions = live_counts(vectors)
    partitions = {tuple(file["partition"].items()) for file in (*added, *removed)}
    numbers = {
        "added-data-files": len(added),
        "added-records": sum(file["record_count"] for file in added),
        "added-files-size": sum(file["file_size_in_bytes"] for file in added),
        "deleted-data-files": len(removed),
        "deleted-records": sum(file["record_count"] for file in removed),
        "removed-files-size": sum(file["file_size_in_bytes"] for file in removed),
        "changed-partition-count": len(partitions),
        "total-records": rows,
        "total-data-files": files,
        "total-delete-files": vector_files,
        "total-position-deletes": positions,
        "total-equality-deletes": 0,
    }
    return {"operation": change.operation, **{key: str(number) for key, number in numbers.items()}}


def _of_today(table: TableHandle, metadata: Metadata) -> Metadata:
    """The metadata with the snapshots and tags that the table has now, but for those of jobs that are at work."""
    tags = {tag.name: tag.snapshot for tag in list_tags(table) if not tag.name.startswith(HELD_PREFIX)}
    return with_refs(_retained(table, metadata), tags)


def _retained(table: TableHandle, metadata: Metadata) -> Metadata:
    """The metadata without snapshots that the table's options let expire, or that the table has not any more."""
    earliest, snapshots = earliest_snapshot_id(table) or 0, metadata["snapshots"]
    newest = metadata["current-snapshot-id"]
    first = next(
        index
        for index, one in enumerate(snapshots)
        if one["snapshot-id"] == newest or not (one["snapshot-id"] < earliest or _expires(table, one, newest))
    )
    return {**metadata, "snapshots": snapshots[first:]}


def _expires(table: TableHandle, one: dict[str, Any], newest: int) -> bool:
    options = table.options
    if one["snapshot-id"] > newest - options.snapshot_num_retained_min:
        return False
    most = options.snapshot_num_retained_max
    if most is not None and one["snapshot-id"] <= newest - most:
        return True
    return bool(one["timestamp-ms"] < table.env.clock() - options.snapshot_time_retained_ms)
