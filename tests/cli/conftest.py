"""Runs of the command line in this process, and a table for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paimon_engine import Catalog, Table
from paimon_engine.cli import main
from tests.support.command_line import SCHEMA, Ended, Run, rows


@pytest.fixture
def paimon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["paimon-engine", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits to one bucket: two rows, one of them again, a third row."""
    options = {"bucket": 1, "snapshot.num-retained.min": 1}
    made = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    nothing = {"raw": None, "marks": None}
    made.write(rows({"k": 1, "name": "one", "share": 0.5, "raw": b"\x00", "marks": [1, 2]}, {"k": 2, "name": "two"}))
    made.create_tag("first")
    made.write(rows({"k": 1, "name": "uno", **nothing}))
    made.write(rows({"k": 3, "share": float("nan"), **nothing}))
    return made
