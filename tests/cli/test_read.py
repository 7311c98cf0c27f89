"""What `read` prints and stores."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from paimon_engine import Table
from paimon_engine.cli.terminal import _fitting, shown
from paimon_engine.units import size_text as size
from tests.support.command_line import Run, rows


def test_read_prints_a_table(paimon: Run, table: Table):
    ended = paimon("read", table.path, "--columns", "k,name,share")

    assert ended.lines == ["k  name  share", "1  uno    NULL", "2  two    NULL", "3  NULL    nan"]
    assert ended.err == ""
    assert ended.code == 0


def test_export_says_what_it_wrote_and_what_it_left(paimon: Run, table: Table, tmp_path: Path):
    target = tmp_path / "out.csv"
    done = paimon("export", table.path, target, "--format", "csv", "--columns", "k,name", "--tag", "first")
    again = paimon("export", table.path, target)
    left = paimon("export", table.path, target, "--if-exists", "ignore")
    parts = json.loads(paimon("export", table.path, tmp_path / "out", "--partition-by", "[]", "--json").out)

    assert done.lines == [f"exported snapshot 1 to {target}: 2 rows in 1 file, {size(target.stat().st_size)}"]
    assert target.read_text().splitlines()[0] == '"k","name"'
    assert (again.code, "--if-exists replace" in again.err) == (1, True)
    assert left.lines == [f"left {target} as it is: it is there already"]
    assert (parts["rows"], parts["files"]) == (3, 1)


def test_read_finds_a_table_by_warehouse_and_name(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    warehouse = table.path.removesuffix("/db.db/t")

    assert paimon("read", "db.t", "-w", warehouse, "-c", "k").lines == ["k", "1", "2", "3"]
    monkeypatch.setenv("PAIMON_WAREHOUSE", warehouse)
    assert paimon("read", "db.t", "-c", "k", "--where", "k > 1", "-n", "1").lines == ["k", "2"]


def test_read_says_what_it_leaves_out(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "12")

    ended = paimon("read", table.path, "--limit", 2)

    assert ended.lines == ["k  name", "1  uno", "2  two"]
    assert " ".join(ended.err.split()) == (
        "3 more columns: share, raw, marks (choose with --columns) "
        "the first 2 rows; more with --limit N, all with --output csv or json"
    )


def test_read_travels_in_time(paimon: Run, table: Table):
    for how in (["--tag", "first"], ["--snapshot", "1"]):
        assert paimon("read", table.path, "-c", "name", *how).lines == ["name", "one", "two"]
    assert paimon("read", table.path, "--timestamp", "2000-01-01").code == 1


def test_read_gives_json_lines(paimon: Run, table: Table):
    ended = paimon("read", table.path, "--output", "json", "--tag", "first")
    newest = paimon("read", table.path, "--output", "json", "-c", "k,share", "--where", "k = 3")

    assert [json.loads(line) for line in ended.lines] == [
        {"k": 1, "name": "one", "share": 0.5, "raw": "AA==", "marks": [1, 2]},
        {"k": 2, "name": "two", "share": None, "raw": None, "marks": None},
    ]
    assert newest.out == '{"k": 3, "share": "NaN"}\n'


def test_read_gives_csv(paimon: Run, table: Table):
    ended = paimon("read", table.path, "-o", "csv", "--tag", "first")

    assert list(csv.reader(io.StringIO(ended.out))) == [
        ["k", "name", "share", "raw", "marks"],
        ["1", "one", "0.5", "AA==", "[1, 2]"],
        ["2", "two", "", "", ""],
    ]


def test_read_stores_files_by_their_ending(paimon: Run, table: Table, tmp_path: Path):
    for ending in ("parquet", "csv", "jsonl"):
        target = tmp_path / f"rows.{ending}"
        ended = paimon("read", table.path, "--to", target)
        assert (ended.code, ended.out) == (0, "")
        assert ended.err.startswith("3 rows in")
        assert target.stat().st_size > 0

    assert pq.read_table(tmp_path / "rows.parquet").column("k").to_pylist() == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "rows.csv", "rows.jsonl", "rows.parquet"]


@pytest.mark.parametrize("target", ["old.csv", "new.csv"])
def test_a_link_stays_and_the_file_is_written_that_it_leads_to(paimon: Run, table: Table, tmp_path: Path, target: str):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "old.csv").write_text("old")
    link = tmp_path / "rows.csv"
    link.symlink_to(Path("far", target))

    assert paimon("read", table.path, "--to", link, "-c", "k").code == 0

    assert link.readlink() == Path("far", target)
    assert (tmp_path / "far" / target).read_text().split() == ['"k"', "1", "2", "3"]
    assert list((tmp_path / "far").glob(".*")) == []


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_pipe_gets_the_rows_and_stays(paimon: Run, table: Table, tmp_path: Path, ending: str, is_linked: bool):
    pipe, link = tmp_path / f"pipe.{ending}", tmp_path / f"link.{ending}"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        ended = paimon("read", table.path, "--to", link if is_linked else pipe, "-c", "k")
        data = reader.read()

    assert ended.code == 0, ended.err
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["lake", pipe.name, link.name])
    found = pq.read_table(io.BytesIO(data))["k"].to_pylist() if ending == "parquet" else data.decode().splitlines()[-3:]
    assert found == {"parquet": [1, 2, 3], "csv": ["1", "2", "3"]}.get(ending, ['{"k": 1}', '{"k": 2}', '{"k": 3}'])


def test_a_failed_read_leaves_the_old_file(paimon: Run, table: Table, tmp_path: Path):
    target = tmp_path / "rows.csv"
    target.write_text("old")
    for data_file in Path(table.path).rglob("*.parquet"):
        data_file.write_bytes(b"broken")

    assert paimon("read", table.path, "--to", target).code == 1
    assert target.read_text() == "old"
    assert list(tmp_path.glob(".*")) == []


def test_stored_text_cannot_steer_the_terminal(paimon: Run, table: Table):
    table.write(rows({"k": 1, "name": "[red]\x1b[31m\n"}))

    assert paimon("read", table.path, "-c", "name", "-n", 1).lines[1] == r"[red]\x1b[31m\n"
    assert shown("naïve ✓") == "naïve ✓"


@pytest.mark.parametrize(
    ("widths", "width", "fitting"),
    [
        ({"a": 5, "b": 5}, 80, "ab"),
        ({"a": 40, "b": 40, "c": 5}, 80, "a"),
        ({"a": 38, "b": 40, "c": 5}, 80, "ab"),
        ({"a": 500, "b": 30}, 80, "ab"),
        ({"a": 500, "b": 500}, 20, "a"),
        ({}, 80, ""),
    ],
)
def test_as_many_columns_are_shown_as_fit(widths: dict[str, int], width: int, fitting: str):
    assert "".join(_fitting(widths, width)) == fitting


def test_sizes_are_for_people():
    assert [size(value) for value in (0, 1023, 1536, 5 << 20, 3 << 30, 2 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB", "2.0 TiB",
    ]  # fmt: skip
