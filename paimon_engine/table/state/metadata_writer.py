"""Writing manifests, manifest lists and index manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.avro_copies import write_pieces
from paimon_engine.format.binary_row import decode_row
from paimon_engine.format.hash_index import Hashes, encode_hashes
from paimon_engine.format.record_files import metadata_file, metadata_files
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import (
    HASH,
    IndexFile,
    index_file_to_record,
    index_manifest_schema,
)
from paimon_engine.meta.manifest import (
    MANIFEST_SCHEMA,
    ManifestEntry,
    ManifestFile,
    counts,
    entry_to_record,
    manifest_file_to_record,
    manifest_list_schema,
    manifest_schema,
)
from paimon_engine.meta.stats import EMPTY_STATS, ColumnStats, SimpleStats, bounds_of, to_simple_stats
from paimon_engine.table.state.handle import TableHandle, index_file_path
from paimon_engine.table.state.manifests import COMMIT_NOTE
from paimon_engine.table.state.side_by_side import side_by_side
from paimon_engine.table.state.stored_entries import Kept, StoredEntries, of_all
from paimon_engine.table.state.unneeded import delete_unneeded

_ENTRIES_BETWEEN_LOOKS: Final = 1_000
"""Entries after which a manifest is asked whether it has its size, as in Java."""


class MetadataWriter:
    """Writes the metadata files of one commit under one id, and can take all of them back.

    One that `gathers` keeps files in memory until `store`, which writes them side by side where that saves time.
    """

    def __init__(self, table: TableHandle, *, gathers: bool = False) -> None:
        """Nothing is written yet."""
        self._table = table
        self._id = table.env.new_id()
        self._manifests = 0
        self._lists = 0
        self._indexes = 0
        self._index_manifests = 0
        self._gathered: dict[str, bytes] | None = {} if gathers else None
        self._written: list[str] = []

    @property
    def written(self) -> Sequence[str]:
        """Paths of all files so far, gathered ones included, in order."""
        return self._written

    def store(self) -> None:
        """Writes what was gathered. Raises: StorageError; some of the files may be there then."""
        gathered, self._gathered = self._gathered or {}, {}
        side_by_side(self._table, [partial(self._store, path, data) for path, data in gathered.items()])

    def manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFile]:
        """Writes entries, in order, to as many manifests as their size requires.

        Raises: UnsupportedError if unknown fields of the entries cannot go into one manifest.
        """
        schema = _carrying(manifest_schema(entries), self._table)
        target = self._table.options.manifest_target_file_size_bytes
        records = map(entry_to_record, entries)
        step = _ENTRIES_BETWEEN_LOOKS
        files = metadata_files(self._format, schema, records, self._codec, target_bytes=target, step=step)
        manifests: list[ManifestFile] = []
        begin = 0
        for data, count in files:
            manifests.append(self._manifest(data, entries[begin : begin + count]))
            begin += count
        return manifests

    def _manifest(self, data: bytes, entries: Sequence[ManifestEntry]) -> ManifestFile:
        """Writes the manifest of these entries, of which the data are the bytes."""
        schema_id = max((entry.file.schema_id for entry in entries), default=self._table.schema.id)
        listed = self._listed(data, counts(entries), schema_id, [entry.partition for entry in entries])
        if self._table.remembers:
            self._table.memory.put_entries(self._table.paths.manifest(listed.name), listed, tuple(entries))
        return listed

    def _listed(
        self, data: bytes, numbers: tuple[int, int], schema_id: int, partitions: Iterable[bytes]
    ) -> ManifestFile:
        """Writes a manifest of entries of these partitions, so many of which add and remove."""
        name = f"manifest-{self._id}-{self._manifests}"
        self._manifests += 1
        stats = _partition_stats(self._table, Counter(partitions))
        return ManifestFile(name, self._write(name, data), *numbers, stats, schema_id)

    def copies(self, parts: Sequence[StoredEntries], kept: Sequence[Kept]) -> list[ManifestFile]:
        """Writes those entries of each manifest that stay, in order, as they are stored, to as many as they need."""
        pieces = (piece for part, stays in zip(parts, kept, strict=True) for piece in part.pieces(stays, self._codec))
        target = self._table.options.manifest_target_file_size_bytes
        kinds, schema_ids, partitions = of_all(parts, kept)
        manifests: list[ManifestFile] = []
        begin = 0
        for data, count in write_pieces(MANIFEST_SCHEMA, pieces, self._codec, target_bytes=target):
            end = begin + count
            deleted = int(kinds[begin:end].sum())
            schema_id = int(schema_ids[begin:end].max())
            manifests.append(self._listed(data, (count - deleted, deleted), schema_id, partitions[begin:end]))
            begin = end
        return manifests

    def manifest_list(self, manifests: Sequence[ManifestFile], *, base_of: int | None = None) -> tuple[str, int]:
        """Writes a manifest list, also an empty one; its name and size in bytes.

        The header of a base list says of which snapshot it is the base, `base_of`: once another commit has become that,
        a search for orphans knows that this one is dead. Readers ignore it.
        """
        name = f"manifest-list-{self._id}-{self._lists}"
        self._lists += 1
        records = [manifest_file_to_record(manifest) for manifest in manifests]
        schema = _carrying(manifest_list_schema(manifests), self._table)
        notes = {} if base_of is None else {COMMIT_NOTE: f"{self._table.paths.branch}/{base_of}"}
        return name, self._write(name, metadata_file(self._format, schema, records, self._codec, notes=notes))

    def index_manifest(self, files: Sequence[IndexFile]) -> str:
        """Writes an index manifest with all live index files; its name.

        Raises: UnsupportedError for kinds of index whose records have parts that we do not keep.
        """
        name = f"index-manifest-{self._id}-{self._index_manifests}"
        self._index_manifests += 1
        records = list(map(index_file_to_record, files))
        self._write(name, metadata_file(self._format, index_manifest_schema(files), records, self._codec))
        return name

    def hash_index(self, bucket: Bucket, hashes: Hashes) -> IndexFile:
        """Writes the hash index of a bucket."""
        name = f"index-{self._id}-{self._indexes}"
        self._indexes += 1
        size = self._write_to(index_file_path(self._table, *bucket, name), encode_hashes(hashes))
        return IndexFile(*bucket, HASH, name, size, len(hashes))

    def take_back(self) -> None:
        """Deletes everything written, as far as the store lets; only for a commit that certainly did not happen."""
        delete_unneeded(self._table.env.storage, self._written)
        self._written.clear()

    @property
    def _format(self) -> str:
        return self._table.options.manifest_format

    @property
    def _codec(self) -> str:
        return self._table.options.manifest_compression

    def _write(self, name: str, data: bytes) -> int:
        return self._write_to(self._table.paths.manifest(name), data)

    def _write_to(self, path: str, data: bytes) -> int:
        self._written.append(path)
        if self._gathered is None:
            self._store(path, data)
        else:
            self._gathered[path] = data
        return len(data)

    def _store(self, path: str, data: bytes) -> None:
        with self._table.env.storage.writer(path) as sink:
            sink.write(data)
        if self._table.remembers and path.startswith(self._table.paths.manifest("")):
            self._table.memory.put(path, data)


class MeasuringWriter(MetadataWriter):
    """Counts the files that would be written, and writes none."""

    def _write(self, name: str, data: bytes) -> int:  # noqa: ARG002 - as its parent's
        return len(data)


def _carrying(schema: dict[str, Any] | None, table: TableHandle) -> dict[str, Any]:
    """The schema that takes what records of later releases hold.

    Raises: UnsupportedError if there is none.
    """
    if schema is None:
        raise UnsupportedError(
            f"{table.paths.root}: manifests hold fields of later releases that cannot be written again; "
            "write to this table with such a release"
        )
    return schema


def _partition_stats(table: TableHandle, partitions: Mapping[bytes, int]) -> SimpleStats:
    """Statistics of so many entries of each of the partitions."""
    types = [field.type for field in table.schema.partition_type]
    if not types:
        return EMPTY_STATS
    numbers = list(partitions.values())
    columns = []
    for values in zip(*(decode_row(types, partition) for partition in partitions), strict=True):
        known = [value for value in values if value is not None]
        nulls = sum(number for value, number in zip(values, numbers, strict=True) if value is None)
        columns.append(ColumnStats(*bounds_of(known), nulls))
    return to_simple_stats(types, columns or [ColumnStats(None, None, 0) for _ in types])
