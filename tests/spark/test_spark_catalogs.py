"""Tables of catalogs, with tasks on Spark: workers reach the store by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.spark.executor import SparkExecutor
from paimon_engine.table.check.table_check import check_table
from tests.support.rest import rest_server
from tests.support.s3 import start_s3

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture(scope="module")
def lent_store() -> Iterator[dict[str, str]]:
    yield from start_s3()


def rows(begin: int, end: int) -> pa.Table:
    return pa.table({"id": range(begin, end), "v": ["x"] * (end - begin)}, SCHEMA)


def test_workers_use_what_a_rest_server_lends(spark, tmp_path: Path, lent_store: dict[str, str]):
    lends = {"overrides": {"data-token.enabled": "true"}, "lend": lent_store, "store": "s3://lent/spark"}
    with rest_server(tmp_path, **lends) as server:
        catalog = Catalog(options=server.options, executor=SparkExecutor(spark))
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 2})
        table.write(spark.createDataFrame(rows(0, 20)))
        table.write(rows(10, 30))
        compacted = table.compact(full=True)

        assert compacted.snapshot_id == len(server.commits) == 3
        assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(30))
        assert check_table(table._handle) == []


def test_workers_write_below_a_lock_that_they_need_not_take(spark, tmp_path: Path):
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "lock.enabled": "true"}
    catalog = Catalog(f"local://{tmp_path}/lake", options=options, executor=SparkExecutor(spark))
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 2})
    table.write(spark.createDataFrame(rows(0, 20)))
    table.write(rows(10, 30))
    table.compact(full=True)

    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(30))
    assert check_table(table._handle) == []
