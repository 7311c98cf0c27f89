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


@pytest.mark.java
def test_tasks_make_partitions_complete(spark: SparkSession, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    expected = sorted(map(text_of, paimon2.read(path)))

    done = open_table(path, executor=SparkExecutor(spark)).compact_chain_table({"dt": "20250103"}, {"dt": "20250106"})

    assert (done.status, done.rows) == ("committed", 8)
    assert sorted(map(text_of, paimon2.read(path))) == expected
    assert (
        sorted(map(text_of, map(list, (row.values() for row in open_table(path).to_arrow().to_pylist())))) == expected
    )
