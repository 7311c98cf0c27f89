"""Values of BLOB columns for rows that a read has chosen: nothing else of their files is read but the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from paimon_engine.format.blob import NULL, PLACEHOLDER
from paimon_engine.format.layout import BatchLimit
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import first_row_id
from paimon_engine.table.files.blob_file import BlobFile, Numbers
from paimon_engine.table.files.data_file import BucketLocation
from paimon_engine.table.state.handle import TableHandle

_NO_FILE: Final = -1


class BlobValues:
    """The values of one column for the rows of a group, `files` oldest first. Rows are looked up in their order."""

    def __init__(self, table: TableHandle, location: BucketLocation, files: Sequence[DataFile], first_id: int) -> None:
        self._files = [BlobFile(table, location, file, (first_row_id(file) or 0) - first_id) for file in files]
        self._sources: Numbers = np.zeros(0, np.int64)
        self._positions: Numbers = np.zeros(0, np.int64)

    def look_up(self, rows: Numbers) -> Numbers:
        """Finds the values of ascending rows of the group, which `values` gives then. Returns their lengths."""
        first, end = int(rows[0]), int(rows[-1]) + 1
        self._sources = np.full(len(rows), _NO_FILE, np.int64)
        self._positions = np.zeros(len(rows), np.int64)
        value_bytes = np.zeros(len(rows), np.int64)
        for number, file in enumerate(self._files):
            if file.end <= first:
                file.close()
                continue
            start, stop = np.searchsorted(rows, [file.first_row, min(file.end, end)])
            if start >= stop:
                continue
            index = file.index()
            inside = rows[start:stop] - file.first_row
            known = np.flatnonzero(index.lengths[inside] != PLACEHOLDER)
            is_null = index.lengths[inside[known]] == NULL
            self._sources[start + known] = np.where(is_null, _NO_FILE, number)
            self._positions[start + known] = inside[known]
            value_bytes[start + known] = index.value_bytes[inside[known]]
        return value_bytes

    def values(self, start: int, stop: int) -> pa.Array:
        """Values of some of the rows that were looked up. Raises: CorruptTableError, UnsupportedError."""
        sources, positions = self._sources[start:stop], self._positions[start:stop]
        taken = np.full(stop - start, -1, np.int64)
        parts, count = [], 0
        for number in np.unique(sources[sources != _NO_FILE]).tolist():
            here = np.flatnonzero(sources == number)
            parts.append(self._files[number].values(positions[here]))
            taken[here] = np.arange(count, count + len(here))
            count += len(here)
        if count == stop - start and len(parts) == 1:
            return parts[0]
        found = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
        return found.take(pa.array(taken, mask=taken < 0))

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()


class BlobColumns:
    """The BLOB columns of a read, of one group of files whose ids begin with `first_id`."""

    def __init__(
        self, table: TableHandle, location: BucketLocation, shares: Mapping[str, Sequence[DataFile]], first_id: int
    ) -> None:
        self._columns = {name: BlobValues(table, location, files, first_id) for name, files in shares.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for column in self._columns.values():
            column.close()

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self._columns)

    def beside(
        self, rows: pa.RecordBatch, positions: Numbers, columns: Sequence[str], limit: BatchLimit
    ) -> Iterator[pa.RecordBatch]:
        """The rows, at these positions in the group, as `columns`, in batches whose values keep to the limit."""
        if not len(positions):
            return
        value_bytes = sum((column.look_up(positions) for column in self._columns.values()), np.zeros(len(positions)))
        start = 0
        ends = np.cumsum(value_bytes)
        while start < len(positions):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + limit.size_bytes, side="right")))
            values = {name: column.values(start, stop) for name, column in self._columns.items()}
            part = rows.slice(start, stop - start)
            arrays = [values[name] if name in values else part[name] for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
            start = stop
