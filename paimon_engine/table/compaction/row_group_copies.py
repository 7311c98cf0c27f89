"""Which row groups of a section go into the new file as the bytes that they are.

Those of Parquet files whose rows a compaction would all write again unchanged: no other run of the section has keys
between theirs, nothing is deleted in the file, no row is a delete record, the columns are those of today, and all that
the manifest must say about the rows is known without reading them. Otherwise they are decoded and merged.

Small row groups are merged too, or files would always consist of small pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_engine.format.binary_row import encode_row, internal_values
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.parquet import read_matching
from paimon_engine.format.parquet_row_groups import Layout, StoredRowGroup, stored_row_groups
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.lsm.sections import Section, files_of, written_at_once
from paimon_engine.merge.keys import Keys, count_up_to, has_between, join_keys, normalise_keys
from paimon_engine.meta.blobs import blob_columns
from paimon_engine.meta.files_beside import vector_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.meta.snapshot_order import has_number_of_snapshot
from paimon_engine.meta.stats import FORMAT_STATS, StatsKind, is_ordered
from paimon_engine.meta.stats_modes import FileTraits, stats_modes
from paimon_engine.table.compaction.changed_rows import keep_unexpired
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.data_file import BucketLocation, RowMask, ScanOptions, read_data_file
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import is_float, without_nan
from paimon_engine.table.files.file_index import wanted_indexes
from paimon_engine.table.files.partition_columns import partition_values
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.files.stored_layout import parquet_layout
from paimon_engine.table.state.handle import TableHandle, bucket_path, check_size, open_needed
from paimon_engine.table.state.side_by_side import side_by_side
from paimon_engine.types import AtomicType, RowType

COPIED_BYTES_MIN: Final = 1 << 20
"""Row groups are copied from this size on; a full one of ours has 131,072 rows, or 64 MiB before it is encoded."""
_PROBED_SHARE: Final = 8
PROBED_ROWS_MAX: Final = 1 << 20
"""Of a file of so few rows that is so much smaller than a run, the keys are read: they may leave gaps. Where they are
all over the place this is of no use, and costs about an eighth of reading the file."""


@dataclass(frozen=True, slots=True)
class CopiedRowGroup:
    """A row group of a file, and its first and its last key as two rows.

    As long as it is not chosen, with several key columns: a key below the first one, and one above the last.
    """

    file: DataFile
    stored: StoredRowGroup
    ends: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class SectionCopies:
    """Row groups to be copied, in the order of their keys; of each file that has some, the numbers of the others."""

    groups: Sequence[CopiedRowGroup]
    left: Mapping[str, Collection[int]]

    def among(self, batches: Iterable[pa.RecordBatch], key_type: RowType) -> Iterator[pa.RecordBatch | CopiedRowGroup]:
        """The rows of the batches, which are in the order of their keys, and the row groups in between."""
        waiting = [(group, _normalised(group.ends, key_type)[-1]) for group in reversed(self.groups)]
        for batch in batches:
            rows = batch
            while waiting and rows.num_rows:
                group, last = waiting[-1]
                if count_up_to(_normalised(rows.slice(rows.num_rows - 1), key_type), last):
                    break
                before = count_up_to(_normalised(rows, key_type), last)
                yield rows.slice(0, before)
                yield group
                rows = rows.slice(before)
                waiting.pop()
            yield rows
        yield from (group for group, _ in reversed(waiting))


class _OtherFiles(NamedTuple):
    """Files of the other runs of a section: those whose keys are read, and first and last key of the rest."""

    probed: Sequence[DataFile]
    taken: Sequence[tuple[Any, Any]]


class RowGroupCopies:
    """Finds the row groups that a task copies."""

    def __init__(self, table: TableHandle, task: CompactTask, vectors: BucketVectors, bytes_min: int) -> None:
        """Row groups below `bytes_min` are not copied. Nothing is read before `of` is called."""
        schema = table.schema
        self._table, self._task, self._vectors = table, task, vectors
        self._sizes = range(bytes_min, table.options.target_file_size_bytes + 1)
        self._directory = bucket_path(table, task.partition, task.bucket)
        self._order = key_order(schema.key_type)
        self._keys = list(schema.trimmed_primary_keys)
        self._partition = partition_values(schema, task.partition, schema.row_type.names)

    def of(self, section: Section) -> SectionCopies:
        """The row groups of a section that is merged without a look at what that changes.

        Raises: NotFoundError, CorruptTableError, UnsupportedError.
        """
        # Other engines may change a row that has no other version.
        passes = len(section) == 1 or (
            self._table.options.merge_engine == "deduplicate"
            # All keys decide which of equal records is the newest.
            and not written_at_once(files_of([section]))
        )
        if not (passes and self._is_possible):
            return SectionCopies((), {})
        found: list[CopiedRowGroup] = []
        left: dict[str, set[int]] = {}
        traits = FileTraits(self._task.output_level, "parquet")
        around = [self._around(section, run) for run in section]
        looks = {
            file.name: partial(self._groups, file, others.taken)
            for run, others in zip(section, around, strict=True)
            for file in run
            if self._is_candidate(file)
        }
        groups = dict(zip(looks, side_by_side(self._table, [*looks.values()]), strict=True))
        for run, others in zip(section, around, strict=True):
            free = [
                CopiedRowGroup(file, group, group.bounds.select(self._keys))
                for file in run
                for group in groups.get(file.name, ())
                if group is not None and group.size_bytes in self._sizes and self._passes(file, group, traits)
            ]
            for file in others.probed:
                free = list(self._without_other_rows(free, file))
            for copy in filter(self._is_inside, map(self._with_ends, free)):
                found.append(copy)
                left.setdefault(copy.file.name, {*range(len(groups[copy.file.name]))}).remove(copy.stored.number)
        return SectionCopies(sorted(found, key=lambda copy: self._span(copy.ends)), left)

    def _around(self, section: Section, run: Sequence[DataFile]) -> _OtherFiles:
        others = [file for other in section if other is not run for file in other]
        probed_bytes = sum(file.size_bytes for file in run) // _PROBED_SHARE
        probed = [file for file in others if file.size_bytes <= probed_bytes and file.row_count <= PROBED_ROWS_MAX]
        names = {file.name for file in probed}
        spans = [(self._order(file.min_key), self._order(file.max_key)) for file in others if file.name not in names]
        return _OtherFiles(probed, spans)

    @cached_property
    def _is_possible(self) -> bool:
        schema, options = self._table.schema, self._table.options
        return (
            bool(schema.primary_keys)
            and options.file_format_of(self._task.output_level) == "parquet"
            and not wanted_indexes(schema)
            and keep_unexpired(self._table) is None
            # Bounds of such numbers do not distinguish 0.0 from −0.0, nor show NaN.
            and not any(map(is_float, (*schema.key_type, *schema.partition_type)))
        )

    @cached_property
    def are_for_changelogs(self) -> bool:
        """Whether changelog files of the task have row groups as its data files have them."""
        schema, options, level = self._table.schema, self._table.options, self._task.output_level
        codec = options.file_compression_of(level)
        return (
            self._is_possible
            and options.changelog_file_format in (None, "parquet")
            and (options.changelog_file_compression or codec) == codec
            and not (blob_columns(schema) or vector_columns(schema))
        )

    def copy_repeated(self, file: DataFile, ranges: Sequence[tuple[int, int]], changelog: RollingWriter) -> None:
        """Adds the rows of a new file within ranges of whole row groups to a changelog, copied if they can be.

        Raises: NotFoundError, CorruptTableError, StorageError.
        """
        traits = FileTraits(self._task.output_level, "parquet", is_changelog=True)
        groups = self._groups(file, ())
        if any(group is None or not self._passes(file, group, traits) for group in groups):
            rows = np.concatenate([np.arange(begin, end) for begin, end in ranges])
            columns, location = self._table.schema.row_type.names, BucketLocation(self._directory, self._task.partition)
            mask, scan = RowMask(selected=RowBitmap.of(rows)), ScanOptions(self._task.limit)
            for batch in read_data_file(
                self._table, location, file, columns, with_system_columns=True, mask=mask, scan=scan
            ):
                changelog.write(batch)
            return
        found = [group for group in groups if group is not None]
        begins = accumulate((group.row_count for group in found), initial=0)
        with self.opened(file) as source:
            for group, first in zip(found, begins, strict=False):
                if any(begin <= first < end for begin, end in ranges):
                    copy = self._with_ends(CopiedRowGroup(file, group, group.bounds.select(self._keys)))
                    changelog.copy(group, source, copy.ends)

    def opened(self, file: DataFile) -> BinaryIO:
        """A file of the section, to be closed by the caller."""
        storage, directory = data_file_at(self._table, self._directory, file)
        return open_needed(self._table, f"{directory}/{file.name}", file.size_bytes, storage=storage)

    @cached_property
    def _layout(self) -> Layout:
        return parquet_layout(self._table.schema, self._task.output_level)

    def _groups(self, file: DataFile, taken: Sequence[tuple[Any, Any]]) -> list[StoredRowGroup | None]:
        """The row groups of a file that can be copied, None for others and those that overlap a span of `taken`."""

        def is_free(bounds: pa.RecordBatch) -> bool:
            if any(column.null_count for column in bounds.columns):
                return False
            low, high = self._span(bounds)
            return not any(begin <= high and low <= end for begin, end in taken)

        path = f"{data_file_at(self._table, self._directory, file)[1]}/{file.name}"
        with self.opened(file) as source:
            check_size(source, path, file.size_bytes)
            return stored_row_groups(source, path, self._layout, file.row_count, columns=self._keys, is_wanted=is_free)

    def _is_candidate(self, file: DataFile) -> bool:
        """Whether the rows of a file are all there, in columns of the types of today."""
        if file.format != "parquet" or file.size_bytes < self._sizes.start:
            return False
        schema, today = self._table.schema_of(file.schema_id), self._table.schema
        is_alike = schema.row_type == today.row_type and schema.primary_keys == today.primary_keys
        # Its rows get the number of their snapshot when they are rewritten.
        is_alike = is_alike and not (self._table.options.snapshot_ordering and has_number_of_snapshot(file))
        return is_alike and self._vectors.deleted_rows(file.name) is None

    def _without_other_rows(self, groups: Sequence[CopiedRowGroup], other: DataFile) -> Iterator[CopiedRowGroup]:
        """Those of the row groups between whose ends another file has no keys; they are read if need be."""
        begin, end = self._order(other.min_key), self._order(other.max_key)
        keys: Keys | None = None
        for group in groups:
            low, high = self._span(group.ends)
            if begin <= high and low <= end:
                keys = self._keys_of(other) if keys is None else keys
                if has_between(keys, *_normalised(group.ends, self._table.schema.key_type)):
                    continue
            yield group

    def _keys_of(self, file: DataFile) -> Keys:
        table, task = self._table, self._task
        location = BucketLocation(self._directory, task.partition)
        batches = read_data_file(
            table, location, file, self._keys, with_system_columns=False, scan=ScanOptions(task.limit)
        )
        return join_keys([_normalised(rows, table.schema.key_type) for rows in batches])

    def _passes(self, file: DataFile, group: StoredRowGroup, traits: FileTraits) -> bool:
        """Whether the rows would be written again unchanged, and all statistics are known of a file of these traits."""
        bounds, nulls = group.bounds, group.null_counts
        if any(bounds[name].null_count or nulls[name] != 0 for name in (*self._keys, SEQUENCE_NUMBER, VALUE_KIND)):
            return False
        stored_keys = [name for name in self._keys if KEY_PREFIX + name in bounds.schema.names]
        low, high = bounds[SEQUENCE_NUMBER].to_pylist()
        return (
            bounds[VALUE_KIND].to_pylist() == [0, 0]
            and file.min_sequence_number <= low <= high <= file.max_sequence_number
            and all(bounds[KEY_PREFIX + name].equals(bounds[name]) for name in stored_keys)
            and all(
                bounds[name].equals(pa.repeat(value, 2)) and nulls[name] == (0 if value.is_valid else group.row_count)
                for name, value in self._partition.items()
            )
            and self._has_statistics(file, group, traits)
        )

    def _has_statistics(self, file: DataFile, group: StoredRowGroup, traits: FileTraits) -> bool:
        schema = self._table.schema
        numbers = without_nan(self._table.schema_of(file.schema_id), file)
        _, modes = stats_modes(self._table.options, traits, keys=schema.key_type.names, values=schema.row_type.names)
        for field, mode in zip(schema.row_type, modes, strict=True):
            if mode.kind is StatsKind.NONE or not isinstance(field.type, AtomicType):
                continue
            nulls = group.null_counts[field.name]
            if nulls is None:
                return False
            has_bounds = mode.has_bounds and is_ordered(field.type, FORMAT_STATS["parquet"]) and nulls < group.row_count
            if has_bounds and (group.bounds[field.name].null_count or (is_float(field) and field.name not in numbers)):
                return False
        return True

    def _with_ends(self, copy: CopiedRowGroup) -> CopiedRowGroup:
        """The row group with its first and last key, where bounds of several columns do not give them."""
        if len(self._keys) == 1:
            return copy
        wanted = pa.schema([copy.ends.schema.field(name) for name in self._keys])
        with self.opened(copy.file) as source:
            numbers = {copy.stored.number}
            found = [rows for _, rows in read_matching(source, wanted, None, path=copy.stored.path, row_groups=numbers)]
        ends = [found[0].slice(0, 1), found[-1].slice(found[-1].num_rows - 1)]
        return replace(copy, ends=pa.concat_batches([rows.select(self._keys).cast(wanted) for rows in ends]))

    def _span(self, ends: pa.RecordBatch) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Two keys in the form in which they compare."""
        types = [field.type for field in self._table.schema.key_type]
        columns = [internal_values(column, kind) for column, kind in zip(ends.columns, types, strict=True)]
        low, high = (self._order(encode_row(types, key, reserve_null=True)) for key in zip(*columns, strict=True))
        return low, high

    def _is_inside(self, copy: CopiedRowGroup) -> bool:
        """Whether keys are within the bounds of their file, and within the key range of the task."""
        (low, high), file, keys = self._span(copy.ends), copy.file, self._task.keys
        above = keys is None or keys.low is None or self._order(keys.low) < low
        below = keys is None or keys.high is None or high <= self._order(keys.high)
        return above and below and self._order(file.min_key) <= low and high <= self._order(file.max_key)


def _normalised(rows: pa.RecordBatch, key_type: RowType) -> Keys:
    return normalise_keys([rows[name] for name in key_type.names], [field.type for field in key_type])
