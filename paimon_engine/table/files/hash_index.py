"""The hash index of dynamic buckets, and how several writers share it.

Each (partition, bucket) has one index file with the hashes of its keys (`format.hash_index`). A writer reads the
files of the partitions that it writes to, assigns buckets by them (`table.write.bucket_assignment`), and replaces the
files of the buckets that got new hashes. Java's writers do so blindly, which is why Java allows one job at a time: of
two writers that begin with the same index, the second removes the first one's hashes, and a key that both add
can end in two buckets.

Here the commit checks it (`rebase`). It knows which index files the writer has read, and compares them with
those of the snapshot that it is about to follow, partition by partition:

1. They are the same: the writer's files are committed unchanged.
2. Others have only added hashes since. Then what the writer has read is still valid. Each bucket's file becomes the
   other's hashes and the writer's new ones together, unless a hash is new on both sides and in different buckets.
3. There is such a hash, or hashes are missing (an overwrite has started a new index): a conflict. The caller
   reads the index again and assigns again, from the rows that it has already written (`actions.write`).

As the snapshot is created only if absent, no index can be committed between this check and the commit. A bucket may
grow beyond its target by the keys that came in at the same time. A Java writer that works concurrently can still drop
our hashes, as it can those of another Java writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.bucket_hash import hash_rows
from paimon_engine.format.hash_index import Hashes, decode_hashes
from paimon_engine.meta.conflict import Bucket, BucketConflict
from paimon_engine.meta.index_manifest import HASH, IndexFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.external import index_path, store_of
from paimon_engine.table.state.handle import TableHandle, read_needed
from paimon_engine.table.state.metadata_writer import MetadataWriter

HashFiles = Mapping[Bucket, IndexFile]


def hash_files(files: Iterable[IndexFile]) -> HashFiles:
    """The hash indexes among index files, by bucket."""
    return {(file.partition, file.bucket): file for file in files if file.kind == HASH}


def read_hashes(table: TableHandle, file: IndexFile) -> Hashes:
    """The hashes of an index file, ascending.

    Raises: NotFoundError; CorruptTableError; UnsupportedError for a file outside the table.
    """
    path = index_path(table, file)
    hashes = decode_hashes(read_needed(table, path, storage=store_of(table, path)), path)
    if len(hashes) != file.row_count:
        raise CorruptTableError(f"{path} has {len(hashes)} hashes, its manifest says {file.row_count}")
    return hashes


@dataclass(frozen=True, slots=True)
class Rebased:
    """Index files as they must be to follow another snapshot, or the buckets in conflict."""

    added: tuple[IndexFile, ...] = ()
    removed: tuple[IndexFile, ...] = ()
    conflicts: tuple[BucketConflict, ...] = ()


def rebase(
    table: TableHandle, messages: Sequence[CommitMessage], base: HashFiles, live: HashFiles, writer: MetadataWriter
) -> Rebased:
    """The hash indexes of messages whose writer has read `base`, for a snapshot with `live`.

    Files that have to be merged are written again for the commit; `writer` can delete them if it fails.

    Raises: NotFoundError if a live index file is missing; CorruptTableError; StorageError.
    """
    written: dict[bytes, list[CommitMessage]] = {}
    for message in messages:
        written.setdefault(message.partition, []).append(message)
    before, now = _by_partition(base), _by_partition(live)
    parts = [
        _Partition(table, partition, members, before.get(partition, {}), now.get(partition, {})).rebased(writer)
        for partition, members in written.items()
    ]
    return Rebased(
        added=tuple(file for part in parts for file in part.added),
        removed=tuple(file for part in parts for file in part.removed),
        conflicts=tuple(conflict for part in parts for conflict in part.conflicts),
    )


def _by_partition(files: HashFiles) -> dict[bytes, dict[int, IndexFile]]:
    found: dict[bytes, dict[int, IndexFile]] = {}
    for (partition, bucket), file in files.items():
        found.setdefault(partition, {})[bucket] = file
    return found


class _Partition:
    """One partition: the index that the writer has read, the current one, and the one with the writer's additions."""

    def __init__(
        self,
        table: TableHandle,
        partition: bytes,
        messages: Sequence[CommitMessage],
        base: Mapping[int, IndexFile],
        live: Mapping[int, IndexFile],
    ) -> None:
        self._table = table
        self._partition = partition
        self._messages = messages
        self._base = base
        self._live = live
        files = hash_files(file for message in self._messages for file in message.new_index_files)
        self._ours = {bucket: file for (_, bucket), file in files.items()}

    def rebased(self, writer: MetadataWriter) -> Rebased:
        """The partition's index files, merged with those of others where that can be done."""
        buckets = self._base.keys() | self._live.keys()
        changed = [number for number in sorted(buckets) if self._base.get(number) != self._live.get(number)]
        if not changed:
            return self._replacing(self._ours)
        try:
            before = {number: self._hashes(self._base.get(number)) for number in {*changed, *self._ours}}
        except NotFoundError:
            return self._conflict("the hash index that was read has been replaced, and is deleted already")
        now = {number: self._hashes(self._live.get(number)) for number in changed}
        if any(not np.isin(before[number], now[number], assume_unique=True).all() for number in changed):
            return self._conflict("others have started a new hash index")
        added_by_others = {number: np.setdiff1d(now[number], before[number], assume_unique=True) for number in changed}
        new = {
            number: np.setdiff1d(self._hashes(file), before[number], assume_unique=True)
            for number, file in self._ours.items()
        }
        if _disagree(added_by_others, new):
            return self._conflict("others have put a new key into another bucket")
        merged = {
            number: writer.hash_index((self._partition, number), np.union1d(now[number], hashes))
            for number, hashes in new.items()
            if number in now
        }
        return self._replacing({**self._ours, **merged})

    def _replacing(self, files: Mapping[int, IndexFile]) -> Rebased:
        replaced = tuple(self._live[number] for number in files if number in self._live)
        return Rebased(added=tuple(files.values()), removed=replaced)

    def _hashes(self, file: IndexFile | None) -> Hashes:
        return np.empty(0, dtype=np.int32) if file is None else read_hashes(self._table, file)

    def _conflict(self, reason: str) -> Rebased:
        buckets = dict.fromkeys(message.bucket for message in self._messages)
        return Rebased(conflicts=tuple(BucketConflict(self._partition, bucket, reason) for bucket in buckets))


def _disagree(added_by_others: Mapping[int, Hashes], new: Mapping[int, Hashes]) -> bool:
    """Whether a hash is in both, in different buckets."""
    return any(
        mine != theirs and len(np.intersect1d(new[mine], added_by_others[theirs], assume_unique=True))
        for mine in new
        for theirs in added_by_others
    )


def key_hashes(schema: TableSchema, rows: pa.RecordBatch) -> Hashes:
    """Hash of each row's key, without partition columns: int32 [n]."""
    key_type = schema.key_type
    return hash_rows([rows[name] for name in key_type.names], [field.type for field in key_type])
