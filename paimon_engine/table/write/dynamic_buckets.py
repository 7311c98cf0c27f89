"""Giving rows to dynamic buckets, by the hash index of their partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.table.files.hash_index import hash_files, key_hashes, read_hashes
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.write.bucket_assignment import BucketRule, Buckets, HashBuckets


def bucket_rule(schema: TableSchema, assigners: int = 1, assigner: int = 0) -> BucketRule:
    """The rule that the table's options give."""
    options = schema.table_options
    target, limit = options.dynamic_bucket_target_row_num, options.dynamic_bucket_max_buckets
    return BucketRule(target, limit, assigners, assigner)


class DynamicBuckets:
    """Assigns buckets in any number of partitions, each of whose index is read when its first row comes."""

    def __init__(self, table: TableHandle, index: Sequence[IndexFile], rule: BucketRule) -> None:
        """`index` has the live hash indexes."""
        self._table = table
        self._files: dict[bytes, dict[int, IndexFile]] = {}
        for (partition, bucket), file in hash_files(index).items():
            self._files.setdefault(partition, {})[bucket] = file
        self._rule = rule
        self._partitions: dict[bytes, HashBuckets] = {}
        self._writer = MetadataWriter(table)

    def assign(self, rows: pa.RecordBatch, numbers: npt.NDArray[np.int64], partitions: Sequence[bytes]) -> Buckets:
        """Bucket of each row: int32 [n], given the number of its partition.

        Raises: InvalidArgumentError if a partition would have too many buckets; NotFoundError, CorruptTableError.
        """
        hashes = key_hashes(self._table.schema, rows)
        buckets = np.empty(len(hashes), dtype=np.int32)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(partitions)), side="right")
        for partition, members in zip(partitions, np.split(order, ends[:-1]), strict=True):
            buckets[members] = self._partition(partition).assign(hashes[members])
        return buckets

    def _partition(self, partition: bytes) -> HashBuckets:
        known = self._partitions.get(partition)
        if known is None:
            files = self._files.get(partition, {})
            hashes = {bucket: read_hashes(self._table, file) for bucket, file in files.items()}
            known = self._partitions[partition] = HashBuckets(hashes, self._rule)
        return known

    def write_index(self) -> dict[Bucket, tuple[IndexFile, IndexFile | None]]:
        """Writes the index of each bucket that has got new hashes: the new file, and the one that it replaces."""
        return {
            (partition, number): (
                self._writer.hash_index((partition, number), hashes),
                self._files.get(partition, {}).get(number),
            )
            for partition, known in self._partitions.items()
            for number, hashes in known.changed().items()
        }

    def abort(self) -> None:
        """Deletes the files written."""
        self._writer.take_back()
