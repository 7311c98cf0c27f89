"""Changes of schemas that a REST server keeps: what is sent to it, the result, and pypaimon's client compared with ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    DropColumn,
    InvalidArgumentError,
    MoveColumn,
    OutcomeUnknownError,
    RemoveOption,
    RenameColumn,
    SetOption,
    Table,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from paimon_engine.table.check.table_check import check_table
from tests.support.pypaimon import InCatalog, PyPaimon
from tests.support.rest import RestServer, rest_server

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
ALTER = r"/tables/t$"
TOKEN = "geheimes-wort"


def rows(*ids: int) -> pa.Table:
    count = len(ids)
    return pa.table([ids, [f"v{n}" for n in ids], ids, [{"x": 1, "y": "a"}] * count], schema=SCHEMA)


def options(server: RestServer) -> dict[str, str]:
    return {**server.options, "token.provider": "bear", "token": TOKEN}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "lake", token=TOKEN) as started:
        yield started


@pytest.fixture
def table(server: RestServer) -> Table:
    catalog = Catalog(options=options(server))
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
    table.write(rows(1, 2))
    return table


def test_the_server_changes_the_schema_and_old_rows_are_read_through_it(table: Table, server: RestServer):
    result = table.alter([AddColumn("w", "INT", after="id"), RenameColumn("v", "u"), UpdateColumnType("n", "BIGINT")])

    assert (result.status, result.old_schema_id, result.schema_id) == ("altered", 0, 1)
    assert result.columns == ("id", "w", "u", "n", "r")
    assert table.arrow_schema.field("n").type == pa.int64()
    again = Catalog(options=options(server)).table("db.t")
    again.write(pa.Table.from_pylist([{"id": 3, "w": 7, "u": "new", "n": 2**40, "r": None}], again.arrow_schema))
    table.compact(full=True)
    found = table.to_arrow(columns=["id", "w", "u", "n"]).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "w": None, "u": "v1", "n": 1},
        {"id": 2, "w": None, "u": "v2", "n": 2},
        {"id": 3, "w": 7, "u": "new", "n": 2**40},
    ]
    assert check_table(again._handle) == []
    assert len(server.alters) == 1


def test_a_change_that_changes_nothing_is_not_sent(table: Table, server: RestServer):
    assert table.alter([SetOption("bucket", "1")]).status == "noop"
    assert server.alters == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (DropColumn("id"), "part of the primary key"),
        (AddColumn("v", "INT"), "already"),
        (UpdateColumnType("v", "DATE NOT NULL"), "NOT NULL"),
        (SetOption("merge-engine", "first-row"), "merge-engine"),
    ],
)
def test_what_no_table_can_become_is_refused_before_the_server_hears_of_it(
    change: DropColumn, message: str, table: Table, server: RestServer
):
    with pytest.raises(InvalidArgumentError, match=message):
        table.alter([change])
    assert server.alters == []


def test_a_change_whose_answer_got_lost_is_found_to_be_made(table: Table, server: RestServer):
    server.fail("POST", ALTER, "lose_reply")

    assert table.alter([AddColumn("w", "INT")]).schema_id == 1
    assert table.alter([AddColumn("x", "INT")]).columns[-2:] == ("w", "x")


def test_a_change_that_got_lost_is_said_to_be_in_doubt_and_may_be_repeated(table: Table, server: RestServer):
    server.fail("POST", ALTER, "lose_request")

    with pytest.raises(OutcomeUnknownError):
        table.alter([AddColumn("w", "INT")])
    assert table.alter([AddColumn("w", "INT")]).schema_id == 1


SAME = [
    (SetOption("snapshot.num-retained.max", "7"), ("set_option", ["snapshot.num-retained.max", "7"])),
    (RemoveOption("snapshot.num-retained.max"), ("remove_option", ["snapshot.num-retained.max"])),
    (UpdateComment("about"), ("update_comment", ["about"])),
    (AddColumn("a", "ARRAY<INT>"), ("add_column", ["a", {"type": {"type": "ARRAY", "element": "INT"}}])),
    (
        AddColumn("b", "DECIMAL(10, 2)", comment="money"),
        ("add_column", ["b", {"type": "DECIMAL(10, 2)"}, "money"]),
    ),
    (AddColumn("r.z", "STRING"), ("add_column", [["r", "z"], {"type": "STRING"}])),
    (RenameColumn("v", "u"), ("rename_column", ["v", "u"])),
    (DropColumn("r.y"), ("drop_column", [["r", "y"]])),
    (UpdateColumnType("n", "BIGINT"), ("update_column_type", ["n", {"type": "BIGINT"}])),
    (UpdateColumnNullability("n", nullable=True), ("update_column_nullability", ["n", True])),
    (UpdateColumnComment("r.x", "inner"), ("update_column_comment", [["r", "x"], "inner"])),
    (UpdateColumnDefault("n", "5"), ("update_column_default_value", [["n"], "5"])),
]


def test_every_change_is_sent_as_pypaimon_sends_it(table: Table, server: RestServer, pypaimon: PyPaimon):
    ours, theirs = zip(*SAME, strict=True)
    # Not null before, so that the change to nullable is one.
    changes = [one for one in ours if not isinstance(one, UpdateColumnNullability)]
    table.alter(changes)
    catalog = Catalog(options=options(server))
    catalog.create_table("db.theirs", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})

    pypaimon.alter(InCatalog(options(server), "db.theirs"), *theirs)

    sent, expected = ([plain(one) for one in body["changes"]] for body in server.alters)
    assert sent == [one for one in expected if one["action"] != "updateColumnNullability"]
    assert table.arrow_schema == catalog.table("db.theirs").arrow_schema


@pytest.mark.parametrize(
    ("location", "kind", "columns"),
    [
        ({"first": True}, "FIRST", ["n", "id", "v", "r"]),
        ({"last": True}, "LAST", ["id", "v", "r", "n"]),
        ({"after": "id"}, "AFTER", ["id", "n", "v", "r"]),
        ({"before": "v"}, "BEFORE", ["id", "n", "v", "r"]),
    ],
)
def test_positions_are_sent_as_specified(
    location: dict, kind: str, columns: list[str], table: Table, server: RestServer
):
    # pypaimon's client cannot send them.
    table.alter([MoveColumn("n", **location)])

    move = {"fieldName": "n", "referenceFieldName": location.get("after") or location.get("before"), "type": kind}
    assert server.alters == [{"changes": [{"action": "updateColumnPosition", "move": move}]}]
    assert table.arrow_schema.names == columns


def plain(change: dict) -> dict:
    """The change without what says nothing: nulls, and what pypaimon adds to types that are nullable anyway."""
    given_values = {
        key: value for key, value in change.items() if value is not None and (key, value) != ("nullable", True)
    }
    return {key: plain(value) if isinstance(value, dict) else value for key, value in given_values.items()}


def test_pypaimon_and_we_change_one_table_in_turns(table: Table, server: RestServer, pypaimon: PyPaimon):
    location = InCatalog(options(server), "db.t")
    table.alter([AddColumn("w", "INT"), RenameColumn("v", "u")])
    pypaimon.alter(location, ("add_column", ["x", {"type": "BIGINT"}]), ("drop_column", ["n"]))
    table.alter([SetOption("snapshot.num-retained.max", "19"), MoveColumn("x", first=True)])
    table.write(pa.Table.from_pylist([{"x": 2**40, "id": 3, "u": "three", "r": None, "w": 1}], table.arrow_schema))

    theirs = pypaimon.read(location).sort_by("id")
    assert theirs.column_names == ["x", "id", "u", "r", "w"]
    assert theirs.to_pylist() == table.to_arrow().sort_by("id").to_pylist()
