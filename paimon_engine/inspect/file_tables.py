"""What manifests say of a snapshot's files: the files, their sums by partition and bucket, manifests, index files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paimon_engine.format.binary_columns import values_by_column
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.clustered_keys import ends_type
from paimon_engine.meta.entry_columns import ColumnarEntries, in_columns
from paimon_engine.meta.evolution import cast_stats, same_columns
from paimon_engine.meta.manifest import DataFile, FileSource, ManifestEntry, ManifestFile
from paimon_engine.meta.paths import partition_text, partition_texts
from paimon_engine.meta.row_tracking import statistics_columns
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import EMPTY_STATS, ColumnStats, from_simple_stats
from paimon_engine.table.files.data_file import data_file_path
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import (
    changelog_manifests,
    live_entries,
    live_in_any_form,
    live_index_files,
    read_index_manifest,
    snapshot_manifests,
)
from paimon_engine.types import AtomicType, DataType, RowType

Ints = NDArray[np.int64]

_TIME: Final = pa.timestamp("ms")
_PARTITION: Final = pa.field("partition", pa.string())
_BUCKET: Final = pa.field("bucket", pa.int32(), nullable=False)
_FILE_FIELDS: Final = (
    _PARTITION,
    _BUCKET,
    pa.field("file_path", pa.string(), nullable=False),
    pa.field("file_format", pa.string(), nullable=False),
    pa.field("schema_id", pa.int64(), nullable=False),
    pa.field("level", pa.int32(), nullable=False),
    pa.field("record_count", pa.int64(), nullable=False),
    pa.field("file_size_in_bytes", pa.int64(), nullable=False),
    pa.field("min_key", pa.string()),
    pa.field("max_key", pa.string()),
)


def files(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Live data files of a snapshot: partition `{v1, v2}`, keys `[v1, v2]`, statistics `{column=value, …}`.

    Statistics are of the columns of today. Keys and bounds are in the form in which Java prints its internal values:
    a DATE as its day since 1970, a time with a `T`.
    """
    schema = pa.schema(
        [
            *_FILE_FIELDS,
            pa.field("null_value_counts", pa.string(), nullable=False),
            pa.field("min_value_stats", pa.string(), nullable=False),
            pa.field("max_value_stats", pa.string(), nullable=False),
            pa.field("min_sequence_number", pa.int64()),
            pa.field("max_sequence_number", pa.int64()),
            pa.field("creation_time", _TIME),
            pa.field("deleteRowCount", pa.int64()),
            pa.field("file_source", pa.string()),
            pa.field("first_row_id", pa.int64()),
            pa.field("write_cols", pa.list_(pa.string())),
        ]
    )
    return pa.Table.from_pylist([_file_row(table, entry) for entry in live_entries(table, snapshot)], schema)


def file_key_ranges(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Live data files of a snapshot with their smallest and largest keys."""
    schema = pa.schema([*_FILE_FIELDS, pa.field("first_row_id", pa.int64())])
    rows = [_file_row(table, entry) for entry in live_entries(table, snapshot)]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def _file_row(table: TableHandle, entry: ManifestEntry) -> dict[str, Any]:
    """A row of `$files`."""
    file, schema = entry.file, table.schema_of(entry.file.schema_id)
    low, high, nulls = _stats_texts(table, schema, file)
    keys = _key_columns(schema, file)
    return {
        "partition": _row_text(table.schema.partition_type, entry.partition),
        "bucket": entry.bucket,
        "file_path": data_file_path(table, entry.partition, entry.bucket, file),
        "file_format": file.format,
        "schema_id": file.schema_id,
        "level": file.level,
        "record_count": file.row_count,
        "file_size_in_bytes": file.size_bytes,
        "min_key": None if keys is None else _key_text(keys, file.min_key),
        "max_key": None if keys is None else _key_text(keys, file.max_key),
        "null_value_counts": nulls,
        "min_value_stats": low,
        "max_value_stats": high,
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "creation_time": file.creation_time_ms,
        "deleteRowCount": file.delete_row_count,
        "file_source": None if file.file_source is None else FileSource(file.file_source).name,
        "first_row_id": file.extras.get("_FIRST_ROW_ID"),
        "write_cols": file.extras.get("_WRITE_COLS"),
    }


def _key_columns(schema: TableSchema, file: DataFile) -> RowType | None:
    """The columns of which a manifest has the smallest and the largest values as the keys of a file."""
    return ends_type(schema, file.level) if schema.primary_keys else None


def _row_text(columns: RowType, row: bytes) -> str:
    """Values as people read them: dates as dates, not as days."""
    return "{" + ", ".join(_row_texts(columns, row, legacy=False)) + "}"


def _key_text(columns: RowType, row: bytes) -> str:
    return "[" + ", ".join(_row_texts(columns, row, legacy=True)) + "]"


def _row_texts(columns: RowType, row: bytes, *, legacy: bool) -> list[str]:
    types = [field.type for field in columns]
    values = decode_row(types, row)
    return [_text(value, data_type, legacy=legacy) for value, data_type in zip(values, types, strict=True)]


def _stats_texts(table: TableHandle, schema: TableSchema, file: DataFile) -> tuple[str, str, str]:
    """Minima, maxima and null counts of the table's columns; of those that the file lacks, all are null."""
    if not file.value_stats.null_counts and file.value_stats_columns is None:
        return "{}", "{}", "{}"
    columns = statistics_columns(schema, file)
    stored = dict(
        zip(columns.names, from_simple_stats([field.type for field in columns], file.value_stats), strict=True)
    )
    pairs = same_columns(schema, table.schema)
    known: dict[str, ColumnStats] = {}
    for field in table.schema.row_type:
        if field.name not in pairs:
            known[field.name] = ColumnStats(None, None, file.row_count)
        else:
            old, today = pairs[field.name]
            known[field.name] = cast_stats(stored.get(old.name, ColumnStats(None, None, None)), old, today)

    def text(values: Mapping[str, str]) -> str:
        return "{" + ", ".join(f"{name}={values[name]}" for name in sorted(values)) + "}"

    types = {field.name: field.type for field in table.schema.row_type}
    return (
        text({name: _text(stats.min, types[name], legacy=True) for name, stats in known.items()}),
        text({name: _text(stats.max, types[name], legacy=True) for name, stats in known.items()}),
        text({name: "null" if stats.null_count is None else str(stats.null_count) for name, stats in known.items()}),
    )


def _text(value: Any, data_type: DataType, *, legacy: bool) -> str:
    if value is None:
        return "null"
    return partition_text(data_type, value, legacy_name=legacy) if isinstance(data_type, AtomicType) else str(value)


# ── sums over the live files ────────────────────────────────────────────────────────────────────

_SUM_FIELDS = (
    pa.field("record_count", pa.int64(), nullable=False),
    pa.field("file_size_in_bytes", pa.int64(), nullable=False),
    pa.field("file_count", pa.int64(), nullable=False),
    pa.field("last_update_time", _TIME),
)


def partitions(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Partitions of a snapshot, as `column=value/…`, with the sums over their live files.

    `record_count` counts versions and deletes too; `deleted_record_count` rows marked in deletion vectors, null where
    some vectors do not say how many. Columns that only other catalogs can fill are null.
    """
    entries = in_columns(live_in_any_form(table, snapshot))
    found, codes = entries.partitions()
    sums = _sums(entries, codes)
    keys = [found[code] for code in sums.groups.tolist()]
    deleted = _deleted_counts(table, snapshot)
    schema = pa.schema(
        [
            _PARTITION,
            *_SUM_FIELDS,
            pa.field("created_at", _TIME),
            pa.field("created_by", pa.string()),
            pa.field("updated_by", pa.string()),
            pa.field("options", pa.string()),
            pa.field("total_buckets", pa.int32(), nullable=False),
            pa.field("done", pa.bool_(), nullable=False),
            pa.field("deleted_record_count", pa.int64()),
        ]
    )
    columns = {
        "partition": pa.array(_partition_paths(table, keys), pa.string()),
        **sums.columns,
        "total_buckets": pa.array(entries.numbers("total_buckets")[sums.newest], pa.int32()),
        "done": pa.repeat(False, len(keys)),
        "deleted_record_count": pa.array([deleted.get(key, 0) for key in keys], pa.int64()),
    }
    nulls = {field.name: pa.nulls(len(keys), field.type) for field in schema}
    rows = pa.table([columns.get(field.name, nulls[field.name]) for field in schema], schema=schema)
    return rows.sort_by("partition")


def _partition_paths(table: TableHandle, partitions: Sequence[bytes]) -> list[str]:
    columns = table.schema.partition_type
    types = [field.type for field in columns]
    values = values_by_column(types, partitions)
    default = table.options.partition_default_name
    names = [
        [
            f"{field.name}={default if text is None or not text.strip() else text}"
            for text in partition_texts(field.type, some)
        ]
        for field, some in zip(columns, values, strict=True)
    ]
    return list(map("/".join, zip(*names, strict=True))) if names else [""] * len(partitions)


def _deleted_counts(table: TableHandle, snapshot: Snapshot | None) -> dict[bytes, int | None]:
    counts: dict[bytes, int | None] = {}
    for file in live_index_files(table, snapshot):
        for vector in file.vectors:
            known, more = counts.get(file.partition, 0), vector.cardinality
            counts[file.partition] = None if known is None or more is None else known + more
    return counts


def buckets(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Buckets of a snapshot with the sums over their live files."""
    entries = in_columns(live_in_any_form(table, snapshot))
    found, codes = entries.partitions()
    numbers = entries.numbers("bucket")
    low, width = (int(numbers.min()), int(np.ptp(numbers)) + 1) if len(numbers) else (0, 1)
    sums = _sums(entries, codes * width + (numbers - low))
    texts = {code: _row_text(table.schema.partition_type, key) for code, key in enumerate(found)}
    columns = {
        "partition": pa.array([texts[group // width] for group in sums.groups.tolist()], pa.string()),
        "bucket": pa.array(sums.groups % width + low, pa.int32()),
        **sums.columns,
    }
    schema = pa.schema([_PARTITION, _BUCKET, *_SUM_FIELDS])
    rows = pa.table([columns[field.name] for field in schema], schema=schema)
    return rows.sort_by([("partition", "ascending"), ("bucket", "ascending")])


class _Sums(NamedTuple):
    """Groups of entries: the number of each, its sums as columns, and the place of the entry with its newest file."""

    groups: Ints
    columns: Mapping[str, pa.Array]
    newest: Ints


_NEVER: Final = np.iinfo(np.int64).min


def _sums(entries: ColumnarEntries, groups: Ints) -> _Sums:
    """Sums over the files of entries that have the same number in `groups`."""
    times, is_known = entries.numbers("creation_time_ms"), entries.present("creation_time_ms")
    # Of files of the same time the first one counts.
    order = np.lexsort((-np.arange(len(entries)), times, groups))
    ordered = groups[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(order) else order
    behind = np.append(first[1:], len(order)) if len(order) else order
    updated = np.where(is_known, times, _NEVER)[order]
    updated = np.maximum.reduceat(updated, first) if len(first) else updated
    columns = {
        "record_count": _added_up(entries.numbers("row_count")[order], first),
        "file_size_in_bytes": _added_up(entries.numbers("size_bytes")[order], first),
        "file_count": pa.array(behind - first, pa.int64()),
        "last_update_time": pa.array(updated, pa.int64(), mask=updated == _NEVER).cast(_TIME),
    }
    return _Sums(ordered[first], columns, order[behind - 1])


def _added_up(values: Ints, first: Ints) -> pa.Array:
    return pa.array(np.add.reduceat(values, first) if len(first) else values, pa.int64())


# ── manifests and index files ───────────────────────────────────────────────────────────────────


_ROW_ID_FIELDS: Final = {"min_row_id": "_MIN_ROW_ID", "max_row_id": "_MAX_ROW_ID"}


def manifests(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Manifests of a snapshot in the order in which they apply, and behind them those of its changelog."""
    schema = pa.schema(
        [
            pa.field("file_name", pa.string(), nullable=False),
            pa.field("file_size", pa.int64(), nullable=False),
            pa.field("num_added_files", pa.int64(), nullable=False),
            pa.field("num_deleted_files", pa.int64(), nullable=False),
            pa.field("schema_id", pa.int64(), nullable=False),
            pa.field("min_partition_stats", pa.string()),
            pa.field("max_partition_stats", pa.string()),
            pa.field("min_row_id", pa.int64()),
            pa.field("max_row_id", pa.int64()),
        ]
    )
    found = [] if snapshot is None else [*snapshot_manifests(table, snapshot), *changelog_manifests(table, snapshot)]
    return pa.Table.from_pylist([_manifest_row(table, manifest) for manifest in found], schema)


def _manifest_row(table: TableHandle, manifest: ManifestFile) -> dict[str, Any]:
    columns, stats = table.schema.partition_type, manifest.partition_stats
    is_known = not columns.fields or stats != EMPTY_STATS
    return {
        "file_name": manifest.name,
        "file_size": manifest.size_bytes,
        "num_added_files": manifest.added_count,
        "num_deleted_files": manifest.deleted_count,
        "schema_id": manifest.schema_id,
        "min_partition_stats": _row_text(columns, stats.min_values) if is_known else None,
        "max_partition_stats": _row_text(columns, stats.max_values) if is_known else None,
        **{column: _carried(manifest, field) for column, field in _ROW_ID_FIELDS.items()},
    }


def _carried(manifest: ManifestFile, field: str) -> Any:
    found = manifest.unknown.get(field)
    return None if found is None else found.value


def table_indexes(table: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """Index files of a snapshot: hash indexes, and deletion vectors with the data files that they are of."""
    vector = pa.struct(
        [
            pa.field("f0", pa.string(), nullable=False),
            pa.field("f1", pa.int32(), nullable=False),
            pa.field("f2", pa.int32(), nullable=False),
            pa.field("_CARDINALITY", pa.int64()),
        ]
    )
    schema = pa.schema(
        [
            _PARTITION,
            _BUCKET,
            pa.field("index_type", pa.string(), nullable=False),
            pa.field("file_name", pa.string(), nullable=False),
            pa.field("file_size", pa.int64(), nullable=False),
            pa.field("row_count", pa.int64(), nullable=False),
            pa.field("dv_ranges", pa.list_(vector)),
            pa.field("row_range_start", pa.int64()),
            pa.field("row_range_end", pa.int64()),
            pa.field("index_field_id", pa.int32()),
            pa.field("index_field_name", pa.string()),
        ]
    )
    rows = [_index_row(table, record) for record in _index_records(table, snapshot)]
    return pa.Table.from_pylist(rows, schema)


def _index_records(table: TableHandle, snapshot: Snapshot | None) -> list[dict[str, Any]]:
    if snapshot is None or snapshot.index_manifest is None:
        return []
    # Read as the engine reads them first, which finds what is not a record of an index manifest.
    live_index_files(table, snapshot)
    return read_index_manifest(table, snapshot.index_manifest)


def _index_row(table: TableHandle, record: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `$table_indexes` from a record of the index manifest; only a global index has row range and column."""
    of_rows = record.get("_GLOBAL_INDEX") or {}
    field_id: int | None = of_rows.get("_INDEX_FIELD_ID")
    names = [field.name for field in table.schema.row_type if field.id == field_id]
    return {
        "partition": _row_text(table.schema.partition_type, bytes(record["_PARTITION"])),
        "bucket": record["_BUCKET"],
        "index_type": record["_INDEX_TYPE"],
        "file_name": record["_FILE_NAME"],
        "file_size": record["_FILE_SIZE"],
        "row_count": record["_ROW_COUNT"],
        "dv_ranges": record.get("_DELETIONS_VECTORS_RANGES"),
        "row_range_start": of_rows.get("_ROW_RANGE_START"),
        "row_range_end": of_rows.get("_ROW_RANGE_END"),
        "index_field_id": field_id,
        "index_field_name": names[0] if names else None,
    }
