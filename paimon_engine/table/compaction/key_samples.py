"""Keys within files, to cut a compaction by key where the first and last keys are not enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.executor import Done, Executor
from paimon_engine.format.binary_row import encode_row, internal_values
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.parquet_row_groups import row_group_bounds
from paimon_engine.lsm.parts import KeySamples, files_to_sample
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import RowMask, bucket_location, read_data_file
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import is_float
from paimon_engine.table.files.stored_layout import file_arrow_schema
from paimon_engine.table.state.handle import PlainTable, TableHandle, bucket_path, open_needed
from paimon_engine.types import RowType

_KEYS_OF_FILE: Final = 64
_ROW_GROUPS_OF_PART: Final = 8
"""So many row groups of a file for each part, if it is divided at their ends: overlapping files may have theirs at the
same keys, so that a part may be larger than another one by what lies between two ends."""


@dataclass(frozen=True, slots=True)
class SampleTask:
    """A file whose keys are needed, and how many row groups are enough to take those that they end with."""

    table: PlainTable
    partition: bytes
    bucket: int
    file: DataFile
    row_groups_min: int


def sampled_keys(env: Env, task: SampleTask) -> tuple[bytes, ...]:
    """Keys, ascending, that divide the rows of a file into parts of about equal size; a row may have them or not.

    Raises: NotFoundError, CorruptTableError.
    """
    table = task.table.load(env)
    return _ends_of_row_groups(table, task) or _decoded_keys(table, task)


def _ends_of_row_groups(table: TableHandle, task: SampleTask) -> tuple[bytes, ...]:
    """The largest keys of row groups by the footer, which divide a file well enough if it has many; else nothing.

    Of several columns the largest value of each is taken: the first one decides where the key lies.
    """
    file, schema = task.file, table.schema
    is_alike = table.schema_of(file.schema_id).row_type == schema.row_type
    if file.format != "parquet" or not is_alike or any(map(is_float, schema.key_type)):
        return ()
    storage, directory = data_file_at(table, bucket_path(table, task.partition, task.bucket), file)
    path = f"{directory}/{file.name}"
    with open_needed(table, path, file.size_bytes, storage=storage) as source:
        bounds = row_group_bounds(source, path, file_arrow_schema(schema), schema.key_type.names)
    if bounds is None or len(bounds) < task.row_groups_min:
        return ()
    ends = pa.Table.from_batches([rows.slice(1) for rows in bounds]).combine_chunks()
    first = ends.column(0).to_pylist()
    if any(column.null_count for column in ends.columns) or sorted({*first}) != first:
        return ()
    return tuple(_encoded(ends.to_batches(), schema.key_type))


def _decoded_keys(table: TableHandle, task: SampleTask) -> tuple[bytes, ...]:
    """Some of the keys of a file, all of which are decoded."""
    location = bucket_location(table, task.partition, task.bucket)
    count = task.file.row_count
    chosen = np.linspace(0, count, _KEYS_OF_FILE + 1).astype(np.int64)[1:] - 1
    chosen = chosen[chosen >= 0]
    batches = read_data_file(
        table,
        location,
        task.file,
        table.schema.key_type.names,
        with_system_columns=False,
        mask=RowMask(selected=RowBitmap.of(chosen)),
    )
    return tuple(_encoded(batches, table.schema.key_type))


def _encoded(batches: Iterable[pa.RecordBatch], key_type: RowType) -> Iterator[bytes]:
    types = [field.type for field in key_type]
    for rows in batches:
        columns = [internal_values(rows[field.name], field.type) for field in key_type]
        yield from (encode_row(types, values, reserve_null=True) for values in zip(*columns, strict=True))


def key_samples(
    table: TableHandle, tasks: Sequence[CompactTask], part_bytes: int, executor: Executor
) -> Mapping[str, KeySamples]:
    """Keys by file, of those files of the tasks that have to be sampled before the tasks are cut into parts.

    A file that cannot be read is left out: its compaction reports the error.
    """
    items = [
        SampleTask(
            table.plain(),
            task.partition,
            task.bucket,
            file,
            _ROW_GROUPS_OF_PART * math.ceil(task.bytes_to_rewrite / part_bytes),
        )
        for task in tasks
        for file in files_to_sample(task, table.schema, part_bytes)
    ]
    outcomes = executor.map(sampled_keys, items, config=table.config) if items else []
    return {
        item.file.name: outcome.value
        for item, outcome in zip(items, outcomes, strict=True)
        if isinstance(outcome, Done)
    }
