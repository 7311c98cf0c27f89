"""`paimon-engine read` beyond the newest rows: changes, branches, options, system tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.cli import main

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("name", pa.string())])
Ended = tuple[int, list[str], str]
"""Exit code, lines of output, standard error."""

Run = Callable[..., Ended]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `paimon-engine read` in this process, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["paimon-engine", "read", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), [line.rstrip() for line in out.splitlines()], err

    return run


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshot 1, with the tag `first`, and a snapshot 2, with the tag `last`, that changes a row and adds one."""
    made = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": 1})
    made.write(pa.table({"k": [1, 2], "name": ["one", "two"]}, SCHEMA))
    made.create_tag("first")
    made.write(pa.table({"k": [1, 3], "name": ["uno", None]}, SCHEMA), row_kinds=["+U", "+I"])
    made.create_tag("last")
    return made


@pytest.mark.parametrize("bounds", ["1..2", "first..last"])
def test_changes_are_shown_with_their_kinds(read: Run, table: Table, bounds: str):
    code, lines, err = read(table.path, "--incremental", bounds, "--row-kinds")

    assert (code, err) == (0, "")
    assert lines == ["rowkind  k  name", "+U       1  uno", "+I       3  NULL"]


def test_options_and_branches_choose_what_is_read(read: Run, table: Table):
    first = ["name", "one", "two"]

    assert read(table.path, "-c", "name", "--option", "scan.snapshot-id=1")[1] == first
    assert read(table.path, "-c", "name", "--branch", "main", "--tag", "first")[1] == first


def test_system_tables_are_shown(read: Run, table: Table, tmp_path: Path):
    shown = ["tag_name  snapshot_id", "first               1"]

    assert read(f"{table.path}$tags", "-c", "tag_name,snapshot_id", "--where", "snapshot_id = 1")[1] == shown
    assert read("db.t$tags", "-w", tmp_path, "-c", "tag_name,snapshot_id", "-n", 1)[1] == shown


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{t}", "--option", "key"], 2, "--option 'key': write KEY=VALUE"),
        (["{t}", "--option", "scan.speed=9"], 1, "'scan.speed' is not honoured"),
        (["{t}", "--incremental", "1"], 2, "write FROM..TO"),
        (["{t}", "--incremental", "1..9"], 1, "it has snapshots 1 to 2"),
        (["{t}", "--branch", "dev"], 1, "there is no branch 'dev'"),
        (["{t}$nope"], 1, "these exist: aggregation_fields"),
    ],
)
def test_errors_are_one_line(read: Run, table: Table, arguments: list[str], code: int, message: str):
    ended, lines, err = read(*(argument.format(t=table.path) for argument in arguments))

    assert (ended, lines) == (code, [])
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
