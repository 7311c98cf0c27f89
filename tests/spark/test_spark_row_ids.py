"""Ids of rows as a DataFrame, and tables whose writers are Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from paimon_engine import Catalog
from paimon_engine.spark import SparkExecutor


def test_rows_from_tasks_have_ids_and_keep_them(spark: SparkSession, tmp_path: Path):
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    catalog = Catalog(str(tmp_path), executor=SparkExecutor(spark))
    table = catalog.create_table("db.t", schema=schema, options={"row-tracking.enabled": "true"})
    table.write(spark.range(0, 100, numPartitions=4).selectExpr("id AS k", "concat('v', id) AS v"))
    table.write(spark.range(100, 200, numPartitions=3).selectExpr("id AS k", "concat('v', id) AS v"))

    def ids() -> dict[int, tuple[int, int]]:
        rows = catalog.table("db.t$row_tracking").to_spark().collect()
        return {row["k"]: (row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in rows}

    before = ids()
    assert sorted(row_id for row_id, _ in before.values()) == list(range(200))
    assert {number for _, number in before.values()} == {1, 2}
    table.compact(full=True)
    assert ids() == before
    assert catalog.table("db.t").to_spark().where("k = 7").collect()[0]["v"] == "v7"


def test_tasks_write_values_of_blobs_beside_their_rows(spark: SparkSession, tmp_path: Path):
    catalog = Catalog(str(tmp_path), executor=SparkExecutor(spark))
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob.target-file-size": "1 kb"}
    columns = {"p": "INT", "k": "BIGINT", "a": "BLOB"}
    table = catalog.create_table("db.t", schema=columns, partition_keys=["p"], options=options)
    rows = (
        "CAST(id % 2 AS INT) AS p",
        "id AS k",
        "CASE WHEN id % 5 > 0 THEN repeat(chr(id % 26 + 65), CAST(id AS INT)) END AS a",
    )
    for begin in (0, 100):
        frame = spark.range(begin, begin + 100, numPartitions=3).selectExpr(*rows)
        table.write(frame.selectExpr("p", "k", "CAST(a AS BINARY) AS a"))

    found = catalog.table("db.t").to_spark().orderBy("k").collect()

    assert [(row["k"], row["a"]) for row in found] == [
        (key, bytearray([key % 26 + 65]) * key if key % 5 else None) for key in range(200)
    ]
    table.compact(full=True)
    assert catalog.table("db.t").to_spark().orderBy("k").collect() == found
    assert table.verify("rows").status == "sound"
