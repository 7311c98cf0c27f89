"""Which way a DataFrame is read, and whether it has the rows of the Arrow table."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema

from paimon_engine import Table
from paimon_engine.spark.dataframe import spark_arrow_schema
from tests.support.canonical import assert_same_rows, rows_of

NATIVE, ARROW, BOTH, NEITHER = {"FileScan parquet"}, {"MapInArrow"}, {"FileScan parquet", "MapInArrow"}, set[str]()


def plan_of(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


def ways_of(frame: Any) -> set[str]:
    return {way for way in BOTH if way in plan_of(frame)}


def assert_reads(table: Table, ways: set[str] | None, **at: Any) -> None:
    """The DataFrame has the rows, names and types of the Arrow table, and comes by those ways (None: any)."""
    expected, frame = table.to_arrow(**at), table.to_spark(**at)
    types = from_arrow_schema(spark_arrow_schema(expected.schema))
    assert [(one.name, one.dataType.simpleString()) for one in frame.schema] == [
        (one.name, one.dataType.simpleString()) for one in types
    ]
    assert all(one.nullable for one in frame.schema)
    found = frame.toArrow()
    assert_same_rows(rows_of(found), rows_of(expected), str(at))
    if ways is not None:
        assert ways_of(frame) == ways, plan_of(frame)
