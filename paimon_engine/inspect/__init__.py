"""System tables as Arrow: what a table's metadata says, in the columns of the Java library's system tables."""

from __future__ import annotations

from paimon_engine.inspect.branch_tables import (
    aggregation_fields,
    branch_table,
    consumer_table,
    options,
    schemas,
    snapshots,
    statistics,
    tags,
)
from paimon_engine.inspect.file_tables import (
    buckets,
    file_key_ranges,
    files,
    manifests,
    partitions,
    table_indexes,
)

__all__ = [
    "aggregation_fields",
    "branch_table",
    "buckets",
    "consumer_table",
    "file_key_ranges",
    "files",
    "manifests",
    "options",
    "partitions",
    "schemas",
    "snapshots",
    "statistics",
    "table_indexes",
    "tags",
]
