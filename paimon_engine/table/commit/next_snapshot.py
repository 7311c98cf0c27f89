"""Prepares the next snapshot of a commit, with its manifests and index; or finds the conflicts that forbid it.

Nothing here becomes visible to readers. An overwrite removes the files that are live now; files that a message removes
must still be live.

The tries of one commit share everything that does not depend on the snapshot before: manifests of changes, changelogs
and index, and the base manifests that the first try merged. So a try after a lost race reads two manifest lists and the
manifests added since, and writes one manifest list.

Source: `FileStoreCommitImpl`, `ConflictDetection` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from paimon_engine.lsm.levels import key_order
from paimon_engine.meta.conflict import (
    Bucket,
    BucketConflict,
    find_bucket_changes,
    find_conflicts,
    find_unknown,
    find_updates,
    not_concerning,
)
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileIdentity, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.row_tracking import NEXT_ROW_ID, number_rows, stored_columns
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.meta.snapshot_order import check_one_version_per_key, with_number_of_snapshot
from paimon_engine.table.commit.added_again import old_files, removes_any, without_unchanged
from paimon_engine.table.commit.bucket_counts import BucketCounts
from paimon_engine.table.commit.incremental_view import IncrementalView
from paimon_engine.table.commit.index_changes import NextIndex, next_index
from paimon_engine.table.commit.manifest_merge import compact_manifests, merge_manifests
from paimon_engine.table.commit.request import CommitRequest, Conflict, IndexRead
from paimon_engine.table.commit.row_ids import first_free_row_id
from paimon_engine.table.files.old_keys import with_keys_of_today
from paimon_engine.table.state.handle import TableHandle, latest_schema_id
from paimon_engine.table.state.identity import check_not_recreated
from paimon_engine.table.state.manifests import live_of
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.snapshots import only_compactions_since
from paimon_engine.table.state.statistics import inherited_statistics
from paimon_engine.types import RowType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot that may be published: all files that it names are stored.

    `changes` are the entries of its delta list. `merged_index` are index files of its messages whose content was merged
    into other files. `files` are paths of the metadata that was written for it.
    """

    snapshot: Snapshot
    changes: Sequence[ManifestEntry]
    merged_index: Sequence[IndexFile]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Written(Generic[T]):
    """A result, and the paths of the metadata files that it was written to."""

    value: T
    files: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Lists:
    """Delta and changelog lists, which tries share while the changes stay the same: name and size in bytes."""

    delta: tuple[str, int]
    changelog: tuple[str, int] | tuple[None, None]
    changelog_rows: int


@dataclass(frozen=True, slots=True)
class _MergedBase:
    """Base manifests before and after they were merged."""

    before: Sequence[ManifestFile]
    after: Sequence[ManifestFile]


class NextSnapshot:
    """Prepares the snapshots that the tries of one commit want to publish."""

    def __init__(self, table: TableHandle, request: CommitRequest) -> None:
        """Nothing is read or written yet."""
        self._table = table
        self._request = request
        self._writer = MetadataWriter(table, gathers=True)
        # An overwrite must also see files in partitions for which it has no rows.
        partitions = None if request.overwrite else {message.partition for message in request.messages}
        self._view = IncrementalView(table, partitions)
        # What earlier tries made, kept for the next one.
        self._changes: Sequence[ManifestEntry] | None = None
        self._checked: Sequence[ManifestEntry] | None = None
        """Changes that had no conflict with the live files of the try before."""
        self._entries: Sequence[ManifestEntry] | None = None
        """The changes as they are committed, where that depends on the snapshot: with ids or numbers of their rows."""
        self._manifests: _Written[Sequence[ManifestFile]] | None = None
        self._changelog: _Written[tuple[Sequence[ManifestFile], int]] | None = None
        self._lists: _Written[_Lists] | None = None
        self._base: _Written[_MergedBase] | None = None
        self._index: tuple[str | None, _Written[NextIndex]] | None = None
        """Name of the index manifest of the snapshot before, and what was made from it."""
        self._newest_schema_id: int | None = None
        self._buckets = BucketCounts(table, request.read)

    @property
    def written(self) -> Sequence[str]:
        """Paths of all metadata files of all tries."""
        return self._writer.written

    def begin_new_lists(self) -> None:
        """Makes the next try write delta and changelog lists of new names, as the last ones may be in use."""
        self._lists = None

    def forget_others(self) -> None:
        """Makes the next try read the snapshots of others again: a rollback may have replaced those already read."""
        self._buckets.forget_others()

    def prepare(self, latest: Snapshot | None) -> PreparedSnapshot | Conflict:
        """The snapshot after `latest` that makes the request's changes, or the conflicts with `latest`.

        Raises: NotFoundError if files of `latest` are missing, as after an expiry; StorageError.
        """
        # All checks come first: a conflict is found before manifests are written.
        self._view.advance_to(latest)
        changes = self._changes_after(latest)
        conflicts = self._conflicts(latest, changes)
        if conflicts:
            return Conflict(tuple(conflicts), latest.id if latest else 0)
        index = self._next_index(latest, changes)
        index_conflicts = index.value.conflicts or self._needed_file_conflicts()
        if index_conflicts:
            return Conflict(index_conflicts, latest.id if latest else 0)
        base = self._base_manifests(old_files(changes, adds_old_files=self._request.adds_old_files))
        number = latest.id + 1 if latest else 1
        entries, next_row_id = self._with_row_ids(changes, latest, number)
        # The one list that every try writes: it is the last file that the writer has noted.
        base_list, base_size = self._writer.manifest_list(base.value, base_of=number)
        base_file = self._writer.written[-1]
        lists = self._own_lists(entries)
        schema_id = self._schema_id(latest)
        delta_rows = sum(_signed_rows(entry) for entry in changes)
        snapshot = Snapshot(
            id=number,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=lists.value.delta[0],
            delta_manifest_list_size=lists.value.delta[1],
            commit_user=self._request.commit_user,
            commit_identifier=self._request.commit_identifier,
            commit_kind=self._request.kind,
            time_ms=self._table.env.clock(),
            total_record_count=self._rows_before(latest) + delta_rows,
            delta_record_count=delta_rows,
            changelog_manifest_list=lists.value.changelog[0],
            changelog_manifest_list_size=lists.value.changelog[1],
            changelog_record_count=lists.value.changelog_rows,
            index_manifest=index.value.name,
            watermark=_newer(self._request.watermark, latest.watermark if latest else None),
            statistics=self._request.statistics or inherited_statistics(self._table, latest, schema_id),
            extras=self._extras(latest, next_row_id),
        )
        # Until here files were only gathered in memory (`gathers=True`); they are stored before a snapshot names them.
        self._writer.store()
        files = frozenset((base_file, *base.files, *lists.files, *index.files))
        return PreparedSnapshot(snapshot, entries, index.value.merged, files)

    def _rows_before(self, latest: Snapshot | None) -> int:
        """Rows in the live files of `latest`; counted from manifests if the snapshot has no number (early releases)."""
        if latest is None:
            return 0
        if latest.total_record_count is not None:
            return latest.total_record_count
        return sum(entry.file.row_count for entry in live_of(self._table, latest, self._view.manifests))

    def _with_row_ids(
        self, changes: Sequence[ManifestEntry], latest: Snapshot | None, number: int
    ) -> tuple[Sequence[ManifestEntry], int | None]:
        """The changes with the ids of their rows, and the next free one; None without row tracking.

        Ids follow from the snapshot before, so that a try after a lost race writes manifests again if it has new rows.
        """
        if self._table.options.snapshot_ordering:
            return self._with_number(changes, number), None
        if not self._table.options.row_tracking_enabled:
            return changes, None
        entries, next_row_id = number_rows(changes, number, first_free_row_id(self._table, latest))
        if entries != self._entries:
            self._entries, self._manifests = entries, None
        return entries, next_row_id

    def _with_number(self, changes: Sequence[ManifestEntry], number: int) -> Sequence[ManifestEntry]:
        """The changes, new rows with the number of the snapshot, by which they win over those of earlier ones."""
        new_files = {file.name for message in self._request.messages for file in message.new_files}
        check_one_version_per_key(changes, new_files, key_order(self._table.schema.key_type))
        entries = with_number_of_snapshot(changes, new_files, number)
        if entries != self._entries:
            self._entries, self._manifests = entries, None
        return entries

    # ── what is written ─────────────────────────────────────────────────────────────────────────

    def _noted(self, make: Callable[[], T]) -> _Written[T]:
        """The result of `make` together with the paths of the metadata files that it wrote."""
        begin = len(self._writer.written)
        value = make()
        return _Written(value, self._writer.written[begin:])

    def _base_manifests(self, old: Collection[FileIdentity]) -> _Written[Sequence[ManifestFile]]:
        """The manifests of the snapshot before, merged if due; none removes a file that the commit adds (`old`).

        Only the first try merges. Later tries use its result, followed by the manifests that others added since.
        """
        before, table = self._view.manifests, self._table
        grown = None if self._base is None else self._grown(before)
        if self._base is not None and grown is not None and not removes_any(table, grown, old):
            return _Written(grown, self._base.files)
        # If merging is all that the commit is for, and another commit merged them meanwhile, it merges again.
        compacts = self._request.compacts_manifests or removes_any(table, before, old)
        if self._base is not None and not compacts:
            # Another commit merged them meanwhile. A commit with another purpose leaves merging to the next one.
            return _Written(before, ())
        merge = compact_manifests if compacts else merge_manifests
        made: _Written[Sequence[ManifestFile]] = self._noted(lambda: merge(table, before, self._writer))
        self._base = _Written(_MergedBase(before, made.value), made.files)
        return made

    def _grown(self, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile] | None:
        """The merged manifests followed by those added since; None if the manifests did not only grow.

        Example: this commit merged [a, b, c] to [m]. With [a, b, c, d] now, another commit added d: [m, d]. With [n, d]
        now, another commit merged them to n: None.
        """
        assert self._base is not None
        base = self._base.value
        same = list(manifests[: len(base.before)]) == list(base.before)
        return [*base.after, *manifests[len(base.before) :]] if same else None

    def _own_lists(self, changes: Sequence[ManifestEntry]) -> _Written[_Lists]:
        """Delta and changelog lists: those of the last try, unless they or their manifests were reset since."""
        if self._manifests is None:
            self._manifests = self._noted(lambda: self._writer.manifests(changes))
            self._lists = None
        if self._changelog is None:
            entries = [entry for message in self._request.messages for entry in message.changelog_entries()]
            rows = sum(entry.file.row_count for entry in entries)
            self._changelog = self._noted(lambda: (self._writer.manifests(entries) if entries else [], rows))
        if self._lists is None:
            delta, (changelog, rows) = self._manifests.value, self._changelog.value
            made = self._noted(
                lambda: _Lists(
                    self._writer.manifest_list(delta),
                    self._writer.manifest_list(changelog) if changelog else (None, None),
                    rows,
                )
            )
            files = (*made.files, *self._manifests.files, *self._changelog.files)
            self._lists = _Written(made.value, files)
        return self._lists

    # ── what is checked ─────────────────────────────────────────────────────────────────────────

    def _changes_after(self, latest: Snapshot | None) -> Sequence[ManifestEntry]:
        """The entries that the snapshot adds and removes; an overwrite removes what is live in its partitions."""
        if self._request.overwrite is None and self._changes is not None:
            return self._changes
        changes = self._work_out_changes(latest)
        # An overwrite: if others have changed its partitions since, it has to remove other files, in new manifests.
        if changes != self._changes:
            self._changes, self._manifests = changes, None
        return self._changes or []

    def _work_out_changes(self, latest: Snapshot | None) -> Sequence[ManifestEntry]:
        entries: Sequence[ManifestEntry] = [entry for message in self._request.messages for entry in message.entries()]
        scope = self._request.overwrite
        if scope is not None and latest is not None:
            live = [entry for entry in self._view.live_files().live if scope.covers(self._table, entry.partition)]
            entries = [*(replace(entry, kind=FileKind.DELETE) for entry in live), *entries]
        entries = without_unchanged(entries)
        if self._table.options.delete_entries_drop_stats:
            return [_without_stats(entry) if entry.kind is FileKind.DELETE else entry for entry in entries]
        return entries

    def _conflicts(self, latest: Snapshot | None, changes: Sequence[ManifestEntry]) -> Sequence[BucketConflict]:
        """Buckets in which the changes cannot be made on `latest`.

        An append cannot conflict with other files: it only adds. It is checked for one thing, a changed number of
        buckets after an overwrite.
        """
        if not changes or latest is None:
            return ()
        if self._request.kind in (CommitKind.COMPACT, CommitKind.OVERWRITE) or self._request.updated_fields:
            return self._conflicts_with_live_files(changes)
        return find_bucket_changes(self._view.live_files().live, changes) if self._buckets.may_differ(latest) else ()

    def _conflicts_with_live_files(self, changes: Sequence[ManifestEntry]) -> Sequence[BucketConflict]:
        """Buckets whose changes cannot be made on the live files.

        After a lost race only the entries added since are checked, if the changes were free of conflicts before.
        """
        files, request = self._view.live_files(), self._request
        # Overwrites are always checked in full: files that others have added are a conflict for them, too.
        plain = not request.replaces_all and request.overwrite is None
        # With data evolution others may have added columns to rows of the changes.
        plain = plain and not self._table.options.data_evolution_enabled
        new_entries = files.new_entries
        if plain and new_entries is not None and self._checked is changes and not_concerning(new_entries, changes):
            return ()
        found = self._check_in_full(files.live, changes)
        self._checked = None if found else changes
        return found

    def _check_in_full(
        self, all_live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry]
    ) -> Sequence[BucketConflict]:
        """Conflicts of the changes with those of the live files that are in the partitions of the changes."""
        partitions = {entry.partition for entry in changes}
        schema = self._table.schema
        live = [entry for entry in all_live if entry.partition in partitions]
        live = with_keys_of_today(self._table, live, lenient=True)
        # The commit replaces whole partitions (rescale): a file that it does not know would be lost.
        if self._request.replaces_all and (others := find_unknown(live, changes)):
            return others
        scope = self._request.overwrite
        # An overwrite that names the files that its caller has seen removes only these: others are a conflict.
        if scope is not None and scope.seen is not None:
            known = [entry for entry in changes if entry.file.name in scope.seen]
            if others := find_unknown([entry for entry in live if scope.covers(self._table, entry.partition)], known):
                return others
        return find_conflicts(
            live,
            changes,
            key_type=schema.run_key_type,
            overwrite=self._request.kind is CommitKind.OVERWRITE,
            by_columns=self._table.options.data_evolution_enabled,
        )

    def _schema_id(self, latest: Snapshot | None) -> int:
        """Id of the latest schema; a commit that only rewrites manifests keeps the schema of the snapshot before."""
        if latest is not None and self._request.compacts_manifests:
            return latest.schema_id
        if self._newest_schema_id is None:
            schema_id = latest_schema_id(self._table.env, self._table.paths)
            check_not_recreated(self._table)
            # None where a server keeps the schemas.
            self._newest_schema_id = self._table.schema.id if schema_id is None else schema_id
        # Another commit may have used a schema that is newer than the one read here: ids must not go down.
        return self._newest_schema_id if latest is None else max(self._newest_schema_id, latest.schema_id)

    def _needed_file_conflicts(self) -> tuple[BucketConflict, ...]:
        """Conflicts of messages whose deletion vectors mark rows of data files that are not live any more.

        A compaction has moved these rows into other files, where they would not be deleted. It may have been planned
        before the rows came that the messages bring, so that both have no data file in common.
        """
        needed = {bucket: set(names) for bucket, names in self._request.needed_files.items()}
        changes = self._changes or ()
        new = _names(changes, FileKind.ADD) - _names(changes, FileKind.DELETE)
        for message in self._request.messages:
            if marked := message.marked_files() - new:
                needed.setdefault((message.partition, message.bucket), set()).update(marked)
        if not needed:
            return ()
        buckets = dict.fromkeys((message.partition, message.bucket) for message in self._request.messages)
        live = {entry.file.name for entry in self._view.live_files().live}
        replaced = tuple(
            BucketConflict(*bucket, f"data file {name} was already replaced")
            for bucket in buckets
            for name in sorted(needed.get(bucket, ()))
            if name not in live
        )
        return replaced or self._updated_by_others(buckets)

    def _updated_by_others(self, buckets: Collection[Bucket]) -> tuple[BucketConflict, ...]:
        """Conflicts of messages with updates by others: of columns that matter, in rows that were read."""
        request, table = self._request, self._table
        if not request.read_groups:
            return ()

        def columns_of(file: DataFile) -> RowType:
            return stored_columns(table.schema_of(file.schema_id), file).row_type

        live = [entry for entry in self._view.live_files().live if (entry.partition, entry.bucket) in buckets]
        known = {bucket: frozenset(request.read_groups.get(bucket, ())) for bucket in buckets}
        return tuple(find_updates(live, known, request.read_fields, columns_of))

    def _next_index(self, latest: Snapshot | None, changes: Sequence[ManifestEntry]) -> _Written[NextIndex]:
        """The index manifest of the next snapshot; that of the last try if no other commit changed the index since."""
        request, read = self._request, self._request.read or IndexRead(None)
        if read.all_keys and not only_compactions_since(self._table, read.snapshot, latest):
            reason = "other commits have written keys since the keys of the table were read"
            where = dict.fromkeys((message.partition, message.bucket) for message in request.messages)
            return _Written(NextIndex(conflicts=tuple(BucketConflict(*bucket, reason) for bucket in where)), ())
        before = latest.index_manifest if latest else None
        if self._index is not None and self._index[0] == before and request.overwrite is None:
            return self._index[1]
        scope = request.overwrite
        drops = None if scope is None else (lambda partition: scope.covers(self._table, partition))
        # A file that is both removed and added only moves to another level: its deletion vector stays valid.
        removed_data_files = _names(changes, FileKind.DELETE) - _names(changes, FileKind.ADD)
        made = self._noted(
            lambda: next_index(
                self._table,
                latest,
                request.messages,
                self._writer,
                drops=drops,
                read=read.hash_files,
                removed_data_files=removed_data_files,
                updated_fields=request.updated_fields,
            )
        )
        self._index = before, made
        return made

    def _extras(self, latest: Snapshot | None, next_row_id: int | None) -> dict[str, Any]:
        """Other fields of the next snapshot.

        `logOffsets` and `nextRowId` continue from the snapshot before; all others describe one commit only. A commit
        that only rewrites manifests keeps `properties`, too.
        """
        before = {} if latest is None else latest.extras
        # Java 0.9 fails if the map of log offsets is missing; later releases ignore it.
        extras: dict[str, Any] = {"logOffsets": dict(before.get("logOffsets") or {})}
        kept = ("nextRowId", "properties") if self._request.compacts_manifests else ("nextRowId",)
        extras |= {key: before[key] for key in kept if before.get(key) is not None}
        if next_row_id is not None:
            extras[NEXT_ROW_ID] = next_row_id
        if self._request.properties:
            extras["properties"] = dict(self._request.properties)
        return extras


def _without_stats(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=entry.file.without_value_stats())


def _signed_rows(entry: ManifestEntry) -> int:
    return entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count


def _newer(left: int | None, right: int | None) -> int | None:
    known = [value for value in (left, right) if value is not None]
    return max(known, default=None)


def _names(changes: Iterable[ManifestEntry], kind: FileKind) -> set[str]:
    """Names of the data files that changes add, or remove."""
    return {entry.file.name for entry in changes if entry.kind is kind}
