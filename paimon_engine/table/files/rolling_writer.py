"""Writes the rows of one bucket into data files of about the target size, and collects what manifests need of them.

Source: `RollingFileWriter`, `KeyValueDataFileWriter`, `RowDataFileWriter` of the Java library.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row, internal_values
from paimon_engine.format.layout import ROW_GROUP_BYTES_MAX, WriteOptions, copied
from paimon_engine.format.parquet import ParquetWriter, layout_of
from paimon_engine.format.parquet_row_groups import Layout, StoredRowGroup
from paimon_engine.merge.records import is_retract
from paimon_engine.meta.blobs import BLOB_FORMAT, blob_columns, without_blobs
from paimon_engine.meta.iceberg.field_ids import with_inner_ids
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import as_rewritten, has_tracking
from paimon_engine.meta.schema import KEY_FIELD_ID_OFFSET, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.meta.stats import EMPTY_STATS, FORMAT_STATS, StatsCollector, to_simple_stats
from paimon_engine.meta.stats_modes import FileTraits, stats_modes, stored_stats
from paimon_engine.table.files.blob_files import BlobColumnWriter
from paimon_engine.table.files.file_index import FileIndexWriter, wanted_indexes
from paimon_engine.table.files.formats import WRITERS
from paimon_engine.table.files.index_filter import SUFFIX
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.unneeded import delete_unneeded, discard
from paimon_engine.types import (
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_types,
    stored_arrow,
)
from paimon_engine.units import local_wall_clock_ms

ROWS_PER_SLICE_MAX: Final = 131_072
ROWS_PER_SLICE_MIN: Final = 1_000
"""Bounds of the rows that are written before the size of the open file is compared with the target again."""
BLOB_SUFFIX: Final = f".{BLOB_FORMAT}"
_WAITING_BYTES_MAX: Final = 1 << 20
_AVRO_TIME_PRECISION_MAX: Final = 3
_SEQUENCE_NUMBER_ID: Final = 2147483646
_VALUE_KIND_ID: Final = 2147483645


def file_arrow_schema(schema: TableSchema) -> pa.Schema:
    """Columns of a data file, with field ids: keys, sequence number, row kind and all columns of the table, the values.

    Thin files leave out the keys, which are among the values too. Files of append tables have the values only.
    """
    values = [_with_id(field, field.name, field.id) for field in schema.row_type]
    if schema.table_options.iceberg_storage != "disabled":
        values = [with_inner_ids(arrow, field) for arrow, field in zip(values, schema.row_type, strict=True)]
    if not schema.primary_keys:
        return pa.schema(values)
    in_front = () if schema.table_options.thin_files else schema.key_type
    keys = [_with_id(field, KEY_PREFIX + field.name, field.id + KEY_FIELD_ID_OFFSET) for field in in_front]
    system = [
        _identified(pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False), _SEQUENCE_NUMBER_ID),
        _identified(pa.field(VALUE_KIND, pa.int8(), nullable=False), _VALUE_KIND_ID),
    ]
    return pa.schema([*keys, *system, *values])


def _with_id(field: DataField, name: str, field_id: int) -> pa.Field:
    return _identified(pa.field(name, stored_arrow(field.type), field.type.nullable), field_id)


def _identified(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})


def _encoding(schema: TableSchema, file_format: str, codec: str) -> WriteOptions:
    options = schema.table_options
    stored = {*file_arrow_schema(schema).names}
    copies = {name: KEY_PREFIX + name for name in schema.key_type.names if KEY_PREFIX + name in stored}
    return WriteOptions(options.codec_of(file_format, codec), options.zstd_level, copies)


def parquet_layout(schema: TableSchema, level: int) -> Layout:
    """Layout of the Parquet files that a `RollingWriter` writes at a level."""
    codec = schema.table_options.file_compression_of(level)
    return layout_of(file_arrow_schema(schema), _encoding(schema, "parquet", codec))


def _check_types(schema: TableSchema, file_format: str) -> None:
    """Checks what Arrow types do not show; the formats check these types themselves. Raises: UnsupportedError."""
    for field in schema.row_type if file_format == "avro" else ():
        for part in atomic_types(field.type):
            if part.root is TypeRoot.TIME and part.precision > _AVRO_TIME_PRECISION_MAX:
                raise UnsupportedError(
                    f"column {field.name!r}: Avro files store times of up to 3 digits; "
                    "use TIME(3), or another 'file.format'"
                )
        if _has_multiset_of_non_texts(field.type):
            raise UnsupportedError(
                f"column {field.name!r}: no released reader knows an Avro file with a MULTISET of anything but texts; "
                "use another 'file.format'"
            )


def _has_multiset_of_non_texts(data_type: DataType) -> bool:
    match data_type:
        case MultisetType(element):
            return not isinstance(element, AtomicType) or element.root not in STRING_ROOTS
        case ArrayType(element):
            return _has_multiset_of_non_texts(element)
        case MapType(key, value):
            return _has_multiset_of_non_texts(key) or _has_multiset_of_non_texts(value)
        case RowType(fields):
            return any(_has_multiset_of_non_texts(field.type) for field in fields)
        case _:
            return False


class RollingWriter:
    """Writes rows of one bucket in order; call `finish` for the files, or `abort` to delete what was written.

    Rows of primary-key tables carry `_SEQUENCE_NUMBER`, `_VALUE_KIND` and all table columns. Rows of append tables
    carry the table columns only, and get sequence numbers from `first_sequence_number` on, or from the commit if the
    table tracks rows. Where such rows are rewritten (`row_ids.for_rewriting`), they carry the numbers that they have.
    """

    def __init__(
        self,
        table: TableHandle,
        partition: bytes,
        bucket: int,
        *,
        level: int,
        source: FileSource,
        first_sequence_number: int = 0,
        changelog: bool = False,
        prefix: str = "",
        row_group_bytes: int = ROW_GROUP_BYTES_MAX,
    ) -> None:
        """Nothing is written before the first row. `changelog` files differ in names, formats and statistics.

        Changelog files have no file index. `prefix` is part of the files' names, after the table's prefix.

        Raises: UnsupportedError for a type that the format lacks.
        """
        self._indexes = [] if changelog else wanted_indexes(table.schema)
        blobs = blob_columns(table.schema)
        self._is_partial = bool(blobs)
        self._directory = bucket_path(table, partition, bucket)
        # A rewrite leaves the files of these columns as they are.
        self._blobs = {
            name: BlobColumnWriter(table, name, partial(self._new_path, BLOB_SUFFIX))
            for name in (blobs if source is FileSource.APPEND else ())
        }
        self._table = table = replace(table, schema=without_blobs(table.schema))
        self._source = source
        self._stores_tracking = has_tracking(table.schema)
        self._next_sequence_number = first_sequence_number
        options = table.options
        own_prefix = options.changelog_prefix if changelog else options.data_file_prefix
        self._prefix = f"{own_prefix}{prefix}{table.env.new_id()}"
        self._schema = file_arrow_schema(table.schema)
        file_format, codec = options.file_format_of(level), options.file_compression_of(level)
        if changelog:
            file_format = options.changelog_file_format or file_format
            codec = options.changelog_file_compression or codec
        _check_types(table.schema, file_format)
        self._suffix = options.file_suffix(file_format, codec)
        self._traits = FileTraits(level, file_format, changelog)
        self._encoding = replace(_encoding(table.schema, file_format, codec), row_group_bytes=row_group_bytes)
        self._open: _OpenFile | None = None
        self._files: list[DataFile] = []
        self._paths: list[str] = []
        self._names = count()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, which follow all rows before in order."""
        if rows.num_rows == 0:
            return
        plain = self._without_blobs(rows)
        step = self._rows_per_slice(plain)
        for begin in range(0, rows.num_rows, step):
            for name, blobs in self._blobs.items():
                blobs.write(rows[name].slice(begin, step))
            self._write_slice(plain.slice(begin, step))

    def _without_blobs(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a data file, in memory of their own: what waits for more rows does not keep values in memory."""
        if not self._blobs:
            return rows
        columns = [copied(rows[name]) for name in self._table.schema.row_type.names]
        return pa.RecordBatch.from_arrays(columns, names=list(self._table.schema.row_type.names))

    def copy(self, group: StoredRowGroup, source: BinaryIO, ends: pa.RecordBatch) -> None:
        """Adds a row group of the file `source` unchanged; its rows are all +I, and follow all rows before in order.

        `ends` has two rows: its first and its last key. The file has the columns and the codec of `parquet_layout`.

        Raises: CorruptTableError.
        """
        if self._open is not None and self._open.is_nearly_full(group, self._table.options.target_file_size_bytes):
            self._roll()
        opened = self._opened()
        opened.copy(group, source, ends)
        if opened.is_full(self._table.options.target_file_size_bytes):
            self._roll()

    def close_row_group(self) -> None:
        """Encodes the rows that wait in memory; the file stays open.

        Beside large values of BLOB columns, a row group would have few rows: then it waits until it is worth it.
        """
        if self._open is not None and not (self._blobs and self._open.bytes_pending < _WAITING_BYTES_MAX):
            self._open.close_row_group()

    def finish(self) -> tuple[DataFile, ...]:
        """Closes the last file; all files in order of their rows."""
        self._roll()
        return tuple(self._files)

    def abort(self) -> None:
        """Deletes everything that was written."""
        if self._open is not None:
            self._open.discard()
            self._open = None
        for blobs in self._blobs.values():
            blobs.discard()
        delete_unneeded(self._table.env.storage, self._paths)
        self._files, self._paths = [], []

    def _rows_per_slice(self, rows: pa.RecordBatch) -> int:
        row_bytes: int = max(1, rows.nbytes // rows.num_rows)
        rows_per_file: int = self._table.options.target_file_size_bytes // row_bytes
        if row_bytes * ROWS_PER_SLICE_MIN > ROW_GROUP_BYTES_MAX:
            # A row group ends only where a slice does: a slice must have few rows where these are large.
            return max(1, min(rows_per_file, ROW_GROUP_BYTES_MAX // 4 // row_bytes))
        return max(ROWS_PER_SLICE_MIN, min(ROWS_PER_SLICE_MAX, rows_per_file))

    def _opened(self) -> _OpenFile:
        """The file that is being written, or a new one."""
        if self._open is None:
            path = self._new_path(self._suffix)
            index = FileIndexWriter(self._indexes) if self._indexes else None
            self._open = _OpenFile(self._table, path, self._schema, self._traits, self._encoding, index=index)
        return self._open

    def _new_path(self, suffix: str) -> str:
        """Path of the next file, which `abort` deletes."""
        path = f"{self._directory}/{self._prefix}-{next(self._names)}{suffix}"
        self._paths.append(path)
        return path

    def _write_slice(self, rows: pa.RecordBatch) -> None:
        opened = self._opened()
        if not self._table.schema.primary_keys:
            opened.note_sequence(*self._sequence_numbers(rows))
        opened.write(rows)
        if opened.is_full(self._table.options.target_file_size_bytes):
            self._roll()

    def _sequence_numbers(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """The smallest and the largest one of rows of an append table."""
        if self._stores_tracking:
            bounds = pc.min_max(rows[SEQUENCE_NUMBER])
            return bounds["min"].as_py(), bounds["max"].as_py()
        if self._table.options.row_tracking_enabled:
            return 0, 0  # the commit replaces it by the id of its snapshot
        first = self._next_sequence_number
        self._next_sequence_number += rows.num_rows
        return first, self._next_sequence_number - 1

    def _roll(self) -> None:
        """Ends the open file, if there is one, and writes its index beside it or into its entry."""
        if self._open is None:
            return
        path = self._open.path
        file, index = self._open.finish(source=self._source)
        self._open = None
        if self._stores_tracking or self._is_partial:
            file = as_rewritten(file, self._table.schema)
        if index is not None and len(index) > self._table.options.file_index_in_manifest_threshold_bytes:
            self._paths.append(path + SUFFIX)
            with self._table.env.storage.writer(path + SUFFIX) as sink:
                sink.write(index)
            file = replace(file, extra_files=(file.name + SUFFIX,))
        elif index is not None:
            file = replace(file, embedded_file_index=index)
        # Behind the data file: a commit gives them the ids of its rows.
        self._files += [file, *(found for blobs in self._blobs.values() for found in blobs.finish())]


class _OpenFile:
    """The data file being written, and what was seen of its rows."""

    def __init__(
        self,
        table: TableHandle,
        path: str,
        schema: pa.Schema,
        traits: FileTraits,
        encoding: WriteOptions,
        *,
        index: FileIndexWriter | None,
    ) -> None:
        """Opens the file; if its format's writer cannot be made, the store keeps nothing of it.

        Raises: StorageError; UnsupportedError for a type that the format lacks.
        """
        self._table = table
        self.path = path
        self._schema = schema
        self._index = index
        self._level = traits.level
        options = table.options
        self._context = table.env.storage.writer(path)
        self._sink: BinaryIO = self._context.__enter__()
        try:
            self._writer = WRITERS[traits.format](self._sink, schema, encoding)
        except BaseException:
            self.discard()
            raise
        values, keys = table.schema.row_type, table.schema.key_type
        key_modes, value_modes = stats_modes(options, traits, keys=keys.names, values=values.names)
        rules = FORMAT_STATS[traits.format]
        apart = self._writer.stored_bounds is not None
        self._value_stats = StatsCollector([field.type for field in values], value_modes, rules, bounds_apart=apart)
        self._key_stats = StatsCollector([field.type for field in keys], key_modes, rules, bounds_apart=apart)
        self._min_key = EMPTY_ROW
        self._last_key: pa.RecordBatch | None = None
        self._sequence: tuple[int, int] | None = None
        self._row_count = 0
        self._delete_row_count = 0
        self._encoded_share = 0.5  # stored bytes per Arrow byte, a guess at first

    def note_sequence(self, low: int, high: int) -> None:
        """Widens the range of sequence numbers in the file."""
        before = self._sequence
        self._sequence = (low, high) if before is None else (min(before[0], low), max(before[1], high))

    def write(self, rows: pa.RecordBatch) -> None:
        if self._table.schema.primary_keys:
            self._note_keys(rows)
        values = rows.select(list(self._table.schema.row_type.names))
        self._value_stats.add(values)
        if self._index is not None:
            self._index.add(values)
        self._row_count += rows.num_rows
        self._writer.write(self._in_file(rows))

    def copy(self, group: StoredRowGroup, source: BinaryIO, ends: pa.RecordBatch) -> None:
        assert isinstance(self._writer, ParquetWriter)
        assert self._index is None
        schema, nulls = self._table.schema, group.null_counts
        values, keys = schema.row_type.names, schema.trimmed_primary_keys
        self._value_stats.add_known(group.bounds.select(list(values)), [nulls[name] for name in values])
        self._key_stats.add_known(group.bounds.select(list(keys)), [nulls[name] for name in keys])
        if self._row_count == 0:
            self._min_key = self._key_of(ends.slice(0, 1))
        self._last_key = ends.slice(1)
        self.note_sequence(*group.bounds[SEQUENCE_NUMBER].to_pylist())
        self._row_count += group.row_count
        self._writer.copy(group, source)

    def _in_file(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the file's columns; `_KEY_x` is column x again."""
        arrays = []
        for field in self._schema:
            column = rows[field.name.removeprefix(KEY_PREFIX) if field.name not in rows.schema.names else field.name]
            fits = column.type == field.type or pa.types.is_dictionary(column.type)
            arrays.append(column if fits else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def _note_keys(self, rows: pa.RecordBatch) -> None:
        keys = rows.select(list(self._table.schema.trimmed_primary_keys))
        self._key_stats.add(keys)
        if self._row_count == 0:
            self._min_key = self._key_of(keys.slice(0, 1))
        self._last_key = keys.slice(keys.num_rows - 1, 1)
        bounds = pc.min_max(rows[SEQUENCE_NUMBER])
        self.note_sequence(bounds["min"].as_py(), bounds["max"].as_py())
        self._delete_row_count += int(is_retract(np.asarray(rows[VALUE_KIND])).sum())

    def _key_of(self, row: pa.RecordBatch) -> bytes:
        types = [field.type for field in self._table.schema.key_type]
        values = [internal_values(column, kind)[0] for column, kind in zip(row.columns, types, strict=True)]
        return encode_row(types, values, reserve_null=True)

    def is_full(self, target_bytes: int) -> bool:
        """Whether the file has reached the target. If it has by estimate, the row group is closed, to know its size.

        The estimate learns from each row group that is closed here how much smaller rows become when they are encoded.
        """
        pending = self._writer.bytes_pending
        before = self._writer.bytes_written
        if before + pending * self._encoded_share < target_bytes:
            return False
        self._writer.close_row_group()
        if pending:
            self._encoded_share = max(0.01, (self._writer.bytes_written - before) / pending)
        return self._writer.bytes_written >= target_bytes

    def is_nearly_full(self, group: StoredRowGroup, target_bytes: int) -> bool:
        """Whether the file is nearer to the target without that row group."""
        before = self._writer.bytes_written + self._writer.bytes_pending * self._encoded_share
        return before + group.size_bytes / 2 > target_bytes

    @property
    def bytes_pending(self) -> int:
        """Bytes in memory of the rows that wait for their row group."""
        return self._writer.bytes_pending

    def close_row_group(self) -> None:
        self._writer.close_row_group()

    def discard(self) -> None:
        """Aborts the file: what the store has of it so far is deleted."""
        discard(self._context)

    def finish(self, *, source: FileSource) -> tuple[DataFile, bytes | None]:
        """Closes the file; its part of the manifest entry, and its file index, None without one."""
        index = None if self._index is None else self._index.finish()
        self._writer.close()
        size_bytes = self._sink.tell()
        self._context.__exit__(None, None, None)
        schema = self._table.schema
        low, high = self._sequence or (0, 0)
        key_types = [field.type for field in schema.key_type]
        dense = self._table.options.stats_dense
        bounds = self._writer.stored_bounds or {}
        of_values = self._value_stats.finish([bounds.get(name) for name in schema.row_type.names])
        value_stats, value_stats_columns = stored_stats(schema.row_type, of_values, dense=dense)
        of_keys = self._key_stats.finish([bounds.get(name) for name in schema.key_type.names])
        file = DataFile(
            name=self.path.rsplit("/", 1)[-1],
            size_bytes=size_bytes,
            row_count=self._row_count,
            min_key=self._min_key,
            max_key=EMPTY_ROW if self._last_key is None else self._key_of(self._last_key),
            key_stats=to_simple_stats(key_types, of_keys) if key_types else EMPTY_STATS,
            value_stats=value_stats,
            min_sequence_number=low,
            max_sequence_number=high,
            schema_id=schema.id,
            level=self._level,
            creation_time_ms=local_wall_clock_ms(self._table.env.clock()),
            delete_row_count=self._delete_row_count,
            file_source=int(source),
            value_stats_columns=value_stats_columns,
        )
        return file, index
