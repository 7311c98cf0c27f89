"""What a merge knows of a record besides its columns: its kind, and the level of its file."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.arrow_values import as_numbers, of_numbers
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND

LEVEL: Final = "_LEVEL"
"""Column of the level of a record's file."""


def is_retract(kinds: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which row kinds take a row away: −U (1) and −D (3)."""
    return np.asarray(kinds.astype(np.int8) & 1, dtype=bool)


def drop_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without −U and −D."""
    retracts = is_retract(as_numbers(rows[VALUE_KIND]))
    return rows.filter(pa.array(~retracts)) if retracts.any() else rows


def with_level(rows: pa.RecordBatch, level: int) -> pa.RecordBatch:
    """The rows, with the level of their file as a last column."""
    return rows.append_column(pa.field(LEVEL, pa.int32()), pa.repeat(pa.scalar(level, pa.int32()), rows.num_rows))


def with_numbers_added(rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The rows, with sequence numbers that much higher."""
    index = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = of_numbers(as_numbers(rows.column(index)) + number, pa.int64())
    return rows.set_column(index, rows.schema.field(index), numbers)
