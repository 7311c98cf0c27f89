"""Do the index files of a root have what their index manifest says, and does it fit the live files?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.deletion_vector import decode_index_file
from paimon_engine.meta.index_manifest import DELETION_VECTORS, IndexFile, VectorRange
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.schema import BucketMode
from paimon_engine.table.check.current_files import CurrentFiles
from paimon_engine.table.check.findings import FINDINGS
from paimon_engine.table.check.locations import FileLocations
from paimon_engine.table.files.hash_index import hash_files, read_hashes
from paimon_engine.table.state.handle import TableHandle


class IndexFilesCheck:
    """Looks at the index files of one root after another; what roots share is looked at once."""

    def __init__(self, table: TableHandle, locations: FileLocations) -> None:
        """Nothing is read yet."""
        self._table = table
        self._locations = locations
        self._vectors: dict[str, dict[str, RowBitmap]] = {}
        self._vectors_checked: set[tuple[str, VectorRange]] = set()
        self._hash_indexes_checked: set[tuple[str, ...]] = set()

    def problems_of(self, index_files: Sequence[IndexFile], live: CurrentFiles) -> Iterator[str]:
        """What is wrong with the index files of a root, whose data files are `live`."""
        yield from self._deletion_vectors(index_files, live)
        yield from self._hash_indexes(index_files, live)

    def _deletion_vectors(self, index_files: Sequence[IndexFile], live: CurrentFiles) -> Iterator[str]:
        """Vectors that are missing, damaged, or of files in other places."""
        for file in index_files:
            path = self._locations.of_index(file) if file.kind == DELETION_VECTORS else None
            if path is None or self._is_missing(path, file):
                continue
            try:
                vectors = self._vectors_of(file, path)
            except FINDINGS as error:
                yield str(error)
                continue
            if len(vectors) != file.row_count:
                yield f"{path} has {len(vectors)} vectors, its manifest says {file.row_count}"
            for vector in file.vectors:
                if (path, vector) in self._vectors_checked:
                    continue
                # Vectors of missing files mark nothing.
                owner = live.of_name(vector.data_file)
                if owner is not None:
                    self._vectors_checked.add((path, vector))
                for what in _vector_problems(file, vector, vectors[vector.data_file], owner):
                    yield f"{path}: the vector of {vector.data_file} {what}"

    def _hash_indexes(self, index_files: Sequence[IndexFile], live: CurrentFiles) -> Iterator[str]:
        """Buckets without a hash index, and hashes in two of them."""
        indexes = hash_files(index_files)
        if self._table.schema.bucket_mode is BucketMode.DYNAMIC:
            without = live.buckets - indexes.keys()
            for _, bucket in sorted(without):
                yield f"bucket {bucket} has files but no hash index"
        partitions: dict[bytes, list[IndexFile]] = {}
        for (partition, _), file in indexes.items():
            path = self._locations.of_index(file)
            if path is not None and not self._is_missing(path, file):
                partitions.setdefault(partition, []).append(file)
        for files in partitions.values():
            names = tuple(sorted(file.name for file in files))
            if names in self._hash_indexes_checked:
                continue
            self._hash_indexes_checked.add(names)
            try:
                hashes = np.sort(np.concatenate([read_hashes(self._table, file) for file in files]))
            except FINDINGS as error:
                yield str(error)
                continue
            if (hashes[1:] == hashes[:-1]).any():
                yield f"a hash is in two of the hash indexes {', '.join(names)}"

    def _is_missing(self, path: str, file: IndexFile) -> bool:
        """Whether it is missing, which is reported with the metadata if it belongs in the table."""
        return file.external_path is None and self._locations.size_bytes(path) is None

    def _vectors_of(self, file: IndexFile, path: str) -> dict[str, RowBitmap]:
        if path not in self._vectors:
            ranges = {vector.data_file: (vector.offset, vector.length) for vector in file.vectors}
            self._vectors[path] = decode_index_file(self._locations.store(path).read(path), ranges, path)
        return self._vectors[path]


def _vector_problems(
    file: IndexFile, vector: VectorRange, deleted: RowBitmap, owner: ManifestEntry | None
) -> Iterator[str]:
    """What is wrong with a vector, whose data file is `owner`, if that is live."""
    if vector.cardinality not in (None, len(deleted)):
        yield f"marks {len(deleted)} rows as deleted, its manifest says {vector.cardinality}"
    if owner is None:
        return
    rows = owner.file.row_count
    if deleted.last >= rows:
        yield f"marks row {deleted.last} as deleted, the file has {rows} rows"
    if (owner.partition, owner.bucket) != (file.partition, file.bucket):
        yield f"is stored for bucket {file.bucket}, but the file is in {owner.bucket} or another partition"
