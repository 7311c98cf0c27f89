"""Tables made by a job, and checked where they are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    ConflictError,
    CreateTable,
    InvalidArgumentError,
    MoveColumn,
    SetOption,
    UnsupportedError,
)
from paimon_engine.jobs import CatalogRef, Job, JobResult, TableRef, run

COLUMNS = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "tags": "ARRAY<STRING>"}
WHOLE: dict[str, Any] = {
    "columns": COLUMNS,
    "primary_keys": ["id", "day"],
    "partition_keys": ["day"],
    "options": {"bucket": "2"},
    "comment": "orders",
}
STATEMENT = (
    "CREATE TABLE shop.orders (id BIGINT NOT NULL, day STRING NOT NULL, tags ARRAY<STRING>, "
    "PRIMARY KEY (id, day) NOT ENFORCED) COMMENT 'orders' PARTITIONED BY (day) WITH ('bucket' = '2')"
)


@pytest.fixture(params=["directory", "jdbc"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The table of a job: in a directory, and in a catalog that keeps names in a database."""
    lake = str(tmp_path / "lake")
    table = {"table": TableRef(warehouse=lake, name="shop.orders")}
    if request.param == "directory":
        return table
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}"}
    Catalog(lake, options=options).create_database("shop")
    return {**table, "catalog": CatalogRef(options)}


def make(location: dict[str, Any], **fields: Any) -> JobResult:
    return run(Job(action=CreateTable(**fields), commit_user="me", **location))


def test_a_table_is_made_once(location: dict[str, Any], tmp_path: Path):
    first, again = make(location, **WHOLE), make(location, **WHOLE)

    assert (first.status, again.status) == ("created", "exists")
    assert list(first.details["columns"]) == ["id", "day", "tags"]


def test_a_statement_makes_the_same_table(location: dict[str, Any]):
    assert make(location, sql=STATEMENT).status == "created"
    assert make(location, **WHOLE).status == "exists"
    assert make(location, sql=STATEMENT, options={"bucket": "2"}).status == "exists"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {**COLUMNS, "more": "INT"}}, "column more is missing"),
        ({"columns": {"id": "BIGINT", "day": "STRING"}}, "column tags is not in the definition"),
        ({"columns": {**COLUMNS, "id": "INT NOT NULL"}}, "column id is BIGINT NOT NULL, not INT NOT NULL"),
        ({"columns": {**COLUMNS, "tags": "ARRAY<INT>"}}, "column tags is .*STRING.*, not .*INT"),
        ({"columns": dict(reversed(COLUMNS.items()))}, "the order of the columns is id, day, tags, not tags, day, id"),
        ({"primary_keys": ["day", "id"]}, "the primary key is id, day, not day, id"),
        ({"partition_keys": []}, "the partition key is day, not none"),
        ({"options": {"bucket": "4"}}, "option bucket is 2, not 4"),
        ({"options": {"bucket": "2", "file.format": "orc"}}, "option file.format is not set, not orc"),
        ({"comment": "other"}, "the comment is 'orders', not 'other'"),
    ],
)
def test_another_definition_is_refused_with_the_difference(
    location: dict[str, Any], change: dict[str, Any], message: str
):
    make(location, **WHOLE)

    with pytest.raises(InvalidArgumentError, match=message):
        make(location, **{**WHOLE, **change})
    assert make(location, **{**WHOLE, **change}, if_exists="ignore").status == "exists"
    with pytest.raises(ConflictError, match="the table exists"):
        make(location, **WHOLE, if_exists="error")


def test_what_was_altered_since_is_a_difference_but_for_options(tmp_path: Path):
    location = {"table": TableRef(warehouse=str(tmp_path), name="shop.orders")}
    make(location, **WHOLE)
    table = Catalog(str(tmp_path)).table("shop.orders")
    table.alter([SetOption("snapshot.num-retained.max", "50")])

    assert make(location, **WHOLE).status == "exists"

    table.alter([AddColumn("more", "INT")])
    table.alter([MoveColumn("more", first=True)])
    with pytest.raises(InvalidArgumentError, match="column more is not in the definition"):
        make(location, **WHOLE)
    assert make(location, **{**WHOLE, "columns": {"more": "INT", **COLUMNS}}).status == "exists"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give columns with their types, or a CREATE TABLE statement"),
        ({"columns": COLUMNS, "sql": STATEMENT}, "give columns with their types, or a CREATE TABLE statement"),
        ({"sql": STATEMENT, "comment": "x"}, "sql defines columns, keys and comment"),
        (
            {"sql": STATEMENT.replace("shop.orders", "shop.other")},
            "the table is shop.orders, but .* creates shop.other",
        ),
        ({"columns": {"id": "NUMBERS"}}, "column 'id'"),
        ({"columns": COLUMNS, "primary_keys": ["no"]}, "no"),
        ({"columns": COLUMNS, "options": {"merge-engine": "none"}}, "merge-engine"),
    ],
)
def test_a_wrong_definition_makes_nothing(
    location: dict[str, Any], tmp_path: Path, fields: dict[str, Any], message: str
):
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=message):
        make(location, **fields)
    assert not list((tmp_path / "lake").rglob("schema-*"))
