"""Default values on read: where a column holds null, a read gives what `fields.<column>.default-value` says.

Files keep the null: the option may change later, and merging looks at what was written.

Source: `DefaultValueAssigner`, `BinaryStringUtils` of the Java library (0.9; releases from 1.2 on fill in on write).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import STRING_ROOTS, AtomicType, DataField, TypeRoot, to_arrow

_INTEGER_ROOTS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})


def default_scalars(schema: TableSchema) -> dict[str, pa.Scalar]:
    """Default of each column that has one, in the column's Arrow type.

    Raises: InvalidArgumentError if a text does not fit its column; UnsupportedError for other types.
    """
    texts = schema.table_options.default_values
    return {field.name: _scalar(field, texts[field.name]) for field in schema.row_type if field.name in texts}


def fill_nulls(rows: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with defaults in place of nulls."""
    for i, name in enumerate(rows.schema.names):
        if name in defaults and rows.column(i).null_count:
            rows = rows.set_column(i, rows.schema.field(i), pc.fill_null(rows.column(i), defaults[name]))
    return rows


def _scalar(field: DataField, text: str) -> pa.Scalar:
    key = f"'fields.{field.name}.default-value' = {text!r}"
    if not isinstance(field.type, AtomicType):
        raise UnsupportedError(f"{key}: default values of nested columns are not supported")
    try:
        return pa.scalar(_value(field.type, text, key), to_arrow(field.type))
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise InvalidArgumentError(f"{key} does not fit the column's type {field.type.root}") from error


def _value(data_type: AtomicType, text: str, key: str) -> Any:
    match data_type.root:
        case root if root in STRING_ROOTS:
            padded = text[: data_type.length]
            return padded.ljust(data_type.length) if root is TypeRoot.CHAR else padded
        case TypeRoot.BOOLEAN:
            if text.lower() not in _TRUE | _FALSE:
                raise ValueError(text)
            return text.lower() in _TRUE
        case root if root in _INTEGER_ROOTS:
            # Java cuts a fraction off.
            if re.fullmatch(r"[+-]?\d*(\.\d*)?", text) is None:
                raise ValueError(text)
            return int(text.partition(".")[0])
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(text)
        case TypeRoot.DECIMAL:
            return _decimal(data_type, text, key)
        case TypeRoot.DATE:
            return date.fromisoformat(text)
        case TypeRoot.TIMESTAMP:
            return datetime.fromisoformat(text).replace(tzinfo=None)
        case TypeRoot.TIMESTAMP_LTZ:
            return datetime.fromisoformat(text).astimezone(UTC)
        case _:
            raise UnsupportedError(f"{key}: default values of {data_type.root} columns are not supported")


def _decimal(data_type: AtomicType, text: str, key: str) -> Decimal:
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > data_type.scale:
        raise UnsupportedError(f"{key}: the column keeps {data_type.scale} digits after the point")
    return value
