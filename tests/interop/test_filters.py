"""Filters find the rows that Java's predicates find, at the edges of every type.

What Java 0.9 does wrongly is kept out: it fails on filters of TINYINT and SMALLINT over Parquet, and compares bytes as
signed numbers (later releases do not).
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, col
from paimon_engine.predicate import Predicate
from tests.support.canonical import assert_same_rows, rows_of, values_of
from tests.support.oracle import JavaPaimon

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
COLUMNS: dict[str, pa.Array] = {
    "i8": pa.array([-128, -1, 0, 1, 127, None], pa.int8()),
    "i16": pa.array([-(2**15), -1, 0, 1, 2**15 - 1, None], pa.int16()),
    "i32": pa.array([-(2**31), -1, 0, 1, 2**31 - 1, None], pa.int32()),
    "i64": pa.array([-(2**63), -1, 0, 1, 2**63 - 1, None], pa.int64()),
    "f": pa.array([-math.inf, -0.0, 0.0, 1.5, math.inf, None], pa.float32()),
    "x": pa.array([-math.inf, -0.0, 0.0, 1.5, math.inf, None], pa.float64()),
    "nan": pa.array([math.nan, -0.0, 0.0, -math.inf, math.inf, None], pa.float64()),
    "small": pa.array([Decimal(n).scaleb(-2) for n in (-999, -1, 0, 1, 999)] + [None], pa.decimal128(3, 2)),
    "large": pa.array(["-" + "9" * 29 + ".9", "-0.000000001", "0", "0.000000001", "9" * 29, None]).cast(
        pa.decimal128(38, 9)
    ),
    "s": pa.array(["", "a", "ab", "ü", "\U0001f600", None]),
    "b": pa.array([b"", b"\x00", b"\x7f", b"\x80", b"\xff\xff", None]),
    "flag": pa.array([True, False, True, False, True, None]),
    "d": pa.array([date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None]),
    "t": pa.array([0, 1, 43_200_000, 86_399_000, 86_399_999, None], pa.time32("ms")),
    "ts3": pa.array([-62_135_596_800_000, -1, 0, 1, 253_402_300_799_999, None], pa.timestamp("ms")),
    "ts6": pa.array([-62_135_596_800_000_000, -1, 0, 1, 253_402_300_799_999_999, None], pa.timestamp("us")),
    "at": pa.array([-62_135_596_800_000_000, -1, 0, 1, 253_402_300_799_999_999, None], pa.timestamp("us", "UTC")),
}


def compared(operator: str, name: str, value: Any) -> Predicate:
    column = col(name)
    match operator:
        case "=":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case _:
            return column >= value


PARQUET_OF_JAVA_FAILS = ("i8", "i16")


@pytest.mark.parametrize(
    ("file_format", "name"),
    [("avro", name) for name in COLUMNS] + [("parquet", name) for name in COLUMNS if name not in PARQUET_OF_JAVA_FAILS],
)
def test_comparisons_find_what_java_finds(tmp_path: Path, file_format: str, name: str, oracle: JavaPaimon):
    values = COLUMNS[name]
    schema = pa.schema([pa.field("n", pa.int32()), pa.field(name, values.type)])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options={"file.format": file_format})
    table.write(pa.table([pa.array(range(6), pa.int32()), values], schema=schema))

    literals = values_of(values)
    # -0.0, -1 and the like, and what is larger; NaN is the first of its column.
    for at in (0, 2) if name == "nan" else (1, 3):
        for operator in OPERATORS:
            if name == "b" and operator not in ("=", "!="):
                continue
            ours = rows_of(table.to_arrow(where=compared(operator, name, values[at].as_py())))
            theirs = oracle.read(table.path, filter=[operator, name, literals[at]])
            assert_same_rows(ours, theirs, f"{name} {operator} {literals[at]}")
    ours = rows_of(table.to_arrow(where=col(name).is_in([values[at].as_py() for at in (0, 3)])))
    theirs = oracle.read(table.path, filter=["in", name, [literals[at] for at in (0, 3)]])
    assert_same_rows(ours, theirs, f"{name} in a list")
