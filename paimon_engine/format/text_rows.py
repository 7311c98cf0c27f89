"""Rows as text: JSON with one object a line, and columns that CSV has no form for as JSON texts or Base64.

Columns are converted one after another, values of nested ones by their leaves: Python's own dates and times end at the
year 9999, the columns of a table do not. Only the standard library's encoder sees rows. No library that writes JSON
takes Arrow's columns: pyarrow reads JSON only, and pandas and polars are none of the engine's dependencies.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S: Final = 86_400
_YEARS_S: Final = (
    int(np.datetime64("-32767-01-01", "s").astype(np.int64)),
    int(np.datetime64("32768-01-01", "s").astype(np.int64)),
)
"""Seconds since 1970 of the first moment that Arrow has a text for, and of the first one after these."""


def json_lines(batch: pa.RecordBatch) -> list[str]:
    """Each row as a JSON object."""
    names = batch.schema.names
    columns = [_json_values(column) for column in batch.columns]
    if not columns:
        return ["{}"] * batch.num_rows
    return [_dumped(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def has_csv_form(data_type: pa.DataType) -> bool:
    """Whether Arrow writes values of that type into CSV."""
    return not (pa.types.is_nested(data_type) or _is_bytes(data_type))


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as `flat` gives them: nested ones and bytes are texts."""
    return pa.schema([field if has_csv_form(field.type) else field.with_type(pa.string()) for field in schema])


def flat(column: pa.Array) -> pa.Array:
    """Nested values as JSON text, bytes as Base64; other columns as they are.

    Raises: InvalidArgumentError for a point in time that Arrow has no text for.
    """
    if has_csv_form(column.type):
        check_years(column)
        return column
    values = _json_values(column)
    return pa.array(values if _is_bytes(column.type) else [_text_or_none(one) for one in values], pa.string())


def check_years(column: pa.Array) -> None:
    """Raises InvalidArgumentError for dates and timestamps that Arrow writes no text for, but a note that it cannot."""
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        return
    bounds = pc.min_max(column.cast(_integers_of(kind)))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return
    first, behind = (
        seconds // _DAY_S if pa.types.is_date32(kind) else seconds * _PER_SECOND[kind.unit] for seconds in _YEARS_S
    )
    if low < first or high >= behind:
        raise InvalidArgumentError(
            "a date or timestamp is outside of the years -32767 to 32767, which have a text; leave its rows out by a "
            "filter, or choose the format parquet or json"
        )


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_bytes(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_type(data_type) for is_type in tests)


def _integers_of(data_type: pa.DataType) -> pa.DataType:
    return pa.int32() if data_type.bit_width == 32 else pa.int64()


# ── values as JSON has them ─────────────────────────────────────────────────────────────────────


def _json_values(column: pa.Array) -> list[Any]:
    """The values of a column as the JSON encoder takes them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _json_values(column.dictionary_decode())
    if pa.types.is_struct(kind):
        names = [kind.field(index).name for index in range(kind.num_fields)]
        fields = [_json_values(part) for part in column.flatten()]
        rows = zip(*fields, strict=True)
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, _valid(column), strict=True)
        ]
    if pa.types.is_map(kind):
        keys, items = _below(column, column.keys), _below(column, column.items)
        return _cut(column, [list(pair) for pair in zip(_json_values(keys), _json_values(items), strict=True)])
    if pa.types.is_fixed_size_list(kind):
        return _json_values(column.cast(pa.list_(kind.value_field)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _cut(column, _json_values(_below(column, column.values)))
    for is_type, values in _FORMS:
        if is_type(kind):
            return values(column)
    return list(column.to_pylist())


def _valid(column: pa.Array) -> list[bool]:
    return list(column.is_valid().to_pylist())


def _below(column: pa.Array, values: pa.Array) -> pa.Array:
    """Of all values below lists or maps, those of these rows."""
    begin, end = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
    return values.slice(begin, end - begin)


def _cut(column: pa.Array, values: list[Any]) -> list[Any]:
    """The values below lists or maps, row by row."""
    offsets = column.offsets.to_pylist()
    ranges = pairwise(offset - offsets[0] for offset in offsets)
    return [values[begin:end] if valid else None for (begin, end), valid in zip(ranges, _valid(column), strict=True)]


def _numbers(column: pa.Array) -> list[Any]:
    """JSON has no NaN and no infinity: they become texts, as Spark writes them."""
    values = column.to_pylist()
    if pc.all(pc.is_finite(column)).as_py() in (True, None):
        return list(values)
    return [_odd(value) if value is not None and not math.isfinite(value) else value for value in values]


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(column: pa.Array) -> list[Any]:
    return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]


def _decimals(column: pa.Array) -> list[Any]:
    """With all digits: many readers do not take `0E-10` for zero."""
    return [None if value is None else f"{value:f}" for value in column.to_pylist()]


def _times(column: pa.Array) -> list[Any]:
    return [None if value is None else value.isoformat() for value in column.to_pylist()]


def _dates(column: pa.Array) -> list[Any]:
    return _or_none(column, np.datetime_as_string(_counts(column).astype("datetime64[D]")).tolist())


def _timestamps(column: pa.Array) -> list[Any]:
    """In ISO 8601, with 6 or 9 digits of the second where it has a fraction, and `+00:00` for instants."""
    per_second = _PER_SECOND[column.type.unit]
    seconds, rest = np.divmod(_counts(column), per_second)
    nanos = rest * (10**9 // per_second)
    zone = "" if column.type.tz is None else "+00:00"
    texts = np.datetime_as_string(seconds.astype("datetime64[s]")).tolist()
    return _or_none(
        column, [f"{text}{_fraction(rest)}{zone}" for text, rest in zip(texts, nanos.tolist(), strict=True)]
    )


def _fraction(nanos: int) -> str:
    if not nanos:
        return ""
    return f".{nanos:09d}" if nanos % 1_000 else f".{nanos // 1_000:06d}"


def _counts(column: pa.Array) -> npt.NDArray[np.int64]:
    """Units since 1970, 0 for null."""
    counts: npt.NDArray[np.int64] = column.cast(_integers_of(column.type)).fill_null(0).to_numpy().astype(np.int64)
    return counts


def _or_none(column: pa.Array, values: list[Any]) -> list[Any]:
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, _valid(column), strict=True)]


_FORMS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...]] = (
    (pa.types.is_floating, _numbers),
    (_is_bytes, _base64),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_time, _times),
    (pa.types.is_date32, _dates),
    (pa.types.is_timestamp, _timestamps),
)
"""How values are given to the encoder that are not what it takes."""
