"""Records of Iceberg's manifests and manifest lists, and their Avro schemas.

A record is the dictionary that Avro has, but for partition values (`meta.iceberg.values`). Sequence numbers are the
ids of snapshots.

Source: `IcebergManifestEntry`, `IcebergDataFileMeta`, `IcebergManifestFileMeta` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from paimon_engine.meta.iceberg.schemas import FIRST_PARTITION_FIELD
from paimon_engine.meta.iceberg.values import avro_type, bound, internal_value
from paimon_engine.types import RowType

AvroRecord = dict[str, Any]


class Status(IntEnum):
    """What an entry says of its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """What the files of a manifest hold."""

    DATA = 0
    DELETES = 1


_COUNTS: Final = {Status.ADDED: "added", Status.EXISTING: "existing", Status.DELETED: "deleted"}
_LEGACY: Final = {f"{word}_files_count": f"{word}_data_files_count" for word in _COUNTS.values()}
"""Names of fields in Iceberg 1.4."""


def _column(field_id: int, name: str, kind: Any, *, optional: bool = False) -> AvroRecord:
    found: AvroRecord = {"name": name, "type": ["null", kind] if optional else kind, "field-id": field_id}
    return {**found, "default": None} if optional else found


def _map(name: str, key_id: int, value_id: int, value: str) -> AvroRecord:
    pair = {
        "type": "record",
        "name": name,
        "fields": [_column(key_id, "key", "int"), _column(value_id, "value", value)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def entry_schema(partition: RowType) -> AvroRecord:
    """Avro schema of a manifest. Raises: UnsupportedError naming a partition column."""
    values = []
    for index, field in enumerate(partition):
        column = _column(FIRST_PARTITION_FIELD + index, field.name, avro_type(field.type, field.name))
        values.append({**column, "default": None} if field.type.nullable else column)
    file_fields = [
        _column(134, "content", "int"),
        _column(100, "file_path", "string"),
        _column(101, "file_format", "string"),
        _column(102, "partition", {"type": "record", "name": "r102", "fields": values}),
        _column(103, "record_count", "long"),
        _column(104, "file_size_in_bytes", "long"),
        _column(110, "null_value_counts", _map("k121_v122", 121, 122, "long"), optional=True),
        _column(125, "lower_bounds", _map("k126_v127", 126, 127, "bytes"), optional=True),
        _column(128, "upper_bounds", _map("k129_v130", 129, 130, "bytes"), optional=True),
        _column(143, "referenced_data_file", "string", optional=True),
        _column(144, "content_offset", "long", optional=True),
        _column(145, "content_size_in_bytes", "long", optional=True),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _column(0, "status", "int"),
            _column(1, "snapshot_id", "long", optional=True),
            _column(3, "sequence_number", "long", optional=True),
            _column(4, "file_sequence_number", "long", optional=True),
            _column(2, "data_file", {"type": "record", "name": "r2", "fields": file_fields}),
        ],
    }


def list_schema(*, legacy: bool) -> AvroRecord:
    """Avro schema of a manifest list."""
    summary = [
        _column(509, "contains_null", "boolean"),
        _column(518, "contains_nan", "boolean", optional=True),
        _column(510, "lower_bound", "bytes", optional=True),
        _column(511, "upper_bound", "bytes", optional=True),
    ]
    partitions = {
        "type": "array",
        "element-id": 508,
        "items": {"type": "record", "name": "r508", "fields": summary},
    }
    fields = [
        _column(500, "manifest_path", "string"),
        _column(501, "manifest_length", "long"),
        _column(502, "partition_spec_id", "int"),
        _column(517, "content", "int"),
        _column(515, "sequence_number", "long"),
        _column(516, "min_sequence_number", "long"),
        _column(503, "added_snapshot_id", "long", optional=True),
        _column(504, "added_files_count", "int"),
        _column(505, "existing_files_count", "int"),
        _column(506, "deleted_files_count", "int"),
        _column(512, "added_rows_count", "long"),
        _column(513, "existing_rows_count", "long"),
        _column(514, "deleted_rows_count", "long"),
        _column(507, "partitions", partitions, optional=True),
    ]
    if legacy:
        fields = [{**field, "name": _LEGACY.get(field["name"], field["name"])} for field in fields]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def to_list_record(manifest: Mapping[str, Any], *, legacy: bool) -> AvroRecord:
    """The record as a manifest list has it."""
    return {_LEGACY.get(key, key) if legacy else key: value for key, value in manifest.items()}


def from_list_record(record: Mapping[str, Any]) -> AvroRecord:
    """A manifest, from a record with the names of any release."""
    ours = {old: new for new, old in _LEGACY.items()}
    return {ours.get(key, key): value for key, value in record.items()}


def is_live(entry: Mapping[str, Any]) -> bool:
    """Whether the snapshot of the entry's manifest has the file."""
    return bool(entry["status"] != Status.DELETED)


def added(snapshot_id: int, file: AvroRecord) -> AvroRecord:
    """The entry of a file that the snapshot adds."""
    return {
        "status": Status.ADDED.value,
        "snapshot_id": snapshot_id,
        "sequence_number": snapshot_id,
        "file_sequence_number": snapshot_id,
        "data_file": file,
    }


def after(entry: AvroRecord, snapshot_id: int, *, is_removed: bool) -> AvroRecord:
    """A live entry in a manifest that is written for a later snapshot, which removes the file or not."""
    if is_removed:
        return {**entry, "status": Status.DELETED.value, "snapshot_id": snapshot_id}
    return {**entry, "status": Status.EXISTING.value}


def merged(entry: AvroRecord, snapshot_id: int) -> AvroRecord | None:
    """An entry in a manifest that is merged for a snapshot; None for removals by earlier ones."""
    if snapshot_id in (entry["file_sequence_number"], entry["snapshot_id"]):
        return entry
    return after(entry, snapshot_id, is_removed=False) if is_live(entry) else None


def described(
    path: str, size_bytes: int, entries: Sequence[AvroRecord], partition: RowType, *, content: Content, snapshot_id: int
) -> AvroRecord:
    """What a manifest list says of a manifest with these entries."""
    found: AvroRecord = {
        "manifest_path": path,
        "manifest_length": size_bytes,
        "partition_spec_id": 0,
        "content": content.value,
        "sequence_number": snapshot_id,
        "min_sequence_number": min(entry["sequence_number"] for entry in entries),
        "added_snapshot_id": snapshot_id,
    }
    for status, word in _COUNTS.items():
        rows = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
        found[f"{word}_files_count"] = len(rows)
        found[f"{word}_rows_count"] = sum(rows)
    found["partitions"] = [
        _summary(field.type, [entry["data_file"]["partition"][field.name] for entry in entries]) for field in partition
    ]
    return found


def _summary(data_type: Any, values: Iterable[Any]) -> AvroRecord:
    known = [internal_value(data_type, value) for value in values]
    there = [value for value in known if value is not None]
    numbers = [value for value in there if value == value]  # noqa: PLR0124 - only NaN differs from itself
    return {
        "contains_null": len(there) < len(known),
        "contains_nan": len(numbers) < len(there),
        "lower_bound": bound(data_type, min(numbers)) if numbers else None,
        "upper_bound": bound(data_type, max(numbers)) if numbers else None,
    }


def live_counts(manifests: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Files and rows that are live in these manifests."""
    files = rows = 0
    for one in manifests:
        files += one["added_files_count"] + one["existing_files_count"]
        rows += one["added_rows_count"] + one["existing_rows_count"]
    return files, rows
