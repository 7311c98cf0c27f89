"""Columns with a default value: null in the file, the default in what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.int32()), pa.field("s", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "1", "fields.v.default-value": "7", "fields.s.default-value": "none"}
    made = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    made.write(pa.table({"k": [1, 2, 3], "v": [None, 5, None], "s": ["x", None, None]}, SCHEMA))
    made.write(pa.table({"k": [2], "v": [None], "s": ["y"]}, SCHEMA))
    return made


def test_null_is_read_as_the_default_and_stays_null_in_the_file(table: Table):
    expected = [(1, 7, "x"), (2, 7, "y"), (3, 7, "none")]

    assert [tuple(row.values()) for row in table.to_arrow().to_pylist()] == expected
    table.compact(full=True)
    assert [tuple(row.values()) for row in table.to_arrow().to_pylist()] == expected
    [file] = table.files()["file_path"].to_pylist()
    assert pq.read_table(file)["v"].null_count == 3


def test_a_filter_compares_the_default(table: Table):
    assert table.to_arrow(["k"], "v = 7")["k"].to_pylist() == [1, 2, 3]
    assert table.to_arrow(["k"], "v = 5")["k"].to_pylist() == []
    assert table.to_arrow(["k"], "s IS NULL")["k"].to_pylist() == []
    assert table.to_arrow(["k"], "s = 'none' AND k > 1", snapshot=1)["k"].to_pylist() == [2, 3]


def test_java_reads_the_same(table: Table, oracle: JavaPaimon):
    assert_same_rows(table.to_arrow(), oracle.read(table.path), "rows")
    for system in ("audit_log", "ro"):
        ours = open_table(f"{table.path}${system}").to_arrow()
        assert_same_rows(ours, oracle.read(table.path, system=system), system)


TYPED = [
    ("BOOLEAN", "Yes"),
    ("TINYINT", "-3"),
    ("BIGINT", "12.9"),
    ("FLOAT", "0.1"),
    ("DOUBLE", "1e3"),
    ("DECIMAL(10, 2)", "3.5"),
    ("DECIMAL(4, 2)", "1.005"),
    ("BYTES", "ab"),
    ("BINARY(3)", "ab"),
    ("TIME(3)", "12:30:15.25"),
    ("CHAR(5)", "ab"),
    ("VARCHAR(3)", "abcdef"),
    ("STRING", ""),
    ("DATE", "2024-02-29"),
    ("TIMESTAMP(3)", "2024-02-29 12:30:15.250"),
]


@pytest.mark.parametrize(("kind", "text"), TYPED)
def test_a_default_is_cast_as_java_does(tmp_path: Path, oracle: JavaPaimon, kind: str, text: str):
    path = str(tmp_path / "db.db/t")
    options = {"bucket": "1", "file.format": "parquet", "fields.v.default-value": text}
    fields = [["k", "INT NOT NULL"], ["v", kind]]
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    oracle.call("write", table=path, rows=[[1, None]])

    ours = open_table(path).to_arrow()

    assert ours["v"].null_count == 0
    assert_same_rows(ours, oracle.read(path))


@pytest.mark.parametrize(
    ("arrow_type", "text", "error"),
    [
        (pa.int32(), "many", InvalidArgumentError),
        (pa.int8(), "300", InvalidArgumentError),
        (pa.bool_(), "maybe", InvalidArgumentError),
        (pa.date32(), "today", InvalidArgumentError),
        (pa.list_(pa.int32()), "[]", UnsupportedError),
    ],
    ids=str,
)
def test_a_default_that_does_not_fit_is_named(tmp_path: Path, arrow_type: pa.DataType, text: str, error: Any):
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", arrow_type)])
    options = {"bucket": "1", "fields.v.default-value": text}

    with pytest.raises(error, match="fields.v.default-value"):
        Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)


@pytest.mark.parametrize("keys", [{"primary_keys": ["v", "k"]}, {"partition_keys": ["v"], "primary_keys": ["k", "v"]}])
def test_a_key_takes_no_default(tmp_path: Path, keys: dict[str, Any]):
    options = {"bucket": "1", "fields.v.default-value": "7"}

    with pytest.raises(InvalidArgumentError, match="takes no default value"):
        Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options=options, **keys)
