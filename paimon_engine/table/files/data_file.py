"""The data files of a table, of every format and schema."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import of_numbers
from paimon_engine.errors import UnsupportedError, damaged
from paimon_engine.format.layout import BATCH_LIMIT, BatchLimit
from paimon_engine.format.parquet_bounds import SparedColumns
from paimon_engine.meta.evolution import ColumnSource, column_sources, conform, unchanged_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import (
    TRACKING_COLUMNS,
    has_tracking,
    stored_columns,
    stores_row_ids,
    with_tracking,
)
from paimon_engine.meta.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.meta.snapshot_order import has_number_of_snapshot
from paimon_engine.predicate import Predicate
from paimon_engine.storage import Opener, Storage
from paimon_engine.table.files.entry_check import RowCheck
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import FileFilter, file_filter
from paimon_engine.table.files.formats import READERS, SKIPPING_READERS, Positioned
from paimon_engine.table.files.lost_keys import LostKeys
from paimon_engine.table.files.partition_columns import not_as_stored, partition_values, with_partition
from paimon_engine.table.files.projection import narrowed_like
from paimon_engine.table.files.row_ids import add_row_ids
from paimon_engine.table.state.handle import TableHandle, bucket_path, check_size, open_needed, reading_needed
from paimon_engine.types import DataType, has_char, stored_arrow, to_arrow

if TYPE_CHECKING:
    from paimon_engine.format.bitmaps import RowBitmap

_INSERTS: Final = (0, 0)
"""Smallest and largest `_VALUE_KIND` of rows that are all `+I`."""
_SYSTEM_FIELDS: Final = (pa.field(SEQUENCE_NUMBER, pa.int64()), pa.field(VALUE_KIND, pa.int8()))


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """The directory of a bucket's files, and the partition of all their rows."""

    directory: str
    partition: bytes


@dataclass(frozen=True, slots=True)
class RowMask:
    """Rows of a file by their positions: without those that are `deleted`, and of the rest those `selected`, or all."""

    deleted: RowBitmap | None = None
    selected: RowBitmap | None = None

    def over(self, first_row: int, count: int) -> pa.Array | None:
        """Which of so many rows from there on are in it; None if all are."""
        kept = None if self.deleted is None else self.deleted.absent(first_row, count)
        if self.selected is None:
            return kept
        chosen = self.selected.present(first_row, count)
        return chosen if kept is None else pc.and_(chosen, kept)

    def ends_before(self, row: int) -> bool:
        """Whether there are none from that row on."""
        return self.selected is not None and self.selected.last < row


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a file is read: its batches keep to `limit`.

    Of a Parquet file all row groups but `row_groups` may be left out, and text columns in `dictionary_columns` may come
    as Arrow dictionaries. If `omittable` is given, the system columns and those in it may be left out of a file in
    which all rows are inserts. `ahead` opens the file, if it is given.
    """

    limit: BatchLimit = BATCH_LIMIT
    dictionary_columns: Collection[str] = ()
    row_groups: Collection[int] | None = None
    omittable: Collection[str] | None = None
    ahead: Opener | None = None


ALL_ROWS: Final = RowMask()
DEFAULT_SCAN: Final = ScanOptions()


def bucket_location(table: TableHandle, partition: bytes, bucket: int) -> BucketLocation:
    """The location of a bucket."""
    return BucketLocation(bucket_path(table, partition, bucket), partition)


def data_file_path(table: TableHandle, partition: bytes, bucket: int, file: DataFile) -> str:
    """Path of a data file; an external path wins over the bucket's directory."""
    return file.external_path or f"{bucket_path(table, partition, bucket)}/{file.name}"


def read_data_file(
    table: TableHandle,
    location: BucketLocation,
    file: DataFile,
    columns: Sequence[str],
    *,
    with_system_columns: bool,
    mask: RowMask = ALL_ROWS,
    where: Sequence[Predicate] = (),
    scan: ScanOptions = DEFAULT_SCAN,
    is_sorted: bool = True,
    as_stored: bool = False,
    position_column: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in order, as table columns; first `_SEQUENCE_NUMBER` and `_VALUE_KIND` if requested.

    Partition columns are those of the location; `as_stored`: of the file, where it has them as they were. Who reads so
    looks for damage, and gets no warnings.

    A file that `is_sorted` has its rows in the order of their keys, if they have any; postponed rows are not sorted.
    Rows that are not in the `mask` are left out; those for which `where` is false may be. `position_column` is
    the name of a last column for the position of a row in the file.

    Raises: UnsupportedError for formats that the engine cannot read; NotFoundError; CorruptTableError.
    """
    _check_format(file)
    made = _TableColumns(
        table, location.partition, file, columns, with_system_columns=with_system_columns, as_stored=as_stored
    )
    source, directory = data_file_at(table, location.directory, file)
    path = f"{directory}/{file.name}"
    skipping = file_filter(table, file, where)
    encoded = made.stored_unchanged(table.schema, scan.dictionary_columns)
    choice = made.spared(scan.omittable)
    check = _row_check(path, file, made.schema, is_sorted=is_sorted, warns=not as_stored)
    check.deleted(mask.deleted)
    lost = _lost_keys(table, path, file, made.schema, source)
    with reading_needed(table, path, file.size_bytes, storage=scan.ahead or source) as stream:
        check_size(stream, path, file.size_bytes)
        for first_row, found in _positioned(
            stream,
            pa.schema(made.wanted),
            file,
            path,
            skipping=skipping,
            scan=replace(scan, dictionary_columns=encoded),
            choice=choice,
        ):
            omitted = frozenset() if choice is None else choice.omitted
            given = made.values_of_partition(found)
            check.columns(found, [one.name for one in made.wanted if one.name not in given and one.name not in omitted])
            rows = lost.put_back(first_row, made.as_java_reads(found))
            batch = made.of(rows, first_row, given, omitted, path)
            check.add(first_row, rows, batch)
            if position_column is not None:
                batch = batch.append_column(position_column, pa.array(np.arange(batch.num_rows) + first_row))
            kept = mask.over(first_row, batch.num_rows)
            yield batch if kept is None else batch.filter(kept)
            if mask.ends_before(first_row + batch.num_rows):
                return
    check.finish(is_complete=skipping is None and scan.row_groups is None)


class _TableColumns:
    """Columns of the table, as they are made of those of a file; `wanted` are to be read, by its `schema`."""

    def __init__(
        self,
        table: TableHandle,
        partition: bytes,
        file: DataFile,
        columns: Sequence[str],
        *,
        with_system_columns: bool,
        as_stored: bool,
    ) -> None:
        """As `read_data_file` has them."""
        self._file, self._columns = file, columns
        self._has_system_columns = with_system_columns
        self._partition = partition_values(table.schema, partition, columns)
        self._given = not_as_stored(table.schema, self._partition, file.format) if as_stored else self._partition
        is_tracking = has_tracking(table.schema)
        self._tracked = frozenset(columns).intersection(TRACKING_COLUMNS) if is_tracking else frozenset[str]()
        self._ids = frozenset[str]() if stores_row_ids(file) else self._tracked
        stored = stored_columns(narrowed_like(table.schema_of(file.schema_id), table.schema), file)
        self.schema = with_tracking(stored) if self._tracked else stored
        read = [name for name in columns if name not in {*self._given, *self._ids}]
        self._sources = column_sources(self.schema, table.schema, read)
        self.wanted = _wanted(self.schema, self._sources, with_system_columns=with_system_columns)
        self._types = {field.name: field.type for field in self.schema.row_type}
        has_no_numbers = table.options.snapshot_ordering and has_number_of_snapshot(file)
        self._is_numbered = with_system_columns and has_no_numbers

    def stored_unchanged(self, today: TableSchema, columns: Collection[str]) -> list[str]:
        """Names in a Parquet file of those of the columns that have the same type there."""
        same = unchanged_columns(self.schema, today) if columns and self._file.format == "parquet" else {}
        return [stored for stored, name in same.items() if name in columns]

    def spared(self, omittable: Collection[str] | None) -> SparedColumns | None:
        """What may be left out of what is read."""
        if not self._has_system_columns:
            return None
        return _omitted_columns(self._file, self._sources, self.wanted, omittable, numbered=self._is_numbered)

    def values_of_partition(self, found: pa.RecordBatch) -> dict[str, pa.Scalar]:
        """Columns that have the values of the partition: of those `as_stored`, the ones that the file lacks."""
        lacking = self._partition.keys() - set(found.schema.names)
        return {**self._given, **{name: self._partition[name] for name in lacking}}

    def as_java_reads(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of an ORC file with texts as long as their types allow; others as they are."""
        return _as_java_reads(found, self._types) if self._file.format == "orc" else found

    def of(
        self, rows: pa.RecordBatch, first_row: int, given: Mapping[str, pa.Scalar], omitted: Collection[str], path: str
    ) -> pa.RecordBatch:
        """The columns of some rows of the file, without those that were omitted."""
        left_out = {one.field.name for one in self._sources if one.stored is not None and one.stored.name in omitted}
        read = [one for one in self._sources if one.field.name not in given and one.field.name not in left_out]
        names = [name for name in self._columns if name not in left_out and name not in self._ids]
        batch = with_partition(_typed(rows, read, path), given, names, rows.num_rows)
        if self._tracked:
            batch = add_row_ids(batch, self._columns, self._file, first_row, rows.num_rows)
        if self._has_system_columns and SEQUENCE_NUMBER not in omitted:
            number = self._file.min_sequence_number if self._is_numbered else None
            batch = _with_system_columns(batch, rows, path, inserts_only=VALUE_KIND in omitted, number=number)
        return batch


def _as_java_reads(rows: pa.RecordBatch, types: Mapping[str, DataType]) -> pa.RecordBatch:
    """Rows of an ORC file, with texts as long as their types allow."""
    from paimon_engine.format.orc import fitted

    return fitted(rows, types)


def _check_format(file: DataFile) -> None:
    if file.format not in READERS:
        raise UnsupportedError(f"data file {file.name}: format {file.format!r} is not supported yet")


def _omitted_columns(
    file: DataFile,
    sources: Sequence[ColumnSource],
    wanted: Sequence[pa.Field],
    omittable: Collection[str] | None,
    *,
    numbered: bool,
) -> SparedColumns | None:
    """Leaves out columns of a file if it has inserts only: all system columns and those `omittable`.

    If `omittable` is None, as for a merge, `_VALUE_KIND` alone is left out, to be filled in. A delete count of zero
    does not show that there are inserts only: pypaimon notes zero whatever the rows are. The footer does, and it has
    the range of sequence numbers that each read compares with the manifest, unless the file is `numbered` by its entry.
    """
    if file.format != "parquet" or file.delete_row_count != 0:
        return None
    if omittable is None:
        return SparedColumns(pa.schema(wanted), frozenset({VALUE_KIND}), {VALUE_KIND: _INSERTS})
    columns = {one.stored.name for one in sources if one.stored is not None and one.field.name in omittable}
    columns |= {SEQUENCE_NUMBER, VALUE_KIND}
    if all(field.name in columns for field in wanted):
        # Without any column, batches would have no rows.
        return None
    bounds = {VALUE_KIND: _INSERTS}
    if not numbered:
        bounds[SEQUENCE_NUMBER] = file.min_sequence_number, file.max_sequence_number
    return SparedColumns(pa.schema(wanted), frozenset(columns), bounds)


def _row_check(path: str, file: DataFile, file_schema: TableSchema, *, is_sorted: bool, warns: bool) -> RowCheck:
    """What rows of a file are compared with."""
    # Without the spaces behind a CHAR, a key may be outside the bounds that Java noted.
    is_sorted = is_sorted and not file_schema.table_options.clustering_overrides_keys
    has_order = is_sorted and not (file.format == "orc" and has_char(file_schema.key_type))
    key_type = file_schema.key_type if file_schema.primary_keys else None
    return RowCheck(path, file, key_type, is_sorted=has_order, warns=warns)


def _lost_keys(table: TableHandle, path: str, file: DataFile, file_schema: TableSchema, source: Storage) -> LostKeys:
    """Key columns that rows of a file lack, to be put back from those in front of them."""
    return LostKeys(
        path,
        () if file_schema.table_options.thin_files else file_schema.key_type.fields,
        lambda: open_needed(table, path, file.size_bytes, storage=source),
        lambda stream, schema: list(READERS[file.format](stream, schema, path=path)),
    )


def read_stored_keys(
    table: TableHandle, location: BucketLocation, file: DataFile
) -> Generator[pa.RecordBatch, None, None]:
    """The keys from the key columns of a file, in order, as columns of the key.

    Without any columns from files that have none of them: paimon-rust leaves them out, and readers do without.

    Raises: NotFoundError; CorruptTableError.
    """
    keys = table.schema_of(file.schema_id).key_type
    columns = [pa.field(KEY_PREFIX + field.name, to_arrow(field.type)) for field in keys]
    types = {KEY_PREFIX + field.name: field.type for field in keys}
    source, directory = data_file_at(table, location.directory, file)
    path = f"{directory}/{file.name}"
    with reading_needed(table, path, file.size_bytes, storage=source) as stream:
        for rows in READERS[file.format](stream, pa.schema(columns), path=path, limit=BATCH_LIMIT):
            if rows.num_columns and rows.schema.names != [column.name for column in columns]:
                raise damaged(path, f"expected columns {', '.join(column.name for column in columns)}")
            yield _as_java_reads(rows, types) if file.format == "orc" else rows


def read_row_kinds(table: TableHandle, location: BucketLocation, file: DataFile) -> Iterator[pa.Array]:
    """The `_VALUE_KIND` of the rows of a keyed table's file, in order, batch by batch.

    Raises: UnsupportedError for formats that the engine cannot read; NotFoundError; CorruptTableError.
    """
    _check_format(file)
    source, directory = data_file_at(table, location.directory, file)
    path = f"{directory}/{file.name}"
    kind = _SYSTEM_FIELDS[1]
    with reading_needed(table, path, file.size_bytes, storage=source) as stream:
        check_size(stream, path, file.size_bytes)
        for rows in READERS[file.format](stream, pa.schema([kind]), path=path, limit=BATCH_LIMIT):
            if VALUE_KIND not in rows.schema.names or rows[VALUE_KIND].null_count:
                raise damaged(path, f"expected a column {VALUE_KIND} without nulls")
            yield rows[VALUE_KIND]


def _positioned(
    stream: BinaryIO,
    wanted: pa.Schema,
    file: DataFile,
    path: str,
    *,
    skipping: FileFilter | None,
    scan: ScanOptions,
    choice: SparedColumns | None,
) -> Positioned:
    """Batches of the file, each with the position of its first row; row groups that cannot match are skipped."""
    limit, dictionary_columns = scan.limit, scan.dictionary_columns
    if scan.row_groups is not None:
        where = None if skipping is None else skipping.where
        yield from SKIPPING_READERS["parquet"](
            stream,
            wanted,
            where,
            path=path,
            row_count=file.row_count,
            limit=limit,
            row_groups=scan.row_groups,
            dictionary_columns=dictionary_columns,
        )
        return
    how: dict[str, Any] = {} if choice is None else {"choose": choice}
    if dictionary_columns:
        how["dictionary_columns"] = dictionary_columns
    if skipping is not None and (reader := SKIPPING_READERS.get(file.format)) is not None:
        how |= {"row_count": file.row_count, "without_nan": skipping.without_nan}
        yield from reader(stream, wanted, skipping.where, path=path, limit=limit, **how)
        return
    first_row = 0
    for rows in READERS[file.format](stream, wanted, path=path, limit=limit, **how):
        yield first_row, rows
        first_row += rows.num_rows


def _wanted(file_schema: TableSchema, sources: Sequence[ColumnSource], *, with_system_columns: bool) -> list[pa.Field]:
    """Columns to read from the file: one at least, or its batches would have no rows."""
    wanted = list(_SYSTEM_FIELDS) if with_system_columns else []
    stored = [source.stored for source in sources if source.stored is not None]
    wanted += [pa.field(field.name, stored_arrow(field.type)) for field in stored]
    if wanted:
        return wanted
    if file_schema.primary_keys:
        return [_SYSTEM_FIELDS[0]]
    columns = file_schema.row_type.fields
    chosen = next((one for one in columns if one.name not in file_schema.partition_keys), columns[0])
    return [pa.field(chosen.name, stored_arrow(chosen.type), chosen.type.nullable)]


def _typed(rows: pa.RecordBatch, sources: Sequence[ColumnSource], path: str) -> pa.RecordBatch:
    try:
        return conform(rows, sources)
    except pa.ArrowException as error:
        raise damaged(path, f"its columns are not those of its schema: {error}") from error


def _with_system_columns(
    batch: pa.RecordBatch, rows: pa.RecordBatch, path: str, *, inserts_only: bool, number: int | None
) -> pa.RecordBatch:
    """The batch with the system columns of the stored rows, of which `_VALUE_KIND` is missing for `inserts_only`.

    `number` is the sequence number of all rows, if they do not have numbers of their own.
    """
    try:
        kinds = (
            of_numbers(np.zeros(rows.num_rows, np.int8), pa.int8())
            if inserts_only
            else rows[VALUE_KIND].cast(pa.int8())
        )
        own = rows[SEQUENCE_NUMBER].cast(pa.int64())
        numbers = own if number is None else of_numbers(np.full(rows.num_rows, number, np.int64), pa.int64())
        batch = batch.add_column(0, SEQUENCE_NUMBER, numbers)
        return batch.add_column(1, VALUE_KIND, kinds)
    except pa.ArrowException as error:
        raise damaged(path, f"its columns are not those of its schema: {error}") from error
