"""ALTER through the facade, jobs and the command line; old files, read through the new schema."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from paimon_engine import (
    AddColumn,
    Catalog,
    DropColumn,
    EnvConfig,
    InvalidArgumentError,
    MemoryStorage,
    MoveColumn,
    RenameColumn,
    SetOption,
    Table,
    UnsupportedError,
    UpdateColumnDefault,
    UpdateColumnType,
    UpdateComment,
    open_table,
)
from paimon_engine.action import Context
from paimon_engine.actions.alter_table import AlterTable, alter_table
from paimon_engine.cli import app
from paimon_engine.env import Env
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.meta.schema import parse_schema
from paimon_engine.table.state import schema_commit
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.schema_commit import alter_schema

ROW = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("s", pa.string()),
        pa.field("r", ROW),
        pa.field("l", pa.list_(ROW)),
        pa.field("m", pa.map_(pa.string(), ROW)),
    ]
)
ROWS = [
    {
        "k": 1,
        "v": 300,
        "s": "7",
        "r": {"x": 1, "y": "a"},
        "l": [{"x": 1, "y": "a"}, None],
        "m": [("a", {"x": 1, "y": "b"})],
    },
    {"k": 2, "v": None, "s": None, "r": None, "l": None, "m": None},
    {"k": 3, "v": -1, "s": "x", "r": {"x": None, "y": None}, "l": [], "m": [("a", None)]},
]


@pytest.fixture(params=["parquet", "orc", "avro"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    options = {"bucket": "1", "file.format": request.param}
    made = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    made.write(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


def rows(table: Table, *columns: str, where: str | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_arrow(columns or None, where).sort_by("k").to_pylist()]


def test_the_table_has_the_new_columns_at_once(table: Table):
    result = table.alter([AddColumn("n", "DATE", after="k"), RenameColumn("v", "w"), DropColumn("s")])

    assert (result.status, result.old_schema_id, result.schema_id) == ("altered", 0, 1)
    assert table.schema.row_type.names == result.columns == ("k", "n", "w", "r", "l", "m")
    assert open_table(table.path).schema == table.schema
    assert rows(table, "k", "n", "w") == [(1, None, 300), (2, None, None), (3, None, -1)]


def test_a_snapshot_of_before_is_read_with_the_columns_of_today_and_by_its_own_schema(table: Table):
    table.alter([RenameColumn("v", "w"), AddColumn("n", "INT")])
    table.write(pa.table({"k": pa.array([4], pa.int32()), "n": pa.array([9], pa.int32())}))

    assert table.to_arrow(snapshot=1).schema.names == ["k", "v", "s", "r", "l", "m"]
    assert rows(table, "k", "w", "n") == [(1, 300, None), (2, None, None), (3, -1, None), (4, None, 9)]


def test_a_column_of_the_same_name_is_another_column(table: Table):
    table.alter([DropColumn("v"), AddColumn("v", "INT")])

    assert rows(table, "k", "v") == [(1, None), (2, None), (3, None)]


def test_fields_of_rows_are_matched_by_id_at_any_depth(table: Table):
    table.alter(
        [
            RenameColumn("r.x", "z"),
            AddColumn("r.x", "STRING", first=True),
            DropColumn("l.element.x"),
            AddColumn("l.element.n", "DATE"),
            UpdateColumnType("m.value.x", "DECIMAL(5, 1)"),
            MoveColumn("m", first=True),
        ]
    )

    assert rows(table, "k", "r", "l", "m") == [
        (
            1,
            {"x": None, "y": "a", "z": 1},
            [{"y": "a", "n": None}, None],
            [("a", {"x": Decimal("1.0"), "y": "b"})],
        ),
        (2, None, None, None),
        (3, {"x": None, "z": None, "y": None}, [], [("a", None)]),
    ]
    assert [field.name for field in table.to_arrow().schema.field("r").type] == ["x", "z", "y"]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_nested_rows_lose_fields_next_to_any_other_columns(tmp_path: Path, form: str):
    deep = pa.struct(
        [("n", pa.int32()), ("gone", pa.int32()), ("row", pa.struct([("x", pa.int32()), ("y", pa.int32())]))]
    )
    kind = pa.struct([("a", pa.int32()), ("deep", deep)])
    schema = pa.schema([("k", pa.int32()), ("r", kind), ("l", pa.list_(kind))])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options={"file.format": form})
    value = {"a": 1, "deep": {"n": 2, "gone": 3, "row": {"x": 4, "y": 5}}}
    table.write(pa.Table.from_pylist([{"k": 1, "r": value, "l": [value]}, {"k": 2, "r": None, "l": None}], schema))

    for path in ("r.deep.row.x", "l.element.deep.gone"):
        table.alter([DropColumn(path)])
    table.alter([DropColumn("r.deep.gone"), AddColumn("r.deep.new", "INT")])

    listed = {"a": 1, "deep": {"n": 2, "row": {"x": 4, "y": 5}}}
    expected = {"a": 1, "deep": {"n": 2, "row": {"y": 5}, "new": None}}
    assert rows(table) == [(1, expected, [listed]), (2, None, None)]
    assert rows(table, "k", "r.deep.row") == [(1, {"y": 5}), (2, None)]


def test_old_values_keep_being_cast_when_files_are_compacted(table: Table):
    table.alter([UpdateColumnType("v", "TINYINT")])
    before = rows(table)

    table.compact(full=True)

    assert rows(table, "k", "v") == [(1, 44), (2, None), (3, -1)]
    assert rows(table) == before


def test_what_was_text_once_is_not_text_again(table: Table, monkeypatch: pytest.MonkeyPatch):
    # Java makes this change.
    monkeypatch.setattr(schema_commit, "check_old_types", lambda *_: None)
    table.alter([UpdateColumnType("v", "STRING"), UpdateColumnType("v", "DATE")])

    with pytest.raises(UnsupportedError, match="column 'v' in a file from before .* no cast from INT to DATE"):
        table.to_arrow()
    assert rows(table, "k", "s") == [(1, "7"), (2, None), (3, "x")]


def test_a_value_that_does_not_fit_its_new_type_is_named(table: Table):
    table.alter([UpdateColumnType("s", "INT")])

    with pytest.raises(InvalidArgumentError, match="column 's' .* STRING cannot become INT: 'x' does not fit"):
        table.to_arrow()


def test_filters_see_the_values_of_today(table: Table):
    table.alter([UpdateColumnType("v", "TINYINT"), AddColumn("n", "INT")])

    assert rows(table, "k", where="v = 44") == [(1,)]
    assert rows(table, "k", where="v = 1 OR v < 0") == [(3,)]
    assert rows(table, "k", where="n IS NULL") == [(1,), (2,), (3,)]
    assert rows(table, "k", where="n = 1") == []


def test_statistics_of_older_schemas_leave_files_out_where_the_order_stays(tmp_path: Path):
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options={"bucket": "-1"})
    table.write(pa.table({"a": [1, 2], "b": [1, 300]}, schema))
    table.alter([UpdateColumnType("a", "BIGINT"), UpdateColumnType("b", "TINYINT"), AddColumn("c", "INT")])
    [file] = (tmp_path / "db.db/t/bucket-0").iterdir()
    file.unlink()

    # Only a file that is left out can be missing.
    assert table.to_arrow(where="a > 2").num_rows == 0
    assert table.to_arrow(where="c = 1").num_rows == 0
    assert table.to_arrow(where="a IS NULL").num_rows == 0
    for needed in ("a > 1", "b = 44", "b > 99", "c IS NULL"):
        with pytest.raises(Exception, match=file.name):
            table.to_arrow(where=needed)


def test_a_bucket_is_looked_up_by_the_type_that_it_was_filled_by(tmp_path: Path):
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    options = {"bucket": "8", "bucket-key": "a"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options=options)
    table.write(pa.table({"a": range(20), "b": range(20)}, schema))
    table.alter([UpdateColumnType("a", "BIGINT")])

    for number in range(20):
        assert table.to_arrow(["b"], f"a = {number}")["b"].to_pylist() == [number]


def test_the_default_of_a_column_is_written_instead_of_null(table: Table):
    table.alter([UpdateColumnDefault("v", "7"), AddColumn("d", "DATE"), UpdateColumnDefault("d", "2024-2-9")])
    new = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.int32())])

    table.write(pa.table({"k": [2, 4], "v": [None, 5]}, new))

    day = date(2024, 2, 9)
    assert rows(table, "k", "v", "d") == [(1, 300, None), (2, 7, day), (3, -1, None), (4, 5, day)]


def test_dynamic_options_are_not_stored(table: Table):
    open_table(table.path, options={"write-buffer-size": "9 mb"}).alter([UpdateComment("rows")])

    assert "write-buffer-size" not in open_table(table.path).schema.options
    assert open_table(table.path).schema.comment == "rows"


def test_a_branch_changes_on_its_own(table: Table):
    table.create_tag("t")
    branch = Path(table.path) / "branch/branch-b"
    for folder in ("schema", "snapshot", "tag"):
        (branch / folder).mkdir(parents=True)
    (branch / "schema/schema-0").write_bytes((Path(table.path) / "schema/schema-0").read_bytes())

    open_table(f"{table.path}$branch_b").alter([AddColumn("n", "INT")])

    assert "n" in open_table(f"{table.path}$branch_b").schema.row_type.names
    assert "n" not in open_table(table.path).schema.row_type.names


def test_an_option_that_the_engine_lacks_is_refused(table: Table):
    with pytest.raises(UnsupportedError, match="'upsert-key'"):
        table.alter([SetOption("upsert-key", "id")])


def test_manifests_keep_the_format_that_readers_expect(table: Table):
    with pytest.raises(InvalidArgumentError, match="'manifest.format' says what the stored files mean"):
        table.alter([SetOption("manifest.format", "parquet")])


def test_a_catalog_alters_by_name(tmp_path: Path, table: Table):
    result = Catalog(str(tmp_path)).alter_table("db.t", [{"change": "drop_column", "name": "s"}])

    assert result.columns == ("k", "v", "r", "l", "m")
    with pytest.raises(InvalidArgumentError, match="no column 's'"):
        table.alter([DropColumn("s")])


def test_a_system_table_cannot_be_altered(table: Table):
    with pytest.raises(UnsupportedError, match="system table"):
        open_table(f"{table.path}$snapshots").alter([UpdateComment("x")])


# ── races and repeats ───────────────────────────────────────────────────────────────────────────


class Overtaken(MemoryStorage):
    """A store in which others alter the table, just before each of the first schemas that this process writes."""

    def __init__(self, *, times: int) -> None:
        super().__init__()
        self.times = times

    def create(self, path: str, data: bytes) -> bool:
        schema_id = path.rpartition("/schema-")[2]
        if self.times and schema_id.isdigit() and int(schema_id) > 0:
            self.times -= 1
            theirs = json.loads(super().read(path.replace(schema_id, str(int(schema_id) - 1))))
            theirs |= {"id": int(schema_id), "comment": f"theirs {schema_id}"}
            super().create(path, json.dumps(theirs).encode())
        return super().create(path, data)


@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_race_is_run_again_on_top_of_the_other_schema(times: int):
    storage = Overtaken(times=times)
    env = Env(storage)
    from paimon_engine.table.state.warehouse import create_table

    handle = create_table(env, EnvConfig("memory://"), "/t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})

    before, after = alter_schema(handle, [AddColumn("n", "INT")])

    assert (before.comment, after.comment, after.id) == (f"theirs {times}", f"theirs {times}", times + 1)
    assert parse_schema(storage.read(f"/t/schema/schema-{times + 1}").decode(), "").row_type.names[-1] == "n"


def test_a_job_that_ran_before_does_nothing(table: Table):
    ref = TableRef(path=table.path)
    job = Job(ref, AlterTable([AddColumn("n", "INT"), RenameColumn("v", "w")]), "u")

    first, second = run(Job.from_json(job.to_json())), run(Job.from_json(job.to_json()))

    assert (first.status, second.status) == ("altered", "noop")
    assert open_table(table.path).schema.id == 1
    with pytest.raises(InvalidArgumentError, match="a column 'n' already"):
        alter_table(Context(load_table(table.path, EnvConfig(table.path))), AlterTable([AddColumn("n", "INT")]))


@pytest.mark.parametrize("changes", [[], "add", [{"change": "add"}], {"change": "drop_column", "name": "a"}, None])
def test_what_is_no_list_of_changes_is_said(changes: Any):
    with pytest.raises(InvalidArgumentError):
        AlterTable(changes)


# ── command line ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        (["add-column", "n", "DECIMAL(5, 2)", "--after", "k", "--comment", "new"], "k n v s r l m"),
        (["rename-column", "v", "w"], "k w s r l m"),
        (["drop-column", "v", "s"], "k r l m"),
        (["type", "r.x", "BIGINT"], "k v s r l m"),
        (["nullable", "v"], "k v s r l m"),
        (["move-column", "m", "--first"], "m k v s r l"),
        (["default", "v", "7"], "k v s r l m"),
        (["comment", "rows"], "k v s r l m"),
        (["comment", "--column", "v", "a number"], "k v s r l m"),
        (["set", "write-buffer-size=9 mb"], "k v s r l m"),
        (["unset", "file.format"], "k v s r l m"),
        (["apply", '[{"change": "drop_column", "name": "s"}]'], "k v r l m"),
    ],
)
def test_the_command_line_alters(tmp_path: Path, arguments: list[str], columns: str):
    options = {"bucket": "1", "file.format": "orc"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    command, *rest = arguments

    done = CliRunner().invoke(app, ["alter", command, table.path, *rest, "--json"])

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["columns"] == columns.split()
    expected = 0 if command == "nullable" else 1
    assert open_table(table.path).schema.id == expected
    assert replace(open_table(table.path).schema, id=0) != replace(table.schema, id=0) or not expected
