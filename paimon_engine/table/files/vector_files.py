"""Writes columns of VECTOR beside a data file, to files of their own, for the same rows.

Source: `DedicatedFormatRollingFileWriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import as_rewritten
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats_modes import FileTraits
from paimon_engine.table.files.open_file import OpenFile
from paimon_engine.table.files.stored_layout import encoding_of, file_arrow_schema
from paimon_engine.table.state.handle import TableHandle

_ROWS_PER_SLICE_MIN: Final = 1_000
"""Rows that are written at least before the size of the open file is compared with the target again, as in Java."""


class VectorColumnsWriter:
    """Writes all columns of VECTOR; a file ends when it is as large as `vector.target-file-size`."""

    def __init__(self, table: TableHandle, columns: Sequence[str], new_path: Callable[[str], str]) -> None:
        """Nothing is written before the first row. `new_path` names the next file, and notes that it is written."""
        schema: TableSchema = replace(table.schema, row_type=table.schema.row_type.project(tuple(columns)))
        self._table = replace(table, schema=schema)
        self._new_path = new_path
        options = table.options
        file_format, codec = options.vector_file_format or "", options.file_compression_of(0)
        self._suffix = f".vector{options.file_suffix(file_format, codec)}"
        self._traits = FileTraits(0, file_format)
        self._encoding = encoding_of(schema, file_format, codec)
        self._schema = file_arrow_schema(schema)
        self._open: OpenFile | None = None
        self._files: list[DataFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows. Raises: StorageError."""
        target_bytes = self._table.options.vector_target_file_size_bytes
        rows = rows.select(list(self._table.schema.row_type.names))
        step = max(_ROWS_PER_SLICE_MIN, target_bytes * rows.num_rows // max(1, rows.nbytes))
        for begin in range(0, rows.num_rows, step):
            if self._open is None:
                path = self._new_path(self._suffix)
                self._open = OpenFile(self._table, path, self._schema, self._traits, self._encoding, index=None)
            self._open.write(rows.slice(begin, step))
            if self._open.is_full(target_bytes):
                self._end_file()

    def close_row_group(self) -> None:
        """Encodes the rows that wait in memory; the file stays open."""
        if self._open is not None:
            self._open.close_row_group()

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
            file, _ = self._open.finish(source=FileSource.APPEND)
            self._files.append(as_rewritten(file, self._table.schema))
            self._open = None
