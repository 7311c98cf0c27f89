"""A user's filter on partition columns of a DataFrame drops files, and partition values are those of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, NotFoundError, Table
from paimon_engine.spark import native
from paimon_engine.spark.executor import SparkExecutor
from tests.spark.reads import ARROW, BOTH, NATIVE, assert_reads, plan_of

pytestmark = pytest.mark.spark

ROWS = pa.schema([pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False)])


def read(frame: Any) -> tuple[int, list[int]]:
    """How many files Spark's scans of a query opened, by their own metric, and the keys that came."""
    found = sorted(row.k for row in frame.collect())
    plan = frame._jdf.queryExecution().executedPlan()
    if "Adaptive" in plan.getClass().getName():
        plan = plan.executedPlan()
    leaves, count = plan.collectLeaves(), 0
    for number in range(leaves.size()):
        metrics = leaves.apply(number).metrics()
        count += metrics.apply("numFiles").value() if metrics.contains("numFiles") else 0
    return count, found


def keys(frame: Any) -> list[int]:
    return sorted(row.k for row in frame.select("k").collect())


# ── which files are read ────────────────────────────────────────────────────────────────────────


def test_files_that_spark_reads_are_dropped_by_a_filter_of_the_user(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("q", pa.date32()), ("k", pa.int64())])
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table(
        "db.t", schema=schema, partition_keys=["p", "q"]
    )
    names = [*(f"p{number}" for number in range(40)), "50%/x y=*", None, " "]
    days = [date(2024, 1, 1 + number % 31) for number in range(43)]
    table.write(pa.table([names, days, list(range(43))], schema=schema))
    frame = table.to_spark()

    assert read(frame) == (43, list(range(43)))
    for condition, files in {
        "p = 'p7'": 1,
        "p = '50%/x y=*'": 1,
        "p IS NULL": 1,
        "p = ' '": 1,
        "p IN ('p1', 'p30') AND k > 1": 2,
        "q = DATE '2024-01-08'": 2,
        "q >= DATE '2024-01-31' OR p LIKE '%/x%'": 2,
        "p = 'nowhere'": 0,
    }.items():
        expected = sorted(table.to_arrow(where=condition)["k"].to_pylist())
        assert read(frame.where(condition)) == (files, expected), condition
    assert read(table.to_spark(["k"], where="q < DATE '2024-01-03'")) == (4, [0, 1, 31, 32])


def test_on_a_server_as_well(session: Any, tmp_path: Path) -> None:
    table = Catalog(str(tmp_path), executor=SparkExecutor(session)).create_table(
        "db.t", schema=ROWS, partition_keys=["p"]
    )
    table.write(pa.table([["a", "b", "c"], [1, 2, 3]], schema=ROWS))

    one = table.to_spark().where("p = 'b'")
    assert keys(one) == [2]
    assert "PartitionFilters: [isnotnull(p" in plan_of(one)


@pytest.mark.parametrize(("partitions", "left"), [(5, 1), (16, 1), (17, 1)])
def test_tasks_of_other_partitions_are_dropped_where_there_are_few(
    spark: Any, tmp_path: Path, partitions: int, left: int
) -> None:
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table(
        "db.t", schema=ROWS, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"}
    )
    for _ in range(2):
        table.write(pa.table([[f"p{number}" for number in range(partitions)], list(range(partitions))], schema=ROWS))
    frame = table.to_spark()

    assert plan_of(frame).count("MapInArrow") == (partitions if partitions <= 16 else 1)
    one = frame.where("p = 'p3'")
    assert plan_of(one).count("MapInArrow") == left
    assert keys(one) == [3]
    assert frame.where("p = 'nowhere'").count() == 0


# ── values ──────────────────────────────────────────────────────────────────────────────────────

MOMENTS = [datetime(1, 1, 1), datetime(1582, 10, 10, 1, 2, 3, 4000), datetime(9999, 12, 31, 23, 59, 59, 999000)]
VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "s": (pa.string(), ["ü:#?* %41", "__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__", ""]),
    "digits": (pa.string(), ["01", "1e3", "true", "2024-01-01"]),
    "flag": (pa.bool_(), [True, False, True, False]),
    "i8": (pa.int8(), [-128, 127, 0, -1]),
    "i16": (pa.int16(), [-(1 << 15), (1 << 15) - 1, 0, -1]),
    "i32": (pa.int32(), [-(1 << 31), (1 << 31) - 1, 0, -1]),
    "i64": (pa.int64(), [-(1 << 63), (1 << 63) - 1, 0, -1]),
    "day": (pa.date32(), [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31), date(1970, 1, 1)]),
    "f": (pa.float32(), [-3.4028234663852886e38, 1e-45, -0.0, inf]),
    "d": (pa.float64(), [-1.7976931348623157e308, 5e-324, -inf, 0.1]),
    "small": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01"), Decimal(0), Decimal("1.10")]),
    "large": (pa.decimal128(38, 10), [Decimal("-" + "9" * 28 + ".1"), Decimal("0.0000000001"), Decimal(0), Decimal(7)]),
    "t3": (pa.timestamp("ms"), [*MOMENTS, datetime(1970, 1, 1)]),
    "t6": (pa.timestamp("us"), [*MOMENTS, datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "z6": (
        pa.timestamp("us", "UTC"),
        [*(one.replace(tzinfo=UTC) for one in MOMENTS), datetime(1970, 1, 1, tzinfo=UTC)],
    ),
}
BY_PATH = ["digits", "flag", "i8", "i16", "i32", "i64", "day"]


def of_all_types(tmp_path: Path, spark: Any, keyed: bool, legacy: str) -> Table:
    """Five partitions, the last one of nulls, or without it where partition columns are key columns."""
    columns = {name: (kind, values if keyed else [*values, None]) for name, (kind, values) in VALUES.items()}
    schema = pa.schema(
        [*(pa.field(name, kind, nullable=not keyed) for name, (kind, _) in columns.items()), ("k", pa.int64())]
    )
    schema = schema.set(len(columns), pa.field("k", pa.int64(), nullable=False))
    options = {"partition.legacy-name": legacy, **({"bucket": "1"} if keyed else {})}
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table(
        "db.t",
        schema=schema,
        primary_keys=[*columns, "k"] if keyed else [],
        partition_keys=list(columns),
        options=options,
    )
    count = len(VALUES["s"][1]) + (not keyed)
    for _ in range(1 + keyed):
        table.write(pa.table([*(values for _, values in columns.values()), list(range(count))], schema=schema))
    return table


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_values_of_all_types_are_those_of_the_manifest(spark: Any, tmp_path: Path, legacy: str) -> None:
    table = of_all_types(tmp_path, spark, keyed=False, legacy=legacy)

    assert_reads(table, NATIVE, columns=[*BY_PATH, "k"])
    assert_reads(table, NATIVE, columns=["day"])
    assert_reads(table, NATIVE, columns=["i8", "k"], where="i8 < 0 OR i8 IS NULL")
    assert_reads(table, None)
    for name in ("s", "day", "f", "t3", "large"):
        assert_reads(table, None, columns=[name, "k"])
    frame = table.to_spark([*BY_PATH, "k"])
    assert read(frame.where("day = DATE '1582-10-10'")) == (1, [1])
    assert read(frame.where("i64 IS NULL")) == (1, [4])
    assert keys(frame.where("digits = '01' OR i8 = 127 OR NOT flag")) == [0, 1, 3]


def test_values_in_tasks_are_those_of_the_manifest(spark: Any, tmp_path: Path) -> None:
    table = of_all_types(tmp_path, spark, keyed=True, legacy="true")

    assert_reads(table, ARROW)
    frame = table.to_spark()
    assert keys(frame.where("s = '' OR t3 = TIMESTAMP_NTZ '0001-01-01 00:00:00' OR large = 0")) == [0, 2, 3]
    assert frame.where("d = 0.1").count() == 1


def test_where_many_partitions_need_literals_values_come_from_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "LITERALS_MAX", 2)
    schema = pa.schema([("t", pa.timestamp("ms")), ("k", pa.int64())])
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table(
        "db.t", schema=schema, partition_keys=["t"]
    )
    table.write(pa.table([[*MOMENTS, None, datetime(2000, 1, 1)], list(range(5))], schema=schema))

    # The files of the null partition do not say that they have the column.
    assert_reads(table, BOTH)
    assert plan_of(table.to_spark()).count("FileScan parquet") == 3
    assert keys(table.to_spark().where("t > TIMESTAMP_NTZ '1999-01-01 00:00:00'")) == [2, 4]


# ── after an expiry ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("primary_keys", [["p", "k"], []], ids=["tasks", "native"])
def test_a_frame_whose_snapshot_has_expired_names_a_remedy(
    session: Any, tmp_path: Path, primary_keys: list[str]
) -> None:
    catalog = Catalog(str(tmp_path), executor=SparkExecutor(session))
    options = {"bucket": "1"} if primary_keys else {}
    table = catalog.create_table("db.t", schema=ROWS, primary_keys=primary_keys, options=options)
    for number in range(2):
        table.write(pa.table([["a"], [number]], schema=ROWS))
    table.create_tag("kept", time_retained="1 d")
    tagged, latest = table.to_spark(tag="kept"), catalog.create_table("db.copy", schema=ROWS)
    table.write(pa.table([["a"], [2]], schema=ROWS), overwrite={})
    table.write(pa.table([["a"], [3]], schema=ROWS))
    stale = table.to_spark()
    table.write(pa.table([["a"], [4]], schema=ROWS), overwrite={})
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert keys(tagged) == [0, 1]
    with pytest.raises(
        NotFoundError, match=r"keep the snapshot by a tag|table\.create_tag\(name, time_retained='1 d'\)"
    ):
        latest.write(stale)
    assert latest.latest_snapshot_id() is None
