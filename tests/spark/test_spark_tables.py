"""Tables written, compacted and read with tasks on Spark; the same code on an embedded session and on Connect."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from paimon_engine import Catalog, InvalidArgumentError, Table, open_table
from paimon_engine.action import Context
from paimon_engine.actions.write import Write, write
from paimon_engine.env import EnvConfig
from paimon_engine.jobs import Job, NewTable, TableRef, run
from paimon_engine.spark.executor import SparkExecutor
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.removal import file_removal as disposal
from paimon_engine.table.state.handle import load_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.key_places import assert_each_key_in_one_bucket

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("delay", pa.float64()),
    ]
)


@pytest.fixture
def executor(session: Any) -> SparkExecutor:
    return SparkExecutor(session)


def rows(begin: int, end: int, name: str) -> pa.Table:
    ids = range(begin, end)
    days = [date(2013, 1, 1 + number % 3) for number in ids]
    return pa.table(
        [days, list(ids), [f"{name}{number}" for number in ids], [number / 4 for number in ids]], schema=SCHEMA
    )


def test_a_dataframe_is_written_and_compacted_in_tasks(session: Any, executor: SparkExecutor, tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), executor=executor)
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": 2}
    )
    pq.write_table(rows(0, 3000, "old"), tmp_path / "old.parquet")
    pq.write_table(rows(1500, 4000, "new"), tmp_path / "new.parquet")

    first = table.write(session.read.parquet(str(tmp_path / "old.parquet")))
    second = table.write(session.read.parquet(str(tmp_path / "new.parquet")))
    compacted = table.compact(full=True)

    expected = pa.concat_tables([rows(0, 1500, "old"), rows(1500, 4000, "new")])
    assert (first.rows, first.buckets, second.rows) == (3000, 6, 2500)
    assert (compacted.files_after, compacted.rows_after) == (6, 4000)
    assert_same_rows(rows_of(table.to_arrow()), rows_of(expected))
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []


def test_a_dataframe_brings_its_session_where_the_table_has_none(session: Any, tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA)

    done = open_table(table.path).write(session.createDataFrame(rows(0, 5, "a")))

    assert done.rows == 5
    assert_same_rows(rows_of(table.to_arrow()), rows_of(rows(0, 5, "a")))


def test_names_that_spark_takes_for_something_else(session: Any, executor: SparkExecutor, tmp_path: Path) -> None:
    names = ["a.b", "a`b", "`a`", "*", "a b", "0", "1"]
    schema = pa.schema([("a", pa.struct([("b", pa.string())])), *((name, pa.string()) for name in names)])
    table = Catalog(str(tmp_path), executor=executor).create_table("db.t", schema=schema)
    rows = pa.table([[{"b": "inner"}], *([f"value of {name}"] for name in names)], schema=schema)

    table.write(
        session.createDataFrame([({"b": "inner"}, *(f"value of {name}" for name in names))], spark_schema(names))
    )

    assert table.to_arrow().equals(rows)
    table.write(table.to_spark())
    assert table.to_arrow().to_pylist() == rows.to_pylist() * 2


def test_a_column_that_comes_twice_is_refused(session: Any, texts: Table) -> None:
    with pytest.raises(InvalidArgumentError, match="'s' is given more than once"):
        texts.write(session.sql("SELECT 1L AS k, 'a' AS s, 'b' AS s"))


def test_a_dataframe_without_columns_is_refused(session: Any, texts: Table) -> None:
    with pytest.raises(InvalidArgumentError, match="the DataFrame has no columns; select those"):
        texts.write(session.range(3).select())
    assert texts.latest_snapshot_id() is None


def spark_schema(names: list[str]) -> StructType:
    """`a STRUCT<b STRING>`, and texts of these names."""
    inner = StructType([StructField("b", StringType())])
    return StructType([StructField("a", inner), *(StructField(name, StringType()) for name in names)])


def two_halves(session: Any, second: str) -> Any:
    """A DataFrame of two partitions: 42 MB of rows, and three rows by another expression."""
    rows = f"if(id < 21, struct(id AS k, repeat('x', 2000000) AS s), struct({second})) AS row"
    return session.range(0, 42, 1, 2).where("id < 24").selectExpr(rows).selectExpr("row.k", "row.s")


@pytest.fixture
def texts(executor: SparkExecutor, tmp_path: Path) -> Table:
    return Catalog(str(tmp_path), executor=executor).create_table(
        "db.t",
        schema=pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.string())]),
        primary_keys=["k"],
        options={"bucket": "1"},
    )


def test_a_partition_with_much_for_a_bucket_writes_it_itself(session: Any, texts: Table, tmp_path: Path) -> None:
    written = texts.write(two_halves(session, "id - 21 AS k, 'late' AS s"))

    files = Catalog(str(tmp_path)).table("db.t$files").to_arrow(["record_count", "min_sequence_number"]).to_pylist()
    files.sort(key=lambda file: file["min_sequence_number"])
    assert (written.rows, written.files) == (24, 2)
    assert [(file["record_count"], file["min_sequence_number"] >> 32) for file in files] == [(21, 0), (3, 1)]
    lengths = {row["k"]: len(row["s"]) for row in texts.to_arrow().to_pylist()}
    assert lengths == {k: 4 if k < 3 else 2_000_000 for k in range(21)}
    assert check_table(load_table(texts.path, EnvConfig(texts.path))) == []


def test_if_a_partition_fails_no_file_of_the_others_is_left(session: Any, texts: Table) -> None:
    with pytest.raises(InvalidArgumentError, match="'k' is NOT NULL"):
        texts.write(two_halves(session, "CAST(NULL AS BIGINT) AS k, 'late' AS s"))

    assert list(Path(texts.path).rglob("data-*")) == []


def test_a_job_writes_files_in_their_order_and_once(executor: SparkExecutor, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, 100, "a"), tmp_path / "in" / "1.parquet")
    pq.write_table(rows(0, 50, "b"), tmp_path / "in" / "2.parquet")
    job = Job(
        TableRef(warehouse=str(tmp_path / "lake"), name="db.t"),
        Write(str(tmp_path / "in" / "*.parquet")),
        commit_user="a-job",
        create=NewTable(primary_keys=("id",), options={"bucket": "1"}),
    )

    done, again = run(job, executor), run(Job.from_json(job.to_json()), executor)

    table = Catalog(str(tmp_path / "lake")).table("db.t")
    assert (done.status, again.status) == ("committed", "already_done")
    assert done.snapshot_id == again.snapshot_id == table.latest_snapshot_id() == 1
    assert_same_rows(rows_of(table.to_arrow()), rows_of(pa.concat_tables([rows(0, 50, "b"), rows(50, 100, "a")])))


def test_a_dataframe_is_written_to_dynamic_buckets(session: Any, executor: SparkExecutor, tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), executor=executor)
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 300}
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options=options
    )
    pq.write_table(rows(0, 3000, "old"), tmp_path / "old.parquet")
    pq.write_table(rows(1500, 4000, "new"), tmp_path / "new.parquet")

    table.write(session.read.parquet(str(tmp_path / "old.parquet")))
    table.write(session.read.parquet(str(tmp_path / "new.parquet")))
    table.compact(full=True)

    expected = pa.concat_tables([rows(0, 1500, "old"), rows(1500, 4000, "new")])
    assert_same_rows(rows_of(table.to_arrow()), rows_of(expected))
    assert_each_key_in_one_bucket(table)


def test_a_dataframe_moves_keys_between_partitions(session: Any, executor: SparkExecutor, tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), executor=executor)
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], partition_keys=["day"], options={"bucket": -1}
    )
    moved = rows(1000, 2000, "new").set_column(0, SCHEMA.field("day"), pa.array([date(2014, 1, 1)] * 1000))
    pq.write_table(rows(0, 1500, "old"), tmp_path / "old.parquet")
    pq.write_table(moved, tmp_path / "new.parquet")

    table.write(session.read.parquet(str(tmp_path / "old.parquet")))
    table.write(session.read.parquet(str(tmp_path / "new.parquet")))

    assert_same_rows(rows_of(table.to_arrow()), rows_of(pa.concat_tables([rows(0, 1000, "old"), moved])))
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []


@pytest.mark.parametrize("bucket", [2, -1], ids=["fixed", "over all partitions"])
def test_a_dataframe_with_nulls_in_its_keys_is_written(
    bucket: int, session: Any, executor: SparkExecutor, tmp_path: Path
) -> None:
    schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    keys = ["day", "id"] if bucket > 0 else ["id"]
    table = Catalog(str(tmp_path), executor=executor).create_table(
        "db.t",
        schema=schema,
        primary_keys=keys,
        partition_keys=["day"],
        options={"bucket": bucket, "primary-key.nullable": "true"},
    )
    some: dict[tuple[Any, ...], dict[str, Any]] = {}
    for step, days in enumerate([[None, date(2013, 1, 2)], [date(2013, 1, 2), None]]):
        made = [{"day": days[key % 2], "id": key or None, "name": f"n{step}", "delay": 0.5} for key in range(9 + step)]
        pq.write_table(pa.Table.from_pylist(made, schema), tmp_path / f"{step}.parquet")
        table.write(session.read.parquet(str(tmp_path / f"{step}.parquet")))
        some |= {tuple(row[name] for name in keys): row for row in made}
        found = table.to_spark().toArrow().to_pylist()
        assert sorted(found, key=str) == sorted(some.values(), key=str)
        table.compact(full=True)
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(some.values(), key=str)
    assert check_table(table._handle) == []


def test_tasks_read_files_for_dynamic_buckets_in_their_order(
    executor: SparkExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(rows(0, 400 - 100 * number, f"{number}-"), tmp_path / "in" / f"{number}.parquet")
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 50}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)

    handle = load_table(table.path, EnvConfig(table.path))
    result = write(Context(handle, executor), Write(str(tmp_path / "in" / "*.parquet")))

    parts = [rows(0, 200, "2-"), rows(200, 300, "1-"), rows(300, 400, "0-")]
    assert result.status == "committed"
    assert_same_rows(rows_of(table.to_arrow()), rows_of(pa.concat_tables(parts)))
    assert_each_key_in_one_bucket(table)


def test_rows_are_clustered_in_tasks_for_all_types(executor: SparkExecutor, tmp_path: Path) -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59), datetime(2013, 1, 1, 0, 0, 0, 1), None]
    columns = {
        "n": pa.array([*range(3000)], pa.int64()),
        "nanos": pa.array([-1 if n % 7 else 1_356_998_400_000_000_001 + n for n in range(3000)], pa.timestamp("ns")),
        "zoned": pa.array([moments[n % 3] for n in range(3000)], pa.timestamp("us", "UTC")),
        "time": pa.array([n % 86_400_000 for n in range(3000)], pa.time32("ms")),
        "amount": pa.array(
            [None if n % 5 == 0 else Decimal(n - 1500) / 100 for n in range(3000)], pa.decimal128(20, 2)
        ),
        "list": pa.array([None if n % 11 == 0 else [1, n] for n in range(3000)], pa.list_(pa.timestamp("ns"))),
        "map": pa.array([[("a", n), ("b", None)] for n in range(3000)], pa.map_(pa.string(), pa.int32())),
        "row": pa.array([{"t": moments[n % 3], "b": b"\0"} for n in range(3000)]),
    }
    rows = pa.table(columns)
    table = Catalog(str(tmp_path), executor=executor).create_table(
        "db.t", schema=rows.schema, options={"bucket": "-1", "target-file-size": "20 kb"}
    )
    for begin in (2000, 0, 1000):
        table.write(rows.slice(begin, 1000))
    expected = rows_of(table.to_arrow())

    for order in ("hilbert", "order"):
        result = table.cluster(["amount", "nanos"], order=order, task_bytes=15_000)

        assert (result.status, result.failed) == ("committed", ())
        assert result.partitions[0].tasks > 1
        assert_same_rows(expected, rows_of(table.to_arrow()))
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []
    amounts = table.to_arrow()["amount"].to_pylist()
    assert amounts == sorted(amounts, key=lambda amount: (amount is not None, amount or 0))


def test_files_are_moved_aside_and_deleted_in_tasks(
    executor: SparkExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Catalog(str(tmp_path), executor=executor).create_table(
        "db.t", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": 1}
    )
    for begin in (0, 6):
        table.write(rows(begin, begin + 6, "a"))
    table.compact(full=True)
    monkeypatch.setattr(disposal, "LOCAL_FILES_MAX", 1)
    monkeypatch.setattr(disposal, "FILES_PER_REQUEST", 2)

    aside = table.expire_snapshots(retain_max=1, quarantine=True, files_per_second=1000)
    assert aside.quarantine is not None
    assert table.restore(aside.quarantine).files == aside.files_deleted > 6
    assert table.to_arrow(snapshot=1).num_rows == 6
    gone = table.expire_snapshots(retain_max=1, parallelism=2)

    assert gone.deleted == aside.deleted
    assert not any(Path(file.path).exists() for file in gone.deleted)
    assert table.to_arrow().num_rows == 12
