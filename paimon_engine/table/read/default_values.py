"""Default values on read: where a column is null, a read returns the value of `fields.<column>.default-value`.

Files keep the null: the option may change later, and merging looks at what was written.

Source: `DefaultValueAssigner`, `BinaryStringUtils` of the Java library (0.9; releases from 1.2 on fill in on write).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.meta.casts import STRING, cast
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import DataField


def default_scalars(schema: TableSchema) -> dict[str, pa.Scalar]:
    """Default of each column that has one, in the column's Arrow type.

    Raises: InvalidArgumentError if a text does not fit its column; UnsupportedError for other types.
    """
    texts = schema.table_options.default_values
    return {field.name: _scalar(field, texts[field.name]) for field in schema.row_type if field.name in texts}


def fill_nulls(rows: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with defaults instead of nulls."""
    for i, name in enumerate(rows.schema.names):
        if name in defaults and rows.column(i).null_count:
            rows = rows.set_column(i, rows.schema.field(i), pc.fill_null(rows.column(i), defaults[name]))
    return rows


def _scalar(field: DataField, text: str) -> pa.Scalar:
    key = f"'fields.{field.name}.default-value'"
    from paimon_engine.meta.schema_rules import check_default

    check_default(field.type, text, key)
    return cast(pa.array([text]), STRING, field.type)[0]
