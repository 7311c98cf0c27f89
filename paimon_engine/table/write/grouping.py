"""Which rows one task must get: those of one bucket, or of one key where keys choose their buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_engine.format.bucket_hash import bucket_of
from paimon_engine.meta.schema import BucketMode, TableSchema
from paimon_engine.table.files.bucketing import partition_codes
from paimon_engine.table.files.hash_index import key_hashes
from paimon_engine.table.write.row_input import RowInput

KEYS_CHOOSE = (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
"""Where a key's bucket depends on the keys before it."""


def key_groups(schema: TableSchema, kind_column: str | None, parallelism: int) -> KeyGroups:
    """How to group a user's rows where keys choose their buckets, for about so many tasks at once."""
    rows = RowInput(_without_dropping(schema), kind_column)
    options, groups = schema.table_options, max(1, parallelism)
    limits = [options.dynamic_bucket_max_buckets]
    if schema.bucket_mode is BucketMode.DYNAMIC:
        limits.append(options.dynamic_bucket_initial_buckets)
    return KeyGroups(schema, rows, groups, min([groups, *(limit for limit in limits if limit is not None)]))


def group_of_bucket(partition: bytes, bucket: int) -> int:
    """The same for all rows of a bucket; different buckets may share one."""
    return (hash_of(partition) * 31 + bucket) & 0x7FFFFFFF


def _without_dropping(schema: TableSchema) -> TableSchema:
    """The schema without options that drop rows: every row of a batch must get a group."""
    options = {key: value for key, value in schema.options.items() if not key.endswith("ignore-delete")}
    return replace(schema, options={**options, "ignore-update-before": "false"})


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Group of each row, out of `groups`: the same for rows of one key.

    Divided by `assigners`, a group leaves the number of the assigner that it is for.
    """

    schema: TableSchema
    rows: RowInput
    groups: int
    assigners: int

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        rows = self.rows.read(batch)
        assigner = bucket_of(key_hashes(self.schema, rows), self.assigners).astype(np.int64)
        if self.schema.bucket_mode is BucketMode.CROSS_PARTITION:
            return pa.array(assigner.astype(np.int32))
        numbers, partitions = partition_codes(self.schema, rows)
        seeds = np.array([hash_of(partition) for partition in partitions], dtype=np.int64)
        teams = self.groups // self.assigners
        return pa.array((seeds[numbers] % teams * self.assigners + assigner).astype(np.int32))


def hash_of(partition: bytes) -> int:
    """A hash that is the same in every process, unlike Python's."""
    return int.from_bytes(partition[-8:], "little") % 1_000_003 + len(partition)
