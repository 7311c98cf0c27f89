"""Keys from the middle of files, to cut a compaction by key where the first and last keys are not enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paimon_engine.env import Env
from paimon_engine.executor import Done, Executor
from paimon_engine.format.binary_row import encode_row, internal_values
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.lsm.parts import KeySamples, files_to_sample
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import RowMask, bucket_location, read_data_file
from paimon_engine.table.state.handle import PlainTable, TableHandle

_KEYS_OF_FILE: Final = 64


@dataclass(frozen=True, slots=True)
class SampleTask:
    """A file whose keys are needed."""

    table: PlainTable
    partition: bytes
    bucket: int
    file: DataFile


def sampled_keys(env: Env, task: SampleTask) -> tuple[bytes, ...]:
    """Keys of a file, ascending, that divide its rows into parts of about equal size.

    Raises: NotFoundError, CorruptTableError.
    """
    table = task.table.load(env)
    location = bucket_location(table, task.partition, task.bucket)
    key_type = table.schema.key_type
    types = [field.type for field in key_type]
    count = task.file.row_count
    chosen = np.linspace(0, count, _KEYS_OF_FILE + 1).astype(np.int64)[1:] - 1
    chosen = chosen[chosen >= 0]
    found: list[bytes] = []
    for rows in read_data_file(
        table,
        location,
        task.file,
        key_type.names,
        with_system_columns=False,
        mask=RowMask(selected=RowBitmap.of(chosen)),
    ):
        columns = [internal_values(rows[field.name], field.type) for field in key_type]
        found += [encode_row(types, values, reserve_null=True) for values in zip(*columns, strict=True)]
    return tuple(found)


def key_samples(
    table: TableHandle, tasks: Sequence[CompactTask], part_bytes: int, executor: Executor
) -> Mapping[str, KeySamples]:
    """Keys by file, of those files of the tasks that have to be sampled before the tasks are cut into parts.

    A file that cannot be read is left out: its compaction reports the error.
    """
    items = [
        SampleTask(table.plain(), task.partition, task.bucket, file)
        for task in tasks
        for file in files_to_sample(task, table.schema, part_bytes)
    ]
    outcomes = executor.map(sampled_keys, items, config=table.config) if items else []
    return {
        item.file.name: outcome.value
        for item, outcome in zip(items, outcomes, strict=True)
        if isinstance(outcome, Done)
    }
