"""Carrying out a compaction task: merge sections into new files, move the others to their new level.

The only module that merges to disk. Runs on any executor: a plain value in, a commit message out.

Source: `MergeTreeCompactTask`, `MergeTreeCompactRewriter`, `ChangelogMergeTreeRewriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.executor import ahead
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.lsm.plan import CompactTask, section_around
from paimon_engine.lsm.sections import Section
from paimon_engine.merge.functions import check_storable
from paimon_engine.merge.records import drop_retracts
from paimon_engine.meta.column_files import anchor, joined_groups
from paimon_engine.meta.files_beside import of_data_files
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.storage import Opener
from paimon_engine.table.compaction.changed_rows import ChangedRows, keep_unexpired
from paimon_engine.table.compaction.changelog_copies import ChangelogBeside
from paimon_engine.table.compaction.clustered import rewrite_clustered
from paimon_engine.table.compaction.merged_among import merged_among
from paimon_engine.table.compaction.row_group_copies import COPIED_BYTES_MIN, CopiedRowGroup, RowGroupCopies
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import RowMask, ScanOptions, bucket_location, read_data_file
from paimon_engine.table.files.file_index import wanted_indexes
from paimon_engine.table.files.files_ahead import files_ahead
from paimon_engine.table.files.key_range import RangeReader
from paimon_engine.table.files.new_paths import check_files_writable
from paimon_engine.table.files.rolling_writer import RollingWriter, in_one_file
from paimon_engine.table.files.row_ids import for_rewriting
from paimon_engine.table.read.reader import SectionFiles, column_group_rows, merge_section
from paimon_engine.table.state.handle import PlainTable, TableHandle, index_file_path
from paimon_engine.types import STRING_ROOTS, AtomicType


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """A compaction task and the table it belongs to, as a picklable value.

    `vectors` are the live index files of the bucket that hold deletion vectors. `is_part` says that other tasks do the
    rest of the bucket, so that the vectors of its files, and the marks of other parts, are left to `join_parts`.
    `reads_ahead` says that a core is free: one thread reads and merges while another one writes. Row groups
    from `copied_bytes_min` on are copied as they are, where nothing changes in them.
    """

    table: PlainTable
    task: CompactTask
    vectors: tuple[IndexFile, ...] = ()
    is_part: bool = False
    reads_ahead: bool = False
    copied_bytes_min: int = COPIED_BYTES_MIN


def rewrite(env: Env, work: RewriteTask) -> CommitMessage:
    """Writes the task's new files; on failure they are deleted. Repeating it writes new files, so it is harmless.

    Raises: NotFoundError if an input file is missing: another process has compacted it; UnsupportedError.
    """
    table = work.table.load(env)
    check_files_writable(table)
    if table.options.data_evolution_enabled:
        return _ColumnsRewrite(replace(table, schema=in_one_file(table.schema)), work).run()
    if table.options.clustering_overrides_keys:
        return rewrite_clustered(table, work.task, work.vectors)
    return _Rewrite(for_rewriting(table), work).run()


def join_parts(
    table: TableHandle, task: CompactTask, vectors: tuple[IndexFile, ...], parts: Sequence[CommitMessage]
) -> CommitMessage:
    """One message of all parts of a task, which replaces each input file once; vectors of these files go.

    What the parts have marked in upper files comes into one index file; theirs are deleted.

    Raises: NotFoundError, CorruptTableError, StorageError; nothing is left of the new index file then.
    """
    changed = BucketVectors(table, task.partition, task.bucket, vectors)
    of_parts = [file for part in parts for file in part.new_index_files]
    try:
        changed.add(of_parts)
        changed.drop(file.name for file in task.rewritten_files)
        new_index_files, deleted_index_files = changed.finish()
    except BaseException:
        changed.abort()
        raise
    table.env.storage.delete([index_file_path(table, file.partition, file.bucket, file.name) for file in of_parts])
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=task.input_files,
        compact_after=tuple(file for part in parts for file in part.compact_after),
        changelog_files=tuple(file for part in parts for file in part.changelog_files),
        new_index_files=new_index_files,
        deleted_index_files=deleted_index_files,
    )


class _Rewrite:
    """One task being carried out."""

    def __init__(self, table: TableHandle, work: RewriteTask) -> None:
        task, vectors = work.task, work.vectors
        self._table = table
        self._task = task
        self._is_part = work.is_part
        self._reads_ahead = work.reads_ahead
        self._keys = None if task.keys is None else RangeReader(table.schema, task.keys)
        self._writers: list[RollingWriter] = []
        self._after: list[DataFile] = []
        self._changelog: list[DataFile] = []
        self._vectors = BucketVectors(table, task.partition, task.bucket, vectors)
        self._copies = RowGroupCopies(table, task, self._vectors, work.copied_bytes_min)
        self._ahead: Opener | None = None
        self._changed = ChangedRows(table, task, self._vectors) if task.changes is not None else None

    def run(self) -> CommitMessage:
        """Carries the task out: merges groups, moves single files to the new level, rewrites deletion vectors.

        On any error all new files are deleted. Raises: as `rewrite`.
        """
        task = self._task
        try:
            for number, group in enumerate(task.rewrites):
                self._rewrite(group, needs_changes=task.needs_changes(number))
            for file in task.upgrades:
                self._upgrade(file)
            new_index_files, deleted_index_files = self._finish_vectors()
        except BaseException:
            for writer in self._writers:
                writer.abort()
            self._vectors.abort()
            raise
        return CommitMessage(
            task.partition,
            task.bucket,
            task.total_buckets,
            compact_before=task.input_files,
            compact_after=tuple(self._after),
            changelog_files=tuple(self._changelog),
            new_index_files=new_index_files,
            deleted_index_files=deleted_index_files,
        )

    def _finish_vectors(self) -> tuple[tuple[IndexFile, ...], tuple[IndexFile, ...]]:
        if self._is_part:
            return self._vectors.finish_part(), ()
        # Files that only change their level keep their rows where they are, and so their vectors.
        self._vectors.drop(file.name for file in self._task.rewritten_files)
        return self._vectors.finish()

    def _writer(self, first_sequence_number: int = 0, *, changelog: bool = False) -> RollingWriter:
        source = FileSource.APPEND if changelog else FileSource.COMPACT
        writer = RollingWriter(
            self._table,
            self._task.partition,
            self._task.bucket,
            level=self._task.output_level,
            source=source,
            first_sequence_number=first_sequence_number,
            changelog=changelog,
            row_group_bytes=self._task.row_group_bytes,
        )
        self._writers.append(writer)
        return writer

    def _rewrite(self, group: tuple[Section, ...], *, needs_changes: bool) -> None:
        """Merges the sections of a group into new files, and what that changes into changelog files."""
        writer = self._writer(group[0][0][0].min_sequence_number)
        beside = ChangelogBeside(writer, partial(self._writer, changelog=True), self._copies)
        directory = bucket_location(self._table, self._task.partition, self._task.bucket).directory
        reached = (section if self._keys is None else self._keys.reached(section) for section in group)
        self._ahead = files_ahead(self._table, ((directory, section, {}) for section in reached))
        for section in group:
            merged = self._changes(section) if needs_changes else self._unchanged(section)
            # Nothing may be written any more while a failure deletes what was written.
            with closing(ahead(merged, _size_bytes) if self._reads_ahead else merged) as coming:
                for rows, changes in coming:
                    self._write(writer, rows)
                    if needs_changes:
                        beside.write(changes, rows)
        files = self._written(group, writer)
        self._after += files
        self._changelog += beside.finish(files)

    def _written(self, _group: tuple[Section, ...], writer: RollingWriter) -> Sequence[DataFile]:
        return writer.finish()

    def _write(self, writer: RollingWriter, rows: pa.RecordBatch | CopiedRowGroup) -> None:
        if isinstance(rows, CopiedRowGroup):
            with self._copies.opened(rows.file) as source:
                writer.copy(rows.stored, source, rows.ends)
        else:
            writer.write(rows)

    def _upgrade(self, file: DataFile) -> None:
        """A file that overlaps nothing in the compaction; it may nevertheless be read, to find what it changes."""
        if self._task.must_read(file):
            changelog = self._writer(changelog=True)
            for _, changes in self._changes(((file,),), rows_wanted=False):
                if changes is not None:
                    changelog.write(changes)
            self._changelog += changelog.finish()
        self._after.append(file.upgraded(self._task.output_level))

    def _changes(
        self, section: Section, *, rows_wanted: bool = True
    ) -> Generator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
        """Merged rows of a section, and what they change, which is the same batch where that is the same."""
        assert self._changed is not None
        for changed in self._changed.of(section, rows_wanted=rows_wanted):
            check_storable(self._table.schema, changed.rows)
            rows = drop_retracts(changed.rows) if rows_wanted and self._task.drop_deletes else changed.rows
            yield rows, changed.changelog

    def _unchanged(self, section: Section) -> Generator[tuple[pa.RecordBatch | CopiedRowGroup, None]]:
        """As `_changes`, without a look at what is changed."""
        for rows in self._plainly_merged(section):
            yield rows, None

    def _dictionary_columns(self) -> frozenset[str]:
        """Text columns that are copied from file to file without a look at their values: complete rows are chosen."""
        schema, options = self._table.schema, self._table.options
        in_parquet = options.file_format_of(self._task.output_level) == "parquet"
        if options.merge_engine != "deduplicate" or not in_parquet or wanted_indexes(schema):
            return frozenset()
        types = {field.name: field.type for field in schema.row_type}
        texts = {name for name, kind in types.items() if isinstance(kind, AtomicType) and kind.root in STRING_ROOTS}
        return frozenset(texts - {*schema.primary_keys, *options.sequence_fields})

    def _plainly_merged(self, section: Section) -> Generator[pa.RecordBatch | CopiedRowGroup]:
        """The merged rows of a section without a changelog, with row groups that are copied as they are."""
        table, task = self._table, self._task
        location = bucket_location(table, task.partition, task.bucket)
        columns = table.schema.row_type.names
        if not table.schema.primary_keys:
            for run in section:
                for file in run:
                    deleted = self._vectors.deleted_rows(file.name)
                    yield from read_data_file(
                        table,
                        location,
                        file,
                        columns,
                        with_system_columns=False,
                        mask=RowMask(deleted),
                        scan=ScanOptions(task.limit, ahead=self._ahead),
                    )
            return
        # A lone run has no equal records; where levels hold older versions, changes are looked for.
        around = section_around(task, section) if len(section) > 1 else None
        if around is not None:
            files = SectionFiles(
                table, location, columns, self._vectors, limit=task.limit, keep=keep_unexpired(table), ahead=self._ahead
            )
            yield from map(self._storable, merged_among(files, section, around))
            return
        copies = self._copies.of(section)
        merged = merge_section(
            table,
            location,
            section,
            columns,
            vectors=self._vectors,
            keep=keep_unexpired(table),
            keys=self._keys,
            limit=task.limit,
            dictionary_columns=self._dictionary_columns(),
            row_groups=copies.left,
            ahead=self._ahead,
        )
        for rows in copies.among(merged, table.schema.key_type):
            yield rows if isinstance(rows, CopiedRowGroup) else self._storable(rows)

    def _storable(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Merged rows as they come into the new file."""
        check_storable(self._table.schema, rows)
        return drop_retracts(rows) if self._task.drop_deletes else rows


class _ColumnsRewrite(_Rewrite):
    """Files with columns of the same rows, and their neighbours, made one file each.

    Rows keep their ids, so deleted ones stay where they are, and are marked in the new file.
    """

    def _plainly_merged(self, section: Section) -> Generator[pa.RecordBatch | CopiedRowGroup]:
        table, task = self._table, self._task
        location = bucket_location(table, task.partition, task.bucket)
        columns = of_data_files(table.schema).row_type.names
        yield from column_group_rows(table, location, section, columns, task.limit)

    def _written(self, group: tuple[Section, ...], writer: RollingWriter) -> Sequence[DataFile]:
        """The one new file, with the ids of its rows; those that are deleted are marked in it."""
        [made] = writer.finish()
        file = joined_groups(group, made)
        first_row = 0
        for section in group:
            oldest = anchor(tuple(file for run in section for file in run))
            deleted = self._vectors.deleted_rows(oldest.name)
            if deleted is not None:
                positions = np.flatnonzero(np.asarray(deleted.present(0, oldest.row_count)))
                self._vectors.mark(file.name, RowBitmap.of(positions.astype(np.int64) + first_row))
            first_row += oldest.row_count
        return [file]


def _size_bytes(found: tuple[pa.RecordBatch | CopiedRowGroup, pa.RecordBatch | None]) -> int:
    """Bytes in memory of rows and their changes."""
    rows, changes = found
    others = [] if changes is None or changes is rows else [changes]
    return sum(0 if isinstance(batch, CopiedRowGroup) else batch.nbytes for batch in (rows, *others))
