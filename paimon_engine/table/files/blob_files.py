"""Writes the values of BLOB columns beside a data file: for each column files of its own, for the same rows.

Source: `DedicatedFormatRollingFileWriter`, `MultipleBlobFileWriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.format.blob_writer import BlobWriter
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import as_rewritten
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import EMPTY_STATS, UNKNOWN_STATS
from paimon_engine.meta.stats_modes import stored_stats
from paimon_engine.table.files.external import store_of
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.unneeded import discard
from paimon_engine.units import local_wall_clock_ms

_DESCRIPTOR_MAGIC: Final = b"CSEDBOLB"
_DESCRIPTOR_VERSION_MAX: Final = 2


class BlobColumnWriter:
    """Writes one column; a file ends with the value by which it gets as large as `blob.target-file-size`."""

    def __init__(self, table: TableHandle, column: str, new_path: Callable[[], str]) -> None:
        """Nothing is written before the first row. `new_path` names the next file, and notes that it is written."""
        self._table = table
        self._column = column
        self._new_path = new_path
        row_type = table.schema.row_type
        self._schema: TableSchema = replace(table.schema, row_type=row_type.project((column,)))
        self._open: _OpenBlobFile | None = None
        self._files: list[DataFile] = []

    def write(self, values: pa.BinaryArray) -> None:
        """Adds values. Raises: UnsupportedError for one that refers to bytes elsewhere; StorageError."""
        _check_values(self._column, values)
        target_bytes = self._table.options.blob_target_file_size_bytes
        while len(values):
            if self._open is None:
                self._open = _OpenBlobFile(self._table, self._new_path())
            writer = self._open.writer
            count = writer.rows_until(values, target_bytes)
            writer.write(values.slice(0, count))
            values = values.slice(count)
            if writer.size_bytes >= target_bytes:
                self._end_file()

    def write_placeholders(self, count: int) -> None:
        """Adds rows whose values are in older files."""
        if count:
            if self._open is None:
                self._open = _OpenBlobFile(self._table, self._new_path())
            self._open.writer.write_placeholders(count)

    def finish(self) -> list[DataFile]:
        """Ends the open file; the files since the last call, in order of their rows."""
        self._end_file()
        files, self._files = self._files, []
        return files

    def discard(self) -> None:
        """Aborts the open file; those that are complete are the caller's to delete."""
        if self._open is not None:
            self._open.discard()
            self._open = None

    def _end_file(self) -> None:
        if self._open is not None:
            self._files.append(as_rewritten(self._open.finish(self._schema), self._schema))
            self._open = None


class _OpenBlobFile:
    def __init__(self, table: TableHandle, path: str) -> None:
        self._table = table
        self._path = path
        self._context = store_of(table, path).writer(path)
        self._sink: BinaryIO = self._context.__enter__()
        self.writer = BlobWriter(self._sink)

    def discard(self) -> None:
        discard(self._context)

    def finish(self, schema: TableSchema) -> DataFile:
        self.writer.close()
        size_bytes = self._sink.tell()
        self._context.__exit__(None, None, None)
        stats, stats_columns = stored_stats(schema.row_type, [UNKNOWN_STATS], dense=self._table.options.stats_dense)
        return DataFile(
            name=self._path.rsplit("/", 1)[-1],
            size_bytes=size_bytes,
            row_count=self.writer.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=stats,
            min_sequence_number=0,  # the commit replaces it by the id of its snapshot
            max_sequence_number=0,
            schema_id=schema.id,
            level=0,
            creation_time_ms=local_wall_clock_ms(self._table.env.clock()),
            delete_row_count=0,
            file_source=int(FileSource.APPEND),
            value_stats_columns=stats_columns,
        )


def _check_values(column: str, values: pa.BinaryArray) -> None:
    """Raises UnsupportedError for a serialized descriptor, of which Java would write the bytes that it refers to."""
    marked = pc.equal(pc.binary_slice(values, 1, 9), pa.scalar(_DESCRIPTOR_MAGIC, pa.binary()))
    heads = pc.binary_slice(values.filter(pc.fill_null(marked, False)), 0, 1).to_pylist()
    if any(head[0] <= _DESCRIPTOR_VERSION_MAX for head in heads):
        raise UnsupportedError(
            f"column {column!r}: a value is a reference to bytes elsewhere (a serialized BlobDescriptor), which is not "
            "supported yet; give the bytes themselves"
        )
