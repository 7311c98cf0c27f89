"""`record-level.expire-time`: a compaction leaves out records of a primary-key table whose time is too long ago.

Each record that a compaction reads is checked separately, whatever its row kind, before it is merged; so it is in all
releases. Reads do not look at the time, and files that a compaction moves without reading keep their records. A record
without a time stays, as from release 1.0 on; 0.9 fails there.

`record-level.time-field-type` says what numbers mean, as in releases 0.9 to 1.x; without it numbers from 10¹² on are
milliseconds and smaller ones seconds, as in 2.0.

Source: `RecordLevelExpire` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.gather import validity
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import TIMESTAMP_ROOTS, AtomicType, TypeRoot

_MILLIS_FROM: Final = 10**12
_TIMESTAMPS: Final = tuple(sorted(TIMESTAMP_ROOTS))
_ROOTS: Final = {
    "seconds-int": (TypeRoot.INT,),
    "seconds-long": (TypeRoot.BIGINT,),
    "millis-long": (TypeRoot.BIGINT,),
    "timestamp": _TIMESTAMPS,
}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The column of a record's time, in what unit it is, and how many seconds a record stays."""

    column: str
    unit: str
    expire_seconds: int

    def keep(self, rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
        """The rows that have not expired at that time, in epoch milliseconds."""
        values = rows[self.column]
        valid = validity(values)
        kept = ~valid | (now_ms // 1000 <= self._seconds(values) + self.expire_seconds)
        return rows if kept.all() else rows.filter(pa.array(kept))

    def _seconds(self, values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if pa.types.is_timestamp(values.type):
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
            numbers = np.asarray(values.view(pa.int64()).fill_null(0))
            # Java floors to milliseconds, and cuts to seconds.
            millis = numbers * 1000 // per_second if per_second <= 1000 else numbers // (per_second // 1000)
            return _cut(millis)
        numbers = np.asarray(values.fill_null(0)).astype(np.int64)
        if self.unit == "millis-long":
            return _cut(numbers)
        if self.unit == "":
            return np.where(numbers >= _MILLIS_FROM, numbers // 1000, numbers)
        return numbers


def _cut(millis: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Seconds, cut towards zero."""
    return np.where(millis < 0, -(-millis // 1000), millis // 1000)


def record_expiry(schema: TableSchema) -> RecordExpiry | None:
    """How the table's records expire; None if they stay.

    Raises: InvalidArgumentError naming the option that is missing or does not fit its column.
    """
    options = schema.table_options
    expire_ms = options.record_level_expire_time_ms
    if expire_ms is None:
        return None
    column = options.record_level_time_field
    if column is None:
        raise InvalidArgumentError(
            "'record-level.expire-time' needs the time of a record; set 'record-level.time-field' to its column"
        )
    if column not in schema.row_type:
        raise InvalidArgumentError(
            f"'record-level.time-field': no column {column!r}; the columns are {', '.join(schema.row_type.names)}"
        )
    unit = options.record_level_time_field_type
    kind = schema.row_type.field(column).type
    roots = _ROOTS.get(unit, (TypeRoot.INT, TypeRoot.BIGINT, *_TIMESTAMPS))
    if not isinstance(kind, AtomicType) or kind.root not in roots:
        hint = f" with 'record-level.time-field-type' = '{unit}'" if unit else ""
        raise InvalidArgumentError(
            f"'record-level.time-field' = '{column}'{hint} takes {' or '.join(root.value for root in roots)}; "
            "the column has another type"
        )
    return RecordExpiry(column, unit, expire_ms // 1000)
