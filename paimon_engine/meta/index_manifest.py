"""Index manifests: which index files belong to which bucket of a snapshot.

An index manifest lists all that is live; unlike manifests of data files it has no base and no delta.

Source: `IndexManifestEntry`, `IndexFileMeta`, `DeletionVectorMeta` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import CorruptTableError

DELETION_VECTORS: Final = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Where the deletion vector of a data file lies in an index file: offset and length as the manifest has them.

    `cardinality` is the number of deleted rows, None where the writer did not say.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A live index file of a bucket; `kind` is `DELETION_VECTORS` or `HASH`."""

    partition: bytes
    bucket: int
    kind: str
    name: str
    size_bytes: int
    row_count: int
    vectors: tuple[VectorRange, ...] = ()


def index_files(records: Iterable[Mapping[str, Any]], path: str) -> list[IndexFile]:
    """Live index files of an index manifest's records, in order.

    Raises: CorruptTableError if a record is none.
    """
    try:
        return [_index_file(record) for record in records if record["_KIND"] == 0]
    except (KeyError, TypeError) as error:
        raise CorruptTableError(f"{path}: a record is no index file: {error!r}") from error


def _index_file(record: Mapping[str, Any]) -> IndexFile:
    ranges = record.get("_DELETIONS_VECTORS_RANGES") or ()
    return IndexFile(
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        kind=record["_INDEX_TYPE"],
        name=record["_FILE_NAME"],
        size_bytes=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        vectors=tuple(VectorRange(item["f0"], item["f1"], item["f2"], item.get("_CARDINALITY")) for item in ranges),
    )
