"""Statistics of a table as `ANALYZE` leaves them: the JSON of `statistics/stats-…`, which a snapshot names.

Source: `Statistics`, `ColStats` and the serializers' `serializeToString` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from paimon_engine.errors import damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, integer_or_none, parse_object, reason, required_integer
from paimon_engine.meta.java_floats import float_text
from paimon_engine.meta.paths import partition_text
from paimon_engine.types import AtomicType, TypeRoot

_KEYS: Final[Mapping[str, str]] = {
    "distinctCount": "distinct_count",
    "min": "min",
    "max": "max",
    "nullCount": "null_count",
    "avgLen": "average_length",
    "maxLen": "max_length",
}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column's values; None where unknown. `min` and `max` are texts (`value_text`)."""

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of the rows of a snapshot after the merge, and of its columns by name."""

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def parse_table_statistics(data: str | bytes, path: str) -> TableStatistics:
    """Statistics of their JSON.

    Raises: CorruptTableError naming `path`.
    """
    value = parse_object(data, path)
    try:
        columns = value.get("colStats") or {}
        return TableStatistics(
            snapshot_id=required_integer(value, "snapshotId", 1),
            schema_id=required_integer(value, "schemaId", 0),
            merged_record_count=integer_or_none(value, "mergedRecordCount", 0),
            merged_record_size=integer_or_none(value, "mergedRecordSize", 0),
            columns={name: _column(item) for name, item in columns.items()},
        )
    except WRONG as error:
        raise damaged(path, f"no valid statistics: {reason(error)}") from error


def _column(value: Mapping[str, Any]) -> ColumnStatistics:
    return ColumnStatistics(int(value["colId"]), **{ours: value.get(theirs) for theirs, ours in _KEYS.items()})


def table_statistics_to_json(statistics: TableStatistics) -> str:
    """JSON text as the Java library writes it; unknown values are left out."""
    value: dict[str, Any] = {"snapshotId": statistics.snapshot_id, "schemaId": statistics.schema_id}
    if statistics.merged_record_count is not None:
        value["mergedRecordCount"] = statistics.merged_record_count
    if statistics.merged_record_size is not None:
        value["mergedRecordSize"] = statistics.merged_record_size
    value["colStats"] = {name: column_to_json(column) for name, column in statistics.columns.items()}
    return pretty_json(value)


def column_to_json(column: ColumnStatistics) -> dict[str, Any]:
    """A column's part of the JSON."""
    known = {theirs: getattr(column, ours) for theirs, ours in _KEYS.items()}
    return {"colId": column.column_id, **{key: item for key, item in known.items() if item is not None}}


def value_text(data_type: AtomicType, value: Any) -> str:
    """Text of an internal value: dates are days, times milliseconds of the day, the rest is written for people."""
    match data_type.root:
        case TypeRoot.DATE | TypeRoot.TIME:
            return str(value)
        case TypeRoot.FLOAT:
            # The decimal of this FLOAT, not that of the DOUBLE of the same value.
            return float_text(np.float32(value))
        case TypeRoot.TIMESTAMP_LTZ:
            # In UTC, wherever it is gathered.
            return partition_text(replace(data_type, root=TypeRoot.TIMESTAMP), value, legacy_name=False)
        case _:
            return partition_text(data_type, value, legacy_name=False)
