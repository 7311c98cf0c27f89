"""Filters that Spark decides: true, false and unknown of the same rows as the engine's own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from paimon_engine import Catalog
from paimon_engine.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Match,
    Not,
    Or,
    Predicate,
    TextTest,
    bind,
    to_arrow_expression,
)
from paimon_engine.spark.conditions import spark_condition
from paimon_engine.spark.executor import SparkExecutor

pytestmark = pytest.mark.spark

VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, 0, 127]),
    "i32": (pa.int32(), [-(1 << 31), 7]),
    "i64": (pa.int64(), [-(1 << 63), 0, (1 << 63) - 1]),
    "f": (pa.float32(), [0.1, -0.0, 0.0, nan, inf, 3.4028234663852886e38]),
    "d": (pa.float64(), [0.1, -0.0, 0.0, nan, -inf, 5e-324]),
    "small": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999.99")]),
    "large": (pa.decimal128(38, 3), [Decimal("-" + "9" * 35 + ".999"), Decimal("0.001")]),
    "s": (pa.string(), ["", "a", "a\nb", "%_", "😀b", "ab", "B", "'\\\"", "a\0", "\\"]),
    "b": (pa.binary(), [b"", b"\0", b"\xff", b"\x7f\xff"]),
    "day": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "t": (pa.timestamp("ms"), [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999000)]),
    "z": (pa.timestamp("us", "UTC"), [datetime(1582, 10, 4, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, UTC)]),
    "odd `name.x": (pa.int32(), [1, 2]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
PATTERNS = ["", "%", "a%", "%b", "%a%", "_", "__", "a_b", "%_%", "_b", "a%b", "'%"]


@pytest.fixture
def rows() -> pa.Table:
    """Each value in some rows, next to others in no order, and nulls."""
    chance = random.Random(1)
    count = 60
    columns = []
    for kind, values in VALUES.values():
        known = [*values, None]
        columns.append(pa.array([known[n] if n < len(known) else chance.choice(known) for n in range(count)], kind))
    return pa.table(columns, schema=SCHEMA)


def some_predicate(chance: random.Random, depth: int = 0) -> Predicate:
    """A random predicate of up to three levels."""
    match chance.randrange(8 if depth < 3 else 4):
        case 0 | 1:
            return some_comparison(chance)
        case 2:
            name = chance.choice(list(VALUES))
            known = [*VALUES[name][1], None]
            return In(name, tuple(chance.choice(known) for _ in range(chance.randrange(4))))
        case 3:
            if chance.random() < 0.3:
                return IsNull(chance.choice(list(VALUES)), chance.random() < 0.5)
            test = chance.choice(list(TextTest))
            return Match(test, "s", chance.choice(PATTERNS if test is TextTest.LIKE else VALUES["s"][1]))
        case 4 | 5:
            return Not(some_predicate(chance, depth + 1))
        case 6:
            return And(tuple(some_predicate(chance, depth + 1) for _ in range(2)))
        case _:
            return Or(tuple(some_predicate(chance, depth + 1) for _ in range(2)))


def some_comparison(chance: random.Random) -> Predicate:
    name = chance.choice(list(VALUES))
    return Compare(chance.choice(["=", "!=", "<", "<=", ">", ">="]), name, chance.choice(VALUES[name][1]))


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def test_conditions_say_the_same_of_every_row(spark: SparkSession, rows: pa.Table) -> None:
    chance = random.Random(2)
    columns = {name: quoted(name) for name in SCHEMA.names}
    asked = [some_comparison(chance) for _ in range(150)] + [some_predicate(chance) for _ in range(250)]
    bound = [bind(predicate, SCHEMA) for predicate in asked]
    pairs = [(one, text) for one in bound if (text := spark_condition(one, columns)) is not None]
    assert len(pairs) > 250

    expressions = {str(index): to_arrow_expression(one, SCHEMA) for index, (one, _) in enumerate(pairs)}
    expected = ds.dataset(rows).to_table(columns=expressions)
    taken = pa.schema(
        [
            field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) else field
            for field in SCHEMA
        ]
    )
    frame = spark.createDataFrame(rows.cast(taken), from_arrow_schema(taken))
    found = frame.selectExpr(*(f"({text}) AS `{index}`" for index, (_, text) in enumerate(pairs))).toArrow()

    for index, (one, text) in enumerate(pairs):
        assert found.column(index).to_pylist() == expected.column(index).to_pylist(), f"{one}: {text}"


def test_files_are_skipped_for_conditions_only_where_no_row_matches(
    spark: SparkSession, rows: pa.Table, tmp_path: Path
) -> None:
    """Spark's own reader compares ranges and dictionaries of the files with the condition of a query."""
    for name in ("f", "d"):
        column = rows[name].combine_chunks()
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(
            index, SCHEMA.field(name), pc.if_else(pc.is_nan(column), pa.scalar(1, column.type), column)
        )
    rows = rows.append_column("id", pa.array(range(len(rows)), pa.int32()))
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table("db.t", schema=rows.schema)
    for begin in range(0, len(rows), 12):
        table.write(rows.slice(begin, 12))
    frame, chance = table.to_spark(), random.Random(3)
    assert len(frame.inputFiles()) == 5

    for _ in range(40):
        asked = some_comparison(chance) if chance.random() < 0.6 else some_predicate(chance)
        text = spark_condition(bind(asked, rows.schema), {name: quoted(name) for name in rows.schema.names})
        if text is not None:
            found = frame.where(text).select("id").toArrow()["id"].to_pylist()
            assert sorted(found) == sorted(table.to_arrow(["id"], where=asked)["id"].to_pylist()), text


@pytest.mark.parametrize(
    "predicate",
    [
        Compare("=", "d", 0.0),
        Compare("!=", "d", -0.0),
        Compare(">=", "d", 0.0),
        Compare("<=", "f", -0.0),
        In("f", (1.0, 0.0)),
        Match(TextTest.LIKE, "s", "a\\%"),
        Compare("=", "far", pa.scalar(1 << 60, pa.timestamp("us"))),
        Compare("=", "fine", pa.scalar(1, pa.timestamp("ns"))),
        Compare("=", "clock", pa.scalar(1, pa.time32("ms"))),
        Compare("=", "nowhere", 1),
    ],
    ids=lambda one: f"{one.column}-{type(one).__name__}",
)
def test_conditions_that_spark_would_decide_otherwise_are_left_to_the_engine(predicate: Predicate) -> None:
    columns = {name: name for name in ("d", "f", "s", "far", "fine", "clock")}
    types = pa.schema(
        [
            *(SCHEMA.field(name) for name in ("d", "f", "s")),
            ("far", pa.timestamp("us")),
            ("fine", pa.timestamp("ns")),
            ("clock", pa.time32("ms")),
            ("nowhere", pa.int32()),
        ]
    )

    for one in (predicate, Not(predicate), And((IsNull("d"), predicate)), Or((predicate, IsNull("d")))):
        assert spark_condition(bind(one, types), columns) is None
    assert spark_condition(bind(Compare(">", "d", 0.0), types), columns) == "d > CAST('0.0' AS DOUBLE)"
