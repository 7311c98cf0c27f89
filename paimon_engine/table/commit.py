"""Commit: turn commit messages into the next snapshot, exactly once.

Each try:

1. Read the latest snapshot. If a newer one carries our user, identifier and kind, we are done: an earlier try
   succeeded although its answer was lost, or another attempt of the same job was faster. It counts only if the
   table goes on from it (`table.lineage`).
2. Work out the changes, for an overwrite from what is live now; check that removed files are still there.
   A conflict is an answer, not an error: the caller plans again.
3. Write the manifests and create `snapshot-<n+1>` if absent; where a server keeps the snapshots, ask it to.
   Created: done. Taken: look whether it is ours after all (a store's client may have repeated a request that had
   succeeded), else try again.
   Unknown: delete nothing; the next try finds out.

Source: `FileStoreCommitImpl`, `ConflictDetection` of the Java library. Difference: metadata of a lost try is deleted
at once, and a snapshot is recognised as ours by its delta list, whose name is unique to the try.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tenacity

from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
)
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.conflict import BucketConflict, find_bucket_changes, find_conflicts, find_unknown
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.names import is_text
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.abort import delete_unneeded
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.handle import SCHEMA_PREFIX, TableHandle, latest_schema_id, numbered
from paimon_engine.table.index_commit import NextIndex, next_index
from paimon_engine.table.lineage import is_in_line
from paimon_engine.table.manifest_merge import compact_manifests, merge_manifests
from paimon_engine.table.manifests import MetadataWriter, live_entries, snapshot_manifests
from paimon_engine.table.old_keys import with_keys_of_today
from paimon_engine.table.publish import publish
from paimon_engine.table.snapshots import (
    latest_snapshot,
    latest_snapshot_id,
    only_compactions_since,
    read_snapshot,
    snapshots_of_user,
)
from paimon_engine.table.statistics import inherited_statistics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """The changes are in `snapshot`.

    `by_other_attempt` is true when another attempt under the same user and identifier made that snapshot: the files
    of this attempt's messages are then in no snapshot, and the caller should delete them. `lost_races` counts tries.
    """

    snapshot: Snapshot
    by_other_attempt: bool = False
    lost_races: int = 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing was committed: these buckets changed since the messages were prepared."""

    conflicts: tuple[BucketConflict, ...]
    snapshot_id: int


@dataclass(frozen=True)
class OverwriteScope:
    """Which partitions an overwrite empties: exactly `partitions` if given, else those whose values equal `spec`.

    `spec` maps partition columns to internal values; an empty one means the whole table. What is live at the commit
    goes, unless `seen` names the files that may go: any other in there is a conflict.
    """

    partitions: frozenset[bytes] | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    seen: frozenset[str] | None = None

    def covers(self, table: TableHandle, partition: bytes) -> bool:
        """Whether the overwrite empties that partition."""
        if self.partitions is not None:
            return partition in self.partitions
        if not self.spec:
            return True
        columns = table.schema.partition_type
        values = dict(zip(columns.names, decode_row([item.type for item in columns], partition), strict=True))
        return all(values[name] == value for name, value in self.spec.items())


@dataclass(frozen=True, slots=True)
class IndexRead:
    """What a writer has read of `snapshot` (None: an empty table) to place its keys.

    That is the hash indexes of dynamic buckets, or with `all_keys` the keys themselves, where a key is unique over all
    partitions.
    """

    snapshot: Snapshot | None
    hash_files: tuple[IndexFile, ...] | None = None
    all_keys: bool = False


@dataclass(frozen=True)
class CommitRequest:
    """What to commit, and under whose name.

    `commit_user` with `commit_identifier` and `kind` names the commit: it happens once, however often it is tried.
    `checked_up_to` is the newest snapshot id in which the caller has already looked for this commit; None when the
    name is fresh. `read` is what the writer of the messages knew of the keys in the table. `statistics` names a new
    statistics file. `needed_files` names data files that must still be live, by bucket. `compacts_manifests` rewrites
    the base manifests, whether that is due or not. `replaces_all` says that the messages remove all files of their
    partitions, so that any other file in there is a conflict.
    """

    messages: Sequence[CommitMessage]
    kind: CommitKind
    commit_user: str
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    overwrite: OverwriteScope | None = None
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    statistics: str | None = None
    compacts_manifests: bool = False
    checked_up_to: int | None = None
    read: IndexRead | None = None
    replaces_all: bool = False
    needed_files: Mapping[tuple[bytes, int], Collection[str]] = field(default_factory=dict)


def commit(table: TableHandle, request: CommitRequest) -> Committed | Conflict:
    """Makes the next snapshot out of the request's messages; atomic, and safe to repeat.

    Raises: ConflictError after too many lost races; OutcomeUnknownError if the store never said whether the last try
    succeeded; StorageError.
    """
    check_metadata_writable(table.options)
    _check_told(request)
    return _Commit(table, request).run()


def _check_told(request: CommitRequest) -> None:
    """Raises InvalidArgumentError for what a snapshot cannot say in a way that every reader takes."""
    for name, value in (request.properties or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgumentError(f"property {name!r} = {value!r} of a commit: names and values are texts")
    for text in (request.commit_user, *(request.properties or {}), *(request.properties or {}).values()):
        if not is_text(text):
            raise InvalidArgumentError(f"{text[:100]!r}: a commit's user and properties must be whole characters")
    watermark = request.watermark
    if watermark is not None and (type(watermark) is not int or not -(1 << 63) <= watermark < 1 << 63):
        raise InvalidArgumentError(f"watermark {watermark!r}: give a whole number of milliseconds")


class _Lost(Exception):  # noqa: N818 - an outcome of a try, not an error
    """Somebody else made the snapshot, or we do not know: try again."""


@dataclass(frozen=True, slots=True)
class _Try:
    """A try whose snapshot may exist."""

    snapshot: Snapshot
    writer: MetadataWriter


class _Commit:
    def __init__(self, table: TableHandle, request: CommitRequest) -> None:
        self._table = table
        self._request = request
        self._checked_up_to = request.checked_up_to
        self._unknown: list[_Try] = []
        self._own_delta_lists: set[str] = set()
        self._merged: dict[str, tuple[IndexFile, ...]] = {}
        self._published_changes: Sequence[ManifestEntry] = ()
        self._lost_races = 0

    def run(self) -> Committed | Conflict:
        options = self._table.options
        limits: list[tenacity.stop.stop_base] = [tenacity.stop_after_attempt(options.commit_max_retries + 1)]
        if options.commit_timeout_ms is not None:
            limits.append(tenacity.stop_after_delay(options.commit_timeout_ms / 1000))
        first = options.commit_min_retry_wait_ms / 1000
        retrying = tenacity.Retrying(
            stop=tenacity.stop_any(*limits),
            wait=tenacity.wait_exponential(multiplier=first, max=options.commit_max_retry_wait_ms / 1000)
            + tenacity.wait_random(0, first / 5),
            retry=tenacity.retry_if_exception_type(_Lost),
        )
        try:
            return retrying(self._attempt)
        except tenacity.RetryError as error:
            return self._after_last_try(error)
        except PaimonError as error:
            if self._unknown and not isinstance(error, OutcomeUnknownError):
                raise self._never_confirmed() from error
            raise

    def _after_last_try(self, error: tenacity.RetryError) -> Committed:
        latest = latest_snapshot(self._table)
        done = self._already_done(latest)
        if done is not None:
            return done
        if self._unknown:
            raise self._never_confirmed() from error
        raise ConflictError(
            f"{self._table.paths.root}: others committed first in {self._lost_races} tries; "
            "raise 'commit.max-retries' or 'commit.max-retry-wait', or run again"
        ) from error

    def _never_confirmed(self) -> OutcomeUnknownError:
        path = self._table.paths.snapshot(self._unknown[-1].snapshot.id)
        return OutcomeUnknownError(f"the store never confirmed {path}; look whether it exists before committing again")

    # ── one try ─────────────────────────────────────────────────────────────────────────────────

    def _attempt(self) -> Committed | Conflict:
        latest = latest_snapshot(self._table)
        done = self._already_done(latest)
        if done is not None:
            return done
        self._settle_unknown(latest)
        if self._checked_up_to is None:
            self._checked_up_to = latest.id if latest else 0
        writer = MetadataWriter(self._table)
        try:
            prepared = self._prepare(latest, writer)
        except NotFoundError as error:
            writer.take_back()
            if latest is not None and latest_snapshot_id(self._table) != latest.id:
                raise _Lost from error  # the snapshot that we built on has expired meanwhile
            raise
        except BaseException:
            writer.take_back()
            raise
        if isinstance(prepared, Conflict):
            writer.take_back()
            return prepared
        return self._publish(prepared, latest, writer)

    def _already_done(self, latest: Snapshot | None) -> Committed | None:
        if latest is None or self._checked_up_to is None or latest.id <= self._checked_up_to:
            return None
        request = self._request
        for snapshot in snapshots_of_user(self._table, request.commit_user, newer_than=self._checked_up_to):
            same_name = snapshot.commit_identifier == request.commit_identifier and snapshot.commit_kind == request.kind
            if same_name and (self._table.door is not None or is_in_line(self._table, snapshot)):
                return self._finish(snapshot)
        return None

    def _settle_unknown(self, latest: Snapshot | None) -> None:
        """Forgets tries whose id belongs to another snapshot, and deletes their metadata.

        Raises: OutcomeUnknownError if that id has expired: nobody can tell any more whose it was.
        """
        unsettled = []
        for item in self._unknown:
            if latest is None or latest.id < item.snapshot.id:
                unsettled.append(item)
                continue
            try:
                there = read_snapshot(self._table, item.snapshot.id)
            except NotFoundError as error:
                raise self._never_confirmed() from error
            if there.delta_manifest_list == item.snapshot.delta_manifest_list:
                # Created so late that its id had been taken and had expired: nobody builds on it.
                delete_unneeded(self._table.env.storage, [self._table.paths.snapshot(there.id)])
            item.writer.take_back()
        self._unknown = unsettled

    def _publish(self, snapshot: Snapshot, base: Snapshot | None, writer: MetadataWriter) -> Committed:
        try:
            created = publish(self._table, snapshot, base, self._published_changes)
        except OutcomeUnknownError as error:
            self._unknown.append(_Try(snapshot, writer))
            raise _Lost from error
        except PaimonError:
            writer.take_back()
            raise
        if created:
            return self._finish(snapshot)
        try:
            there = read_snapshot(self._table, snapshot.id)
        except NotFoundError as error:
            # Taken a moment ago and expired already: it cannot have been ours, which would be the newest.
            writer.take_back()
            raise _Lost from error
        if there.delta_manifest_list in self._own_delta_lists:
            return self._finish(there)
        writer.take_back()
        self._lost_races += 1
        logger.debug("lost the race for snapshot %d", snapshot.id)
        raise _Lost

    def _finish(self, snapshot: Snapshot) -> Committed:
        """Deletes the metadata of unknown tries that certainly failed: their id belongs to another snapshot."""
        for item in self._unknown:
            if item.snapshot.id <= snapshot.id and item.snapshot.delta_manifest_list != snapshot.delta_manifest_list:
                item.writer.take_back()
        self._unknown = []
        ours = snapshot.delta_manifest_list in self._own_delta_lists
        merged = self._merged.get(snapshot.delta_manifest_list, ())
        delete_unneeded(self._table.env.storage, [self._table.paths.index(file.name) for file in merged])
        logger.info("committed snapshot %d: %s by %s", snapshot.id, snapshot.commit_kind, snapshot.commit_user)
        return Committed(snapshot, by_other_attempt=not ours, lost_races=self._lost_races)

    # ── what the snapshot holds ─────────────────────────────────────────────────────────────────

    def _prepare(self, latest: Snapshot | None, writer: MetadataWriter) -> Snapshot | Conflict:
        changes = self._published_changes = self._changes(latest)
        if changes and self._request.kind in (CommitKind.COMPACT, CommitKind.OVERWRITE) and latest is not None:
            conflicts = self._conflicts(latest, changes)
            if conflicts:
                return Conflict(tuple(conflicts), latest.id)
        elif changes and self._was_overwritten(latest):
            moved = find_bucket_changes(
                live_entries(self._table, latest, {item.partition for item in changes}), changes
            )
            if moved and latest is not None:
                return Conflict(tuple(moved), latest.id)
        index = self._next_index(latest, changes, writer)
        misplaced = index.conflicts or self._replaced_files(latest)
        if misplaced:
            return Conflict(misplaced, latest.id if latest else 0)
        previous = snapshot_manifests(self._table, latest) if latest else []
        merge = compact_manifests if self._request.compacts_manifests else merge_manifests
        base_list, base_size = writer.manifest_list(merge(self._table, previous, writer))
        delta_list, delta_size = writer.manifest_list(writer.manifests(changes))
        self._own_delta_lists.add(delta_list)
        self._merged[delta_list] = index.merged
        changelog = [entry for message in self._request.messages for entry in message.changelog_entries()]
        changelog_list, changelog_size = None, None
        if changelog:
            changelog_list, changelog_size = writer.manifest_list(writer.manifests(changelog))
        delta_rows = sum(_signed_rows(entry) for entry in changes)
        schema_id = self._schema_id(latest)
        return Snapshot(
            id=latest.id + 1 if latest else 1,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            commit_user=self._request.commit_user,
            commit_identifier=self._request.commit_identifier,
            commit_kind=self._request.kind,
            time_ms=self._table.env.clock(),
            total_record_count=(latest.total_record_count or 0 if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            changelog_record_count=sum(entry.file.row_count for entry in changelog),
            index_manifest=index.name,
            watermark=_newer(self._request.watermark, latest.watermark if latest else None),
            statistics=self._request.statistics or inherited_statistics(self._table, latest, schema_id),
            extras=self._extras(latest),
        )

    def _was_overwritten(self, latest: Snapshot | None) -> bool:
        """Whether, since an append was prepared, partitions may have got another number of buckets."""
        read = self._request.read
        begin = 0 if read is None or read.snapshot is None else read.snapshot.id
        if latest is None or read is None or latest.id <= begin:
            return False
        try:
            later = [read_snapshot(self._table, number) for number in range(begin + 1, latest.id)]
        except NotFoundError:
            return True
        if any(item.commit_kind is CommitKind.OVERWRITE for item in (*later, latest)):
            return True
        return self._buckets_were_altered()

    def _buckets_were_altered(self) -> bool:
        """Whether schemas differ in it, so that who began a new partition meanwhile may have had another one."""
        table = self._table
        if table.schema.bucket_mode is not BucketMode.FIXED:
            return False
        if table.schema_door is not None:
            return True
        ids = numbered(table.env, table.paths.schema_dir, SCHEMA_PREFIX)
        return len({table.schema_of(number).options.get("bucket") for number in ids}) > 1

    def _schema_id(self, latest: Snapshot | None) -> int:
        """The latest schema; a commit that only rewrites manifests leaves the table at the schema that it has."""
        if latest is not None and self._request.compacts_manifests:
            return latest.schema_id
        schema_id = latest_schema_id(self._table.env, self._table.paths)
        # A server may keep the schemas.
        return self._table.schema.id if schema_id is None else schema_id

    def _replaced_files(self, latest: Snapshot | None) -> tuple[BucketConflict, ...]:
        """Buckets of messages that mark rows of data files which are not live any more: the rows live on in others."""
        needed = self._request.needed_files
        if not needed:
            return ()
        buckets = dict.fromkeys((message.partition, message.bucket) for message in self._request.messages)
        before = live_entries(self._table, latest, {partition for partition, _ in buckets})
        live = {entry.file.name for entry in before}
        return tuple(
            BucketConflict(*bucket, f"data file {name} was already replaced")
            for bucket in buckets
            for name in needed.get(bucket, ())
            if name not in live
        )

    def _next_index(
        self, latest: Snapshot | None, changes: Sequence[ManifestEntry], writer: MetadataWriter
    ) -> NextIndex:
        request, read = self._request, self._request.read or IndexRead(None)
        if read.all_keys and not only_compactions_since(self._table, read.snapshot, latest):
            reason = "others have written keys since those in the table were read"
            where = dict.fromkeys((message.partition, message.bucket) for message in request.messages)
            return NextIndex(conflicts=tuple(BucketConflict(*bucket, reason) for bucket in where))
        scope = request.overwrite
        drops = None if scope is None else (lambda partition: scope.covers(self._table, partition))
        added = {entry.file.name for entry in changes if entry.kind is FileKind.ADD}
        gone = {entry.file.name for entry in changes if entry.kind is FileKind.DELETE} - added
        return next_index(self._table, latest, request.messages, writer, drops=drops, read=read.hash_files, gone=gone)

    def _extras(self, latest: Snapshot | None) -> dict[str, Any]:
        """What the next snapshot takes over: where a log and row ids have got to. All else was said of one commit."""
        before = {} if latest is None else latest.extras
        # 0.9 fails on a missing map of log offsets; later releases ignore it.
        extras: dict[str, Any] = {"logOffsets": dict(before.get("logOffsets") or {})}
        kept = ("nextRowId", "properties") if self._request.compacts_manifests else ("nextRowId",)
        extras |= {key: before[key] for key in kept if before.get(key) is not None}
        if self._request.properties:
            extras["properties"] = dict(self._request.properties)
        return extras

    def _changes(self, latest: Snapshot | None) -> list[ManifestEntry]:
        entries = [entry for message in self._request.messages for entry in message.entries()]
        scope = self._request.overwrite
        if scope is not None:
            live = [entry for entry in live_entries(self._table, latest) if scope.covers(self._table, entry.partition)]
            entries = [*(replace(entry, kind=FileKind.DELETE) for entry in live), *entries]
        if self._table.options.delete_entries_drop_stats:
            return [_without_stats(entry) if entry.kind is FileKind.DELETE else entry for entry in entries]
        return entries

    def _conflicts(self, latest: Snapshot, changes: Sequence[ManifestEntry]) -> list[BucketConflict]:
        partitions = {entry.partition for entry in changes}
        schema = self._table.schema
        live = with_keys_of_today(self._table, live_entries(self._table, latest, partitions), lenient=True)
        if self._request.replaces_all and (others := find_unknown(live, changes)):
            return others
        scope = self._request.overwrite
        if scope is not None and scope.seen is not None:
            known = [entry for entry in changes if entry.file.name in scope.seen]
            if others := find_unknown([entry for entry in live if scope.covers(self._table, entry.partition)], known):
                return others
        return find_conflicts(
            live,
            changes,
            key_type=schema.key_type if schema.primary_keys else None,
            overwrite=self._request.kind is CommitKind.OVERWRITE,
        )


def _without_stats(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=entry.file.without_value_stats())


def _signed_rows(entry: ManifestEntry) -> int:
    return entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count


def _newer(left: int | None, right: int | None) -> int | None:
    known = [value for value in (left, right) if value is not None]
    return max(known, default=None)
