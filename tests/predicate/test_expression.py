"""Filters in Python and in SQL: the same tree, the same rows, and errors that name the column."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine import InvalidArgumentError, col
from paimon_engine.predicate import (
    And,
    Condition,
    IsNull,
    Predicate,
    as_predicate,
    bind,
    parse_where,
    to_arrow_expression,
)

ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3, None], pa.int32()),
        "s": ["apple", "a%b", "banana", None],
        "x": pa.array([1.5, math.nan, -0.0, None], pa.float64()),
        "f": pa.array([0.1, 0.0, -math.inf, None], pa.float32()),
        "p": pa.array([Decimal("1.00"), Decimal("1.01"), Decimal("-9.99"), None], pa.decimal128(3, 2)),
        "d": pa.array([date(2013, 1, 1), date(1969, 12, 31), date(2013, 1, 2), None]),
        "t": pa.array([0, 43_200_000, 86_399_999, None], pa.time32("ms")),
        "ts": pa.array([0, -1, 1_357_000_000_123, None], pa.timestamp("ms")),
        "ns": pa.array([0, -1, 1_357_000_000_123_456_789, None], pa.timestamp("ns")),
        "at": pa.array([0, -1, 1_357_000_000_123_456, None], pa.timestamp("us", "UTC")),
        "b": pa.array([b"", b"\x00\xff", b"abc", None]),
        "ok": [True, False, True, None],
        "r": [{"a": 1, "b.c": {"d": "x"}}, {"a": None, "b.c": None}, None, {"a": 4, "b.c": {"d": "y"}}],
        "r.z": [1, 2, 3, 4],
    }
)


def found(where: str | Condition) -> list[int]:
    """Numbers of the rows that match, from 0."""
    predicate = as_predicate(where)
    assert predicate is not None
    numbered = ROWS.append_column("#", pa.array(range(ROWS.num_rows)))
    return list(numbered.filter(to_arrow_expression(predicate, ROWS.schema))["#"].to_pylist())


@pytest.mark.parametrize(
    ("expression", "text", "rows"),
    [
        (col("k") > 1, "k > 1", [1, 2]),
        (col("k") != 1, "1 <> k", [1, 2]),
        ((col("k") > 1) & col("s").is_in(["apple", "banana"]) | col("k").is_null(), None, [2, 3]),
        (~col("k").is_in([1, 2]), "k NOT IN (1, 2)", [2]),
        (col("k").not_in([1, None]), "k NOT IN (1, NULL)", []),
        (col("k").is_in([1, None]), "k IN (1, NULL)", [0]),
        (~(col("k") > 1), "NOT k > 1", [0]),
        (~((col("k") > 1) | (col("s") == "x")), "NOT (k > 1 OR s = 'x')", [0]),
        (~((col("k") > 1) & (col("s") == "a%b")), "NOT (k > 1 AND s = 'a%b')", [0, 2]),
        (col("k").between(2, 3), "k BETWEEN 2 AND 3", [1, 2]),
        (~col("k").between(2, 3), "k NOT BETWEEN 2 AND 3", [0]),
        (col("k").is_not_null(), "k IS NOT NULL", [0, 1, 2]),
        (~col("k").is_not_null(), "NOT (k IS NOT NULL)", [3]),
        (col("s").starts_with("a"), "startswith(s, 'a')", [0, 1]),
        (col("s").ends_with("a"), "endswith(s, 'a')", [2]),
        (col("s").contains("an"), "contains(s, 'an')", [2]),
        (col("s").like("a%"), "s LIKE 'a%'", [0, 1]),
        (col("s").like("_pp%"), "s LIKE '_pp%'", [0]),
        (col("s").like(r"a\%%"), "s LIKE 'a!%%' ESCAPE '!'", [1]),
        (~col("s").like(r"a\%%"), "s NOT LIKE 'a!%%' ESCAPE '!'", [0, 2]),
        (~col("s").starts_with("a"), "s NOT LIKE 'a%'", [2]),
        (col("ok") & (col("k") > 1), "ok AND k > 1", [2]),
        (~col("ok"), "ok IS FALSE", [1]),
        (None, "ok IS NOT TRUE", [1, 3]),
        (None, "k <=> 2", [1]),
        (None, "k <=> NULL", [3]),
        (col("b") == b"\x00\xff", "b = X'00FF'", [1]),
        (col("b") > b"\x00", "b > X'00'", [1, 2]),
        (col("d") == date(2013, 1, 1), "d = DATE '2013-01-01'", [0]),
        (col("d") > datetime(2013, 1, 1, 12), "d > TIMESTAMP '2013-01-01 12:00:00'", [2]),
        (col("d") == datetime(2013, 1, 1, 12), "d = '2013-01-01 12:00:00'", []),
        (col("t") >= time(12), "t >= TIME '12:00:00'", [1, 2]),
        (col("t") > time(23, 59, 59, 998_999), "t > '23:59:59.998999'", [2]),
        (col("ts") < datetime(1970, 1, 1), "ts < TIMESTAMP '1970-01-01'", [1]),
        (col("ts") > datetime(2013, 1, 1, 0, 26, 40, 122_999), "ts > '2013-01-01 00:26:40.122999'", [2]),
        (col("ts") == datetime(2013, 1, 1, 0, 26, 40, 123_001), "ts = '2013-01-01 00:26:40.123001'", []),
        (col("ts") >= date(2013, 1, 1), "ts >= DATE '2013-01-01'", [2]),
        (
            col("ns") == np.datetime64("2013-01-01T00:26:40.123456789"),
            "ns = TIMESTAMP '2013-01-01 00:26:40.123456789'",
            [2],
        ),
        (col("ns") == pd.Timestamp(-1), "ns = '1969-12-31 23:59:59.999999999'", [1]),
        (col("at") == datetime(1970, 1, 1, tzinfo=UTC), "at = TIMESTAMP '1970-01-01 00:00:00'", [0]),
        (
            col("at") >= datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "at >= TIMESTAMP '1970-01-01 02:00:00+02:00'",
            [0, 2],
        ),
        (col("r.a") == 1, "r.a = 1", [0]),
        (col("r.a").is_null(), "r.a IS NULL", [1, 2]),
        (~(col("r.a") == 1), "NOT r.a = 1", [3]),
        (col("r.b.c.d").like("y"), "`r`.`b.c`.d LIKE 'y'", [3]),
        (col("r.z") == 2, "`r.z` = 2", [1]),
        (col("r").is_null(), "r IS NULL", [2]),
    ],
    ids=str,
)
def test_python_and_sql_find_the_same_rows(expression: Predicate | None, text: str | None, rows: list[int]):
    for where in (expression, text):
        if where is not None:
            assert found(where) == rows
            assert found(str(as_predicate(where))) == rows


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("k > 1.5", [1, 2]),
        ("k >= 1.5", [1, 2]),
        ("k < 1.5", [0]),
        ("k <= 1.5", [0]),
        ("k = 1.5", []),
        ("k <> 1.5", [0, 1, 2]),
        ("k = 1.0", [0]),
        ("k IN (1.5, 2.0)", [1]),
        ("k < 10000000000", [0, 1, 2]),
        ("k > -10000000000", [0, 1, 2]),
        ("k = 10000000000", []),
        ("NOT k = 10000000000", [0, 1, 2]),
        ("k < CAST('NaN' AS DOUBLE)", [0, 1, 2]),
        ("p > 1.005", [1]),
        ("p >= 1.000", [0, 1]),
        ("p = 1.0001", []),
        ("p = 1", [0]),
        ("p > 100", []),
        ("p > -100", [0, 1, 2]),
        ("f = 0.1", [0]),
        ("x = CAST('NaN' AS DOUBLE)", [1]),
        ("x > 1", [0, 1]),
        ("NOT x > 1", [2]),
        ("x <= 1.5", [0, 2]),
        ("x < CAST('NaN' AS DOUBLE)", [0, 2]),
        ("x <= CAST('NaN' AS DOUBLE)", [0, 1, 2]),
        ("x > CAST('NaN' AS DOUBLE)", []),
        ("x IN (1.5, CAST('NaN' AS DOUBLE))", [0, 1]),
        ("x NOT IN (1.5)", [1, 2]),
        ("x = 0.0", []),
        ("x < 0.0", [2]),
        ("x <= 0", [2]),
        ("x >= CAST(-0.0 AS DOUBLE)", [0, 1, 2]),
        ("x = CAST(-0.0 AS DOUBLE)", [2]),
        ("x < CAST(-0.0 AS DOUBLE)", []),
        ("x > CAST(-0.0 AS DOUBLE)", [0, 1]),
        ("f < 0", [2]),
        ("f >= 0", [0, 1]),
    ],
)
def test_numbers_compare_exactly(where: str, rows: list[int]):
    assert found(where) == rows
    assert found(str(parse_where(where))) == rows


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (col("k") == "one", "'one' does not fit column 'k' of type int32: it is not a number$"),
        (col("k") == True, "True does not fit column 'k'"),  # noqa: E712 - a filter, not a test
        (col("k").is_in([1, date(2013, 1, 1)]), "does not fit column 'k'"),
        (col("s") > 5, "5 does not fit column 's'"),
        (col("d") == 5, "5 does not fit column 'd'"),
        (col("d") == "yesterday", "'yesterday' does not fit column 'd'"),
        (col("ts") == datetime(2013, 1, 1, tzinfo=UTC), "column 'ts'.*has a time zone"),
        (col("ok") == 1, "1 does not fit column 'ok'"),
        (col("x") == b"1", "column 'x'"),
        (col("p") == b"1", "column 'p'"),
        (col("t") == datetime(2013, 1, 1), "column 't'"),
        (col("r") == 1, "name a field of a ROW"),
        (col("k").starts_with("1"), "starts_with takes text; column 'k' is of type int32"),
        (col("r.q") == 1, "no column 'r.q'"),
        (col("K") == 1, "no column 'K' to filter on; did you mean 'k'?"),
        ("k = NULL", "write IS NULL"),
        ("k = ok", "cannot use"),
        ("b = X'0'", "hexadecimal"),
        ("abs(k) = 1", "cannot use 'ABS"),
        ("k = DATE 'soon'", "'soon' is not a DATE"),
        ("k >", "cannot read the filter"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_with_its_column(where: str | Condition, message: str):
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        found(where)
    assert type(raised.value) is InvalidArgumentError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: col("k") == None, r"col\('k'\).is_null\(\)"),  # noqa: E711 - what people write
        (lambda: col("k") == col("x"), "with values only"),
        (lambda: col("k") == [1], "cannot be compared with a list"),
        (lambda: 1 < col("k") < 3, "between"),
        (lambda: (col("k") == 1) and (col("x") == 1), "neither true nor false"),
        (lambda: (col("k") == 1) & 1, "1 is not a filter"),
        (lambda: col("s").is_in("abc"), "a list of values"),
        (lambda: col("s").like(1), "text only"),
        (lambda: col(""), "name of a column"),
        (lambda: as_predicate(5), "5 is not a filter"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_filter_says_how_to_write_one(make: Any, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        make()


VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
)
NAMES = st.text(min_size=1).filter(lambda name: not set(name) & {"\0"})
LEAVES = st.one_of(
    st.builds(lambda name, value: col(name) == value, NAMES, VALUES),
    st.builds(lambda name, value: col(name) < value, NAMES, VALUES),
    st.builds(lambda name, values: col(name).is_in(values), NAMES, st.lists(st.none() | VALUES, max_size=3)),
    st.builds(lambda name, text: col(name).like(text), NAMES, st.text()),
    st.builds(lambda name, text: col(name).contains(text), NAMES, st.text()),
    st.builds(IsNull, NAMES, st.booleans()),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
    ),
    max_leaves=6,
)


@given(TREES)
def test_the_text_of_a_filter_reads_back_as_the_filter(tree: Predicate):
    assert parse_where(str(tree)) == tree


@pytest.mark.parametrize(
    "where", ['"r.z" = 1', '"r.z" IS NULL', '"r.z" IN (1, 2)', 'k = 1 AND "r.z" > 1', "\"r.z\" LIKE 'a'"]
)
def test_names_in_double_quotes_are_led_to_backticks(where: str) -> None:
    with pytest.raises(InvalidArgumentError, match="in backticks: `r.z`"):
        parse_where(where)
    assert found("`r.z` = 1") == [0]
    assert found('s = "apple"') == [0]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (" OR ".join(f"k = {number}" for number in range(2, 5_000)), [1, 2]),
        (" OR ".join(f"(k = {number} AND s = 'banana')" for number in range(5_000)), [2]),
        (" AND ".join(f"k <> {number}" for number in range(2, 5_000)), [0]),
        ("NOT (" + " OR ".join(f"k = {number}" for number in range(2, 5_000)) + ")", [0]),
    ],
    ids=["or", "or of two columns", "and", "not or"],
)
def test_a_long_chain_is_not_nested(where: str, rows: list[int]) -> None:
    assert found(where) == rows


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("k = 1 OR k = 2 OR s = 'a'", "`k` IN (1, 2) OR `s` = 'a'"),
        ("s = 'a' OR k IN (1, NULL) OR k > 5 OR k = 2", "`s` = 'a' OR `k` IN (1, NULL, 2) OR `k` > 5"),
        ("ok AND (k = 1 OR NOT (s = 'a' OR s = 'b'))", "`ok` = TRUE AND (`k` = 1 OR NOT (`s` IN ('a', 'b')))"),
        ("k = 1 OR k = 1.5", "`k` IN (1, 1.5)"),
        ("k = 1 OR s = 'a'", "`k` = 1 OR `s` = 'a'"),
    ],
)
def test_values_of_a_column_are_looked_for_as_one_list(where: str, text: str) -> None:
    assert str(as_predicate(where)) == text
    assert found(where) == list(
        ROWS.append_column("#", pa.array(range(ROWS.num_rows)))
        .filter(to_arrow_expression(parse_where(where), ROWS.schema))["#"]
        .to_pylist()
    )


def test_a_list_of_values_is_converted_once_for_all_files_and_batches() -> None:
    """Each file and each batch of rows binds the filter; a list may have many thousands of values."""
    where = col("k").is_in([1, 2, None]) & ~col("s").is_in(["apple"])
    sent = pickle.dumps(where)

    bound = bind(where, pa.schema(list(ROWS.schema)))
    again = bind(where, ROWS.schema)

    assert isinstance(bound, And) and isinstance(again, And)
    assert again.parts[0] is bound.parts[0]
    assert isinstance(bind(where, ROWS.schema.set(0, pa.field("k", pa.int64()))), And)
    assert found(where) == [1] and found(where.parts[0]) == [0, 1]
    assert where == pickle.loads(sent) and pickle.dumps(where) == sent, "what was made is not sent to tasks"
