"""The index manifest of the next snapshot: live index files, minus removed ones, plus those of the messages.

An overwrite drops the index files of its partitions. If a writer says which hash indexes it has read, its new ones are
merged with those that are live now (`table.files.hash_index`). All other index files that a message replaces must
still be live; if not, the bucket is in conflict.

Global indexes of later releases point into data files. The entries of a bucket whose data files are replaced are
dropped: without an index readers look through the files, with a stale one they would find wrong rows or none. Java
drops them as well where it does not write new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.conflict import BucketConflict
from paimon_engine.meta.index_manifest import HASH, IndexFile, next_index_files
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.hash_index import Rebased, hash_files, rebase
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.metadata_writer import MetadataWriter

_UPDATE_ACTION: Final = "global-index.column-update-action"
_DROP: Final = "drop_partition_index"


@dataclass(frozen=True)
class NextIndex:
    """Name of the next index manifest, None for none; or the buckets in conflict.

    `merged` are index files of the messages whose content is in other files that were written for this commit.
    """

    name: str | None = None
    conflicts: tuple[BucketConflict, ...] = ()
    merged: tuple[IndexFile, ...] = ()


def next_index(
    table: TableHandle,
    latest: Snapshot | None,
    messages: Sequence[CommitMessage],
    writer: MetadataWriter,
    *,
    drops: Callable[[bytes], bool] | None,
    read: Sequence[IndexFile] | None,
    removed_data_files: Collection[str] = (),
    updated_fields: Collection[int] = (),
) -> NextIndex:
    """Writes the index manifest that follows that of `latest`, if it differs.

    `drops` returns whether an overwrite empties a partition. `read` has the hash indexes that the writer of the
    messages has read; None if it has read none. `removed_data_files` names the data files that the snapshot removes and
    does not add again (as an upgrade to another level does): their deletion vectors must be removed, too.
    `updated_fields` are ids of columns of which old rows get new values.

    Raises: NotFoundError, CorruptTableError, StorageError; UnsupportedError for kinds of index that we cannot write.
    """
    name = latest.index_manifest if latest else None
    brings = any(message.new_index_files or message.deleted_index_files for message in messages)
    may_orphan = bool(removed_data_files) and table.options.deletion_vectors_enabled
    replaced = {(message.partition, message.bucket) for message in messages if message.compact_before}
    may_be_stale = name is not None and bool(replaced)
    updates = name is not None and bool(updated_fields)
    if not brings and not may_orphan and not may_be_stale and not updates and drops is None and read is None:
        return NextIndex(name)
    before = live_index_files(table, latest)
    live = [file for file in before if drops is None or not drops(file.partition)]
    live = [file for file in live if not (file.is_global and _is_replaced(table, file, replaced))]
    if updates:
        live = _without_updated(table, live, {message.partition for message in messages}, updated_fields)
    hashes = Rebased()
    if read is not None:
        base = hash_files(file for file in read if drops is None or not drops(file.partition))
        hashes = rebase(table, messages, base, hash_files(live), writer)
    others = read is None
    added = [file for m in messages for file in m.new_index_files if others or file.kind != HASH]
    removed = [file for m in messages for file in m.deleted_index_files if others or file.kind != HASH]
    bucketed = table.schema.bucket_mode is not BucketMode.UNAWARE
    conflicts = hashes.conflicts or tuple(_replaced_by_others(live, added, removed, bucketed=bucketed))
    if conflicts:
        return NextIndex(conflicts=conflicts)
    try:
        files = next_index_files(
            live, added=[*added, *hashes.added], removed=[*removed, *hashes.removed], bucketed=bucketed
        )
    except InvalidArgumentError as error:
        where = dict.fromkeys((message.partition, message.bucket) for message in messages)
        return NextIndex(conflicts=tuple(BucketConflict(*bucket, str(error)) for bucket in where))
    left = [file for file in files if any(vector.data_file in removed_data_files for vector in file.vectors)]
    if left:
        reason = f"index file {left[0].name} would stay, with deletion vectors of data files that are removed"
        return NextIndex(conflicts=tuple(BucketConflict(file.partition, file.bucket, reason) for file in left))
    names = {file.name for file in files}
    merged = tuple(file for m in messages for file in m.new_index_files if file.name not in names)
    if files == before:
        return NextIndex(name)
    return NextIndex(writer.index_manifest(files) if files else None, merged=merged)


def _is_replaced(table: TableHandle, file: IndexFile, replaced: Collection[tuple[bytes, int]]) -> bool:
    """Whether data files that a global index file may point into are replaced."""
    if table.schema.bucket_mode is BucketMode.UNAWARE:
        return any(partition == file.partition for partition, _ in replaced)
    return (file.partition, file.bucket) in replaced


def check_indexes_of_columns(
    table: TableHandle, snapshot: Snapshot | None, partitions: Collection[bytes], fields: Collection[int]
) -> None:
    """Raises UnsupportedError if a global index of one of these columns, by id, would not fit any more."""
    _without_updated(table, live_index_files(table, snapshot), partitions, fields)


def _without_updated(
    table: TableHandle, live: Sequence[IndexFile], partitions: Collection[bytes], fields: Collection[int]
) -> list[IndexFile]:
    """The index files without those of global indexes of columns that are updated in these partitions.

    Raises: UnsupportedError unless the table says that they are to be dropped.
    """
    stale = [file for file in live if file.is_global and file.partition in partitions and _covers(file, fields)]
    if stale and table.options.raw.get(_UPDATE_ACTION, "").strip().lower() != _DROP:
        raise UnsupportedError(
            f"{table.paths.root}: a global index ({stale[0].kind}, {stale[0].name}) covers a column that is updated, "
            f"and would not fit any more; drop the index, or let the update drop it with '{_UPDATE_ACTION}' = '{_DROP}'"
        )
    return [file for file in live if file not in stale]


def _covers(file: IndexFile, fields: Collection[int]) -> bool:
    """Whether a global index is one of these columns; also where it does not say of which."""
    found = file.unknown.get("_GLOBAL_INDEX")
    described = found.value if found is not None and isinstance(found.value, dict) else {}
    indexed = {described.get("_INDEX_FIELD_ID"), *(described.get("_EXTRA_FIELD_IDS") or ())} - {None}
    return not indexed or not indexed.isdisjoint(fields)


def _replaced_by_others(
    live: Sequence[IndexFile], added: Sequence[IndexFile], removed: Sequence[IndexFile], *, bucketed: bool
) -> Iterator[BucketConflict]:
    """Conflicts in buckets whose index files were replaced since the messages were prepared."""
    removed_ids = {(file.kind, file.name) for file in removed}
    names = {(file.kind, file.name) for file in live}
    for file in removed:
        if (file.kind, file.name) not in names:
            yield BucketConflict(file.partition, file.bucket, f"index file {file.name} was already replaced")
    staying = {
        (file.partition, file.bucket, file.kind): file.name
        for file in live
        if (file.kind, file.name) not in removed_ids
    }
    for file in added:
        other = staying.get((file.partition, file.bucket, file.kind))
        if other is not None and (bucketed or file.kind == HASH):
            yield BucketConflict(file.partition, file.bucket, f"others have added index file {other}")
