"""What the commands that list print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_engine import Catalog, Table
from tests.support.command_line import SCHEMA, Ended, Run


def test_tables_lists_a_warehouse(paimon: Run, table: Table):
    warehouse = table.path.removesuffix("/db.db/t")

    assert paimon("tables", warehouse).lines == [
        "table  primary key  partitioned by  snapshot",
        "db.t   k            -                      3",
    ]
    [row] = json.loads(paimon("tables", "-w", warehouse, "--json").out)
    assert row["table"] == "db.t"
    assert paimon("tables").code == 2


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_only_a_directory_is_a_warehouse_without_tables(paimon: Run, tmp_path: Path, more: tuple[str, ...]):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")

    empty, file, nowhere = (paimon("tables", tmp_path / name, *more) for name in ("empty", "file", "nowhere"))

    assert (empty.code, empty.out, "no tables in" in empty.err) == (0, "[]\n" if more else "", not more)
    assert (file.code, file.out, file.err) == (1, "", f"error: no warehouse {tmp_path}/file: it is a file\n")
    assert (nowhere.code, nowhere.out, nowhere.err) == (
        1,
        "",
        f"error: no warehouse {tmp_path}/nowhere: nothing is there\n",
    )


def test_a_broken_table_does_not_hide_the_others(paimon: Run, table: Table):
    warehouse = table.path.removesuffix("/db.db/t")
    Catalog(warehouse).create_table("db.a", schema=SCHEMA)
    Path(table.path, "schema", "schema-0").write_text("{")

    ended = paimon("tables", warehouse)

    assert ended.code == 0
    assert ended.lines[1].split() == ["db.a", "-", "-", "-"]
    assert "no JSON" in " ".join(ended.out.split())


def test_snapshots_fit_80_columns(paimon: Run, table: Table):
    ended = paimon("snapshots", table.path)

    header, first, *_ = ended.lines
    assert header.split() == ["id", "kind", "time", "(UTC)", "records", "change", "user"]
    assert first.split()[:2] == ["1", "APPEND"]
    assert max(len(line) for line in ended.lines) <= 80


def test_tags_and_files_are_listed(paimon: Run, table: Table):
    assert paimon("tags", table.path).lines[1].split()[:2] == ["first", "1"]
    files = paimon("files", table.path, "--tag", "first")
    assert files.lines[0].split() == ["bucket", "level", "records", "size", "min", "key", "max", "key"]
    assert files.lines[1].split()[-2:] == ["[1]", "[2]"]
    assert files.err.startswith("1 file, ")


@pytest.mark.parametrize(
    ("command", "column"), [("snapshots", "snapshot_id"), ("tags", "tag_name"), ("files", "level")]
)
def test_lists_as_json_have_all_columns(paimon: Run, table: Table, command: str, column: str):
    found = json.loads(paimon(command, table.path, "--json").out)

    assert column in found[0]
    assert len(found[0]) >= 7


def test_nothing_to_list_is_said_in_words(paimon: Run, tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA)

    for command, message in (("snapshots", "no snapshots yet"), ("tags", "no tags yet"), ("files", "no data files")):
        assert paimon(command, table.path) == Ended(0, "", f"{message}\n")


def test_a_foreign_directory_does_not_hide_the_tables_next_to_it(paimon: Run, table: Table):
    warehouse = Path(table.path).parents[1]
    for name in ("a$b.db", "x.y.db", "sys.db"):
        (warehouse / name / "t" / "schema").mkdir(parents=True)
        (warehouse / name / "t" / "schema" / "schema-0").write_text("{}")
    ended = paimon("tables", warehouse, "--json")

    assert ended.code == 0
    assert [row["table"] for row in json.loads(ended.out)] == ["db.t"]
    assert "left out" in ended.err
    assert "a$b" in ended.err
