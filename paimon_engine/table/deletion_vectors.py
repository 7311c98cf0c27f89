"""Which rows of the data files of a snapshot are deleted, by their deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_engine.format.deletion_vector import Positions, decode_vector
from paimon_engine.meta.index_manifest import DELETION_VECTORS, index_files
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import read_index_manifest

_FRAME_BYTES = 8


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Where the vector of a data file lies: path of the index file, offset and length of its data in bytes."""

    path: str
    offset: int
    length: int


def vector_places(table: TableHandle, snapshot: Snapshot | None) -> Mapping[str, VectorPlace]:
    """Places of the snapshot's vectors by name of the data file.

    Raises: NotFoundError, CorruptTableError.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    path = table.paths.manifest(snapshot.index_manifest)
    files = index_files(read_index_manifest(table, snapshot.index_manifest), path)
    return {
        vector.data_file: VectorPlace(table.paths.index(file.name), vector.offset, vector.length)
        for file in files
        if file.kind == DELETION_VECTORS
        for vector in file.vectors
    }


def deleted_rows(table: TableHandle, place: VectorPlace | None) -> Positions | None:
    """Deleted rows of a data file; None if it has no vector.

    Raises: NotFoundError, CorruptTableError.
    """
    if place is None:
        return None
    with table.env.storage.open(place.path) as stream:
        stream.seek(place.offset)
        data = stream.read(place.length + _FRAME_BYTES)
    return decode_vector(data, place.path, place.offset)
