"""Which files of a snapshot Iceberg sees, and what its manifests say of them.

Iceberg merges nothing, so of a table with keys it sees files of the highest level; with deletion vectors that it can
read, all above level 0. In metadata that is made without earlier one, these are the files that readers need not merge.

Source: `IcebergCommitCallback`, `MergeTreeSplitGenerator` of the Java library. Difference: deletion vectors that
Iceberg does not get leave files of lower levels out of metadata that is made without earlier one, too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.iceberg.manifests import AvroRecord, added
from paimon_engine.meta.iceberg.values import avro_value, bound
from paimon_engine.meta.index_manifest import DELETION_VECTORS
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.row_tracking import statistics_columns
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.table.files.external import index_path
from paimon_engine.table.iceberg.place import Place
from paimon_engine.table.read.scan import splits_of, visible_entries
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.manifests import live_index_files


def shows_vectors(table: TableHandle) -> bool:
    """Whether Iceberg gets the deletion vectors."""
    options = table.options
    return options.deletion_vectors_enabled and options.deletion_vectors_bitmap64 and options.iceberg_format_version > 2


def is_shown(table: TableHandle, file: DataFile) -> bool:
    """Whether Iceberg sees a file that a commit adds."""
    if not table.schema.primary_keys:
        return True
    return file.level > 0 if shows_vectors(table) else file.level == table.options.num_levels - 1


def shown_files(table: TableHandle, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files that Iceberg sees of a snapshot, where nothing is known of earlier ones."""
    entries = visible_entries(table, snapshot)
    if not table.schema.primary_keys:
        return entries
    options = table.options
    if options.deletion_vectors_enabled and not shows_vectors(table):
        return [entry for entry in entries if is_shown(table, entry.file)]
    unmerged = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    found: list[ManifestEntry] = []
    for members in by_bucket(entries).values():
        levels = {entry.file.level for entry in members}
        if 0 not in levels and (unmerged or len(levels) == 1) and not any(_deletes(entry.file) for entry in members):
            found += members
        else:
            alone = _files_alone(table, members)
            found += [entry for entry in members if entry.file.name in alone]
    return found


def _files_alone(table: TableHandle, entries: Sequence[ManifestEntry]) -> Collection[str]:
    """Files that are a split of their own, as Java cuts the bucket, and have no deletes."""
    names = set()
    for split in splits_of(table, entries, None):
        files = [file for section in split.sections for run in section for file in run]
        if len(files) == 1 and not _deletes(files[0]):
            names.add(files[0].name)
    return names


def _deletes(file: DataFile) -> bool:
    return bool(file.delete_row_count)


def data_entry(place: Place, entry: ManifestEntry, snapshot_id: int) -> AvroRecord:
    """Iceberg's entry of a file that the snapshot adds."""
    table, file = place.table, entry.file
    path = file.external_path or place.as_written(f"{bucket_path(table, entry.partition, entry.bucket)}/{file.name}")
    facts = {
        "content": 0,
        "file_path": path,
        "file_format": file.format,
        "partition": _partition(table, entry.partition),
        "record_count": file.row_count,
        "file_size_in_bytes": file.size_bytes,
        **_statistics(table, file),
        "referenced_data_file": None,
        "content_offset": None,
        "content_size_in_bytes": None,
    }
    return added(snapshot_id, facts)


def _partition(table: TableHandle, partition: bytes) -> dict[str, Any]:
    columns = table.schema.partition_type
    values = decode_row([field.type for field in columns], partition)
    return {field.name: avro_value(field.type, value) for field, value in zip(columns, values, strict=True)}


def _statistics(table: TableHandle, file: DataFile) -> dict[str, list[AvroRecord]]:
    """Null counts and bounds by the ids of columns, of those that are known."""
    nulls, lows, highs = [], [], []
    if file.value_stats.null_counts:
        schema = table.schema_of(file.schema_id)
        columns = statistics_columns(schema, file)
        known = from_simple_stats([field.type for field in columns], file.value_stats)
        own = {field.id for field in schema.row_type}
        for field, stats in zip(columns, known, strict=True):
            if field.id not in own:
                continue
            if stats.null_count is not None:
                nulls.append({"key": field.id, "value": stats.null_count})
            low, high = bound(field.type, stats.min), bound(field.type, stats.max)
            if low is not None and high is not None:
                lows.append({"key": field.id, "value": low})
                highs.append({"key": field.id, "value": high})
    return {"null_value_counts": nulls, "lower_bounds": lows, "upper_bounds": highs}


def vector_entries(place: Place, snapshot: Snapshot) -> list[AvroRecord]:
    """Iceberg's entries of all deletion vectors of a snapshot.

    Raises: UnsupportedError for one whose number of rows is unknown: Iceberg compares that number with the vector.
    """
    table, found = place.table, []
    for file in live_index_files(table, snapshot):
        if file.kind != DELETION_VECTORS:
            continue
        partition, directory = _partition(table, file.partition), bucket_path(table, file.partition, file.bucket)
        for vector in file.vectors:
            if vector.cardinality is None:
                raise UnsupportedError(
                    f"the deletion vector of {vector.data_file} in {file.name} does not say how many rows it marks, "
                    "which Iceberg needs; compact the table fully"
                )
            facts = {
                "content": 1,
                "file_path": place.as_written(index_path(table, file)),
                "file_format": "puffin",
                "partition": partition,
                "record_count": vector.cardinality,
                "file_size_in_bytes": file.size_bytes,
                "null_value_counts": None,
                "lower_bounds": None,
                "upper_bounds": None,
                "referenced_data_file": place.as_written(f"{directory}/{vector.data_file}"),
                "content_offset": vector.offset,
                "content_size_in_bytes": vector.length,
            }
            found.append(added(snapshot.id, facts))
    return found
