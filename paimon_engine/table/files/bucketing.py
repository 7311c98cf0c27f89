"""Which partition and bucket each row belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.binary_row import EMPTY_ROW, encode_row, internal_values
from paimon_engine.format.bucket_hash import buckets
from paimon_engine.merge.chosen_rows import ChosenRows
from paimon_engine.meta.schema import BucketMode, TableSchema
from paimon_engine.options import POSTPONED_BUCKET

Assign = Callable[[pa.RecordBatch, npt.NDArray[np.int64], Sequence[bytes]], npt.NDArray[np.int32]]
"""Rows, the number of each row's partition, the partitions by number -> bucket of each row, int32 [n]."""


SHARED_ROWS_MIN: Final = 1 << 13
"""Rows of a bucket, on average, from which on they stay in the batch that they came in, until they are needed."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Rows of one bucket, in their order of arrival."""

    partition: bytes
    bucket: int
    chosen: ChosenRows

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows alone."""
        return self.chosen.gathered()


def bucket_numbers(schema: TableSchema, rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """Bucket of each row; 0 where buckets do not matter (append tables without a number of buckets)."""
    options = schema.table_options
    if schema.bucket_mode is BucketMode.POSTPONED:
        return np.full(rows.num_rows, POSTPONED_BUCKET, dtype=np.int32)
    if options.bucket < 1:
        return np.zeros(rows.num_rows, dtype=np.int32)
    names = schema.bucket_keys
    types = [schema.row_type.field(name).type for name in names]
    columns = [rows[name] for name in names]
    return np.asarray(buckets(columns, types, options.bucket, function=options.bucket_function), dtype=np.int32)


def partition_codes(schema: TableSchema, rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """Number of each row's partition, and the partitions by number, as BinaryRow bytes."""
    names = schema.partition_keys
    if not names:
        return np.zeros(rows.num_rows, dtype=np.int64), [EMPTY_ROW]
    code = np.zeros(rows.num_rows, dtype=np.int64)
    for name in names:
        encoded = rows[name].dictionary_encode(null_encoding="encode")
        code = code * (len(encoded.dictionary) + 1) + np.asarray(encoded.indices, dtype=np.int64)
    _, first, numbers = np.unique(code, return_index=True, return_inverse=True)
    types = [field.type for field in schema.partition_type]
    sample = rows.select(list(names)).take(pa.array(first))
    columns = [internal_values(column, kind) for column, kind in zip(sample.columns, types, strict=True)]
    return numbers.reshape(-1), [encode_row(types, values, reserve_null=True) for values in zip(*columns, strict=True)]


def split_by_bucket(schema: TableSchema, rows: pa.RecordBatch, assign: Assign | None = None) -> Iterator[BucketRows]:
    """The rows by (partition, bucket), in arrival order within each. `assign` chooses buckets that are not fixed."""
    if rows.num_rows == 0:
        return
    numbers, partitions = partition_codes(schema, rows)
    bucket = bucket_numbers(schema, rows) if assign is None else assign(rows, numbers, partitions)
    yield from split_by_assigned_bucket(rows, numbers, partitions, bucket)


def split_by_assigned_bucket(
    rows: pa.RecordBatch,
    numbers: npt.NDArray[np.int64],
    partitions: Sequence[bytes],
    bucket: npt.NDArray[np.int32],
) -> Iterator[BucketRows]:
    """Rows whose partitions and buckets are known, by (partition, bucket), in arrival order within each."""
    if rows.num_rows == 0:
        return
    group = numbers * (int(bucket.max()) + 1) + bucket
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    is_shared = len(starts) > 1 and rows.num_rows >= SHARED_ROWS_MIN * len(starts)
    moved = rows if is_shared or len(starts) == 1 else rows.take(pa.array(order))
    for begin, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        row = order[begin]
        # Copying these rows of a large batch here, and once more in the order of their keys, would be copying twice.
        chosen = ChosenRows(rows, order[begin:end]) if is_shared else ChosenRows(moved.slice(begin, end - begin))
        yield BucketRows(partitions[numbers[row]], int(bucket[row]), chosen)
