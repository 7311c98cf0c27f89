"""System tables as Arrow: what a table's metadata says, in the columns of the Java library's system tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_engine.format.binary_row import decode_row, to_arrow_array
from paimon_engine.meta.manifest import DataFile, FileSource, ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries
from paimon_engine.table.snapshots import list_tags, snapshots_newest_first
from paimon_engine.types import DataType, RowType

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
    """Tags by snapshot; times are UTC."""
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
            "time_retained": None if tag.time_retained is None else f"PT{tag.time_retained.total_seconds():g}S",
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
    return [
        "null" if value is None else str(to_arrow_array([value], data_type)[0].as_py())
        for value, data_type in zip(values, types, strict=True)
    ]
