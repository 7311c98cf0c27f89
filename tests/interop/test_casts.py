"""Columns that changed their type, for each pair of types that Java allows: Java and we read equal old values."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import PaimonError, open_table
from paimon_engine.meta.casts import STRING, cast, is_alterable
from paimon_engine.meta.evolution import bare
from paimon_engine.meta.type_text import parse_type_text
from paimon_engine.types import to_arrow
from tests.support.canonical import Row, assert_same_rows, value_of
from tests.support.oracle import JavaPaimon

NUMBERS = [
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 0)",
    "DECIMAL(10, 2)",
    "DECIMAL(38, 9)",
]
TEXTS = ["CHAR(1)", "CHAR(12)", "VARCHAR(3)", "STRING"]
BYTES = ["BINARY(3)", "BINARY(9)", "VARBINARY(2)", "BYTES"]
LTZ = " WITH LOCAL TIME ZONE"
MOMENTS = [
    "DATE",
    "TIME(0)",
    "TIME(3)",
    *(f"TIMESTAMP({p})" for p in (0, 1, 3, 4, 6, 9)),
    f"TIMESTAMP(3){LTZ}",
    f"TIMESTAMP(6){LTZ}",
]
TARGETS = [*NUMBERS, "BOOLEAN", *TEXTS, *BYTES, *MOMENTS]
FROM_TEXT = [
    *("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "BOOLEAN", "CHAR(12)", "VARCHAR(3)"),
    *("BINARY(3)", "VARBINARY(2)", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(9)", f"TIMESTAMP(6){LTZ}"),
]

INSTANTS = [
    "1970-01-01T00:00:00.000000000",
    "1969-12-31T23:59:59.999999000",
    "1969-12-31T12:00:00.000000000",
    "1900-02-28T00:00:00.100000000",
    "2024-02-29T13:05:09.123456000",
    "2262-01-01T23:59:59.120000000",
]


def cut(texts: list[str], digits: int) -> list[str]:
    """Timestamps with no more than so many digits of the second."""
    return [text[: 20 + digits].ljust(29, "0") for text in texts]


VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, 1, -1, 127, -128],
    "SMALLINT": [0, -1, 300, 32767, -32768],
    "INT": [0, -1, 70000, 2147483647, -2147483648],
    "BIGINT": [0, -1, 1700000000, 4294967296, 9223372036854775807, -9223372036854775808],
    "FLOAT": [
        0.0,
        -0.0,
        1.5,
        -2.5,
        0.1,
        1e7,
        123456.7,
        3.4028234663852886e38,
        1.4e-45,
        1.64944488e18,
        9.6714065e24,
        -2.9134150e18,
        7.4505806e-9,
        "NaN",
        "Infinity",
        "-Infinity",
    ],
    "DOUBLE": [
        0.0,
        -0.0,
        2.675,
        -2.5,
        1e-3,
        9.99e-4,
        1e7,
        9999999.5,
        -1e19,
        3e9,
        1.7e308,
        1.77623051241444096e17,
        -5.3831814221762529e18,
        2e23,
        4.0215293667718976e-87,
        4.9e-324,
        "NaN",
        "Infinity",
        "-Infinity",
    ],
    "DECIMAL(10, 2)": ["0.00", "1.50", "-1.50", "2.55", "99999999.99", "-0.01"],
    "DECIMAL(38, 10)": ["0.0000000000", "1.5000000000", "-9223372036854775809.0000000001", "0.0000000001"],
    "BOOLEAN": [True, False],
    "CHAR(5)": ["1    ", "ab   ", "hello"],
    "VARCHAR(10)": ["", "7", "-1.9", "äöü€𝄞x", "x123456789"],
    "BINARY(4)": ["0x01020304", "0x61620000"],
    "VARBINARY(6)": ["0x", "0x616263", "0x6162636465"],
    "DATE": ["1970-01-01", "1969-12-31", "1678-01-01", "2024-02-29"],
    "TIME(0)": ["00:00:00.000", "23:59:59.000"],
    "TIME(3)": ["00:00:00.000", "23:59:59.999", "12:00:00.120", "01:02:03.001"],
    "TIMESTAMP(0)": [text[:19] + ".000000000" for text in INSTANTS],
    "TIMESTAMP(3)": cut(INSTANTS, 3),
    "TIMESTAMP(6)": INSTANTS,
    "TIMESTAMP(9)": [*INSTANTS[0:1], *INSTANTS[4:], "2024-02-29T13:05:09.012345678"],
    f"TIMESTAMP(3){LTZ}": [text + "Z" for text in cut(INSTANTS, 3)],
    f"TIMESTAMP(6){LTZ}": [text + "Z" for text in INSTANTS],
}

TEXT_VALUES = [
    *("", "0", "+5", "-", ".", "-.", "1.", ".5", "-1.9", "1.5x", " 1", "128", "-129", "32768", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "1e3", "1e-3", "NaN", "nan", "-Infinity", "0x1p3", "1f", "1_0"),
    *("1.17549435E-38", "16777217.0", "123.456789", "99999.5", "-0.005", "t", "TRUE", "yes", "No", "on"),
    *("2024-02-29", "2023-02-29", "2024-2-9", "2024-02", "2024-13-01", "2023-04-31", "2024-01-32", "0001-01-01"),
    *("9999-12-31", "2024-02-29 12:30:15", "2024-02-29 1:2:3.5", "2024-02-29 12:30", "2024-02-29 12:30:15.123456789"),
    *("2024-02-29 24:00:00", "2024-02-29 12:60:00", " 2024-02-29", "2024-011-01", "1969-12-31 23:59:59.999"),
    *("12:30", "1:2:3", "25:00:00", "12:30:15.1236", "12:30:15.12x", "12:30:15+08:00", "12:30-01:00", "abc", "äöü"),
]


@pytest.fixture
def paths(tmp_path: Path) -> Any:
    numbers = count()
    return lambda: str(tmp_path / f"db.db/t{next(numbers)}")


def altered(oracle: JavaPaimon, path: str, stored: str, rows: list[Row], targets: list[str]) -> None:
    """A table that Java wrote with columns `c0 …` of one type, and then gave them others."""
    names = [f"c{i}" for i in range(len(targets))]
    fields = [["id", "INT"], *([name, stored] for name in names)]
    options = {"bucket": "-1", "file.format": "parquet"}
    oracle.call("create_table", table=path, fields=fields, primary_keys=[], partition_keys=[], options=options)
    oracle.call("write", table=path, rows=rows)
    changes = [{"change": "type", "name": name, "type": kind} for name, kind in zip(names, targets, strict=True)]
    oracle.call("alter", table=path, changes=changes)


def overflows(stored: str, target: str, value: Any) -> bool:
    """Whether it has too many digits: null, which readers of Java 0.9 fail at."""
    arrow_type = to_arrow(parse_type_text(stored))
    array = pa.array([value_of(value, arrow_type)], arrow_type)
    return bool(cast(array, parse_type_text(stored), parse_type_text(target)).null_count)


def ours(stored: str, target: str, value: Any) -> str:
    """`raises`, `null` or `value`."""
    try:
        return "null" if overflows(stored, target, value) else "value"
    except PaimonError:
        return "raises"


def is_left_out(stored: str, target: str, value: Any) -> bool:
    """What cannot be compared.

    Values that this side says are none, times that 0.9 makes negative, numbers as moments, which it does not know yet,
    and the milliseconds of times, which it keeps beyond the precision of a timestamp.
    """
    before_1970 = isinstance(value, str) and value < "1970" and "T" in value and not value.endswith("Z")
    is_time = before_1970 and target.startswith("TIME(")
    is_number = isinstance(value, str) and value.isdigit() and target.startswith("TIMESTAMP")
    is_finer = stored == "TIME(3)" and target in ("TIMESTAMP(0)", "TIMESTAMP(1)")
    return ours(stored, target, value) != "value" or is_time or is_number or is_finer


@pytest.mark.parametrize("stored", VALUES)
def test_old_values_become_what_java_makes_of_them(stored: str, oracle: JavaPaimon, paths: Any):
    source = parse_type_text(stored)
    targets = [
        kind
        for kind in TARGETS
        if is_alterable(source, parse_type_text(kind)) and bare(source) != bare(parse_type_text(kind))
    ]
    path = paths()
    rows: list[Row] = [
        [i, *(None if is_left_out(stored, target, value) else value for target in targets)]
        for i, value in enumerate(VALUES[stored])
    ]

    altered(oracle, path, stored, [*rows, [-1, *(None for _ in targets)]], targets)

    assert_same_rows(open_table(path).to_arrow(), oracle.read(path), stored)


@pytest.mark.parametrize("target", FROM_TEXT)
def test_old_text_becomes_what_java_makes_of_it_or_neither_takes_it(target: str, oracle: JavaPaimon, paths: Any):
    kinds = {text: ours("STRING", target, text) for text in TEXT_VALUES}
    taken = [text for text in TEXT_VALUES if not is_left_out("STRING", target, text)]
    # Arrow cannot count nanoseconds so far from 1970.
    refused = [text for text in TEXT_VALUES if kinds[text] == "raises" and text not in ("0001-01-01", "9999-12-31")]
    good, bad = paths(), paths()

    altered(oracle, good, "STRING", [[0, *taken]], [target] * len(taken))
    assert_same_rows(open_table(good).to_arrow(), oracle.read(good), target)
    if refused:
        altered(oracle, bad, "STRING", [[0, *refused]], [target] * len(refused))
    for i in range(len(refused)):
        with pytest.raises(Exception, match=r"."):
            oracle.read(bad, projection=[f"c{i}"])
        with pytest.raises(PaimonError, match=f"column 'c{i}'"):
            open_table(bad).to_arrow([f"c{i}"])


@pytest.mark.parametrize("stored", VALUES)
def test_java_refuses_the_changes_that_we_refuse(stored: str, oracle: JavaPaimon, paths: Any):
    source, path = parse_type_text(stored), paths()
    options = {"bucket": "-1"}
    oracle.call("create_table", table=path, fields=[["a", "INT"], ["c", stored]], options=options)

    for target in TARGETS:
        if is_alterable(source, parse_type_text(target)) or bare(source) == bare(parse_type_text(target)):
            continue
        with pytest.raises(Exception, match="cannot be converted"):
            oracle.call("alter", table=path, changes=[{"change": "type", "name": "c", "type": target}])
    assert is_alterable(STRING, source)
