"""Carrying out a compaction task: merge sections into new files, move the others to their new level.

The only place that merges to disk. Runs on any executor: a plain value in, a commit message out.

Source: `MergeTreeCompactTask`, `MergeTreeCompactRewriter` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_engine.env import Env
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.lsm.sections import Section
from paimon_engine.merge.deduplicate import drop_retracts
from paimon_engine.merge.functions import check_storable
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.supported import check_writable
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.file_format import bucket_path, read_data_file
from paimon_engine.table.handle import PlainTable, TableHandle
from paimon_engine.table.read import merge_section
from paimon_engine.table.roll import RollingWriter


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """A compaction task and the table it belongs to, fit for travelling."""

    table: PlainTable
    task: CompactTask


def rewrite(env: Env, work: RewriteTask) -> CommitMessage:
    """Writes the task's new files; on failure they are deleted. Repeating it writes other files, so it is harmless.

    Raises: NotFoundError if an input file is gone: somebody else compacted it; UnsupportedError.
    """
    table, task = work.table.load(env), work.task
    check_writable(table.options)
    after: list[DataFile] = [file.upgraded(task.output_level) for file in task.upgrades]
    writers: list[RollingWriter] = []
    try:
        for group in task.rewrites:
            writer = RollingWriter(
                table,
                task.partition,
                task.bucket,
                level=task.output_level,
                source=FileSource.COMPACT,
                first_sequence_number=group[0][0][0].min_sequence_number,
            )
            writers.append(writer)
            for section in group:
                _rewrite_section(table, task, section, writer)
            after += writer.finish()
    except BaseException:
        for writer in writers:
            writer.abort()
        raise
    return CommitMessage(
        task.partition, task.bucket, task.total_buckets, compact_before=task.input_files, compact_after=tuple(after)
    )


def _rewrite_section(table: TableHandle, task: CompactTask, section: Section, writer: RollingWriter) -> None:
    directory = bucket_path(table, task.partition, task.bucket)
    columns = table.schema.row_type.names
    if not table.schema.primary_keys:
        for run in section:
            for file in run:
                for rows in read_data_file(table, directory, file, columns, with_system_columns=False):
                    writer.write(rows)
        return
    for rows in merge_section(table, directory, section, columns):
        check_storable(table.schema, rows)
        writer.write(drop_retracts(rows) if task.drop_deletes else rows)
