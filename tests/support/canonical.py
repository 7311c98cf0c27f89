"""Rows in one text form, so that readers in different languages can be compared.

| Arrow type | form |
| --- | --- |
| bool, integers | JSON |
| float, double | shortest number that gives the value again; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimal | text with all digits of the scale |
| string; binary | text; `"0x…"` |
| date; time; timestamp; timestamp with zone | `2024-02-29`; `13:05:09.123`; nine digits of the second; the same with `Z` |
| list, struct; map | list; list of pairs sorted by the text of the key |

The Arrow type alone decides, and none of the engine's own conversions are used: a mistake there must not hide itself.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

Row = list[Any]

SHOWN_ROWS_MAX = 10
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def text_of(value: Any) -> str:
    """Canonical text of a row or value."""
    return _ENCODER.encode(value)


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Rows of an Arrow table in the canonical form, in order."""
    columns = [values_of(_one_array(column)) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


def values_of(array: pa.Array) -> list[Any]:
    """Values of an array in the canonical form, in order."""
    kind = array.type
    if pa.types.is_map(kind):
        return _sliced(
            array, [list(pair) for pair in zip(values_of(array.keys), values_of(array.items), strict=True)], by_key
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _sliced(array, values_of(array.values), list)
    if pa.types.is_struct(kind):
        parts = [values_of(array.field(i)) for i in range(kind.num_fields)]
        rows = [list(row) for row in zip(*parts, strict=True)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_dictionary(kind):
        return values_of(array.dictionary_decode())
    values, form = _physical(array).to_pylist(), _form_of(kind)
    return values if form is None else [None if value is None else form(value) for value in values]


def by_key(pairs: Iterable[list[Any]]) -> list[list[Any]]:
    """Pairs of a map in the order of the text of their keys."""
    return sorted(pairs, key=lambda pair: text_of(pair[0]))


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _sliced(array: pa.Array, items: list[Any], form: Any) -> list[Any]:
    """`items` are all values below a list or map array; its offsets cut them, also where the array is a slice."""
    offsets = array.offsets.to_pylist()
    ranges = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [form(items[start:end]) if valid else None for start, end, valid in ranges]


def _physical(array: pa.Array) -> pa.Array:
    """Integers of points in time: Python's own values of them lose nanoseconds and far years."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        return array.view(pa.int64())
    return array.view(pa.int32()) if pa.types.is_date32(kind) or pa.types.is_time32(kind) else array


def _form_of(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes the canonical form of a value that is not null; None where it is the value itself."""
    if pa.types.is_floating(kind):
        return partial(_number, kind=kind)
    if pa.types.is_decimal(kind):
        return f"{{:.{kind.scale}f}}".format
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda value: "0x" + value.hex()
    if pa.types.is_date32(kind):
        return lambda value: str(np.datetime64(value, "D"))
    if pa.types.is_time(kind):
        return lambda value: _clock(value * 1_000 // PER_SECOND[kind.unit])
    if pa.types.is_timestamp(kind):
        return partial(_moment, kind=kind)
    return None


def _moment(value: int, kind: pa.DataType) -> str:
    seconds, rest = divmod(value, PER_SECOND[kind.unit])
    nanos = rest * (PER_SECOND["ns"] // PER_SECOND[kind.unit])
    return f"{np.datetime64(seconds, 's')}.{nanos:09d}{'' if kind.tz is None else 'Z'}"


def _number(value: float, kind: pa.DataType) -> Any:
    if not math.isfinite(value):
        return next(name for name, number in NON_FINITE.items() if str(number) == str(float(value)))
    # A number such as 0.1 means the nearest float, and Java may print more digits of it than numpy does.
    return float(str(np.float32(value))) if pa.types.is_float32(kind) else float(value)


def _clock(millis: int) -> str:
    seconds, rest = divmod(millis, 1_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


# ── the other way ───────────────────────────────────────────────────────────────────────────────


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Arrow table of canonical rows, columns in the order of `schema`."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array([value_of(value, field.type) for value in column], field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def value_of(value: Any, kind: pa.DataType) -> Any:
    """Value of its canonical form, as `pa.array` takes it."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(value_of(key, kind.key_type), value_of(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value_of(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: value_of(item, field.type) for item, field in zip(value, kind, strict=True)}
    if pa.types.is_floating(kind):
        return NON_FINITE[value] if isinstance(value, str) else float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bytes.fromhex(value.removeprefix("0x"))
    if pa.types.is_date32(kind):
        return date.fromisoformat(value)
    if pa.types.is_time(kind):
        return (
            int((np.datetime64(f"1970-01-01T{value}", "ms") - np.datetime64(0, "ms")).astype(int))
            * PER_SECOND[kind.unit]
            // 1_000
        )
    if pa.types.is_timestamp(kind):
        whole, nanos = value.removesuffix("Z").split(".")
        seconds = int(np.datetime64(whole, "s").astype(int))
        return seconds * PER_SECOND[kind.unit] + int(nanos) * PER_SECOND[kind.unit] // PER_SECOND["ns"]
    return value


# ── comparing ───────────────────────────────────────────────────────────────────────────────────


def difference(ours: Iterable[Row], theirs: Iterable[Row], names: Sequence[str] = ()) -> str:
    """Rows that only one side has, as multisets of canonical texts; empty when both agree.

    A row of one side and the row of the other that is most like it are shown as one line, by their columns.
    """
    left, right = Counter(map(text_of, ours)), Counter(map(text_of, theirs))
    if left == right:
        return ""
    only_ours = [json.loads(text) for text in sorted((left - right).elements())]
    only_theirs = [json.loads(text) for text in sorted((right - left).elements())]
    title = f"{len(only_ours)} of our {left.total()} rows and {len(only_theirs)} of their {right.total()} rows differ"
    lines = []
    for row in only_ours[:SHOWN_ROWS_MAX]:
        twin = max(only_theirs, key=lambda other: _alike(row, other), default=None)
        if twin is not None and 2 * _alike(row, twin) >= len(row) > 1:
            only_theirs.remove(twin)
            lines.append(f"  changed {text_of(row[0])}…: {_changes(row, twin, names)}")
        else:
            lines.append(f"  only ours {text_of(row)}")
    lines += [f"  only theirs {text_of(row)}" for row in only_theirs[: SHOWN_ROWS_MAX - len(lines)]]
    return "\n".join([title, *lines])


def _alike(row: Row, other: Row) -> int:
    return sum(text_of(a) == text_of(b) for a, b in zip(row, other, strict=False)) if len(row) == len(other) else 0


def _changes(row: Row, other: Row, names: Sequence[str]) -> str:
    pairs = enumerate(zip(row, other, strict=True))
    return ", ".join(
        f"{names[i] if i < len(names) else f'column {i}'} ours {text_of(a)} theirs {text_of(b)}"
        for i, (a, b) in pairs
        if text_of(a) != text_of(b)
    )


def assert_same_rows(
    ours: pa.Table | Iterable[Row],
    theirs: pa.Table | Iterable[Row],
    where: str = "",
    *,
    schema: pa.Schema | None = None,
    unordered: Collection[str] = (),
) -> None:
    """Fails with the rows that differ. Order of rows does not count, how often each comes does.

    Where one side is a table, its Arrow types (or `schema`) say how the numbers of the other side are meant.
    `unordered` names list columns whose elements have no defined order.
    """
    tables = [side for side in (ours, theirs) if isinstance(side, pa.Table)]
    schema = schema or (tables[0].schema if tables else None)
    sides = [rows_of(side) if isinstance(side, pa.Table) else [list(row) for row in side] for side in (ours, theirs)]
    if schema is not None:
        sides = [_normal(side, schema, unordered) for side in sides]
    found = difference(*sides, names=() if schema is None else schema.names)
    assert not found, f"{where}: {found}" if where else found


def _normal(rows: list[Row], schema: pa.Schema, unordered: Collection[str]) -> list[Row]:
    """The same rows with floats in their shortest form and unordered lists sorted."""
    if any(len(row) != len(schema) for row in rows):
        return rows
    for i, field in enumerate(schema):
        if _holds_float(field.type):
            column = values_of(pa.array([value_of(row[i], field.type) for row in rows], field.type))
            for row, value in zip(rows, column, strict=True):
                row[i] = value
        if field.name in unordered:
            for row in rows:
                row[i] = row[i] and sorted(row[i], key=text_of)
    return rows


def _holds_float(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_float(kind.field(i).type) for i in range(kind.num_fields))
