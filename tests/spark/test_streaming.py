"""Streams of Spark that write by `foreachBatch`, each batch once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, SparkError, Table, open_table
from paimon_engine.actions.write import WriteResult
from paimon_engine.spark.executor import SparkExecutor

pytestmark = pytest.mark.spark


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"k": [2 * number, 2 * number + 1]}), tmp_path / "source" / f"{number}.parquet")
    return tmp_path / "source"


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    return Catalog(str(tmp_path / "lake"), executor=SparkExecutor(spark)).create_table("db.t", schema={"k": "BIGINT"})


def stream(session: Any, source: Path, checkpoint: Path, write: Callable[[Any, int], Any]) -> None:
    """Runs a stream of one batch for each file until all files are written."""
    rows = session.readStream.schema("k BIGINT").option("maxFilesPerTrigger", 1).parquet(str(source))
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


def test_a_batch_that_spark_repeats_is_written_once(spark: Any, table: Table, source: Path, tmp_path: Path) -> None:
    results: list[WriteResult] = []

    def write(batch: Any, number: int) -> None:
        results.append(table.write(batch, commit_user="stream", commit_identifier=number))

    stream(spark, source, tmp_path / "checkpoint", write)
    # As if the driver had been killed between the commit of the table and that of Spark.
    for path in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        path.unlink()
    pq.write_table(pa.table({"k": [6]}), source / "3.parquet")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    stream(spark, source, tmp_path / "checkpoint", write)

    assert [one.status for one in results] == ["committed", "committed", "committed", "already_done", "committed"]
    assert [one.warnings for one in results] == [()] * 5
    assert keys(table) == list(range(7))


def test_a_stream_that_begins_again_under_the_same_name_is_warned(
    spark: Any, table: Table, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[WriteResult] = []

    def write(batch: Any, number: int) -> None:
        results.append(table.write(batch, commit_user="stream", commit_identifier=number))

    stream(spark, source, tmp_path / "checkpoint", write)
    shutil.rmtree(tmp_path / "checkpoint")
    del results[:]
    stream(spark, source, tmp_path / "checkpoint", write)

    assert [one.status for one in results] == ["already_done"] * 3
    assert [len(one.warnings) for one in results] == [1, 1, 0]
    assert (
        "commit_identifier=0 was not written, as 'stream' has committed snapshot 3 with the later one 2"
        in (results[0].warnings[0])
    )
    assert results[0].warnings[0] in caplog.messages


def test_a_stream_of_spark_connect_opens_the_table_where_it_runs(
    connect: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema={"k": "BIGINT"})
    path = table.path

    def write(batch: Any, number: int) -> None:
        open_table(path).write(batch, commit_user="stream", commit_identifier=number)

    stream(connect, source, tmp_path / "checkpoint", write)

    assert keys(table) == list(range(6))


def test_a_stream_in_place_of_a_batch_is_refused_with_a_remedy(session: Any, source: Path, tmp_path: Path) -> None:
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema={"k": "BIGINT"})

    with pytest.raises(SparkError, match="a stream is written batch by batch: stream.writeStream.foreachBatch"):
        table.write(session.readStream.schema("k BIGINT").parquet(str(source)))
