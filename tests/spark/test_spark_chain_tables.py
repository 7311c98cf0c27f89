"""Chain tables of Java Paimon 2.0 as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_engine import open_table
from paimon_engine.spark import SparkExecutor
from tests.support.canonical import text_of
from tests.support.chain_tables import filled
from tests.support.oracle import JavaPaimon


@pytest.mark.java
def test_partitions_that_tasks_merge(spark: SparkSession, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path, executor=SparkExecutor(spark))

    found = [list(row) for row in table.to_spark().where("dt >= '20250102'").collect()]

    assert sorted(map(text_of, found)) == sorted(text_of(row) for row in paimon2.read(path) if row[0] >= "20250102")
    assert table.to_spark().where("dt = '20250103' AND k < 2").count() == 2
