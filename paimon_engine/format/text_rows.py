"""Rows as text: JSON with one object a line, and columns that CSV has no form for as JSON texts or Base64."""

from __future__ import annotations

import base64
import json
import math
from datetime import datetime
from typing import Any

import pyarrow as pa


def json_lines(batch: pa.RecordBatch) -> list[str]:
    """Each row as a JSON object."""
    return [json.dumps(_plain(row), default=_text, ensure_ascii=False, allow_nan=False) for row in batch.to_pylist()]


def has_csv_form(data_type: pa.DataType) -> bool:
    """Whether Arrow writes values of that type into CSV."""
    tests = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return not any(is_type(data_type) for is_type in tests)


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as `flat` gives them: nested ones and bytes are texts."""
    return pa.schema([field if has_csv_form(field.type) else field.with_type(pa.string()) for field in schema])


def flat(column: pa.Array) -> pa.Array:
    """Nested values as JSON text, bytes as Base64; other columns as they are."""
    return column if has_csv_form(column.type) else pa.array([_csv_text(value) for value in column.to_pylist()])


def _csv_text(value: Any) -> str | None:
    if value is None or isinstance(value, bytes):
        return None if value is None else _text(value)
    return json.dumps(_plain(value), default=_text, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become texts, as Spark writes them."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)
