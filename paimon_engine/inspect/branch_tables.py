"""What a table's own files say: snapshots, schemas, options, tags, branches, consumers, statistics."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa

from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.table_statistics import column_to_json
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered, read_schema_file
from paimon_engine.table.state.snapshots import branches, consumers, list_tags, snapshots_newest_first
from paimon_engine.table.state.statistics import read_statistics
from paimon_engine.table.state.vanished import check_is_there
from paimon_engine.types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    VectorType,
    field_to_json,
    type_to_json,
)

_TIME = pa.timestamp("ms")


def _of_what_is_there(table: TableHandle, rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """The rows, none only of a table that is still there: one that others have dropped is not an empty one.

    Raises: NotFoundError, ConflictError as `check_is_there`.
    """
    if not rows:
        check_is_there(table)
    return pa.Table.from_pylist(rows, schema)


def snapshots(table: TableHandle, newer_than: int = 0) -> pa.Table:
    """Existing snapshots with an id above `newer_than`, oldest first; `commit_time` is UTC.

    Raises: NotFoundError, ConflictError if others have dropped the table since it was opened.
    """
    found = list(snapshots_newest_first(table, newer_than))[::-1]
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
            pa.field("next_row_id", pa.int64()),
            pa.field("operation", pa.string()),
            pa.field("writer_version", pa.string()),
        ]
    )
    rows = [
        {
            **{name: getattr(item, name, None) for name in schema.names},
            "snapshot_id": item.id,
            "commit_time": item.time_ms,
            "commit_kind": str(item.commit_kind),
            "next_row_id": item.extras.get("nextRowId"),
            "operation": item.extras.get("operation"),
            "writer_version": item.extras.get("writerVersion"),
        }
        for item in found
    ]
    return _of_what_is_there(table, rows, schema)


def tags(table: TableHandle) -> pa.Table:
    """Tags by snapshot; `commit_time` is UTC, `create_time` the wall clock of the process that made the tag.

    Raises: as `snapshots`.
    """
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
    return _of_what_is_there(table, rows, schema)


def _duration_text(duration: timedelta) -> str:
    """ISO text as Java writes it: hours, minutes and seconds, those that are not 0."""
    minutes, micros = divmod(duration // timedelta(microseconds=1), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{micros / 1e6:f}".rstrip("0").rstrip(".")
    parts = [(str(hours), "H"), (str(minutes), "M"), (seconds, "S")]
    return "PT" + ("".join(number + unit for number, unit in parts if number != "0") or "0S")


def schemas(table: TableHandle) -> pa.Table:
    """All schemas, oldest first; columns, keys and options as JSON, `update_time` in UTC.

    Raises: NotFoundError if one between others is missing: each has the id that follows; CorruptTableError.
    """
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
    ids = numbered(table.env, table.paths.schema_dir, SCHEMA_PREFIX)
    for schema_id in range(min(ids), max(ids) + 1) if ids else ():
        # Not `schema_of`: that one has the dynamic options in it.
        found = read_schema_file(table.env, table.paths, schema_id, {})
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
    """Branches by name; a branch is as old as its oldest schema file. Raises: as `snapshots`."""
    schema = pa.schema(
        [pa.field("branch_name", pa.string(), nullable=False), pa.field("create_time", _TIME, nullable=False)]
    )
    rows = []
    for name in branches(table):
        stored = table.env.storage.list(TablePaths(table.paths.root, name).schema_dir)
        rows.append({"branch_name": name, "create_time": min((info.modified_ms for info in stored), default=0)})
    return _of_what_is_there(table, rows, schema)


def consumer_table(table: TableHandle) -> pa.Table:
    """Consumers, and the snapshot that each will read next. Raises: as `snapshots`."""
    schema = pa.schema(
        [
            pa.field("consumer_id", pa.string(), nullable=False),
            pa.field("next_snapshot_id", pa.int64(), nullable=False),
        ]
    )
    rows = [{"consumer_id": name, "next_snapshot_id": next_id} for name, next_id in sorted(consumers(table).items())]
    return _of_what_is_there(table, rows, schema)


def statistics(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Statistics of the table that the snapshot carries, at most one row; `colstat` is JSON.

    Raises: NotFoundError, CorruptTableError.
    """
    schema = pa.schema(
        [
            pa.field("snapshot_id", pa.int64(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("mergedRecordCount", pa.int64()),
            pa.field("mergedRecordSize", pa.int64()),
            pa.field("colstat", pa.string()),
        ]
    )
    if snapshot is None or snapshot.statistics is None:
        return schema.empty_table()
    found = read_statistics(table, snapshot.statistics)
    row = {
        "snapshot_id": found.snapshot_id,
        "schema_id": found.schema_id,
        "mergedRecordCount": found.merged_record_count,
        "mergedRecordSize": found.merged_record_size,
        "colstat": _json({name: column_to_json(column) for name, column in found.columns.items()}),
    }
    return pa.Table.from_pylist([row], schema)


def aggregation_fields(table: TableHandle) -> pa.Table:
    """Columns with what the options `fields.<column>.*` say of them, as `[value, …]` and `[key, …]`."""
    schema = pa.schema(
        [
            pa.field("field_name", pa.string(), nullable=False),
            pa.field("field_type", pa.string(), nullable=False),
            pa.field("function", pa.string()),
            pa.field("function_options", pa.string()),
            pa.field("comment", pa.string()),
        ]
    )
    rows = []
    for field in table.schema.row_type:
        settings = {
            key: value
            for key, value in table.schema.options.items()
            if (parts := key.split("."))[0] == "fields" and len(parts) > 2 and parts[1] == field.name
        }
        rows.append(
            {
                "field_name": field.name,
                "field_type": _sql_text(field.type),
                "function": f"[{', '.join(settings.values())}]",
                "function_options": f"[{', '.join(settings)}]",
                "comment": field.description,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def _sql_text(data_type: DataType) -> str:
    """The type as SQL writes it."""
    if isinstance(data_type, AtomicType):
        return str(type_to_json(data_type))
    match data_type:
        case ArrayType(element):
            text = f"ARRAY<{_sql_text(element)}>"
        case VectorType(element, length):
            text = f"VECTOR<{_sql_text(element)}, {length}>"
        case MultisetType(element):
            text = f"MULTISET<{_sql_text(element)}>"
        case MapType(key, value):
            text = f"MAP<{_sql_text(key)}, {_sql_text(value)}>"
        case _:
            text = "ROW<" + ", ".join(f"`{field.name}` {_sql_text(field.type)}" for field in data_type) + ">"
    return text if data_type.nullable else f"{text} NOT NULL"
