"""Rows as JSON and CSV: every value of every type has a text, and it is the value."""

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.text_rows import flat, flat_schema, json_lines
from tests.support.random_tables import value, value_type

FAR_US = 253_402_300_800 * 10**6 + 1
"""Microseconds from 1970 to the second one of the year 10000."""


def _read(column: pa.Array) -> list:
    return [json.loads(line)["c"] for line in json_lines(pa.record_batch([column], names=["c"]))]


def _expected(item: object) -> object:
    """A value as Python has it, in JSON."""
    match item:
        case dict():
            return {key: _expected(one) for key, one in item.items()}
        case list() | tuple():
            return [_expected(one) for one in item]
        case float() if item in (float("inf"), float("-inf")):
            return "Infinity" if item > 0 else "-Infinity"
        case bytes():
            return base64.b64encode(item).decode()
        case Decimal():
            return f"{item:f}"
        case datetime():
            return item.isoformat()
        case None | bool() | int() | float() | str():
            return item
        case _:
            return str(item)


@pytest.mark.parametrize("seed", range(60))
def test_json_has_the_values_that_python_has(seed: int):
    random = Random(seed)
    kind = value_type(random, ("s", "ms", "us"))
    column = pa.array([value(random, kind) for _ in range(50)], kind)
    for part in (column, column.slice(7, 20), column.slice(50)):
        assert _read(part) == [_expected(item) for item in part.to_pylist()], kind


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.timestamp("us"), [FAR_US, None], ["10000-01-01T00:00:00.000001", None]),
        (pa.timestamp("us"), [-62_135_596_800_000_001], ["0000-12-31T23:59:59.999999"]),
        (pa.timestamp("ms", "UTC"), [-1], ["1969-12-31T23:59:59.999000+00:00"]),
        (
            pa.timestamp("ns"),
            [123_456_789, -1, 5_000],
            ["1970-01-01T00:00:00.123456789", "1969-12-31T23:59:59.999999999", "1970-01-01T00:00:00.000005"],
        ),
        (pa.timestamp("s"), [0], ["1970-01-01T00:00:00"]),
        (pa.date32(), [3_000_000, None, -719_163], ["10183-09-21", None, "0000-12-31"]),
        (pa.decimal128(38, 10), [Decimal(0), Decimal("-0.0000000001")], ["0.0000000000", "-0.0000000001"]),
        (pa.list_(pa.timestamp("us")), [[FAR_US], None, []], [["10000-01-01T00:00:00.000001"], None, []]),
    ],
    ids=str,
)
def test_no_value_is_too_far_or_too_fine_for_json(kind: pa.DataType, values: list, texts: list):
    column = pa.array(values, pa.list_(pa.int64()) if pa.types.is_list(kind) else None)
    assert _read(column.cast(kind) if pa.types.is_list(kind) else pa.array(values, kind)) == texts


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("s", "UTC"), pa.date32()], ids=str
)
def test_csv_refuses_years_that_arrow_writes_as_a_note(kind: pa.DataType):
    last = date(9999, 12, 31).toordinal() - date(1970, 1, 1).toordinal()
    days = {"usual": last, "far": 20_000_000}
    steps = 1 if pa.types.is_date(kind) else 86_400 * {"s": 1, "ms": 10**3, "us": 10**6}[kind.unit]
    assert flat(pa.array([days["usual"] * steps, None], kind)).to_pylist() is not None
    for number in (days["far"], -days["far"]):
        with pytest.raises(InvalidArgumentError, match="years -32767 to 32767"):
            flat(pa.array([number * steps, None], kind))


def test_nested_columns_of_csv_are_texts_also_where_all_are_null():
    schema = pa.schema([("l", pa.list_(pa.int32())), ("b", pa.binary()), ("n", pa.int32())])
    rows = pa.record_batch([pa.nulls(2, field.type) for field in schema], schema=schema)
    assert [flat(column).type for column in rows.columns] == flat_schema(schema).types


def test_rows_without_columns_are_empty_objects():
    rows = pa.record_batch([pa.nulls(2)], names=["c"]).select([])
    assert json_lines(rows) == ["{}", "{}"]
