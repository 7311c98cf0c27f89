"""System tables as Arrow: what a table's metadata says, in the columns of the Java library's system tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.manifest import DataFile, FileSource, ManifestEntry
from paimon_engine.meta.paths import TablePaths, partition_text
from paimon_engine.meta.schema import parse_schema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.table.handle import SCHEMA_PREFIX, TableHandle, numbered
from paimon_engine.table.manifests import live_entries, snapshot_manifests
from paimon_engine.table.snapshots import branches, consumers, list_tags, snapshots_newest_first
from paimon_engine.types import AtomicType, DataType, RowType, field_to_json

_TIME = pa.timestamp("ms")


def snapshots(table: TableHandle) -> pa.Table:
    """Existing snapshots, oldest first; `commit_time` is UTC."""
    found = list(snapshots_newest_first(table))[::-1]
    schema = pa.schema(
        [
            pa.field("snapshot_id", pa.int64(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("commit_user", pa.string(), nullable=False),
            pa.field("commit_identifier", pa.int64(), nullable=False),
            pa.field("commit_kind", pa.string(), nullable=False),
            pa.field("commit_time", _TIME, nullable=False),
            pa.field("base_manifest_list", pa.string(), nullable=False),
            pa.field("delta_manifest_list", pa.string(), nullable=False),
            pa.field("changelog_manifest_list", pa.string()),
            pa.field("total_record_count", pa.int64()),
            pa.field("delta_record_count", pa.int64()),
            pa.field("changelog_record_count", pa.int64()),
            pa.field("watermark", pa.int64()),
        ]
    )
    rows = [
        {
            "snapshot_id": item.id,
            "commit_time": item.time_ms,
            "commit_kind": str(item.commit_kind),
            **{
                name: getattr(item, name)
                for name in schema.names
                if name not in ("snapshot_id", "commit_time", "commit_kind")
            },
        }
        for item in found
    ]
    return pa.Table.from_pylist(rows, schema)


def tags(table: TableHandle) -> pa.Table:
    """Tags by snapshot; `commit_time` is UTC, `create_time` the wall clock of whoever made the tag."""
    schema = pa.schema(
        [
            pa.field("tag_name", pa.string(), nullable=False),
            pa.field("snapshot_id", pa.int64(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("commit_time", _TIME, nullable=False),
            pa.field("record_count", pa.int64()),
            pa.field("create_time", _TIME),
            pa.field("time_retained", pa.string()),
        ]
    )
    rows = [
        {
            "tag_name": tag.name,
            "snapshot_id": tag.snapshot.id,
            "schema_id": tag.snapshot.schema_id,
            "commit_time": tag.snapshot.time_ms,
            "record_count": tag.snapshot.total_record_count,
            "create_time": tag.create_time,
            "time_retained": None if tag.time_retained is None else _duration_text(tag.time_retained),
        }
        for tag in list_tags(table)
    ]
    return pa.Table.from_pylist(rows, schema)


def files(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Live data files of a snapshot; partitions and keys as `{v1, v2}`, statistics as `{column=value, …}`."""
    entries = live_entries(table, snapshot)
    schema = pa.schema(
        [
            pa.field("partition", pa.string()),
            pa.field("bucket", pa.int32(), nullable=False),
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("file_format", pa.string(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("level", pa.int32(), nullable=False),
            pa.field("record_count", pa.int64(), nullable=False),
            pa.field("file_size_in_bytes", pa.int64(), nullable=False),
            pa.field("min_key", pa.string()),
            pa.field("max_key", pa.string()),
            pa.field("null_value_counts", pa.string(), nullable=False),
            pa.field("min_value_stats", pa.string(), nullable=False),
            pa.field("max_value_stats", pa.string(), nullable=False),
            pa.field("min_sequence_number", pa.int64()),
            pa.field("max_sequence_number", pa.int64()),
            pa.field("creation_time", _TIME),
            pa.field("delete_row_count", pa.int64()),
            pa.field("file_source", pa.string()),
        ]
    )
    return pa.Table.from_pylist([_file_row(table, entry) for entry in entries], schema)


def _file_row(table: TableHandle, entry: ManifestEntry) -> dict[str, Any]:
    file, schema = entry.file, table.schema_of(entry.file.schema_id)
    low, high, nulls = _stats_texts(schema.row_type, file)
    return {
        "partition": _row_text(table.schema.partition_type, entry.partition),
        "bucket": entry.bucket,
        "file_path": file.external_path or file.name,
        "file_format": file.format,
        "schema_id": file.schema_id,
        "level": file.level,
        "record_count": file.row_count,
        "file_size_in_bytes": file.size_bytes,
        "min_key": _row_text(schema.key_type, file.min_key) if schema.primary_keys else None,
        "max_key": _row_text(schema.key_type, file.max_key) if schema.primary_keys else None,
        "null_value_counts": nulls,
        "min_value_stats": low,
        "max_value_stats": high,
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "creation_time": file.creation_time_ms,
        "delete_row_count": file.delete_row_count,
        "file_source": None if file.file_source is None else FileSource(file.file_source).name,
    }


def _row_text(columns: RowType, row: bytes) -> str:
    types = [field.type for field in columns]
    return "{" + ", ".join(_texts(decode_row(types, row), types)) + "}"


def _stats_texts(columns: RowType, file: DataFile) -> tuple[str, str, str]:
    if not file.value_stats.null_counts:
        return "{}", "{}", "{}"
    if file.value_stats_columns is not None:
        columns = columns.project(file.value_stats_columns)
    types = [field.type for field in columns]
    known = from_simple_stats(types, file.value_stats)

    def text(values: Sequence[str]) -> str:
        return (
            "{" + ", ".join(f"{name}={value}" for name, value in sorted(zip(columns.names, values, strict=True))) + "}"
        )

    return (
        text(_texts([item.min for item in known], types)),
        text(_texts([item.max for item in known], types)),
        text(["null" if item.null_count is None else str(item.null_count) for item in known]),
    )


def _texts(values: Sequence[Any], types: Sequence[DataType]) -> list[str]:
    """Values as people read them: dates as dates, not as days."""
    return [_text(value, data_type) for value, data_type in zip(values, types, strict=True)]


def _text(value: Any, data_type: DataType) -> str:
    if value is None:
        return "null"
    return partition_text(data_type, value, legacy_name=False) if isinstance(data_type, AtomicType) else str(value)


def _duration_text(duration: timedelta) -> str:
    """ISO text as Java writes it: hours, minutes and seconds, those that are not 0."""
    minutes, micros = divmod(duration // timedelta(microseconds=1), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{micros / 1e6:f}".rstrip("0").rstrip(".")
    parts = [(str(hours), "H"), (str(minutes), "M"), (seconds, "S")]
    return "PT" + ("".join(number + unit for number, unit in parts if number != "0") or "0S")


# ── sums over the live files ────────────────────────────────────────────────────────────────────

_SUM_FIELDS = (
    pa.field("record_count", pa.int64(), nullable=False),
    pa.field("file_size_in_bytes", pa.int64(), nullable=False),
    pa.field("file_count", pa.int64(), nullable=False),
    pa.field("last_update_time", _TIME),
)


def partitions(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Partitions of a snapshot with the sums over their live files; `record_count` counts versions and deletes too."""
    groups: dict[str, list[DataFile]] = {}
    for entry in live_entries(table, snapshot):
        groups.setdefault(_row_text(table.schema.partition_type, entry.partition), []).append(entry.file)
    schema = pa.schema([pa.field("partition", pa.string()), *_SUM_FIELDS])
    return pa.Table.from_pylist([{"partition": key, **_sums(groups[key])} for key in sorted(groups)], schema)


def buckets(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Buckets of a snapshot with the sums over their live files."""
    groups: dict[tuple[str, int], list[DataFile]] = {}
    for entry in live_entries(table, snapshot):
        key = _row_text(table.schema.partition_type, entry.partition), entry.bucket
        groups.setdefault(key, []).append(entry.file)
    bucket = pa.field("bucket", pa.int32(), nullable=False)
    schema = pa.schema([pa.field("partition", pa.string()), bucket, *_SUM_FIELDS])
    rows = [{"partition": key[0], "bucket": key[1], **_sums(groups[key])} for key in sorted(groups)]
    return pa.Table.from_pylist(rows, schema)


def _sums(members: Sequence[DataFile]) -> dict[str, Any]:
    times = [file.creation_time_ms for file in members if file.creation_time_ms is not None]
    return {
        "record_count": sum(file.row_count for file in members),
        "file_size_in_bytes": sum(file.size_bytes for file in members),
        "file_count": len(members),
        "last_update_time": max(times, default=None),
    }


# ── the rest of the metadata ────────────────────────────────────────────────────────────────────


def manifests(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Manifests of a snapshot in the order in which they apply."""
    schema = pa.schema(
        [
            pa.field("file_name", pa.string(), nullable=False),
            pa.field("file_size", pa.int64(), nullable=False),
            pa.field("num_added_files", pa.int64(), nullable=False),
            pa.field("num_deleted_files", pa.int64(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
        ]
    )
    rows = [
        {
            "file_name": manifest.name,
            "file_size": manifest.size_bytes,
            "num_added_files": manifest.added_count,
            "num_deleted_files": manifest.deleted_count,
            "schema_id": manifest.schema_id,
        }
        for manifest in (() if snapshot is None else snapshot_manifests(table, snapshot))
    ]
    return pa.Table.from_pylist(rows, schema)


def schemas(table: TableHandle) -> pa.Table:
    """All schemas, oldest first; columns, keys and options as JSON, `update_time` in UTC."""
    schema = pa.schema(
        [
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("fields", pa.string(), nullable=False),
            pa.field("partition_keys", pa.string(), nullable=False),
            pa.field("primary_keys", pa.string(), nullable=False),
            pa.field("options", pa.string(), nullable=False),
            pa.field("comment", pa.string()),
            pa.field("update_time", _TIME, nullable=False),
        ]
    )
    rows = []
    for schema_id in numbered(table.env, table.paths.schema_dir, SCHEMA_PREFIX):
        path = table.paths.schema(schema_id)
        # Not `schema_of`: that one has the dynamic options in it.
        found = parse_schema(table.env.storage.read(path).decode(), path)
        rows.append(
            {
                "schema_id": schema_id,
                "fields": _json([field_to_json(field) for field in found.row_type]),
                "partition_keys": _json(list(found.partition_keys)),
                "primary_keys": _json(list(found.primary_keys)),
                "options": _json(dict(found.options)),
                "comment": found.comment,
                "update_time": found.time_ms,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def options(table: TableHandle) -> pa.Table:
    """Options of the table, dynamic ones included, by key."""
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)])
    rows = [{"key": key, "value": value} for key, value in sorted(table.schema.options.items())]
    return pa.Table.from_pylist(rows, schema)


def branch_table(table: TableHandle) -> pa.Table:
    """Branches by name; a branch is as old as its oldest schema file."""
    schema = pa.schema(
        [pa.field("branch_name", pa.string(), nullable=False), pa.field("create_time", _TIME, nullable=False)]
    )
    rows = []
    for name in branches(table):
        stored = table.env.storage.list(TablePaths(table.paths.root, name).schema_dir)
        rows.append({"branch_name": name, "create_time": min((info.modified_ms for info in stored), default=0)})
    return pa.Table.from_pylist(rows, schema)


def consumer_table(table: TableHandle) -> pa.Table:
    """Consumers, and the snapshot that each will read next."""
    schema = pa.schema(
        [
            pa.field("consumer_id", pa.string(), nullable=False),
            pa.field("next_snapshot_id", pa.int64(), nullable=False),
        ]
    )
    rows = [{"consumer_id": name, "next_snapshot_id": next_id} for name, next_id in sorted(consumers(table).items())]
    return pa.Table.from_pylist(rows, schema)
