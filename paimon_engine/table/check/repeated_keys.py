"""Keys that are valid in several files of a bucket, though deletion vectors leave each in one: old rows are back.

It happens where two engines compact a bucket at a time, and one marks rows in files that the other has just replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paimon_engine.env import Env
from paimon_engine.executor import Executor, Failed
from paimon_engine.merge.keys import Keys, join_keys, normalise_keys
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import POSTPONED_BUCKET
from paimon_engine.table.check.findings import FINDINGS, problem_of
from paimon_engine.table.files.bucket_vectors import BucketVectors, vector_files
from paimon_engine.table.files.data_file import RowMask, bucket_location, read_data_file
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.partitions import texts_of_key


@dataclass(frozen=True, slots=True)
class KeysTask:
    """The files above level 0 of a bucket, and the index files with their deletion vectors."""

    table: PlainTable
    partition: bytes
    bucket: int
    files: tuple[DataFile, ...]
    vectors: tuple[IndexFile, ...]


def repeated_keys(table: TableHandle, snapshot: Snapshot, executor: Executor) -> Iterator[str]:
    """For each bucket with such keys, what is wrong there. Reads the key columns of all rows above level 0.

    What cannot be read is left out: other checks report it.

    Raises: StorageError, SparkError.
    """
    options = table.options
    if not table.schema.primary_keys or not options.has_vectors:
        return
    try:
        vectors, live = vector_files(table, snapshot), live_entries(table, snapshot)
    except FINDINGS:
        return
    tasks = []
    for (partition, bucket), entries in by_bucket(live).items():
        files = tuple(entry.file for entry in entries if entry.file.level)
        if bucket != POSTPONED_BUCKET and len(files) > 1:
            of_bucket = vectors.get((partition, bucket), ())
            tasks.append(KeysTask(table.plain(), partition, bucket, files, of_bucket))
    remedy = "" if options.clustering_overrides_keys else "; a full compaction leaves the newest row of each"
    for task, outcome in zip(tasks, executor.map(_count_repeated, tasks, config=table.config), strict=True):
        if isinstance(outcome, Failed):
            problem_of(outcome)
            continue
        if not outcome.value:
            continue
        of = ", ".join(f"{name}={value}" for name, value in texts_of_key(table, task.partition).items())
        where = f"bucket {task.bucket}" + (f" of {of}" if of else "")
        yield (
            f"{outcome.value:,} keys of {where} have a valid row in several files: old rows are there again, as where "
            f"two engines compact a table at a time{remedy}"
        )


def _count_repeated(env: Env, task: KeysTask) -> int:
    """How many keys have more than one valid row. Raises: NotFoundError, CorruptTableError."""
    table = task.table.load(env)
    location = bucket_location(table, task.partition, task.bucket)
    vectors = BucketVectors(table, task.partition, task.bucket, task.vectors)
    names, types = table.schema.trimmed_primary_keys, [field.type for field in table.schema.key_type]
    found: list[Keys] = []
    for file in task.files:
        mask = RowMask(vectors.deleted_rows(file.name))
        for rows in read_data_file(table, location, file, names, with_system_columns=False, mask=mask):
            if rows.num_rows:
                found.append(normalise_keys([rows[name] for name in names], types))
    if not found:
        return 0
    keys = np.sort(join_keys(found))
    is_again = keys[1:] == keys[:-1]
    return len(np.unique(keys[1:][is_again]))
