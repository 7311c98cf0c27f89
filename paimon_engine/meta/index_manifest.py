"""Index manifests: which index files belong to which bucket of a snapshot.

An index manifest lists all that is live; it has no base and no delta, unlike manifests of data files.
`next_index_files` gives the list of the next snapshot. Records are read by field name, since releases differ in their
fields.

Source: `IndexManifestEntry`, `IndexFileMeta`, `DeletionVectorMeta`, `IndexManifestFileHandler` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError, damaged
from paimon_engine.format.stored import (
    INT_MAX,
    WRONG,
    binary,
    file_name,
    integer_or_none,
    reason,
    required_integer,
    text,
)
from paimon_engine.meta.manifest import FileKind
from paimon_engine.meta.unknown_fields import (
    UnknownFields,
    schema_fields,
    take_unknown,
    unknown_types,
    values_of,
)

DELETION_VECTORS: Final = "DELETION_VECTORS"
HASH: Final = "HASH"
_OF_BUCKETS: Final = (DELETION_VECTORS, HASH)
"""The kinds of index that belong to a bucket and that this engine writes; others are global indexes."""
ENTRY_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Where the deletion vector of a data file is in an index file: offset and length as the manifest has them.

    `cardinality` is the number of deleted rows, None where the writer did not say.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A live index file of a bucket; `kind` is `DELETION_VECTORS`, `HASH` or one of later releases.

    `row_count` counts hashes, or data files with a vector. `external_path` is set where it is outside the table.
    """

    partition: bytes
    bucket: int
    kind: str
    name: str
    size_bytes: int
    row_count: int
    vectors: tuple[VectorRange, ...] = ()
    external_path: str | None = None
    unknown: UnknownFields = field(default_factory=dict, compare=False)

    @property
    def is_global(self) -> bool:
        """Whether it is a file of a global index (`btree`, `bitmap`, …), which finds rows by their values.

        Readers do without one. This engine writes none, and keeps the entries of those that others have written.
        """
        return self.kind not in _OF_BUCKETS


# ── records ─────────────────────────────────────────────────────────────────────────────────────


def index_files(
    records: Iterable[Mapping[str, Any]], path: str, fields: Iterable[Mapping[str, Any]] = ()
) -> list[IndexFile]:
    """Live index files of an index manifest's records, in order; `fields` are those of the records' Avro schema.

    Raises: CorruptTableError naming `path` if a record is not an index file, or if a data file has two vectors.
    """
    try:
        types = unknown_types(fields, _NAMES)
        found = [replace(index_file_from_record(record), unknown=take_unknown(record, types)) for record in records]
    except WRONG as error:
        raise damaged(path, f"a record is not an index file: {reason(error)}") from error
    twice = _data_file_with_two_vectors(found)
    if twice is not None:
        raise damaged(path, f"data file {twice} has two deletion vectors")
    return found


def index_file_from_record(record: Mapping[str, Any]) -> IndexFile:
    """Index file of one record.

    Raises: KeyError, TypeError, ValueError if the record is none.
    """
    if record["_VERSION"] != ENTRY_VERSION:
        raise ValueError(f"version {record['_VERSION']}, expected {ENTRY_VERSION}")
    if record["_KIND"] != FileKind.ADD:
        raise ValueError(f"kind {record['_KIND']}: every file of an index manifest is live")
    return IndexFile(
        partition=binary(record, "_PARTITION"),
        bucket=required_integer(record, "_BUCKET", -2, INT_MAX),
        kind=text(record, "_INDEX_TYPE"),
        name=file_name(record, "_FILE_NAME"),
        size_bytes=required_integer(record, "_FILE_SIZE", 0),
        row_count=required_integer(record, "_ROW_COUNT", 0),
        vectors=tuple(_vector_range(item) for item in record.get("_DELETIONS_VECTORS_RANGES") or ()),
        external_path=None if record.get("_EXTERNAL_PATH") is None else text(record, "_EXTERNAL_PATH"),
    )


def _vector_range(record: Mapping[str, Any]) -> VectorRange:
    return VectorRange(
        data_file=file_name(record, "f0"),
        offset=required_integer(record, "f1", 0, INT_MAX),
        length=required_integer(record, "f2", 0, INT_MAX),
        cardinality=integer_or_none(record, "_CARDINALITY", 0),
    )


def _data_file_with_two_vectors(files: Iterable[IndexFile]) -> str | None:
    seen: set[tuple[bytes, int, str]] = set()
    for file in files:
        for vector in file.vectors:
            place = (file.partition, file.bucket, vector.data_file)
            if place in seen:
                return vector.data_file
            seen.add(place)
    return None


def index_file_to_record(file: IndexFile) -> dict[str, Any]:
    """Record of a live index file, for `INDEX_MANIFEST_SCHEMA`."""
    ranges = [
        {"f0": vector.data_file, "f1": vector.offset, "f2": vector.length, "_CARDINALITY": vector.cardinality}
        for vector in file.vectors
    ]
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": int(FileKind.ADD),
        "_PARTITION": file.partition,
        "_BUCKET": file.bucket,
        "_INDEX_TYPE": file.kind,
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges if file.kind == DELETION_VECTORS else None,
        "_EXTERNAL_PATH": file.external_path,
        **values_of(file.unknown),
    }


def _optional(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


_RANGE_SCHEMA: Final = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        _optional("_CARDINALITY", "long"),
    ],
}

INDEX_MANIFEST_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "record",
    "name": "record",
    "namespace": "org.apache.paimon.avro.generated",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        _optional("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE_SCHEMA]}),
        _optional("_EXTERNAL_PATH", "string"),
    ],
}
"""Avro schema of an index manifest. Fields after those of 0.9 are nullable: old readers do without them."""

_NAMES: Final = frozenset(item["name"] for item in INDEX_MANIFEST_SCHEMA["fields"])


def index_manifest_schema(files: Sequence[IndexFile]) -> Mapping[str, Any]:
    """Avro schema of an index manifest of these files, with the fields of later releases that their records have.

    Raises: UnsupportedError if these cannot go into one file.
    """
    unknown = schema_fields(file.unknown for file in files)
    if unknown is None:
        raise UnsupportedError(
            "index manifests hold fields of later releases that cannot be written again; "
            "write to this table with such a release"
        )
    return {**INDEX_MANIFEST_SCHEMA, "fields": [*INDEX_MANIFEST_SCHEMA["fields"], *unknown]}


# ── from one snapshot to the next ───────────────────────────────────────────────────────────────


def next_index_files(
    live: Iterable[IndexFile], *, added: Sequence[IndexFile], removed: Sequence[IndexFile], bucketed: bool
) -> list[IndexFile]:
    """Index files after a commit.

    In tables with buckets, and for hash indexes, a bucket has one file of each kind: an added one replaces
    the old one. In append tables without buckets a partition has any number of vector files, identified by name; so has
    every table of files of global indexes.

    Raises: InvalidArgumentError if, without buckets, a removed file is missing, an added one exists already, or a
    data file would have two vectors.
    """

    def identity(file: IndexFile) -> tuple[object, ...]:
        one_a_bucket = file.kind == HASH or (bucketed and file.kind == DELETION_VECTORS)
        return (file.partition, file.bucket, file.kind) if one_a_bucket else (file.kind, file.name)

    files = {identity(file): file for file in live}
    for file in removed:
        if files.pop(identity(file), None) is None and len(identity(file)) == 2:
            raise InvalidArgumentError(f"index file {file.name} must be removed, but is not live")
    for file in added:
        if identity(file) in files and len(identity(file)) == 2:
            raise InvalidArgumentError(f"index file {file.name} must be added, but is live already")
        files[identity(file)] = file
    twice = _data_file_with_two_vectors(files.values())
    if twice is not None:
        raise InvalidArgumentError(f"data file {twice} would have two deletion vectors")
    return list(files.values())
