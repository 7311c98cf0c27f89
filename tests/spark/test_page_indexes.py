"""Spark's own Parquet reader skips pages of files of ours by their page index, and finds all rows, also of lists."""

from __future__ import annotations

import io
from datetime import date, timedelta
from decimal import Decimal
from math import nan
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from paimon_engine.format import parquet
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter, layout_of
from paimon_engine.format.parquet_row_groups import stored_row_groups
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.page_indexes import assert_indexes_fit

ROWS, GROUP_ROWS, PAGE_ROWS = 30_000, 10_000, 1_000
COLUMNS: dict[str, pa.Array] = {
    "k": pa.array(range(0, ROWS * 3, 3)),
    "text": pa.array(
        [None if number % 7 == 0 else f"text {number:06} {'ü' * (number % 50)}" for number in range(ROWS)]
    ),
    "few": pa.array([f"value {number // 4_000}" for number in range(ROWS)]),
    "none at first": pa.array([None if number < ROWS // 2 else number // 10 for number in range(ROWS)], pa.int32()),
    "small": pa.array([Decimal(number).scaleb(-2) for number in range(ROWS)], pa.decimal128(9, 2)),
    "large": pa.array([Decimal(-number).scaleb(-2) for number in range(ROWS)], pa.decimal128(30, 2)),
    "x": pa.array([nan if number == 12_000 else number / 4 for number in range(ROWS)]),
    "day": pa.array([date(2019, 1, 1) + timedelta(number // 50) for number in range(ROWS)]),
    "at": pa.array(range(0, ROWS * 1_000, 1_000), pa.timestamp("us", "UTC")),
    "list": pa.array([[number] * (number % 5) if number % 9 else None for number in range(ROWS)], pa.list_(pa.int64())),
    "row": pa.array([{"a": number, "b": [f"{number}"] * (number % 3)} for number in range(ROWS)]),
    "_KEY_k": pa.array(range(0, ROWS * 3, 3)),
}
SCHEMA = pa.schema([pa.field(name, column.type) for name, column in COLUMNS.items()])
OPTIONS = WriteOptions(copies={"_KEY_k": "k"})
FILTERS = [
    "k = 36036",
    "_KEY_k between 29970 and 33000",
    "_KEY_k in (0, 30000, 30003, 89997)",
    f"text = 'text 012345 {'ü' * (12_345 % 50)}'",
    "few = 'value 3' and k > 40000",
    "`none at first` = 2222",
    "`none at first` is null and k > 44900",
    "small = 123.45",
    "large = -234.56",
    "x >= 5000.25 and x < 5003",
    "x >= 7499",  # NaN is the largest number.
    "day = date'2020-02-29'",
    "at >= timestamp'1970-01-01 00:00:12.3' and at < timestamp'1970-01-01 00:00:12.4'",
    "row.a = 23456",
    "k = 1",
]


@pytest.fixture(params=["written", "copied"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of three row groups of ten pages in each column."""
    monkeypatch.setattr(parquet, "PAGE_ROWS", PAGE_ROWS)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", GROUP_ROWS)
    path = tmp_path / "data.parquet"
    rows = pa.RecordBatch.from_arrays(list(COLUMNS.values()), schema=SCHEMA)
    written = io.BytesIO()
    writer = ParquetWriter(written, SCHEMA, OPTIONS)
    writer.write(rows)
    writer.close()
    if request.param == "copied":
        groups = stored_row_groups(written, "written", layout_of(SCHEMA, OPTIONS), ROWS)
        sink = io.BytesIO()
        writer = ParquetWriter(sink, SCHEMA, OPTIONS)
        for number, group in enumerate(groups):
            assert group is not None
            if number == 1:
                # Between copies, so that indexes of both kinds are in the file.
                writer.write(rows.slice(GROUP_ROWS, GROUP_ROWS))
                writer.close_row_group()
            else:
                writer.copy(group, written)
        writer.close()
        written = sink
    assert assert_indexes_fit(written.getvalue()) > 8 * ROWS // PAGE_ROWS
    path.write_bytes(written.getvalue())
    return path


def test_spark_finds_the_rows(spark: SparkSession, file: Path) -> None:
    frame = spark.read.parquet(str(file))
    whole = pq.read_table(file)
    everything = spark.createDataFrame(whole)
    for where in FILTERS:
        wanted = everything.where(where).toArrow()
        assert wanted.num_rows < ROWS / 6
        assert (wanted.num_rows == 0) == (where == "k = 1")
        found = frame.where(where).toArrow()
        assert_same_rows(rows_of(found), rows_of(wanted), where)
