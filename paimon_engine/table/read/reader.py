"""Reading splits: sections are merged one after another, delete records dropped, the filter applied, columns chosen.

`RowSelection` says what a read gives of merged rows. Row kinds are a first column `rowkind` on demand, `+I -U +U -D`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from paimon_engine.arrow_values import of_numbers
from paimon_engine.format.layout import BATCH_LIMIT, BatchLimit
from paimon_engine.lsm.sections import Section, files_of, written_at_once
from paimon_engine.merge.columns import merge_columns
from paimon_engine.merge.records import drop_retracts, with_level, with_numbers_added
from paimon_engine.meta.blobs import blob_columns, check_blobs_readable
from paimon_engine.meta.column_files import Group, anchor, blob_shares, column_shares
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import first_row_id
from paimon_engine.meta.schema import KEY_PREFIX, VALUE_KIND
from paimon_engine.predicate import (
    And,
    Predicate,
    bind,
    columns_of,
    conjunction,
    conjuncts_of,
    matching_rows,
    root_columns,
)
from paimon_engine.storage import Opener
from paimon_engine.supported import check_readable
from paimon_engine.table.files.data_file import (
    BucketLocation,
    RowMask,
    ScanOptions,
    bucket_location,
    read_data_file,
)
from paimon_engine.table.files.deletion_vectors import DeletedRows, VectorReader
from paimon_engine.table.files.files_ahead import files_ahead
from paimon_engine.table.files.index_filter import index_filter, selected_rows
from paimon_engine.table.files.projection import narrowed, path_of, projected, projected_schema
from paimon_engine.table.read.batches import in_step
from paimon_engine.table.read.blob_values import BlobColumns
from paimon_engine.table.read.default_values import default_scalars, fill_nulls
from paimon_engine.table.read.scan import usable_conjuncts
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.types import is_blob

if TYPE_CHECKING:
    from paimon_engine.table.files.key_range import RangeReader

ROW_KIND: Final = "rowkind"
_ROW_KIND_FIELD: Final = pa.field(ROW_KIND, pa.string())
SPLITS_AT_ONCE: Final = 1_000
"""Splits of which the files are known at a time; their deletion vectors are read together."""
_POSITION: Final = f"{KEY_PREFIX}position"
"""A name that no column can have."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """What a read gives: columns (None: all), rows that match, row kinds in front, delete records or not."""

    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    with_row_kinds: bool = False
    keeps_retracts: bool = False

    @property
    def file_filter(self) -> Predicate | None:
        """The part of the filter that may choose files: row kinds are known only after a merge."""
        parts = tuple(part for part in conjuncts_of(self.where) if ROW_KIND not in columns_of(part))
        return And(parts) if parts else None


def read_schema(table: TableHandle, columns: Sequence[str] | None, *, with_row_kinds: bool = False) -> pa.Schema:
    """Arrow schema of a read of these columns; all columns for None.

    Raises: InvalidArgumentError naming a column that does not exist.
    """
    schema = projected_schema(table.schema.row_type, columns)
    return schema.insert(0, _ROW_KIND_FIELD) if with_row_kinds else schema


def check_rows(table: TableHandle, rows: RowSelection) -> pa.Schema:
    """Schema of the read's result; checks columns, filter and defaults.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    check_readable(table.options)
    check_blobs_readable(table.schema)
    default_scalars(table.schema)
    if rows.where is not None:
        bind(rows.where, read_schema(table, None, with_row_kinds=rows.with_row_kinds))
    return read_schema(table, rows.columns, with_row_kinds=rows.with_row_kinds)


def read_splits(table: TableHandle, splits: Iterable[Split], rows: RowSelection) -> Iterator[pa.RecordBatch]:
    """Rows of splits, one split after another, in the read's schema."""
    left = iter(splits)
    while some := list(islice(left, SPLITS_AT_ONCE)):
        yield from _rows_of_splits(table, some, rows)


def _rows_of_splits(table: TableHandle, splits: Sequence[Split], rows: RowSelection) -> Iterator[pa.RecordBatch]:
    """Rows of some splits, whose deletion vectors are read together."""
    vectors = VectorReader(table, {name: location for split in splits for name, location in split.vectors.items()})
    narrow = narrowed(table, rows.columns, rows.where)
    needed = needed_columns(narrow, rows)
    unmerged = _columns_of_merges(narrow, rows, needed)
    conjuncts = usable_conjuncts(table, rows.file_filter)
    of_values = [part for part in conjuncts if columns_of(part).isdisjoint(table.schema.partition_keys)]
    ahead = _ahead(narrow, splits, filtered=bool(conjuncts))
    for split in splits:
        location = bucket_location(table, split.partition, split.bucket)
        for section in split.sections:
            skipping = skipping_conjuncts(table, split, section, conjuncts if not split.directories else of_values)
            omittable = None if len(section) > 1 or split.has_equal_sequences else unmerged
            files = SectionFiles(
                narrow,
                location,
                needed,
                vectors,
                skipping,
                omittable,
                directories=split.directories,
                epochs=split.epochs,
                ahead=ahead,
            )
            merged = _section_rows(files, section, equal_sequences=split.has_equal_sequences)
            yield from shaped(table, merged, rows)


def _ahead(table: TableHandle, splits: Sequence[Split], *, filtered: bool) -> Opener | None:
    """What opens the files of splits, some of them before they are read, where the store takes long to answer."""
    return files_ahead(
        table,
        (
            (bucket_path(table, split.partition, split.bucket), section, split.directories)
            for split in splits
            for section in split.sections
        ),
        filtered=filtered,
    )


def read_split(table: TableHandle, split: Split, rows: RowSelection) -> Iterator[pa.RecordBatch]:
    """Rows of one split, in the read's schema."""
    return read_splits(table, [split], rows)


def shaped(table: TableHandle, batches: Iterable[pa.RecordBatch], rows: RowSelection) -> Iterator[pa.RecordBatch]:
    """Merged rows as the read gives them: defaults filled in, kinds as text, filtered, projected."""
    schema = read_schema(table, rows.columns, with_row_kinds=rows.with_row_kinds)
    asked = None if rows.columns is None else [*([ROW_KIND] if rows.with_row_kinds else []), *rows.columns]
    defaults = default_scalars(table.schema)
    for batch in batches:
        filled = fill_nulls(batch if rows.keeps_retracts else _without_retracts(batch), defaults)
        if rows.with_row_kinds:
            filled = filled.append_column(_ROW_KIND_FIELD, _kind_texts(filled))
        chosen = _filtered(filled, rows.where)
        if chosen.num_rows:
            yield projected(chosen, asked or schema.names, schema)


def _without_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    return drop_retracts(rows) if VALUE_KIND in rows.schema.names else rows


def _kind_texts(rows: pa.RecordBatch) -> pa.Array:
    """Row kinds as text; rows of append tables are all added."""
    if VALUE_KIND not in rows.schema.names:
        return pa.repeat("+I", rows.num_rows)
    return _row_kinds().take(rows[VALUE_KIND])


@cache
def _row_kinds() -> pa.Array:
    """Made when they are needed: `pa.array` imports pandas."""
    return pa.array(["+I", "-U", "+U", "-D"])


def needed_columns(table: TableHandle, rows: RowSelection) -> list[str]:
    """Columns to decode, in table order: requested, used in the filter, and used by the merge."""
    names = table.schema.row_type.names
    asked = _requested_columns(table, rows)
    return list(merge_columns(table.schema, [name for name in names if name in asked]))


def _requested_columns(table: TableHandle, rows: RowSelection) -> set[str]:
    names = table.schema.row_type.names
    asked = {*(names if rows.columns is None else (path_of(table.schema.row_type, name)[0] for name in rows.columns))}
    return asked | (root_columns(rows.where, names) if rows.where is not None else set())


def _columns_of_merges(table: TableHandle, rows: RowSelection, needed: Sequence[str]) -> frozenset[str] | None:
    """Columns that only merges use, in addition to system columns; None if the read returns system columns' values."""
    if rows.with_row_kinds or rows.keeps_retracts:
        return None
    return frozenset(needed) - _requested_columns(table, rows)


def _filtered(rows: pa.RecordBatch, where: Predicate | None) -> pa.RecordBatch:
    if where is None or rows.num_rows == 0:
        return rows
    return matching_rows(rows, where)


def skipping_conjuncts(
    table: TableHandle, split: Split, section: Section, conjuncts: Sequence[Predicate]
) -> list[Predicate]:
    """The conjuncts by which parts of the files of one of the split's sections may be left out.

    Of files with columns of the same rows, rows are left out when they are side by side.
    If files overlap they use keys only: a row excluded by another column could be a key's newest version. Where equal
    sequence numbers are possible, none: keys that do not match decide what is the newest version of others.
    """
    if len(section) == 1 or table.options.data_evolution_enabled:
        return list(conjuncts)
    if not (split.has_equal_sequences or split.epochs) and written_at_once(files_of([section])):
        return []
    return [part for part in conjuncts if columns_of(part) <= set(table.schema.key_type.names)]


@dataclass(frozen=True, slots=True)
class SectionFiles:
    """How to read the files of a section: the columns, without deleted rows, and where rows may be left out."""

    table: TableHandle
    location: BucketLocation
    columns: Sequence[str]
    vectors: DeletedRows | None = None
    where: Sequence[Predicate] = ()
    omittable: Collection[str] | None = None
    keys: RangeReader | None = None
    limit: BatchLimit = BATCH_LIMIT
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    dictionary_columns: Collection[str] = ()
    row_groups: Mapping[str, Collection[int]] = field(default_factory=dict)
    directories: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    added_numbers: Mapping[str, int] = field(default_factory=dict)
    """By the name of a file, what is added to its sequence numbers; its entry has it in already."""
    ahead: Opener | None = None

    def rows(self, file: DataFile, *, with_system_columns: bool) -> Iterator[pa.RecordBatch]:
        """Rows of one file in order, without deleted ones, and without those that an index of the file excludes."""
        location = self.location
        if file.name in self.directories:
            location = replace(location, directory=self.directories[file.name])
        selected = selected_rows(self.table, location.directory, file, index_filter(self.table, self.where))
        if selected is not None and not len(selected):
            return
        deleted = None if self.vectors is None else self.vectors.deleted_rows(file.name)
        added = self.added_numbers.get(file.name, 0)
        found = read_data_file(
            self.table,
            location,
            file.with_numbers_added(-added) if added else file,
            self.columns,
            with_system_columns=with_system_columns,
            mask=RowMask(deleted, selected),
            where=self.where,
            scan=ScanOptions(
                self.limit, self.dictionary_columns, self.row_groups.get(file.name), self.omittable, self.ahead
            ),
        )
        yield from (with_numbers_added(rows, added) for rows in found) if added else found

    def run_rows(
        self, run: Sequence[DataFile], *, alone: bool = False, with_levels: bool = False
    ) -> Iterator[pa.RecordBatch]:
        for file in run:
            if self.keys is not None and not self.keys.reaches(file):
                continue
            found = self.rows(file, with_system_columns=True)
            for rows in found if self.keys is None else self.keys.cut(found):
                # Records from before the option was set may still contain retracts, which no merge may see.
                kept = drop_retracts(rows) if self.table.options.ignore_delete and not alone else rows
                kept = kept if self.keep is None else self.keep(kept)
                if kept.num_rows:
                    yield with_level(kept, file.level) if with_levels else kept


def _section_rows(files: SectionFiles, section: Section, *, equal_sequences: bool) -> Iterator[pa.RecordBatch]:
    if files.table.schema.primary_keys:
        yield from _one_per_key(files, section, equal_sequences=equal_sequences)
        return
    schema = files.table.schema
    # Also of one file: the columns of BLOB that came later have no files for its rows.
    if schema.table_options.data_evolution_enabled and (
        len(section) > 1 or not set(blob_columns(schema)).isdisjoint(files.columns)
    ):
        yield from _side_by_side(files, tuple(file for run in section for file in run))
        return
    for run in section:
        for file in run:
            yield from files.rows(file, with_system_columns=False)


def _side_by_side(files: SectionFiles, group: Group) -> Iterator[pa.RecordBatch]:
    """Rows whose columns are in several files. All rows of all files are read, so that they stay side by side.

    Values of BLOB columns are read of rows that are not deleted and can match, and of no others.
    """
    table = files.table
    shares = blob_shares(group, table.schema, table.schema_of, files.columns)
    plain = [name for name in files.columns if name not in shares]
    if not shares:
        for batch in _plain_side_by_side(files, group, plain):
            yield batch.drop_columns([_POSITION])
        return
    where = [part for part in files.where if columns_of(part) <= set(plain)]
    # Batches of no columns would have no rows.
    plain = plain or [next(field.name for field in table.schema.row_type if not is_blob(field.type))]
    with BlobColumns(table, files.location, shares, first_row_id(group[0]) or 0) as blobs:
        for batch in _plain_side_by_side(files, group, plain):
            chosen = matching_rows(batch, conjunction(*where)) if where and batch.num_rows else batch
            yield from blobs.beside(chosen, np.asarray(chosen[_POSITION]), files.columns, files.limit)


def _plain_side_by_side(files: SectionFiles, group: Group, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns that are not BLOB, and then the position in the group, of rows that are not deleted."""
    table = files.table
    shares = column_shares(group, table.schema, table.schema_of, names)
    mask = RowMask(None if files.vectors is None else files.vectors.deleted_rows(anchor(group).name))
    streams = [_rows_of(replace(files, columns=share, vectors=None, where=()), members) for members, share in shares]
    first_row = 0
    for parts in in_step(streams):
        count = parts[0].num_rows
        columns = {name: part[name] for part in parts for name in part.schema.names}
        positions = of_numbers(np.arange(first_row, first_row + count), pa.int64())
        arrays = [*(columns[name] for name in names), positions]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*names, _POSITION])
        kept = mask.over(first_row, count)
        first_row += count
        yield batch if kept is None else batch.filter(kept)


def _rows_of(files: SectionFiles, members: Group) -> Iterator[pa.RecordBatch]:
    """All rows of some files, one after another."""
    for file in members:
        yield from files.rows(file, with_system_columns=False)


def column_group_rows(
    table: TableHandle, location: BucketLocation, section: Section, columns: Sequence[str], limit: BatchLimit
) -> Iterator[pa.RecordBatch]:
    """The rows of files with columns of the same rows, deleted ones included, in the order of their ids."""
    yield from _section_rows(SectionFiles(table, location, columns, limit=limit), section, equal_sequences=False)


def merge_section(
    table: TableHandle,
    location: BucketLocation,
    section: Section,
    columns: Sequence[str],
    *,
    vectors: DeletedRows | None = None,
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    keys: RangeReader | None = None,
    limit: BatchLimit = BATCH_LIMIT,
    dictionary_columns: Collection[str] = (),
    row_groups: Mapping[str, Collection[int]] = MappingProxyType({}),
    directories: Mapping[str, str] = MappingProxyType({}),
    ahead: Opener | None = None,
) -> Iterator[pa.RecordBatch]:
    """One row per key, delete records included, sorted by key: sequence number, kind, then `columns`.

    `columns` must be those of `merge_columns`. `keep` leaves out records before they are merged, and `keys` keeps the
    merge to a range. Of files that are in `row_groups` no other row groups are read. Each run is read in batches within
    `limit`. Text columns in `dictionary_columns` may come as Arrow dictionaries. `directories` has those of files, by
    name, that are not at `location`. Files are opened by `ahead`; by default some of the section are opened ahead.
    """
    if ahead is None:
        reached = section if keys is None else keys.reached(section)
        ahead = files_ahead(table, [(location.directory, reached, directories)])
    where = () if keys is None else keys.conjuncts
    files = SectionFiles(
        table,
        location,
        columns,
        vectors,
        where,
        keys=keys,
        limit=limit,
        keep=keep,
        dictionary_columns=dictionary_columns,
        row_groups=row_groups,
        directories=directories,
        ahead=ahead,
    )
    yield from _one_per_key(files, section, equal_sequences=False)


def _one_per_key(files: SectionFiles, section: Section, *, equal_sequences: bool) -> Iterator[pa.RecordBatch]:
    """As `merge_section`; `merged_runs` says what `equal_sequences` changes."""
    if len(section) == 1:
        return files.run_rows(section[0], alone=True)
    from paimon_engine.table.read.merged_runs import merged_runs

    return merged_runs(files, section, equal_sequences=equal_sequences)
