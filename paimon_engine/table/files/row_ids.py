"""The ids and the sequence numbers of rows, as columns of a read and of rewritten files; see `meta.row_tracking`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import TRACKING_COLUMNS, first_row_id, with_tracking
from paimon_engine.meta.schema import ROW_ID
from paimon_engine.table.state.handle import TableHandle


def with_row_ids(table: TableHandle) -> TableHandle:
    """The table with two more columns, `_ROW_ID` and `_SEQUENCE_NUMBER`, as its rows are read and rewritten."""
    return replace(table, schema=with_tracking(table.schema))


def for_rewriting(table: TableHandle) -> TableHandle:
    """The table with all columns that its rows keep when they come into other files."""
    return with_row_ids(table) if table.options.row_tracking_enabled else table


def add_row_ids(
    rows: pa.RecordBatch, columns: Sequence[str], file: DataFile, first_row: int, count: int
) -> pa.RecordBatch:
    """The columns in that order, of `count` rows of the file from `first_row` on, with ids and sequence numbers.

    What the file does not store of them follows from its manifest entry; an id that is not known is null.
    """
    stored = {name: rows[name] for name in rows.schema.names}
    arrays = [
        _tracked(name, stored.get(name), file, first_row, count) if name in TRACKING_COLUMNS else stored[name]
        for name in columns
    ]
    fields = [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _tracked(name: str, stored: pa.Array | None, file: DataFile, first_row: int, count: int) -> pa.Array:
    if stored is not None and not stored.null_count:
        return stored
    known = _from_entry(name, file, first_row, count)
    return known if stored is None else pc.coalesce(stored, known)


def _from_entry(name: str, file: DataFile, first_row: int, count: int) -> pa.Array:
    if name != ROW_ID:
        return pa.repeat(pa.scalar(file.max_sequence_number, pa.int64()), count)
    first = first_row_id(file)
    if first is None:
        return pa.nulls(count, pa.int64())
    begin = first + first_row
    return pa.array(np.arange(begin, begin + count, dtype=np.int64))
