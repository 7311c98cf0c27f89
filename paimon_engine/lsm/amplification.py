"""Read amplification: how much more a read of a bucket does than it would after a full compaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from paimon_engine.lsm.clustered import SchemaOf, clustered_amplification, clustered_bucket, expected_in_order
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.lsm.sections import sections
from paimon_engine.meta.column_files import joined_groups
from paimon_engine.meta.files_beside import is_beside
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema


def read_amplification(files: Sequence[DataFile], schema: TableSchema, schema_of: SchemaOf) -> float:
    """1 is the best, 0 is an empty bucket.

    With a primary key: sorted runs that a read merges, as a mean over the bytes of the bucket. Without one: files that
    a read opens for each of those that are needed to hold these bytes; no compaction changes those of BLOB columns.
    In the order of other columns than the key: files that overlap at a place. `schema_of` gives schemas of files.
    """
    files = [file for file in files if not is_beside(file)]
    size_bytes = sum(file.size_bytes for file in files)
    if not files:
        return 0.0
    if not schema.primary_keys:
        return len(files) / max(1, math.ceil(size_bytes / schema.table_options.target_file_size_bytes))
    if schema.table_options.clustering_overrides_keys:
        return clustered_amplification(clustered_bucket(files, schema, schema_of))
    found = sections(files, key_order(schema.key_type))
    if not size_bytes:
        return float(max(map(len, found)))
    return sum(len(section) * file.size_bytes for section in found for run in section for file in run) / size_bytes


def expected_files(
    task: CompactTask, files: Sequence[DataFile], schema: TableSchema, schema_of: SchemaOf
) -> list[DataFile]:
    """The bucket's files after the task, as far as a plan can say: each section becomes files of the target size.

    New files are estimated with all bytes and keys of their inputs; how much merging removes is not known.
    """
    gone = {file.name for file in task.input_files}
    kept = [file for file in files if file.name not in gone]
    moved = [file.upgraded(task.output_level) for file in task.upgrades]
    if schema.table_options.data_evolution_enabled:
        return [*kept, *map(joined_groups, task.rewrites)]
    if not schema.primary_keys:
        return [*kept, *(made for group in task.rewrites for made in _concatenated(group[0][0], schema))]
    if task.is_clustered:
        return [*kept, *expected_in_order(task.rewrites, clustered_bucket(files, schema, schema_of), schema)]
    order = key_order(schema.key_type)
    made = [
        replace(
            inputs[0],
            size_bytes=sum(file.size_bytes for file in inputs),
            min_key=min((file.min_key for file in inputs), key=order),
            max_key=max((file.max_key for file in inputs), key=order),
            level=task.output_level,
        )
        for group in task.rewrites
        for section in group
        for inputs in [[file for run in section for file in run]]
    ]
    return [*kept, *moved, *made]


def _concatenated(pack: Sequence[DataFile], schema: TableSchema) -> list[DataFile]:
    size_bytes = sum(file.size_bytes for file in pack)
    count = max(1, math.ceil(size_bytes / schema.table_options.target_file_size_bytes))
    return [replace(pack[0], size_bytes=size_bytes // count)] * count
