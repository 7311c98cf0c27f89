"""The deletion vectors of one bucket while a task changes them.

A bucket of a table with buckets has one index file with all its vectors; in an append table without buckets a
partition has any number of them. After any change an index file is replaced by one with the remaining and
the new vectors, so that a commit can tell whether another writer has changed the same vectors.

Source: `BucketedDvMaintainer`, `AppendDeleteFileMaintainer` of the Java library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.deletion_vector import decode_index_file, encode_index_file
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import DELETION_VECTORS, IndexFile, VectorRange
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.files.deletion_vectors import check_cardinality
from paimon_engine.table.files.external import index_path, store_of
from paimon_engine.table.state.handle import TableHandle, index_file_path, read_needed
from paimon_engine.table.state.level_mode import check_mode
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.unneeded import delete_unneeded


def vector_files(table: TableHandle, snapshot: Snapshot | None) -> dict[Bucket, tuple[IndexFile, ...]]:
    """Live index files with deletion vectors, by bucket; none where the table has no vectors.

    Raises: NotFoundError, CorruptTableError; UnsupportedError for a snapshot of a mode that shows other rows.
    """
    check_mode(table, snapshot)
    found: dict[Bucket, tuple[IndexFile, ...]] = {}
    for file in live_index_files(table, snapshot) if table.options.deletion_vectors_enabled else ():
        if file.kind == DELETION_VECTORS:
            bucket = (file.partition, file.bucket)
            found[bucket] = (*found.get(bucket, ()), file)
    return found


class BucketVectors:
    """Vectors by name of the data file. Nothing is read before the first question, or written before `finish`."""

    def __init__(self, table: TableHandle, partition: bytes, bucket: int, files: Sequence[IndexFile]) -> None:
        """`files` are the live index files of the bucket that hold vectors."""
        self._table = table
        self._partition = partition
        self._bucket = bucket
        self._files = tuple(file for file in files if file.kind == DELETION_VECTORS)
        self._loaded: dict[str, RowBitmap] | None = None
        self._changed: dict[str, RowBitmap] = {}
        self._dropped: set[str] = set()
        self._written: list[str] = []

    def deleted_rows(self, data_file: str) -> RowBitmap | None:
        """Deleted rows of a data file before the task; None if it has no vector.

        Raises: NotFoundError, CorruptTableError.
        """
        return self._vectors().get(data_file)

    def marked_rows(self, data_file: str) -> RowBitmap | None:
        """Deleted rows of a data file, with those that the task has marked; None if there are none.

        Raises: NotFoundError, CorruptTableError.
        """
        return self._changed.get(data_file, self.deleted_rows(data_file))

    def mark(self, data_file: str, rows: RowBitmap) -> None:
        """Rows of a data file that are deleted from now on; those of before stay so."""
        if not len(rows):
            return
        before = self.marked_rows(data_file)
        self._changed[data_file] = rows if before is None else before | rows

    def add(self, files: Iterable[IndexFile]) -> None:
        """Marks what these index files mark, too. Raises: NotFoundError, CorruptTableError."""
        for file in files:
            for data_file, rows in self._read(file).items():
                self.mark(data_file, rows)

    def drop(self, data_files: Iterable[str]) -> None:
        """Removes the vectors of data files that were removed."""
        self._dropped |= {name for name in data_files if name in self._vectors() or name in self._changed}

    def finish(self) -> tuple[tuple[IndexFile, ...], tuple[IndexFile, ...]]:
        """Writes what changed: new index files, and those that they replace.

        Raises: InvalidArgumentError, StorageError.
        """
        touched = {*self._changed, *self._dropped}
        replaced = tuple(file for file in self._files if touched and self._is_replaced(file, touched))
        kept = {
            item.data_file: self._vectors()[item.data_file]
            for file in replaced
            for item in file.vectors
            if item.data_file not in touched
        }
        vectors = {**kept, **{name: found for name, found in self._changed.items() if name not in self._dropped}}
        return ((self._write(vectors),) if vectors else ()), replaced

    def _is_replaced(self, file: IndexFile, touched: Collection[str]) -> bool:
        """Whether an index file is replaced: the one of a bucket always, even if Java has left it without vectors."""
        one_a_bucket = self._table.schema.bucket_mode is not BucketMode.UNAWARE
        return one_a_bucket or any(item.data_file in touched for item in file.vectors)

    def finish_part(self) -> tuple[IndexFile, ...]:
        """Writes only the vectors that changed, to be given to `add`.

        Raises: InvalidArgumentError, StorageError.
        """
        return (self._write(self._changed),) if self._changed else ()

    def abort(self) -> None:
        """Deletes what was written."""
        delete_unneeded(self._table.env.storage, self._written)

    def _vectors(self) -> dict[str, RowBitmap]:
        if self._loaded is None:
            self._loaded = {}
            for file in self._files:
                self._loaded |= self._read(file)
        return self._loaded

    def _read(self, file: IndexFile) -> dict[str, RowBitmap]:
        path = index_path(self._table, file)
        ranges = {item.data_file: (item.offset, item.length) for item in file.vectors}
        data = read_needed(self._table, path, storage=store_of(self._table, path))
        found = decode_index_file(data, ranges, path)
        for item in file.vectors:
            check_cardinality(found[item.data_file], item.cardinality, path, item.offset)
        return found

    def _write(self, vectors: dict[str, RowBitmap]) -> IndexFile:
        data, ranges = encode_index_file(vectors, bits=64 if self._table.options.deletion_vectors_bitmap64 else 32)
        name = f"index-{self._table.env.new_id()}-0"
        path = index_file_path(self._table, self._partition, self._bucket, name)
        self._written.append(path)
        with self._table.env.storage.writer(path) as sink:
            sink.write(data)
        found = tuple(
            VectorRange(data_file, offset, length, len(vectors[data_file]))
            for data_file, (offset, length) in ranges.items()
        )
        return IndexFile(self._partition, self._bucket, DELETION_VECTORS, name, len(data), len(found), found)
