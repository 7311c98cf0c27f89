"""Writes new values of some columns for all rows of a range of row ids: a data file, and files of BLOB columns.

Source: `DataEvolutionPartialWriteOperator`, `DedicatedFormatRollingFileWriter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count

import pyarrow as pa

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.blobs import blob_columns
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.row_tracking import row_ids_from
from paimon_engine.table.files.blob_files import BlobColumnWriter
from paimon_engine.table.files.new_paths import NewPaths
from paimon_engine.table.files.rolling_writer import BLOB_SUFFIX, RollingWriter
from paimon_engine.table.state.handle import TableHandle


class ColumnsWriter:
    """Writes the rows of a range in their order; call `finish` for the files, or `abort` to delete what was written.

    Columns that are not BLOB are written together (`write`), each column of BLOB by itself (`write_blobs`).
    """

    def __init__(self, table: TableHandle, partition: bytes, bucket: int, columns: Sequence[str]) -> None:
        """Nothing is written before the first row. Raises: UnsupportedError for a type that the format lacks."""
        blobs = tuple(name for name in columns if name in blob_columns(table.schema))
        plain = tuple(name for name in columns if name not in blobs)
        self._paths = NewPaths(table, partition, bucket)
        self._prefix = f"{table.options.data_file_prefix}{table.env.new_id()}"
        self._names = count()
        self._plain = (
            RollingWriter(table, partition, bucket, level=0, source=FileSource.APPEND, columns=plain) if plain else None
        )
        self._blobs = {name: BlobColumnWriter(table, name, partial(self._new_path, BLOB_SUFFIX)) for name in blobs}
        self.columns = plain
        """The columns that are written together."""
        self.blobs = blobs
        """The columns of BLOB."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows of `columns`."""
        assert self._plain is not None, "only columns of BLOB are written"
        self._plain.write(rows.select(self.columns))

    def write_blobs(self, name: str, values: pa.BinaryArray) -> None:
        """Adds values of a column of BLOB. Raises: UnsupportedError for a reference to bytes elsewhere."""
        self._blobs[name].write(values)

    def keep_blobs(self, name: str, rows: int) -> None:
        """So many rows keep the values that they have in older files, which must be there."""
        self._blobs[name].write_placeholders(rows)

    def finish(self, first_row_id: int, row_count: int) -> tuple[DataFile, ...]:
        """The files, for that range of ids. Raises: CorruptTableError if they do not have as many rows."""
        parts = [
            [] if self._plain is None else list(self._plain.finish()),
            *(self._paths.placed(writer.finish()) for writer in self._blobs.values()),
        ]
        found = []
        for files in parts:
            begin = first_row_id
            for file in files:
                found.append(replace(file, extras={**file.extras, **row_ids_from(begin)}))
                begin += file.row_count
            if files and begin != first_row_id + row_count:
                found_rows = begin - first_row_id
                raise CorruptTableError(
                    f"files of the row ids from {first_row_id} on have {found_rows} rows, not {row_count} as listed"
                )
        return tuple(found)

    def abort(self) -> None:
        """Deletes everything that was written."""
        if self._plain is not None:
            self._plain.abort()
        for writer in self._blobs.values():
            writer.discard()
        self._paths.delete_all()

    def _new_path(self, suffix: str) -> str:
        return self._paths.choose(f"{self._prefix}-{next(self._names)}{suffix}")
