"""Columns of rows are updated by tasks of Spark, each of which gets the new values of its own files alone."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine import Catalog, open_table
from paimon_engine.spark import SparkExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 5_000
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


def test_columns_are_updated_and_rows_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table(
        "db.t", schema={"k": "BIGINT", "v": "STRING", "b": "BLOB"}, options=OPTIONS
    )
    local = open_table(table.path)
    for begin in range(0, 4 * ROWS, ROWS):
        keys = list(range(begin, begin + ROWS))
        local.write(pa.table({"k": keys, "v": [f"v{key}" for key in keys], "b": [b"b"] * ROWS}))
    new = pa.table({"_ROW_ID": list(range(4 * ROWS)), "v": [f"new {key}" for key in range(4 * ROWS)]})
    sizes: list[int] = []
    mapping = SparkExecutor.map

    def noting(self: SparkExecutor, run: Any, tasks: Any, **more: Any) -> Any:
        sizes.extend(len(pickle.dumps(task)) for task in tasks)
        return mapping(self, run, tasks, **more)

    monkeypatch.setattr(SparkExecutor, "map", noting)

    done = table.update_columns(new)
    table.update_columns(pa.table({"_ROW_ID": [3, 2 * ROWS], "b": [b"three", b"more"], "k": [-3, -4]}))

    assert (done.rows, done.files) == (4 * ROWS, 4)
    assert len(sizes) == 6
    assert sum(sizes[:4]) < 2 * new.nbytes
    found = local.to_arrow()
    assert sorted(found["v"].to_pylist()) == sorted(new["v"].to_pylist())
    assert sorted(found.filter(pc.less(found["k"], 0))["b"].to_pylist()) == [b"more", b"three"]
    assert table.delete("k < 10").rows == 11
    assert table.to_spark().count() == 4 * ROWS - 11
    assert local.verify("rows").problems == ()
