"""Where the keys of a table are, read from its files, and what its hash indexes say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine import Table
from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import decode_row
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.files.hash_index import hash_files, key_hashes, read_hashes
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot

Partition = tuple[Any, ...]


def handle_of(table: Table) -> TableHandle:
    """The table as the engine sees it, newly loaded."""
    return load_table(table.path, EnvConfig(table.path))


def stored_keys(table: TableHandle) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """Partition, bucket and keys without their partition columns, of all live files, delete records included."""
    names = table.schema.trimmed_primary_keys
    for entry in live_entries(table, latest_snapshot(table)):
        location = bucket_location(table, entry.partition, entry.bucket)
        for rows in read_data_file(table, location, entry.file, names, with_system_columns=False):
            yield entry.partition, entry.bucket, rows


def assert_each_key_in_one_bucket(table: Table | TableHandle) -> None:
    """Fails if a key of a partition is in two buckets, if an index lacks its hash, or if the table is not whole."""
    handle = handle_of(table) if isinstance(table, Table) else table
    assert check_table(handle) == []
    hash_bucket: dict[tuple[bytes, int], int] = {}
    for (partition, bucket), file in hash_files(live_index_files(handle, latest_snapshot(handle))).items():
        for value in read_hashes(handle, file).tolist():
            assert hash_bucket.setdefault((partition, value), bucket) == bucket, f"hash {value} is in two buckets"
    for partition, bucket, rows in stored_keys(handle):
        for value in np.unique(key_hashes(handle.schema, rows)).tolist():
            assert hash_bucket.get((partition, value)) == bucket, f"a key of bucket {bucket} is not in its index"


def partition_values(table: TableHandle, partition: bytes) -> Partition:
    """The values of a partition's columns."""
    return decode_row([field.type for field in table.schema.partition_type], partition)
