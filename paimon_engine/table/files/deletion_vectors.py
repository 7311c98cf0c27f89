"""Which rows of the data files of a snapshot are deleted, by their deletion vectors.

A vector is a bitmap of the positions of rows in one data file.

Example ('deletion-vectors.enabled' = 'true'): the second compaction leaves the file of the first one unchanged, and
marks position 0 in it; the new row is in a new file.

    write   k=1 v=1; k=2 v=1
    compact
    write   k=1 v=2
    compact light
    marked  1
    row     k=1 v=2
    row     k=2 v=1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from paimon_engine.errors import damaged
from paimon_engine.meta.index_manifest import DELETION_VECTORS, IndexFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.files.external import index_path, store_of
from paimon_engine.table.state.handle import TableHandle, check_size, reading_needed
from paimon_engine.table.state.manifests import live_index_files

if TYPE_CHECKING:
    from paimon_engine.format.bitmaps import RowBitmap


@dataclass(frozen=True, slots=True)
class VectorLocation:
    """Where the vector of a data file is: path of the index file, offset and length as in the index manifest.

    Also from the index manifest: bytes of the complete file, and number of rows that the vector marks, if known.
    """

    path: str
    offset: int
    length: int
    size_bytes: int
    cardinality: int | None = None


def vector_locations(table: TableHandle, snapshot: Snapshot | None) -> Mapping[str, VectorLocation]:
    """Locations of the snapshot's vectors by name of the data file.

    Raises: NotFoundError, CorruptTableError; UnsupportedError for an index file outside the table.
    """
    return locations_of(table, live_index_files(table, snapshot))


def locations_of(table: TableHandle, files: Iterable[IndexFile]) -> Mapping[str, VectorLocation]:
    """Locations of the vectors in index files by name of the data file; files of other kinds do not matter.

    Raises: UnsupportedError for an index file outside the table.
    """
    locations = {}
    for file in files:
        if file.kind != DELETION_VECTORS:
            continue
        path = index_path(table, file)
        for vector in file.vectors:
            locations[vector.data_file] = VectorLocation(
                path, vector.offset, vector.length, file.size_bytes, vector.cardinality
            )
    return locations


def check_cardinality(rows: RowBitmap, cardinality: int | None, path: str, offset: int) -> None:
    """Raises CorruptTableError if a vector marks not as many rows as its index manifest says, where that says it."""
    if cardinality not in (None, len(rows)):
        what = f"it marks {len(rows)} rows, its index manifest says {cardinality}"
        raise damaged(f"{path}: deletion vector at offset {offset}", what)


class DeletedRows(Protocol):
    """Knows which rows of data files are deleted."""

    def deleted_rows(self, data_file: str) -> RowBitmap | None:
        """Deleted rows of a data file, None if it has no vector. Raises: NotFoundError, CorruptTableError."""


class VectorReader:
    """Deletion vectors of the files of a read; each index file is opened once, when its first vector is needed.

    What was read of an index file is kept until its vectors were handed out, each once.
    """

    def __init__(self, table: TableHandle, locations: Mapping[str, VectorLocation]) -> None:
        """`locations` has the data files that have vectors, by name."""
        self._table = table
        self._locations = locations
        self._frames: dict[str, bytes] = {}

    def deleted_rows(self, data_file: str) -> RowBitmap | None:
        """Deleted rows of a data file; None if it has no vector.

        Raises: NotFoundError, CorruptTableError.
        """
        location = self._locations.get(data_file)
        if location is None:
            return None
        # Most tables have no vectors, and need no bitmaps.
        from paimon_engine.format.deletion_vector import decode_vector

        if data_file not in self._frames:
            self._load(location.path)
        rows = decode_vector(self._frames.pop(data_file), location.path, location.offset, location.length)
        check_cardinality(rows, location.cardinality, location.path, location.offset)
        return rows

    def _load(self, path: str) -> None:
        from paimon_engine.format.deletion_vector import FRAME_BYTES

        members = {name: location for name, location in self._locations.items() if location.path == path}
        begin = min(location.offset for location in members.values())
        # Enough for both kinds of vector, whichever way their length counts.
        end = max(location.offset + location.length for location in members.values()) + FRAME_BYTES
        with reading_needed(self._table, path, storage=store_of(self._table, path)) as stream:
            check_size(stream, path, next(iter(members.values())).size_bytes)
            stream.seek(begin)
            data = stream.read(end - begin)
        for name, location in members.items():
            first = location.offset - begin
            self._frames[name] = data[first : first + location.length + FRAME_BYTES]
