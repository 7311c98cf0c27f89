"""A look into files whose manifest entries do not prove that they have no delete records.

Where there are none, such a file only changes its level. Java does so, too; a rewrite would take its time, and drop
records that have expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paimon_engine.env import Env
from paimon_engine.executor import Done, Executor
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.merge.records import is_retract
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import bucket_location, read_row_kinds
from paimon_engine.table.state.handle import PlainTable, TableHandle


@dataclass(frozen=True, slots=True)
class KindsTask:
    """A file whose row kinds are needed."""

    table: PlainTable
    partition: bytes
    bucket: int
    file: DataFile


def has_deletes(env: Env, task: KindsTask) -> bool:
    """Whether any record of the file is a −U or −D; of the columns only the row kinds are read.

    Raises: NotFoundError, CorruptTableError.
    """
    table = task.table.load(env)
    location = bucket_location(table, task.partition, task.bucket)
    return any(is_retract(np.asarray(kinds)).any() for kinds in read_row_kinds(table, location, task.file))


def without_needless_rewrites(
    table: TableHandle, tasks: Sequence[CompactTask], executor: Executor
) -> list[CompactTask]:
    """The tasks, with files moved that were to be rewritten only because nobody had counted their delete records.

    A file that cannot be read is left to be rewritten, which reports the error.
    """
    items = [KindsTask(table.plain(), task.partition, task.bucket, file) for task in tasks for file in task.uncounted]
    if not items:
        return list(tasks)
    outcomes = executor.map(has_deletes, items, config=table.config)
    only_adds = {
        item.file.name
        for item, outcome in zip(items, outcomes, strict=True)
        if isinstance(outcome, Done) and not outcome.value
    }
    return [task.upgrading(only_adds) for task in tasks]
