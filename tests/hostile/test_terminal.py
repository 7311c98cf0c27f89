"""The content of a table is shown by a terminal and never executed by it; nor by a spreadsheet, with `--escape-formulas`."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table

TEXTS = ("\x1b[31mred\x1b[0m", "\x9b2J", "bell\x07", "back\x08", "\u202etxt", "two\r\nlines", "Zürich")
FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=pa.schema([("v", pa.string()), ("=n", pa.int64())])
    )
    texts = [*TEXTS, *FORMULAS, "plain", None]
    made.write(pa.table({"v": texts, "=n": [-1] * len(texts)}))
    return made


def on_terminal(*arguments: str) -> str:
    """What a terminal gets of a run of the command line."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "paimon_engine", *arguments]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=subprocess.DEVNULL, close_fds=True) as process:
        os.close(other)
        got = b""
        while True:
            try:
                chunk = os.read(main, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            got += chunk
        assert process.wait(timeout=120) == 0
    os.close(main)
    return got.decode().replace("\r\n", "\n")


def piped(*arguments: str) -> str:
    command = [sys.executable, "-m", "paimon_engine", *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode()


def test_csv_on_a_terminal_spells_control_characters_out(table: Table):
    got = on_terminal("read", table.path, "-o", "csv")

    assert all(char.isprintable() or char == "\n" for char in got)
    assert "\\x1b[31mred" in got
    assert "Zürich" in got


def test_json_on_a_terminal_spells_control_characters_out(table: Table):
    got = on_terminal("read", table.path, "-o", "json")

    assert all(char.isprintable() or char == "\n" for char in got)
    assert [json.loads(line).get("v") for line in got.splitlines()] == [*TEXTS, *FORMULAS, "plain", None]


def test_a_program_gets_texts_as_they_are(table: Table):
    lines = list(csv.reader(io.StringIO(piped("read", table.path, "-o", "csv"), newline="")))

    assert lines[0] == ["v", "=n"]
    assert [line[0] for line in lines[1:]] == [*TEXTS, *FORMULAS, "plain", ""]


def test_formulas_are_escaped_on_request(table: Table):
    lines = list(csv.reader(io.StringIO(piped("read", table.path, "-o", "csv", "--escape-formulas"), newline="")))

    assert lines[0] == ["v", "'=n"]
    assert [line[0] for line in lines[1:]] == [*TEXTS, *(f"'{text}" for text in FORMULAS), "plain", ""]
    assert {line[1] for line in lines[1:]} == {"-1"}


@pytest.mark.parametrize("form", ["json", "table"])
def test_escaping_is_refused_where_there_is_no_csv(table: Table, form: str):
    command = [sys.executable, "-m", "paimon_engine", "read", table.path, "-o", form, "--escape-formulas"]

    ended = subprocess.run(command, capture_output=True, check=False, timeout=120)

    assert ended.returncode == 2
    assert b"--output csv" in ended.stderr
