"""Manifests: which data files a commit added and removed, with the facts about each file.

`ManifestEntry` ↔ a record of a manifest, `ManifestFile` ↔ a record of a manifest list. Records are read by field
name; fields of later releases that the engine does not use survive, in `extras` those that it knows, in
`unknown` all others.

Source: `ManifestEntry`, `ManifestFileMeta`, `DataFileMeta` and their serializers in the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, NamedTuple

from paimon_engine.errors import damaged
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.format.stored import (
    INT_MAX,
    WRONG,
    binary,
    checked_name,
    file_name,
    integer_or_none,
    reason,
    required_integer,
    text,
    texts,
)
from paimon_engine.meta.stats import EMPTY_STATS, SimpleStats
from paimon_engine.meta.unknown_fields import (
    NO_FIELDS,
    UnknownFields,
    schema_fields,
    take_unknown,
    unknown_types,
    values_of,
)

ENTRY_VERSION = 2
MANIFEST_LIST_VERSION = 2


class FileKind(IntEnum):
    """Whether an entry adds or removes its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """Where a data file comes from."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file and what its manifest entry says of it.

    Keys are BinaryRow bytes of the trimmed primary key. `row_count` counts delete records too.
    `creation_time_ms` is the writer's local wall clock taken as if it were UTC.
    """

    name: str
    size_bytes: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: int | None = None
    value_stats_columns: tuple[str, ...] | None = None
    external_path: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    unknown: UnknownFields = field(default_factory=dict)

    @property
    def format(self) -> str:
        """File format, from the extension."""
        return self.name.rsplit(".", 1)[-1].lower()

    def upgraded(self, level: int) -> DataFile:
        """The same file at another level."""
        return replace(self, level=level)

    def with_numbers_added(self, number: int) -> DataFile:
        """The same file, with all sequence numbers that much higher."""
        low, high = self.min_sequence_number + number, self.max_sequence_number + number
        return replace(self, min_sequence_number=low, max_sequence_number=high)

    def without_value_stats(self) -> DataFile:
        """The same file, with nothing said of its values."""
        return replace(self, value_stats=EMPTY_STATS, value_stats_columns=())


class FileIdentity(NamedTuple):
    """The identity of the file that an entry names; the level is a part of it."""

    partition: bytes
    bucket: int
    level: int
    name: str
    extra_files: tuple[str, ...]
    embedded_file_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One change: a file added to, or removed from, a bucket of a partition."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile
    unknown: UnknownFields = field(default_factory=dict)

    @property
    def identity(self) -> FileIdentity:
        """Identity of the entry's file."""
        file = self.file
        return FileIdentity(
            self.partition,
            self.bucket,
            file.level,
            file.name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


@dataclass(frozen=True)
class ManifestFile:
    """One manifest, as its manifest list describes it."""

    name: str
    size_bytes: int
    added_count: int
    deleted_count: int
    partition_stats: SimpleStats
    schema_id: int
    unknown: UnknownFields = field(default_factory=dict)


# ── Avro schemas ────────────────────────────────────────────────────────────────────────────────

_NAMESPACE = "org.apache.paimon.avro.generated"


def _nullable(avro_type: Any) -> list[Any]:
    return ["null", avro_type]


def _optional(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": _nullable(avro_type), "default": None}


def _stats_schema(name: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            _optional("_NULL_COUNTS", {"type": "array", "items": _nullable("long")}),
        ],
    }


def _record(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}


def _required(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": avro_type} for name, avro_type in pairs]


MANIFEST_LIST_SCHEMA = _record(
    _required(
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", _stats_schema("record__PARTITION_STATS")),
        ("_SCHEMA_ID", "long"),
    )
)

# Fields of releases after 0.9: nullable, so that old and new readers both do without them.
_LATER_FILE_FIELDS: Mapping[str, Any] = {
    "_VALUE_STATS_COLS": {"type": "array", "items": "string"},
    "_EXTERNAL_PATH": "string",
    "_FIRST_ROW_ID": "long",
    "_WRITE_COLS": {"type": "array", "items": "string"},
    "_WRITE_COLS_SEQUENCES": {"type": "array", "items": "long"},
}
_EXTRA_FIELDS = ("_FIRST_ROW_ID", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES")

_FILE_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        *_required(
            ("_FILE_NAME", "string"),
            ("_FILE_SIZE", "long"),
            ("_ROW_COUNT", "long"),
            ("_MIN_KEY", "bytes"),
            ("_MAX_KEY", "bytes"),
            ("_KEY_STATS", _stats_schema("record__FILE__KEY_STATS")),
            ("_VALUE_STATS", _stats_schema("record__FILE__VALUE_STATS")),
            ("_MIN_SEQUENCE_NUMBER", "long"),
            ("_MAX_SEQUENCE_NUMBER", "long"),
            ("_SCHEMA_ID", "long"),
            ("_LEVEL", "int"),
            ("_EXTRA_FILES", {"type": "array", "items": "string"}),
        ),
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        *(_optional(name, avro_type) for name, avro_type in _LATER_FILE_FIELDS.items()),
    ],
}

MANIFEST_SCHEMA = _record(
    _required(
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _FILE_SCHEMA),
    )
)


_ENTRY_NAMES = frozenset(item["name"] for item in MANIFEST_SCHEMA["fields"])
_FILE_NAMES = frozenset(item["name"] for item in _FILE_SCHEMA["fields"])
_LIST_NAMES = frozenset(item["name"] for item in MANIFEST_LIST_SCHEMA["fields"])


class UnknownTypes(NamedTuple):
    """Avro types of the fields that the engine does not know, in a manifest's records and their files."""

    of_entry: Mapping[str, Any]
    of_file: Mapping[str, Any]


NO_TYPES = UnknownTypes({}, {})


def unknown_types_of_entries(fields: Sequence[Mapping[str, Any]]) -> UnknownTypes:
    """Of a manifest whose records have these fields."""
    files = [item["type"].get("fields", ()) for item in fields if item["name"] == "_FILE"]
    return UnknownTypes(unknown_types(fields, _ENTRY_NAMES), unknown_types(files[0] if files else (), _FILE_NAMES))


def unknown_types_of_manifests(fields: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of a manifest list whose records have these fields."""
    return unknown_types(fields, _LIST_NAMES)


def manifest_schema(entries: Sequence[ManifestEntry]) -> dict[str, Any] | None:
    """Avro schema of a manifest of these entries; None if their unknown fields cannot go into one manifest."""
    of_entry = schema_fields(entry.unknown for entry in entries)
    of_file = schema_fields(entry.file.unknown for entry in entries)
    if of_entry is None or of_file is None:
        return None
    if not of_entry and not of_file:
        return MANIFEST_SCHEMA
    *plain, _ = MANIFEST_SCHEMA["fields"]
    file = {**_FILE_SCHEMA, "fields": [*_FILE_SCHEMA["fields"], *of_file]}
    return _record([*plain, {"name": "_FILE", "type": file}, *of_entry])


def manifest_list_schema(manifests: Sequence[ManifestFile]) -> dict[str, Any] | None:
    """Avro schema of a list of these manifests; None if their unknown fields cannot go into one list."""
    unknown = schema_fields(manifest.unknown for manifest in manifests)
    return None if unknown is None else _record([*MANIFEST_LIST_SCHEMA["fields"], *unknown])


# ── records ─────────────────────────────────────────────────────────────────────────────────────


def _stats_from(record: Mapping[str, Any]) -> SimpleStats:
    counts = record.get("_NULL_COUNTS")
    if counts is not None and not all(count is None or type(count) is int for count in counts):
        raise TypeError(f"_NULL_COUNTS is {counts!r}, expected integers")
    return SimpleStats(binary(record, "_MIN_VALUES"), binary(record, "_MAX_VALUES"), tuple(counts or ()))


def _stats_to(stats: SimpleStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": list(stats.null_counts)}


def _millis(value: Any) -> int | None:
    """Epoch milliseconds of an Avro or ORC timestamp."""
    if value is None or isinstance(value, int):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f"_CREATION_TIME is {value!r}, expected a time")
    delta = value.replace(tzinfo=None) - datetime(1970, 1, 1)  # noqa: DTZ001 - the stored value is a wall clock without a zone
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def file_from_record(record: Mapping[str, Any], unknown: UnknownFields = NO_FIELDS) -> DataFile:
    """Data file of the `_FILE` part of a manifest record, with what else is in it.

    Raises: one of `stored.WRONG`.
    """
    source = integer_or_none(record, "_FILE_SOURCE")
    index, columns = record.get("_EMBEDDED_FILE_INDEX"), record.get("_VALUE_STATS_COLS")
    return DataFile(
        name=file_name(record, "_FILE_NAME"),
        size_bytes=required_integer(record, "_FILE_SIZE", 0),
        row_count=required_integer(record, "_ROW_COUNT", 0),
        min_key=binary(record, "_MIN_KEY"),
        max_key=binary(record, "_MAX_KEY"),
        key_stats=_stats_from(record["_KEY_STATS"]),
        value_stats=_stats_from(record["_VALUE_STATS"]),
        min_sequence_number=required_integer(record, "_MIN_SEQUENCE_NUMBER"),
        max_sequence_number=required_integer(record, "_MAX_SEQUENCE_NUMBER"),
        schema_id=required_integer(record, "_SCHEMA_ID", 0),
        level=required_integer(record, "_LEVEL", 0, INT_MAX),
        extra_files=tuple(checked_name(name, "_EXTRA_FILES") for name in record.get("_EXTRA_FILES") or ()),
        creation_time_ms=_millis(record.get("_CREATION_TIME")),
        delete_row_count=integer_or_none(record, "_DELETE_ROW_COUNT", 0),
        embedded_file_index=None if index is None else binary(record, "_EMBEDDED_FILE_INDEX"),
        file_source=None if source is None else int(FileSource(source)),
        value_stats_columns=None if columns is None else texts(record, "_VALUE_STATS_COLS"),
        external_path=None if record.get("_EXTERNAL_PATH") is None else text(record, "_EXTERNAL_PATH"),
        extras=file_extras(record),
        unknown=unknown,
    )


def file_extras(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of a `_FILE` part, the fields of later releases that are kept without a meaning here."""
    return {name: record[name] for name in _EXTRA_FIELDS if record.get(name) is not None}


def file_to_record(file: DataFile) -> dict[str, Any]:
    """The `_FILE` part of a manifest record."""
    columns = file.value_stats_columns
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_to(file.key_stats),
        "_VALUE_STATS": _stats_to(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": None if columns is None else list(columns),
        "_EXTERNAL_PATH": file.external_path,
        **{name: file.extras.get(name) for name in _EXTRA_FIELDS},
        **values_of(file.unknown),
    }


def entry_from_record(record: Mapping[str, Any], path: str, unknown: UnknownTypes = NO_TYPES) -> ManifestEntry:
    """Entry of a manifest record; `unknown` are the types of the fields to be carried along.

    Raises: CorruptTableError naming `path`, also for the unreadable version 1.
    """
    try:
        if record["_VERSION"] != ENTRY_VERSION:
            raise damaged(path, f"manifest version {record['_VERSION']!r}, expected {ENTRY_VERSION}")
        return ManifestEntry(
            kind=FileKind(record["_KIND"]),
            partition=binary(record, "_PARTITION"),
            bucket=required_integer(record, "_BUCKET", -2, INT_MAX),
            total_buckets=required_integer(record, "_TOTAL_BUCKETS", -2, INT_MAX),
            file=file_from_record(record["_FILE"], take_unknown(record["_FILE"], unknown.of_file)),
            unknown=take_unknown(record, unknown.of_entry),
        )
    except WRONG as error:
        raise damaged(path, f"no valid manifest entry: {reason(error)}") from error


def entry_to_record(entry: ManifestEntry) -> dict[str, Any]:
    """Manifest record of an entry."""
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file_to_record(entry.file),
        **values_of(entry.unknown),
    }


def manifest_file_from_record(
    record: Mapping[str, Any], path: str, unknown: Mapping[str, Any] | None = None
) -> ManifestFile:
    """Manifest of a manifest-list record; `unknown` are the types of the fields to be carried along.

    Raises: CorruptTableError naming `path`.
    """
    try:
        return ManifestFile(
            name=file_name(record, "_FILE_NAME"),
            size_bytes=required_integer(record, "_FILE_SIZE", 0),
            added_count=required_integer(record, "_NUM_ADDED_FILES", 0),
            deleted_count=required_integer(record, "_NUM_DELETED_FILES", 0),
            partition_stats=_stats_from(record["_PARTITION_STATS"]),
            schema_id=required_integer(record, "_SCHEMA_ID", 0),
            unknown=take_unknown(record, unknown or {}),
        )
    except WRONG as error:
        raise damaged(path, f"no valid manifest list: {reason(error)}") from error


def manifest_file_to_record(manifest: ManifestFile) -> dict[str, Any]:
    """Manifest-list record of a manifest."""
    return {
        "_VERSION": MANIFEST_LIST_VERSION,
        "_FILE_NAME": manifest.name,
        "_FILE_SIZE": manifest.size_bytes,
        "_NUM_ADDED_FILES": manifest.added_count,
        "_NUM_DELETED_FILES": manifest.deleted_count,
        "_PARTITION_STATS": _stats_to(manifest.partition_stats),
        "_SCHEMA_ID": manifest.schema_id,
        **values_of(manifest.unknown),
    }


def counts(entries: Sequence[ManifestEntry]) -> tuple[int, int]:
    """How many entries add and how many remove."""
    added = sum(entry.kind is FileKind.ADD for entry in entries)
    return added, len(entries) - added
