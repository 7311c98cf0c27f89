"""Partition columns have the values of the manifest, as in Java, whatever values a data file has."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import col, open_table
from paimon_engine.format.layout import WriteOptions
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.formats import READERS, WRITERS
from paimon_engine.table.state.handle import bucket_path
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon
from tests.table.conftest import MakeTable, Subject

FORMATS = ["parquet", "orc", "avro"]


def without_day(table: Subject, message: CommitMessage) -> CommitMessage:
    """The message with its file written again, without the partition column: as Hive does, where directories have the value."""
    [file] = message.new_files
    path = f"{bucket_path(table.handle, message.partition, message.bucket)}/{file.name}"
    storage = table.handle.env.storage
    columns = pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink = io.BytesIO()
    writer = WRITERS[file.format](sink, columns, WriteOptions())
    for rows in _rows(file, storage.read(path), columns):
        writer.write(rows)
    writer.close()
    storage.delete([path])
    storage.create(path, sink.getvalue())
    return replace(message, new_files=(replace(file, size_bytes=len(sink.getvalue())),))


def _rows(file: DataFile, data: bytes, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield from READERS[file.format](io.BytesIO(data), columns, path=file.name)


@pytest.mark.parametrize("form", FORMATS)
def test_files_without_partition_columns_are_read(make_table: MakeTable, form: str):
    columns = {"day": pa.date32(), "k": pa.int64(), "v": pa.string()}
    table = make_table(columns, partition_keys=["day"], options={"file.format": form}, on_disk=True)
    messages = table.messages({"day": [3, 3, None], "k": [1, 2, 3], "v": ["a", "b", "c"]})
    table.commit([without_day(table, message) for message in messages], CommitKind.APPEND)
    taken = open_table(table.path)

    assert_same_rows([["1970-01-04", 1, "a"], ["1970-01-04", 2, "b"], [None, 3, "c"]], taken.to_arrow())
    assert taken.to_arrow(["day"], where="k >= 2")["day"].null_count == 1
    assert taken.to_arrow(["day"]).num_rows == 3
    assert taken.to_arrow(["k"], where="day = DATE '1970-01-04' AND v = 'b'")["k"].to_pylist() == [2]
    assert taken.to_arrow(["k"], where="day = DATE '1970-01-04' OR v = 'c'").num_rows == 3
    assert taken.verify("rows").problems == ()

    taken.compact(full=True)
    assert taken.to_arrow(where="day IS NULL")["k"].to_pylist() == [3]


@pytest.mark.parametrize("keys", [[], ["p", "k"]], ids=["append", "keyed"])
def test_spaces_at_the_end_of_a_partition_stay_where_files_lose_them(
    oracle: JavaPaimon, tmp_path: Path, keys: list[str]
):
    path = tmp_path / "db.db" / "t"
    fields = [["p", "CHAR(3) NOT NULL"], ["k", "INT NOT NULL"], ["v", "CHAR(2)"]]
    options = {"file.format": "orc", "bucket": "1" if keys else "-1"}
    oracle.call(
        "create_table", table=str(path), fields=fields, primary_keys=keys, partition_keys=["p"], options=options
    )
    rows: list[list[Any]] = [["a  ", 1, "x "], ["a", 2, "y"], ["bcd", 3, None]]
    oracle.call("write", table=str(path), rows=rows)
    table = open_table(str(path))

    assert_same_rows(table.to_arrow(), oracle.read(path))
    assert table.to_arrow(where="p = 'a  '")["k"].to_pylist() == [1]
    assert table.verify("rows").problems == ()

    table.write(table.to_arrow())
    table.compact(full=True)
    assert_same_rows(table.to_arrow(), oracle.read(path))


NAN_ORDERS = [[math.nan, 1.0, -1.0], [1.0, math.nan, -1.0], [1.0, -1.0, math.nan]]


@pytest.mark.parametrize("values", NAN_ORDERS)
def test_partitions_beside_that_of_nan_are_found_again(make_table: MakeTable, values: list[float]):
    columns = {"p": pa.float64(), "k": pa.int64(), "v": pa.int64()}
    table = make_table(columns, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"}, on_disk=True)
    schema = open_table(table.path).arrow_schema
    for step in range(3):
        # A handle that does not know what it has written itself.
        open_table(table.path).write(pa.table([values, [1, 1, 1], [step] * 3], schema=schema))

    opened = open_table(table.path)
    assert opened.to_arrow(["v"])["v"].to_pylist() == [2, 2, 2]
    for value in values:
        assert opened.to_arrow(["v"], where=col("p") == value)["v"].to_pylist() == [2]
    assert opened.verify("rows").problems == ()
    assert opened.compact(full=True).snapshot_id is not None
    opened.write(pa.table([[1.0], [7], [7]], schema=schema), overwrite={})
    opened.write(pa.table([[math.nan], [8], [8]], schema=schema), overwrite={"p": math.nan})
    assert sorted(opened.to_arrow(["v"])["v"].to_pylist()) == [2, 7, 8]
    assert opened.drop_partition({"p": "NaN"}).snapshot_id is not None
    assert sorted(opened.to_arrow(["v"])["v"].to_pylist()) == [2, 7]


def test_the_partition_of_minus_zero_is_another_one(make_table: MakeTable):
    table = open_table(make_table({"p": pa.float64(), "v": pa.int64()}, partition_keys=["p"], on_disk=True).path)
    table.write(pa.table([[0.0, -0.0], [1, 2]], schema=table.arrow_schema))

    assert open_table(f"{table.path}$manifests").to_arrow()["min_partition_stats"].to_pylist() == ["{-0.0}"]
    assert table.drop_partition({"p": 0.0}).files == 1
    assert table.to_arrow(["v"])["v"].to_pylist() == [2]


@pytest.mark.parametrize("values", NAN_ORDERS)
def test_java_finds_partitions_beside_that_of_nan(tmp_path: Path, oracle: JavaPaimon, values: list[float]):
    fields = [["p", "DOUBLE"], ["v", "INT"]]
    tables = {}
    for name in ("java", "ours"):
        path = tmp_path / "db.db" / name
        oracle.call("create_table", table=str(path), fields=fields, partition_keys=["p"], options={"bucket": "-1"})
        tables[name] = open_table(str(path))
    oracle.call("write", table=tables["java"].path, rows=[["NaN" if math.isnan(p) else p, 0] for p in values])
    tables["ours"].write(pa.table([values, [0, 0, 0]], schema=tables["ours"].arrow_schema))

    for name, table in tables.items():
        for value in (1.0, "NaN"):
            assert oracle.read(table.path, filter=["=", "p", value]) == [[value, 0]], name
        bounds = open_table(f"{table.path}$manifests").to_arrow()
        assert bounds["min_partition_stats"].to_pylist() == ["{-1.0}"], name
        assert bounds["max_partition_stats"].to_pylist() == ["{NaN}"], name
        assert table.verify("rows").problems == (), name
