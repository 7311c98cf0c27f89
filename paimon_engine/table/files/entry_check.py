"""Holds the rows of a data file against what its manifest entry says of it.

Most formats have no checksum over everything, so a file that was truncated, exchanged or overwritten may decode without
an error. The facts in the manifest cost almost nothing to compare: number of rows, range of sequence numbers, keys at
both ends; and the kind of a row is one of four.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import InvalidArgumentError, PaimonWarning, damaged, naming
from paimon_engine.format.binary_row import decode_row, encode_row, internal_values
from paimon_engine.format.stored import check_row_count
from paimon_engine.lsm.levels import key_order
from paimon_engine.meta.cut_bounds import cut_key, upper_key
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.types import RowType

if TYPE_CHECKING:
    from paimon_engine.format.bitmaps import RowBitmap

_KIND_MAX: Final = 3

CUT_KEYS: Final = (
    "its manifest has the largest key cut to microseconds, as pypaimon writes those of TIMESTAMP(7) to TIMESTAMP(9); "
    "its rows are complete, and a full compaction corrects the noted keys"
)


class RowCheck:
    """Sees a file's batches in order. `key_type` is None where the file has no keys.

    Postponed rows are in the order of their arrival; the manifest then has the keys of the first and last row.
    """

    def __init__(
        self, path: str, file: DataFile, key_type: RowType | None, *, is_sorted: bool = True, warns: bool = True
    ) -> None:
        self.row_count = 0
        self._path = path
        self._file = file
        self._keys = None if key_type is None else (key_type, key_order(key_type))
        self._is_sorted = is_sorted
        self._warns = warns
        self._beyond_bound = False
        self._last: pa.RecordBatch | None = None

    def deleted(self, rows: RowBitmap | None) -> None:
        """Raises CorruptTableError if the deletion vector marks rows that the file does not have."""
        if rows is not None and rows.last >= self._file.row_count:
            what = f"its deletion vector marks row {rows.last}, its manifest says {self._file.row_count} rows"
            raise damaged(self._path, what)

    def columns(self, rows: pa.RecordBatch, wanted: Sequence[str]) -> None:
        """Raises CorruptTableError if a column is missing."""
        found = rows.schema.names
        if not set(wanted).issubset(found):
            what = f"expected columns {', '.join(wanted)}, found {', '.join(found) or 'none of them'}"
            raise damaged(self._path, what)

    def add(self, first_row: int, rows: pa.RecordBatch, typed: pa.RecordBatch) -> None:
        """Looks at the batch that begins with that row, as in the file, and as typed with system columns, if any.

        Raises: CorruptTableError.
        """
        if rows.num_rows == 0:
            return
        if first_row + rows.num_rows > self._file.row_count:
            raise damaged(self._path, f"it has more than the {self._file.row_count} rows that its manifest says")
        if VALUE_KIND in typed.schema.names and VALUE_KIND in rows.schema.names:
            self._within(typed, VALUE_KIND, 0, _KIND_MAX)
        if SEQUENCE_NUMBER in typed.schema.names:
            self._within(typed, SEQUENCE_NUMBER, self._file.min_sequence_number, self._file.max_sequence_number)
        if self._keys is not None:
            if first_row == 0:
                self._key(rows.slice(0, 1), "first")
            self._last = rows
        self.row_count += rows.num_rows

    def finish(self, *, is_complete: bool) -> None:
        """Raises CorruptTableError if rows are missing although the file was read completely (`is_complete`)."""
        if is_complete:
            check_row_count(self._path, self.row_count, self._file.row_count)
        if self._last is not None:
            self._key(self._last.slice(self._last.num_rows - 1), "last")
            if self._beyond_bound and self._warns:
                warnings.warn(f"{self._path}: {CUT_KEYS}", PaimonWarning, stacklevel=2)

    def _within(self, rows: pa.RecordBatch, column: str, low: int, high: int) -> None:
        values = rows[column]
        numbers = as_numbers(values)
        least, most = int(numbers.min()), int(numbers.max())
        if values.null_count or least < low or most > high:
            found = "a null" if values.null_count else f"{least} to {most}"
            raise damaged(self._path, f"{column} is {found}, expected {low} to {high}")

    def _key(self, row: pa.RecordBatch, which: str) -> None:
        """Between the bounds, not equal to them: the largest key that Java notes may be one that it dropped.

        The upper bound may have been cut to microseconds.
        """
        assert self._keys is not None
        columns, order = self._keys
        if not self._is_sorted or any(name not in row.schema.names for name in columns.names):
            return
        types, noted = [field.type for field in columns], self._file.max_key
        with naming(f"{self._path}: keys in its manifest"):
            low, high = order(self._file.min_key), order(upper_key(types, noted))
        try:
            found = tuple(internal_values(row[field.name], field.type)[0] for field in columns)
            key = encode_row(types, found, reserve_null=True)
        except (pa.ArrowException, InvalidArgumentError) as error:
            raise damaged(self._path, f"its {which} key is none of {columns.names}: {error}") from error
        if not low <= order(key) <= high:
            bounds = [decode_row(types, key) for key in (self._file.min_key, noted)]
            raise damaged(self._path, f"its {which} key is {found}, its manifest says {bounds[0]} to {bounds[1]}")
        was_cut = key != noted and order(key) > order(cut_key(types, noted))
        self._beyond_bound = self._beyond_bound or was_cut
