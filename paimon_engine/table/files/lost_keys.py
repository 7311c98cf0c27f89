"""Keys of rows that Java 0.9 has stored without: the key columns of the file still have them.

Where a sequence group of `partial-update` merges retracts alone, 0.9 makes a row of their groups only, and leaves the
columns of the primary key null. Data files hold the key once more, in front of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

import pyarrow as pa

from paimon_engine.errors import damaged
from paimon_engine.meta.schema import KEY_PREFIX
from paimon_engine.types import DataField, to_arrow


class LostKeys:
    """Puts the keys back into batches of one file; reads them when the first one is missing."""

    def __init__(
        self,
        path: str,
        keys: Sequence[DataField],
        opened: Callable[[], AbstractContextManager[BinaryIO]],
        read: Callable[[BinaryIO, pa.Schema], Sequence[pa.RecordBatch]],
    ) -> None:
        """`opened` opens the file at `path` again, `read` reads columns of it."""
        self._path = path
        self._keys = keys
        self._opened = opened
        self._read = read
        self._stored: pa.Table | None = None

    def put_back(self, first_row: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, which begin at that row of the file, with their keys.

        Raises: CorruptTableError if a key is missing there too.
        """
        for field in self._keys:
            index = rows.schema.get_field_index(field.name)
            if index >= 0 and rows.column(index).null_count and not field.type.nullable:
                name = KEY_PREFIX + field.name
                if name not in self._columns().column_names:
                    raise damaged(self._path, f"column {field.name!r} has nulls, but is a part of the key")
                stored = self._columns()[name].slice(first_row, rows.num_rows).combine_chunks()
                rows = rows.set_column(index, rows.schema.field(index), stored.cast(rows.schema.field(index).type))
        return rows

    def _columns(self) -> pa.Table:
        if self._stored is None:
            schema = pa.schema([pa.field(KEY_PREFIX + field.name, to_arrow(field.type)) for field in self._keys])
            with self._opened() as stream:
                self._stored = pa.Table.from_batches(self._read(stream, schema))
        return self._stored
