"""An action that is added to the table of actions is there in jobs, their schema, commands and Airflow, by that alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from airflow_provider_paimon.operators.job import PaimonJobOperator
from paimon_engine import Table
from paimon_engine.action import Context, Result
from paimon_engine.action_table import ACTIONS, ActionInfo
from paimon_engine.cli import app
from paimon_engine.jobs import Job, TableRef, job_schema, run
from paimon_engine.specs import Count, DryRun, Duration, Spec
from tests.provider.conftest import make_context
from tests.support.command_line import Run


@dataclass(frozen=True, slots=True)
class CountTwice(Spec):
    """Count the snapshots several times."""

    times: Annotated[Count, "how often to count"]
    pause: Annotated[Duration | None, "how long to wait between"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class CountTwiceResult(Result):
    """What was counted."""

    status: str
    counted: int = 0
    pause_ms: int = 0


def count_twice(context: Context, spec: CountTwice) -> CountTwiceResult:
    """Counts."""
    if spec.dry_run:
        return CountTwiceResult("dry_run")
    latest = context.table.env.storage.list(f"{context.table.paths.root}/snapshot")
    number = sum(Path(info.path).name.startswith("snapshot-") for info in latest)
    return CountTwiceResult("counted", spec.times * number, spec.pause or 0)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIONS, "count_twice", ActionInfo(CountTwice, count_twice, "count the snapshots"))


def test_a_job_runs_it(table: Table):
    text = {"version": 1, "table": {"path": table.path}, "commit_user": "u"}
    action = {"name": "count_twice", "times": "2", "pause": "1 s", "dry_run": "False"}

    result = run(Job.from_json(json.dumps({**text, "action": action})))

    assert (result.action, result.status, result.details["counted"]) == ("count_twice", "counted", 6)
    assert result.details["pause_ms"] == 1000
    assert run(Job(TableRef(path=table.path), CountTwice(3), "u")).details["counted"] == 9


def test_the_schema_of_jobs_has_it():
    found = next(
        one
        for one in job_schema()["properties"]["action"]["oneOf"]
        if one["properties"]["name"]["const"] == "count_twice"
    )

    assert found["required"] == ["name", "times"]
    assert "how long to wait between" in found["properties"]["pause"]["description"]


def test_commands_of_actions_show_their_options_to_programs():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    assert {"--full", "--bucket", "--max-bytes"} <= {name for item in commands["compact"].params for name in item.opts}


def test_the_command_line_has_it(paimon: Run, table: Table):
    done = paimon("count-twice", table.path, "2", "--pause", "PT1S")
    as_json = json.loads(paimon("count-twice", table.path, "2", "--json").out)
    helped = paimon("count-twice", "--help")
    wrong = paimon("count-twice", table.path, "none")

    assert done.lines == ["counted; counted: 6, pause ms: 1,000"]
    assert as_json["counted"] == 6
    assert "How often to count" in helped.out
    assert "--dry-run" in helped.out
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert wrong.err.startswith("error: count_twice: times='none' is not allowed; give an integer, at least 1")


@pytest.mark.airflow
def test_airflow_has_it(table: Table):
    operator = PaimonJobOperator(
        task_id="t", table=table.path, action="count_twice", arguments={"times": "2", "pause": "None"}
    )

    assert operator.execute(make_context())["details"]["counted"] == 6
