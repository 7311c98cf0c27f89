"""A file of a BLOB column, and which of its bytes are read for some rows."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.blob import BlobIndex, read_index, read_values, value_parts
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import BucketLocation
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.state.handle import TableHandle, check_size, open_needed

Numbers = npt.NDArray[np.int64]


class BlobFile:
    """A file of a BLOB column, opened when values of it are needed."""

    def __init__(self, table: TableHandle, location: BucketLocation, file: DataFile, first_row: int = 0) -> None:
        self._table = table
        self._location = location
        self._file = file
        self._stream: BinaryIO | None = None
        self._index: BlobIndex | None = None
        self._path = file.name
        self.first_row = first_row
        """Where its rows begin in those of the group."""
        self.end = first_row + file.row_count

    def index(self) -> BlobIndex:
        """Raises: NotFoundError, CorruptTableError."""
        if self._index is None:
            file = self._file
            source, directory = data_file_at(self._table, self._location.directory, file)
            self._path = f"{directory}/{file.name}"
            self._stream = open_needed(self._table, self._path, file.size_bytes, storage=source)
            check_size(self._stream, self._path, file.size_bytes)
            self._index = read_index(self._stream, file.size_bytes, file.row_count, self._path)
        return self._index

    def check(self) -> None:
        """Reads all values. Raises: NotFoundError, CorruptTableError, UnsupportedError."""
        index = self.index()
        assert self._stream is not None
        for _ in value_parts(self._stream, index, np.flatnonzero(index.lengths >= 0), self._path):
            pass

    def values(self, rows: Numbers) -> pa.BinaryArray:
        """Of rows of the file that have a record. Raises: CorruptTableError, UnsupportedError."""
        index = self.index()
        assert self._stream is not None
        return read_values(self._stream, index, rows, self._path)

    def close(self) -> None:
        """May be read again afterwards."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._index = None
