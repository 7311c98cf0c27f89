"""`airflow paimon`, as a shell calls it: each command in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.cli import cli_parser

from airflow_provider_paimon.cli import examine as examining
from airflow_provider_paimon.cli.definition import get_cli_commands
from paimon_engine import Catalog
from tests.provider.conftest import SCHEMA, TABLE, rows, set_time
from tests.support.dag_runs import prepare_database

pytestmark = pytest.mark.airflow


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A warehouse with tags of the 1st, 2nd and 5th and another one, and an empty table."""
    table = Catalog(str(tmp_path / "lake")).create_table(TABLE, schema=SCHEMA, primary_keys=["id"])
    for number in (1, 2, 3):
        table.write(rows(number))
        set_time(table, number, datetime(2013, 1, number, tzinfo=UTC))
    for tag, snapshot in (("2013-01-01", 1), ("2013-01-02", 2), ("2013-01-05", 3), ("release-1", 3)):
        table.create_tag(tag, snapshot=snapshot)
    Catalog(str(tmp_path / "lake")).create_table("air.empty", schema=SCHEMA)
    return str(tmp_path / "lake")


@pytest.fixture
def paimon(capsys: pytest.CaptureFixture):
    """Runs a command as Airflow's own program does, in this process: its exit code, and what it said."""
    prepare_database()

    def run(*words: str) -> tuple[Any, Any]:
        capsys.readouterr()
        args = cli_parser.get_parser().parse_args(["paimon", *words])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        printed = capsys.readouterr().out.strip()
        return ended.value.code, json.loads(printed.splitlines()[-1]) if "json" in words and printed else printed

    return run


def test_init_makes_what_is_missing_and_doctor_is_content(lake: str, paimon, monkeypatch: pytest.MonkeyPatch):
    named = ("--conn-id", "of_init", "-o", "json")
    code, before = paimon("doctor", *named)
    made = paimon("init", "--warehouse", lake, "--pool", "p1", "--slots", "3", *named)
    again = paimon("init", "--warehouse", "/elsewhere", "--pool", "p1", "--slots", "9", *named)
    good, after = paimon("doctor", *named)

    assert code == 1
    (problem,) = [item for item in before if not item["is_ok"]]
    assert problem["what"] == "connection of_init"
    assert problem["remedy"] == "airflow paimon init --conn-id of_init --warehouse ADDRESS"
    assert made == (
        0,
        [{"what": "pool p1", "state": "created, 3 slots"}, {"what": "connection of_init", "state": f"created, {lake}"}],
    )
    assert [row["state"] for row in again[1]] == ["exists", "exists"]
    assert good == 0, after
    found = {item["what"]: item["found"] for item in after}
    assert (found["connection of_init"], found["create-if-absent"]) == (lake, "honoured")
    assert {"python", "pyspark", "java", "packages", "workers' Python", "provider", "timetable", "state store"} <= set(
        found
    )


def test_doctor_says_what_is_wrong_and_the_way_out(lake: str, tmp_path: Path):
    lacking = tmp_path / "python"
    lacking.write_text('#!/bin/sh\necho \'{"python": "3.8", "pyarrow": null}\'\n')
    lacking.chmod(0o755)
    wrong = {"PATH": "/nowhere", "PYSPARK_PYTHON": str(lacking), "AIRFLOW__STATE_STORE__BACKEND": "no.such.Backend"}
    command = [sys.executable, "-m", "airflow", "paimon", "doctor", "--warehouse", lake, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | wrong, timeout=200)

    assert done.returncode == 1, done.stderr
    found = {item["what"]: item for item in json.loads(done.stdout.strip().splitlines()[-1])}
    assert {what for what, item in found.items() if not item["is_ok"]} == {"java", "workers' Python", "state store"}
    assert "Java runtime of version 17" in found["java"]["remedy"]
    assert "Python 3.8" in found["workers' Python"]["found"] and "lacks pyarrow" in found["workers' Python"]["found"]
    assert "unset PYSPARK_PYTHON" in found["workers' Python"]["remedy"]
    assert "no.such.Backend" in found["state store"]["found"]


def test_tables(lake: str, paimon):
    here = ("--warehouse", lake, "-o", "json")
    _, found = paimon("tables", *here)
    _, some = paimon("tables", "--tables", "*.e*", *here)

    assert [row["table"] for row in found] == ["air.empty", TABLE]
    assert [row["table"] for row in some] == ["air.empty"]
    newest = {name: found[1][name] for name in ("snapshot", "rows", "tags", "last_day", "problem")}
    assert newest == {"snapshot": 3, "rows": 3, "tags": 4, "last_day": "2013-01-05", "problem": None}


def test_tags_and_days_without_one(lake: str, paimon):
    code, found = paimon("tags", TABLE, "--warehouse", lake, "-o", "json")
    _, table = paimon("tags", TABLE, "--warehouse", lake, "--since", "2013-01-04", "--until", "2013-01-06")

    assert code == 0
    assert [(row["day"], row["tag"], row["snapshot"]) for row in found] == [
        ("2013-01-01", "2013-01-01", 1),
        ("2013-01-02", "2013-01-02", 2),
        ("2013-01-03", "missing", None),
        ("2013-01-04", "missing", None),
        ("2013-01-05", "2013-01-05", 3),
    ]
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:5]] == ["missing", "2013-01-05", "missing"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("tags", TABLE, "--since", "Monday"), "write it as 2026-11-01"),
        (("tags", TABLE, "--until", "9999-01-01"), "more than 3660 days"),
        (("tags", "air.none"), "there is no table"),
        (("tables", "--conn-id", "nowhere"), "airflow paimon init --conn-id nowhere --warehouse ADDRESS"),
        (("tables", "--warehouse", "/no/such/place"), "the directory /no/such/place on "),
        (("init", "--warehouse", "lake"), "--warehouse lake: give a path that begins with /"),
        (("init", "--warehouse", "file:lake"), "give a path that begins with /"),
        (("init", "--slots", "0"), "at least one slot"),
        (("init", "--warehouse", "s3://key:s3cret@bucket/lake"), "credentials"),
    ],
)
def test_what_is_wrong_is_one_line(lake: str, paimon, words: tuple[str, ...], reason: str):
    here = () if {"--warehouse", "--conn-id"} & set(words) else ("--warehouse", lake)
    code, _ = paimon(*words, *here)

    assert code.startswith("airflow paimon: ")
    assert reason in code
    assert "s3cret" not in code


def test_the_definition_loads_nothing_heavy():
    program = "import sys; import airflow.cli.cli_config; before = set(sys.modules)\n"
    program += "from airflow_provider_paimon.cli.definition import get_cli_commands; get_cli_commands()\n"
    program += "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "['airflow_provider_paimon']"
    (group,) = get_cli_commands()
    assert [command.name for command in group.subcommands] == ["doctor", "tables", "tags", "init"]


def test_packages_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examining, "requires", lambda _: ["pyarrow>=99", "nothing-like-this>=1", "x; extra == 'dev'"])

    (found,) = examining._packages()

    assert not found.is_ok
    assert "nothing-like-this missing" in found.found
    assert found.remedy == "pip install 'pyarrow>=99' 'nothing-like-this>=1'"
