"""`paimon-engine doctor`: what is looked at, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paimon_engine import Catalog
from paimon_engine.cli import app


def test_a_usable_directory_is_reported_and_nothing_is_left(tmp_path: Path):
    done = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json"])

    found = {item["what"]: item for item in json.loads(done.stdout)}
    assert {"python", "pyspark", "java", "store", "create-if-absent", "clock"} == found.keys()
    assert all(found[what]["is_ok"] for what in ("python", "pyspark", "store", "create-if-absent", "clock"))
    assert (done.exit_code == 0) == found["java"]["is_ok"]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_a_problem_with_a_remedy(tmp_path: Path):
    if os.geteuid() == 0:
        (tmp_path / "lake").write_text("a file, no directory")
    else:
        (tmp_path / "lake").mkdir(mode=0o500)

    problems = [item for item in Catalog(str(tmp_path / "lake")).examine() if not item.is_ok]

    assert problems
    assert all(item.remedy for item in problems)


def test_without_java_it_ends_with_1_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    done = CliRunner().invoke(app, ["doctor", str(tmp_path)])

    assert done.exit_code == 1
    assert "java" in done.stdout
