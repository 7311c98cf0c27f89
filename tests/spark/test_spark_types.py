"""Types between Spark and a table: without loss both ways, or refused by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from paimon_engine import Catalog, UnsupportedError, open_table
from paimon_engine.arrow_types import from_arrow_field
from paimon_engine.env import Env, EnvConfig
from paimon_engine.spark import SparkExecutor, arrow_schema, to_dataframe

# Real tasks are functions of the engine, which workers can import. Those of this file travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SQL = """select cast(1 as tinyint) a, cast(2 as smallint) b, cast(3 as int) c, 4L d, cast(0.5 as float) e, 0.25D f,
    cast('1.50' as decimal(38, 2)) g, 'text' h, binary('bytes') i, true j, date'0001-01-01' k,
    timestamp'2024-02-29 13:05:09.123456' l, timestamp_ntz'1969-12-31 23:59:59.999999' m,
    array(1, null) n, map('k', array(2)) o, named_struct('x', 1, 'y', struct(2, 'z')) p"""


def test_columns_of_a_dataframe_are_read_back(spark: SparkSession, tmp_path: Path):
    frame = spark.sql(SQL)
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table("db.t", schema=arrow_schema(frame))

    table.write(frame)

    expected = frame.toArrow()
    assert table.to_arrow().cast(expected.schema).to_pylist() == expected.to_pylist()
    back = to_dataframe(spark, read_table, [table.path], schema=table.arrow_schema, config=EnvConfig(table.path))
    assert back.collect() == frame.collect()


def test_variants_are_written_and_read_back(spark: SparkSession, tmp_path: Path):
    frame = spark.sql("""select id k, if(id = 2, null, parse_json(concat('{"a":[', id, ',"x"]}'))) v,
        array(parse_json(cast(id as string)), null) l, named_struct('v', parse_json('null')) r from range(4)""")
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table("db.t", schema=arrow_schema(frame))
    table.write(frame)
    table.compact(full=True)

    def texts(rows: Any) -> list[str]:
        columns = "k", "to_json(v) v", "to_json(struct(l)) l", "to_json(r) r"
        return sorted(map(str, rows.selectExpr(*columns).collect()))

    back = table.to_spark()
    assert back.schema["v"].dataType.simpleString() == "variant"
    assert texts(back) == texts(frame)
    assert texts(back.where("k > 1")) == texts(frame.where("k > 1"))


def test_vectors_are_arrays_in_spark(spark: SparkSession, tmp_path: Path):
    columns = {"k": "INT NOT NULL", "v": "VECTOR<FLOAT, 2>"}
    for keys in ((), ("k",)):
        catalog = Catalog(str(tmp_path), executor=SparkExecutor(spark))
        table = catalog.create_table(f"db.t{len(keys)}", schema=columns, primary_keys=keys, options={"bucket": "-1"})
        table.write(spark.sql("select id k, if(id = 2, null, array(cast(id as float), 0.5f)) v from range(4)"))
        table.compact(full=True)

        back = table.to_spark()
        assert back.schema["v"].dataType.simpleString() == "array<float>"
        assert sorted((row.k, row.v) for row in back.where("k > 1").collect()) == [(2, None), (3, [3.0, 0.5])]
        assert table.to_arrow(where="k = 3").to_pydict() == {"k": [3], "v": [[3.0, 0.5]]}


def read_table(_: Env, path: str) -> Iterator[pa.RecordBatch]:
    yield from open_table(path).to_arrow().to_batches()


def one_row(_: Env, columns: dict[str, tuple[pa.DataType, Any]]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({name: pa.array([value], kind) for name, (kind, value) in columns.items()})


def test_coarse_timestamps_and_times_take_the_units_of_spark(spark: SparkSession):
    moment = datetime(2024, 2, 29, 13, 5, 9)
    columns = {
        "s": (pa.timestamp("s"), moment),
        "ms": (pa.list_(pa.timestamp("ms")), [moment.replace(microsecond=5000)]),
        "t": (pa.time32("ms"), time(13, 5, 9, 5000)),
        "d": (pa.decimal128(5, 2), Decimal("1.50")),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])

    [row] = to_dataframe(spark, one_row, [columns], schema=schema, config=EnvConfig("/")).collect()

    assert row.asDict() == {name: value for name, (_, value) in columns.items()}


def test_nanoseconds_are_refused_rather_than_cut(spark: SparkSession):
    schema = pa.schema([("fine", pa.list_(pa.timestamp("ns")))])

    with pytest.raises(UnsupportedError, match="'fine'.*6 digits"):
        to_dataframe(spark, one_row, [], schema=schema, config=EnvConfig("/"))


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("interval '1' day", "duration"),
        ("interval '1' month", "year|interval|Interval"),
        ("time'13:05:09'", "time64"),
        ("null", "null"),
    ],
)
def test_types_of_spark_without_a_counterpart_are_refused_by_name(spark: SparkSession, sql: str, named: str):
    with pytest.raises(UnsupportedError, match=named):
        from_arrow_field(arrow_schema(spark.sql(f"select {sql} as c")).field(0))


def test_a_column_of_years_is_refused_before_tasks_run(spark: SparkSession, tmp_path: Path):
    table = Catalog(str(tmp_path), executor=SparkExecutor(spark)).create_table("db.t", schema={"id": "STRING"})

    with pytest.raises(UnsupportedError, match=r"column 'id' .* without a Paimon counterpart; cast it first"):
        table.write(spark.sql("select interval '1' year id"))

    table.write(spark.sql("select cast(interval '1' year as string) id"))
    assert table.to_arrow().num_rows == 1
