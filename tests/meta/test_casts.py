"""Casts of old values, one by one: what Java gives, and what neither takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.casts import STRING, cast, is_alterable, is_castable, is_implicit
from paimon_engine.meta.java_floats import float_text
from paimon_engine.meta.type_text import parse_type_text
from paimon_engine.types import to_arrow
from tests.support.canonical import value_of, values_of

CASES: list[tuple[str, str, Any, Any]] = [
    ("INT", "TINYINT", 300, 44),
    ("BIGINT", "INT", -2147483649, 2147483647),
    ("BIGINT", "BOOLEAN", 4294967296, False),
    ("SMALLINT", "BOOLEAN", -1, True),
    ("DOUBLE", "TINYINT", 300.9, 44),
    ("DOUBLE", "INT", 10000000000.0, 2147483647),
    ("DOUBLE", "BIGINT", "-Infinity", -9223372036854775808),
    ("FLOAT", "BIGINT", "NaN", 0),
    ("DOUBLE", "INT", -2.9, -2),
    ("DOUBLE", "FLOAT", 1e300, "Infinity"),
    ("BIGINT", "DOUBLE", 9007199254740993, 9007199254740992.0),
    ("BOOLEAN", "DECIMAL(2, 2)", True, None),
    ("BOOLEAN", "DOUBLE", True, 1.0),
    ("INT", "DECIMAL(5, 2)", 999, "999.00"),
    ("INT", "DECIMAL(5, 2)", 1000, None),
    ("DOUBLE", "DECIMAL(5, 2)", 2.675, "2.68"),
    ("DOUBLE", "DECIMAL(5, 2)", -0.005, "-0.01"),
    ("FLOAT", "DECIMAL(38, 20)", 0.1, "0.10000000149011612000"),
    ("DECIMAL(10, 2)", "DECIMAL(4, 1)", "999.94", "999.9"),
    ("DECIMAL(10, 2)", "DECIMAL(4, 1)", "999.95", None),
    ("DECIMAL(38, 38)", "DECIMAL(38, 0)", "0.50000000000000000000000000000000000000", "1"),
    ("DECIMAL(38, 0)", "BIGINT", "18446744073709551617", 1),
    ("DECIMAL(38, 38)", "INT", "-0.99999999999999999999999999999999999999", 0),
    ("DECIMAL(10, 2)", "TINYINT", "-129.99", 127),
    ("DECIMAL(10, 2)", "DOUBLE", "0.10", 0.1),
    ("DECIMAL(10, 2)", "STRING", "-0.10", "-0.10"),
    ("DECIMAL(20, 10)", "STRING", "0.0000000001", "0.0000000001"),
    ("FLOAT", "STRING", 0.1, "0.1"),
    ("DOUBLE", "STRING", 10000000.0, "1.0E7"),
    ("DOUBLE", "STRING", 9999999.0, "9999999.0"),
    ("DOUBLE", "STRING", 0.001, "0.001"),
    ("DOUBLE", "STRING", 0.00012, "1.2E-4"),
    ("DOUBLE", "STRING", 5e-324, "4.9E-324"),
    ("DOUBLE", "STRING", -0.0, "-0.0"),
    ("DOUBLE", "STRING", "-Infinity", "-Infinity"),
    ("BOOLEAN", "CHAR(6)", True, "true  "),
    ("INT", "VARCHAR(2)", -123, "-1"),
    ("STRING", "VARCHAR(2)", "äöü", "äö"),
    ("STRING", "CHAR(3)", "𝄞", "𝄞  "),
    ("CHAR(3)", "STRING", "a  ", "a  "),
    ("STRING", "BINARY(3)", "ä", "0xc3a400"),
    ("STRING", "VARBINARY(1)", "ä", "0xc3"),
    ("VARBINARY(9)", "BINARY(2)", "0x616263", "0x6162"),
    ("BYTES", "STRING", "0x61ff", "a�"),
    ("BYTES", "VARCHAR(1)", "0x6162", "ab"),
    ("DATE", "STRING", "0001-02-03", "0001-02-03"),
    ("TIME(0)", "STRING", "01:02:03.000", "01:02:03"),
    ("TIME(3)", "STRING", "01:02:03.000", "01:02:03.0"),
    ("TIME(3)", "STRING", "01:02:03.120", "01:02:03.12"),
    ("TIMESTAMP(0)", "STRING", "1969-12-31T23:59:59.000000000", "1969-12-31 23:59:59"),
    ("TIMESTAMP(3)", "STRING", "2024-02-29T13:05:09.120000000", "2024-02-29 13:05:09.120"),
    ("TIMESTAMP(6)", "STRING", "1969-12-31T23:59:59.999999000", "1969-12-31 23:59:59.999999"),
    ("TIMESTAMP(9)", "STRING", "2024-02-29T13:05:09.000000001", "2024-02-29 13:05:09.000000001"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", "1969-12-31T23:59:59.999999000", "1969-12-31T23:59:59.999000000"),
    ("TIMESTAMP(3)", "TIMESTAMP(0)", "1969-12-31T23:59:58.500000000", "1969-12-31T23:59:59.000000000"),
    ("TIMESTAMP(6)", "TIMESTAMP(4)", "2024-02-29T13:05:09.123456000", "2024-02-29T13:05:09.123400000"),
    ("TIMESTAMP(3)", "TIMESTAMP(9)", "2024-02-29T13:05:09.123000000", "2024-02-29T13:05:09.123000000"),
    ("TIMESTAMP(3)", "DATE", "1969-12-31T12:00:00.000000000", "1970-01-01"),
    ("TIMESTAMP(3)", "DATE", "1969-12-30T12:00:00.000000000", "1969-12-31"),
    ("TIMESTAMP(3)", "TIME(3)", "1969-12-31T12:00:00.001000000", "12:00:00.001"),
    ("TIMESTAMP(3)", "BIGINT", "1969-12-31T23:59:58.500000000", -1),
    ("TIMESTAMP(0)", "INT", "2106-02-07T06:28:17.000000000", 1),
    ("BIGINT", "TIMESTAMP(3)", -1, "1969-12-31T23:59:59.000000000"),
    ("DATE", "TIMESTAMP(6)", "1969-12-31", "1969-12-31T00:00:00.000000000"),
    ("TIME(3)", "TIMESTAMP(3)", "00:00:01.500", "1970-01-01T00:00:01.500000000"),
    ("STRING", "BOOLEAN", "YES", True),
    ("STRING", "TINYINT", "-128.99", -128),
    ("STRING", "INT", "+.5", 0),
    ("STRING", "BIGINT", "0000000000000000000000007", 7),
    ("STRING", "DOUBLE", " 1e3d ", 1000.0),
    ("STRING", "DOUBLE", "0x1.8p1", 3.0),
    ("STRING", "FLOAT", "1.00000017881393432617187499", 1.0000001),
    ("STRING", "DECIMAL(5, 2)", "1.005", "1.01"),
    ("STRING", "DECIMAL(5, 2)", "1e400", None),
    ("STRING", "DATE", "2024-2-9 10:00", "2024-02-09"),
    ("STRING", "DATE", "19000", "2022-01-08"),
    ("STRING", "DATE", "0000-02-29", "0000-02-29"),
    ("STRING", "TIME(3)", "1:2:3.0005", "01:02:03.001"),
    ("STRING", "TIME(3)", "12:00:00+01:30", "13:30:00.000"),
    ("STRING", "TIMESTAMP(3)", "2024-2-9 1:2:3.123456", "2024-02-09T01:02:03.123000000"),
    ("STRING", "TIMESTAMP(6)", "2023-02-31", "2023-02-28T00:00:00.000000000"),
    ("STRING", "TIMESTAMP(6)", "2023-12-31 24:00:00", "2024-01-01T00:00:00.000000000"),
    ("STRING", "TIMESTAMP(6)", "2024-02-29T12:30", "2024-02-29T12:30:00.000000000"),
    ("STRING", "TIMESTAMP(3)", "1500", "1970-01-01T00:00:01.500000000"),
    ("ARRAY<INT>", "STRING", [1, None, 3], "[1, null, 3]"),
    ("ARRAY<INT>", "VARCHAR(4)", [1, 2], "[1, "),
    ("ARRAY<ARRAY<DOUBLE>>", "STRING", [[1.0], [], None], "[[1.0], [], null]"),
    ("MAP<STRING, INT>", "STRING", [["a", 1], ["b", None]], "{a -> 1, b -> null}"),
    ("ROW<a INT,b DATE>", "STRING", [1, None], "{1, null}"),
]


def become(old: str, new: str, *values: Any) -> list[Any]:
    """Canonical values of one type, cast to another."""
    source, target = parse_type_text(old), parse_type_text(new)
    arrow_type = to_arrow(source)
    array = pa.array([value_of(value, arrow_type) for value in values], arrow_type)
    made = cast(array, source, target)
    assert made.type == to_arrow(target)
    return values_of(made)


@pytest.mark.parametrize(("old", "new", "value", "becomes"), CASES)
def test_a_value_becomes_what_java_makes_of_it(old: str, new: str, value: Any, becomes: Any):
    assert become(old, new, value) == [becomes]


@pytest.mark.parametrize(("old", "new", "value", "becomes"), CASES)
def test_nulls_and_slices_change_nothing(old: str, new: str, value: Any, becomes: Any):
    source, target = parse_type_text(old), parse_type_text(new)
    arrow_type = to_arrow(source)
    one = value_of(value, arrow_type)
    array = pa.array([one, None, one, None], arrow_type)

    assert values_of(cast(array.slice(1, 2), source, target)) == [None, becomes]
    assert values_of(cast(array.slice(1, 1), source, target)) == [None]
    assert values_of(cast(array.slice(0, 0), source, target)) == []


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("DOUBLE", "DECIMAL(5, 2)", "NaN"),
        ("DATE", "TIMESTAMP(9)", "0001-01-01"),
        *(("STRING", "INT", text) for text in ("", "+", "1x", " 1", "2147483648", "1e3", "--1", "٣")),
        *(("STRING", "TINYINT", text) for text in ("128", "-129")),
        *(("STRING", "DOUBLE", text) for text in ("", "nan", "1_0", "inf", "0x1")),
        *(("STRING", "DECIMAL(5, 2)", text) for text in ("", " 1", "NaN", "0x1")),
        *(("STRING", "BOOLEAN", text) for text in ("", "on", "2", " true")),
        *(("STRING", "DATE", text) for text in ("", "2023-02-29", "10000-01-01", "today", "2024-01-01x")),
        *(("STRING", "TIME(3)", text) for text in ("", "25:00:00", "23:59:59.9996", "86400000", "01:00-02:00", "1:x")),
        *(("STRING", "TIMESTAMP(3)", text) for text in ("", "24-01-01", "2024-01-01 25:00:00", "2024-01-01 1:2", "x")),
        ("STRING", "TIMESTAMP(4)", "1500"),
    ],
)
def test_a_value_without_a_meaning_is_named(old: str, new: str, value: Any):
    with pytest.raises(InvalidArgumentError, match="cannot become"):
        become(old, new, value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BOOLEAN", "DATE"),
        ("DATE", "INT"),
        ("TINYINT", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "SMALLINT"),
        ("DOUBLE", "BOOLEAN"),
        ("INT", "BYTES"),
        ("ARRAY<INT>", "ARRAY<BIGINT>"),
        ("ARRAY<MULTISET<INT>>", "STRING"),
        ("STRING", "ARRAY<INT>"),
    ],
)
def test_types_without_a_cast_are_named(old: str, new: str):
    source, target = parse_type_text(old), parse_type_text(new)

    assert not is_castable(source, target)
    with pytest.raises(UnsupportedError, match="no cast from"):
        cast(pa.nulls(1, to_arrow(source)), source, target)


def test_a_column_of_dates_may_become_string_but_no_shorter_text():
    dates = parse_type_text("DATE")

    assert is_alterable(dates, STRING)
    assert not is_alterable(dates, parse_type_text("VARCHAR(10)"))
    assert is_alterable(parse_type_text("INT"), parse_type_text("VARCHAR(10)"))


@pytest.mark.parametrize(
    ("old", "new", "implicit"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("DOUBLE", "DECIMAL(5, 2)", True),
        ("INT", "STRING", False),
        ("CHAR(3)", "VARCHAR(2)", True),
        ("TIMESTAMP(3)", "DATE", True),
        ("INT", "BIGINT NOT NULL", False),
        ("ARRAY<INT>", "STRING", False),
    ],
)
def test_what_is_allowed_without_explicit_casts(old: str, new: str, implicit: bool):
    assert is_implicit(parse_type_text(old), parse_type_text(new)) is implicit


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_instants_become_the_wall_clock_of_the_process():
    zoned, plain = "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3)"
    instants = ["2024-01-01T23:30:00.500000000Z", "2024-07-01T23:30:00.500000000Z"]
    shown = ["2024-01-02T00:30:00.500000000", "2024-07-02T01:30:00.500000000"]

    assert become(zoned, plain, *instants) == shown
    assert become(plain, zoned, *shown) == instants
    assert become(zoned, "DATE", *instants) == ["2024-01-02", "2024-07-02"]
    assert become(zoned, "TIME(3)", *instants) == ["00:30:00.500", "01:30:00.500"]
    assert become(zoned, "STRING", *instants) == ["2024-01-02 00:30:00.500", "2024-07-02 01:30:00.500"]
    assert become("STRING", zoned, "2024-01-02 00:30:00.5") == instants[:1]
    assert become("DATE", zoned, "2024-01-02") == ["2024-01-01T23:00:00.000000000Z"]


@pytest.mark.usefixtures("berlin")
def test_hours_that_a_clock_skips_or_shows_twice_are_taken_as_java_takes_them():
    instants = become(
        "TIMESTAMP(0)",
        "TIMESTAMP(0) WITH LOCAL TIME ZONE",
        *("2024-03-31T02:30:00.000000000", "2024-10-27T02:30:00.000000000"),
    )

    assert instants == ["2024-03-31T01:30:00.000000000Z", "2024-10-27T00:30:00.000000000Z"]


FLOATS_OF_JAVA_17 = {
    -573415330: "-1.89490246E18",
    1572282379: "1.64944488E18",
    1520664583: "2.30105944E16",
    838860800: "7.4505806E-9",
    1761607680: "9.6714065E24",
    -365458676: "-5.5472513E25",
    369098752: "1.03397577E-25",
    292: "4.09E-43",
    1: "1.4E-45",
    560478251: "7.8678995E-19",
    1203: "1.686E-42",
    1315859240: "1.0E9",
    1200454402: "72438.016",
    981668463: "0.001",
    -2147483648: "-0.0",
    2139095040: "Infinity",
}
DOUBLES_OF_JAVA_17 = {
    4864934718284060312: "1.77623051241444096E17",
    -4336213027677564147: "-5.3831814221762529E18",
    -4358381955441428240: "-1.79394671378636288E17",
    3314649325744685056: "4.0215293667718976E-87",
    7883164322401693319: "9.983648486895943E218",
    2989978056: "1.4772454393E-314",
    1: "4.9E-324",
    4881101806497202176: "2.10099447867532902E18",
    4679847636491687061: "74378.0879",
    4617878467915022336: "5.5",
}


@pytest.mark.parametrize(
    ("kind", "bits", "text"),
    [
        *((np.float32, np.int32(bits), text) for bits, text in FLOATS_OF_JAVA_17.items()),
        *((np.float64, np.int64(bits), text) for bits, text in DOUBLES_OF_JAVA_17.items()),
    ],
)
def test_numbers_have_the_digits_that_java_up_to_18_gives_them(kind: Any, bits: Any, text: str):
    assert float_text(bits.view(kind)) == text
