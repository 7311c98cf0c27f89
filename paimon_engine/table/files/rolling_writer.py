"""Writes the rows of one bucket into data files of about the target size, and collects what manifests need of them.

Source: `RollingFileWriter`, `KeyValueDataFileWriter`, `RowDataFileWriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import count
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import ROW_GROUP_BYTES_MAX, copied
from paimon_engine.format.parquet_row_groups import StoredRowGroup
from paimon_engine.meta.blobs import BLOB_FORMAT, blob_columns
from paimon_engine.meta.files_beside import of_data_files, vector_columns
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import as_rewritten, has_tracking
from paimon_engine.meta.schema import SEQUENCE_NUMBER, TableSchema
from paimon_engine.meta.stats_modes import FileTraits
from paimon_engine.table.files.blob_files import BlobColumnWriter
from paimon_engine.table.files.external import store_of
from paimon_engine.table.files.file_index import FileIndexWriter, wanted_indexes
from paimon_engine.table.files.index_filter import SUFFIX
from paimon_engine.table.files.new_paths import NewPaths
from paimon_engine.table.files.open_file import OpenFile
from paimon_engine.table.files.stored_layout import check_types, encoding_of, file_arrow_schema
from paimon_engine.table.files.vector_files import VectorColumnsWriter
from paimon_engine.table.state.handle import TableHandle

ROWS_PER_SLICE_MAX: Final = 131_072
ROWS_PER_SLICE_MIN: Final = 1_000
"""Bounds of the rows that are written before the size of the open file is compared with the target again."""
BLOB_SUFFIX: Final = f".{BLOB_FORMAT}"
_WAITING_BYTES_MAX: Final = 1 << 20
_ANY_SIZE_BYTES: Final = 1 << 60


def in_one_file(schema: TableSchema) -> TableSchema:
    """The schema with one file for all rows that are written together, whatever its size."""
    return schema.with_options({"target-file-size": f"{_ANY_SIZE_BYTES} b"})


def _of_columns(schema: TableSchema, columns: Collection[str]) -> TableSchema:
    """The schema with these columns, whose rows come into one file, whatever its size."""
    fields = tuple(field for field in schema.row_type if field.name in columns)
    return in_one_file(replace(schema, row_type=replace(schema.row_type, fields=fields)))


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
        columns: Collection[str] | None = None,
    ) -> None:
        """Nothing is written before the first row. `changelog` files differ in names, formats and statistics.

        Changelog files have no file index. `prefix` is part of the files' names, after the table's prefix. With
        `columns`, rows have these only, none of which has files of its own, and all of them come into one file.

        Raises: UnsupportedError for a type that the format lacks.
        """
        whole, self._paths = table.schema, NewPaths(table, partition, bucket)
        if columns is not None:
            table = replace(table, schema=_of_columns(whole, columns))
        self._indexes = [] if changelog else wanted_indexes(whole, None if columns is None else table.schema)
        blobs, vectors = blob_columns(table.schema), vector_columns(table.schema)
        self._is_partial = bool(blobs or vectors) or columns is not None
        # A rewrite leaves the files of these columns as they are.
        is_new = source is FileSource.APPEND
        self._blobs = {
            name: BlobColumnWriter(table, name, partial(self._new_path, BLOB_SUFFIX)) for name in blobs if is_new
        }
        self._vectors = VectorColumnsWriter(table, vectors, self._new_path) if vectors and is_new else None
        self._table = table = replace(table, schema=of_data_files(table.schema))
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
        check_types(table.schema, file_format)
        # ORC files do not say which columns have no nulls, and can hold them.
        required = () if file_format == "orc" else table.schema.row_type
        self._required = [field.name for field in required if not field.type.nullable]
        self._suffix = options.file_suffix(file_format, codec)
        self._traits = FileTraits(level, file_format, changelog)
        self._encoding = replace(encoding_of(table.schema, file_format, codec), row_group_bytes=row_group_bytes)
        self._open: OpenFile | None = None
        self._files: list[DataFile] = []
        self._names = count()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, which follow all rows before in order.

        Raises: InvalidArgumentError naming a column that is NOT NULL, and has a null.
        """
        if rows.num_rows == 0:
            return
        plain = self._of_data_files(rows)
        for name in self._required:
            if plain[name].null_count:
                raise InvalidArgumentError(
                    f"column {name!r} is NOT NULL, but a row to be stored again has a null there, of before the column"
                    " was changed or by a merge; make the column nullable"
                )
        step = self._rows_per_slice(plain)
        for begin in range(0, rows.num_rows, step):
            for name, blobs in self._blobs.items():
                blobs.write(rows[name].slice(begin, step))
            if self._vectors is not None:
                self._vectors.write(rows.slice(begin, step))
            self._write_slice(plain.slice(begin, step))

    def _of_data_files(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a data file, in memory of their own: what waits for more rows does not keep values in memory."""
        if not self._is_partial:
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

    @property
    def rows_pending(self) -> int:
        """Rows that are not in a complete row group yet, of Parquet files."""
        return 0 if self._open is None else self._open.rows_pending

    def close_row_group(self) -> None:
        """Encodes the rows that wait in memory; the file stays open.

        Beside large values of BLOB columns, a row group would have few rows: then it waits until it is worth it.
        """
        if self._open is not None and not (self._blobs and self._open.bytes_pending < _WAITING_BYTES_MAX):
            self._open.close_row_group()
        if self._vectors is not None:
            self._vectors.close_row_group()

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
        if self._vectors is not None:
            self._vectors.discard()
        self._paths.delete_all()
        self._files = []

    def _rows_per_slice(self, rows: pa.RecordBatch) -> int:
        row_bytes: int = max(1, rows.nbytes // rows.num_rows)
        rows_per_file: int = self._table.options.target_file_size_bytes // row_bytes
        if row_bytes * ROWS_PER_SLICE_MIN > ROW_GROUP_BYTES_MAX:
            # A row group ends only where a slice does: a slice must have few rows where these are large.
            return max(1, min(rows_per_file, ROW_GROUP_BYTES_MAX // 4 // row_bytes))
        return max(ROWS_PER_SLICE_MIN, min(ROWS_PER_SLICE_MAX, rows_per_file))

    def _opened(self) -> OpenFile:
        """The file that is being written, or a new one."""
        if self._open is None:
            path = self._new_path(self._suffix)
            index = FileIndexWriter(self._indexes) if self._indexes else None
            self._open = OpenFile(self._table, path, self._schema, self._traits, self._encoding, index=index)
        return self._open

    def _new_path(self, suffix: str) -> str:
        """Path of the next file, which `abort` deletes."""
        return self._paths.choose(f"{self._prefix}-{next(self._names)}{suffix}")

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
            self._paths.chosen.append(path + SUFFIX)
            with store_of(self._table, path).writer(path + SUFFIX) as sink:
                sink.write(index)
            file = replace(file, extra_files=(file.name + SUFFIX,))
        elif index is not None:
            file = replace(file, embedded_file_index=index)
        # Behind the data file: a commit gives them the ids of its rows.
        beside = [found for blobs in self._blobs.values() for found in blobs.finish()]
        beside += [] if self._vectors is None else self._vectors.finish()
        self._files += self._paths.placed([file, *beside])
