"""Tables whose files are in the order of other columns than the key, written and compacted by Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_engine import Catalog
from paimon_engine.spark import SparkExecutor

OPTIONS = {"bucket": "2", "pk-clustering-override": "true", "clustering.columns": "city"}


@pytest.mark.parametrize(
    "options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}], ids=["deduplicate", "first-row"]
)
def test_tasks_write_compact_and_read(spark: SparkSession, tmp_path: Path, options: dict[str, str]):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("city", pa.string()), ("v", pa.int64())])
    catalog = Catalog(str(tmp_path), executor=SparkExecutor(spark))
    table = catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={**OPTIONS, **options})
    for step in range(3):
        frame = spark.range(step * 50, step * 50 + 100, numPartitions=3)
        table.write(frame.selectExpr("id AS k", f"concat('c', (id * 7 + {step}) % 5) AS city", f"{step} AS v"))
        table.compact(full=step == 2)

    found = {row["k"]: (row["city"], row["v"]) for row in catalog.table("db.t").to_spark().collect()}

    step_of = {key: min(key // 50, 2) if "merge-engine" not in options else max(0, key // 50 - 1) for key in range(200)}
    assert found == {key: (f"c{(key * 7 + step) % 5}", step) for key, step in step_of.items()}
    assert catalog.table("db.t").to_spark().where("city = 'c3'").count() == sum(
        city == "c3" for city, _ in found.values()
    )
    assert table.verify("rows").status == "sound"
