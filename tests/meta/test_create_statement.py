"""Tables from type texts and from `CREATE TABLE` statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.meta.create_statement import parse_create_table
from paimon_engine.types import RowType, to_arrow_schema, type_to_json
from tests.support.oracle import JavaPaimon

FLINK = """
CREATE TABLE IF NOT EXISTS `lake`.db.t (
  id BIGINT NOT NULL COMMENT 'it''s the key', -- a comment, with a comma
  `day of` STRING,
  c CHAR(3), v VARCHAR(10), b BINARY(4), vb VARBINARY(5), y BYTES,
  d DECIMAL(10,2), t TIME(3), ts TIMESTAMP(4), l TIMESTAMP(9) WITH LOCAL TIME ZONE, l0 TIMESTAMP_LTZ(0),
  m MULTISET<STRING>, a ARRAY<INT NOT NULL>, mp MAP<STRING, ARRAY<DOUBLE PRECISION>> NOT NULL,
  r ROW<x INT, `y z` ROW<w DECIMAL(4, 1)>>,
  PRIMARY KEY (`day of`, id) NOT ENFORCED
) COMMENT 'a table; with (brackets)'
PARTITIONED BY (`day of`)
WITH ('bucket' = '2', 'merge-engine' = 'partial-update');
"""


def texts(sql: str) -> dict[str, Any]:
    return {field.name: type_to_json(field.type) for field in parse_create_table(sql).columns}


def test_a_statement_as_flink_takes_it() -> None:
    found = parse_create_table(FLINK)

    assert texts(FLINK) == {
        "id": "BIGINT NOT NULL",
        "day of": "STRING",
        "c": "CHAR(3)",
        "v": "VARCHAR(10)",
        "b": "BINARY(4)",
        "vb": "VARBINARY(5)",
        "y": "BYTES",
        "d": "DECIMAL(10, 2)",
        "t": "TIME(3)",
        "ts": "TIMESTAMP(4)",
        "l": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
        "l0": "TIMESTAMP(0) WITH LOCAL TIME ZONE",
        "m": {"type": "MULTISET", "element": "STRING"},
        "a": {"type": "ARRAY", "element": "INT NOT NULL"},
        "mp": {"type": "MAP NOT NULL", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "DOUBLE"}},
        "r": {
            "type": "ROW",
            "fields": [
                {"id": -1, "name": "x", "type": "INT"},
                {
                    "id": -1,
                    "name": "y z",
                    "type": {"type": "ROW", "fields": [{"id": -1, "name": "w", "type": "DECIMAL(4, 1)"}]},
                },
            ],
        },
    }
    assert (found.name, found.if_not_exists) == ("db.t", True)
    assert (found.primary_keys, found.partition_keys) == (("day of", "id"), ("day of",))
    assert found.options == {"bucket": "2", "merge-engine": "partial-update"}
    assert found.comment == "a table; with (brackets)"
    assert found.columns.fields[0].description == "it's the key"


@pytest.mark.parametrize("kind", ["ROW", "STRUCT"])
def test_fields_of_a_row_have_comments(kind: str) -> None:
    spark = "" if kind == "ROW" else " USING paimon"
    sql = f"""CREATE TABLE t (
        id INT, r {kind}<a INT NOT NULL COMMENT 'it''s, <first>', comment STRING, `b,c` {kind}<d DATE COMMENT ')'>
        COMMENT 'deep'>
          NOT NULL COMMENT 'whole'
    ){spark}"""

    column = parse_create_table(sql).columns.fields[1]

    assert column.description == "whole"
    assert isinstance(column.type, RowType)
    assert [(field.name, field.description) for field in column.type.fields] == [
        ("a", "it's, <first>"),
        ("comment", None),
        ("b,c", "deep"),
    ]
    inner = column.type.fields[2].type
    assert isinstance(inner, RowType)
    assert [(field.name, field.description) for field in inner.fields] == [("d", ")")]


def test_a_statement_as_spark_takes_it() -> None:
    found = texts(
        """create table db.t (id long, at timestamp comment 'x', plain timestamp_ntz, fine TIMESTAMP(3),
                 s struct<timestamp: timestamp, n: array<short>>) using paimon partitioned by (id)
                 tblproperties ('primary-key' = 'id,plain')"""
    )

    assert found["id"] == "BIGINT"
    assert found["at"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert found["plain"] == "TIMESTAMP(6)"
    assert found["fine"] == "TIMESTAMP(3)"
    assert [(one["name"], one["type"]) for one in found["s"]["fields"]] == [
        ("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("n", {"type": "ARRAY", "element": "SMALLINT"}),
    ]


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("", InvalidArgumentError, "expected CREATE TABLE at the end"),
        ("SELECT 1", InvalidArgumentError, "expected CREATE TABLE at 'SELECT 1'"),
        ("CREATE TABLE t (id INTT)", InvalidArgumentError, "column 'id': 'INTT' is not a Paimon type"),
        ("CREATE TABLE t (id)", InvalidArgumentError, "column 'id': expected a type"),
        ("CREATE TABLE t (id INT", InvalidArgumentError, r"expected \) at the end"),
        ("CREATE TABLE t (id ARRAY<INT)", InvalidArgumentError, "column 'id'"),
        ("CREATE TABLE t (id MAP<INT>)", InvalidArgumentError, "column 'id': 'MAP<INT>'.*a key and a value"),
        ("CREATE TABLE t (id INT v INT)", InvalidArgumentError, "column 'id': 'INT v INT' is not a Paimon type"),
        ("CREATE TABLE t (id GEOMETRY)", UnsupportedError, "column 'id': type GEOMETRY"),
        ("CREATE TABLE t (id INT DEFAULT 3)", UnsupportedError, "set 'fields.id.default-value'"),
        ("CREATE TABLE t (id INT, c AS id + 1)", InvalidArgumentError, "column 'c': expected a type"),
        ("CREATE TABLE t (id INT, WATERMARK FOR id AS id)", UnsupportedError, "WATERMARK"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (x) NOT ENFORCED)", InvalidArgumentError, "no column 'x'"),
        ("CREATE TABLE t (id INT) PARTITIONED BY (ID)", InvalidArgumentError, "did you mean 'id'"),
        ("CREATE TABLE t (id INT PRIMARY KEY, v INT PRIMARY KEY)", InvalidArgumentError, "more than one PRIMARY KEY"),
        ("CREATE TABLE t (id INT) WITH (bucket = 2)", InvalidArgumentError, "a text in single quotes at 'bucket = 2"),
        ("CREATE TABLE t (id INT) WITH ('a' = '1', 'a' = '2')", InvalidArgumentError, "option 'a' comes twice"),
        ("CREATE TABLE t (id INT) USING parquet", UnsupportedError, "USING paimon"),
        ("CREATE TABLE t (id INT) LIKE u", InvalidArgumentError, "expected COMMENT, PARTITIONED BY"),
        ("CREATE TABLE t (id INT); DROP TABLE t", InvalidArgumentError, "one statement .* at 'DROP TABLE t'"),
        ("CREATE TABLE t (id INT) COMMENT 'x", InvalidArgumentError, "not a CREATE TABLE statement"),
        ("CREATE TABLE t (id " + "ARRAY<" * 5_000 + "INT" + ">" * 5_000 + ")", PaimonError, "column 'id'"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(text: str, error: type[PaimonError], what: str) -> None:
    with pytest.raises(error, match=what):
        parse_create_table(text)


def test_java_reads_the_schema_of_a_statement(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = Catalog(str(tmp_path)).create_table(sql=FLINK.replace("mp MAP", "mp2 DATE, mp MAP"))

    schema = oracle.call("schema", table=table.path)
    assert oracle.read(table.path) == []
    assert "VARCHAR(10)" in str(schema)
    assert to_arrow_schema(table.schema.row_type).names[0] == "id"


def test_columns_as_texts(tmp_path: Path) -> None:
    columns = {
        "id": "INT NOT NULL",
        "name": "VARCHAR(10)",
        "tags": "MULTISET<CHAR(2)>",
        "at": "TIMESTAMP(4)",
        "arrow": pa.int8(),
        "field": pa.field("", pa.string(), nullable=False),
    }

    table = Catalog(str(tmp_path)).create_table("db.t", schema=columns, primary_keys=["id"], options={"bucket": 1})

    assert {field.name: type_to_json(field.type) for field in table.schema.row_type} == {
        "id": "INT NOT NULL",
        "name": "VARCHAR(10)",
        "tags": {"type": "MULTISET", "element": "CHAR(2)"},
        "at": "TIMESTAMP(4)",
        "arrow": "TINYINT",
        "field": "STRING NOT NULL",
    }


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"id": "INTT"}, "column 'id': 'INTT' is not a Paimon type"),
        ({"id": "DECIMAL(50, 2)"}, "'id'"),
        ({"id": "CHAR(0)"}, "'id'"),
        ({"id": 3}, "column 'id': 3 is not a type"),
        ({"id": int}, "column 'id': .* is not a type"),
        ({3: "INT"}, "names with types"),
        ([("id", "INT")], "names with types"),
        ("id INT", "names with types"),
        ({}, "at least one column"),
    ],
)
def test_columns_that_are_none_are_refused(tmp_path: Path, columns: Any, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        Catalog(str(tmp_path)).create_table("db.t", schema=columns)


def test_a_statement_can_have_a_name_and_options(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    sql = "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '2')"

    made = catalog.create_table("db.t", sql=sql, options={"bucket": 4})

    assert made.schema.options["bucket"] == "4"
    assert made.schema.primary_keys == ("id",)
    with pytest.raises(InvalidArgumentError, match="to be 'db.u', but the statement creates 't'"):
        catalog.create_table("db.u", sql=sql)
    with pytest.raises(InvalidArgumentError, match="not a table name; write database.table"):
        catalog.create_table(sql=sql)
    with pytest.raises(InvalidArgumentError, match="give only options with it"):
        catalog.create_table("db.t", sql=sql, primary_keys=["id"])
    with pytest.raises(InvalidArgumentError, match="a CREATE TABLE statement as sql="):
        catalog.create_table("db.t")
    assert catalog.create_table("db.t", sql=sql.replace("TABLE", "TABLE IF NOT EXISTS")).path == made.path
