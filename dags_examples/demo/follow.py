"""Watching DAG runs over Airflow's REST API until all are done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dags_examples.demo.airflow_process import LocalAirflow

DAGS = {"tag_per_day": 5, "daily_report": 2}
"""The DAGs and how many tasks each has."""

TIMEOUT_S = 1200
TAIL_LINES = 25


class RunFailedError(Exception):
    """A DAG run failed, or all took too long."""


@dataclass
class Task:
    """A task that is done, with the value that it returned."""

    started: datetime
    ended: datetime
    returned: Any

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.started).total_seconds()


@dataclass
class Day:
    """All tasks of a day, by name."""

    key: str
    tasks: dict[str, Task] = field(default_factory=dict)


def follow(airflow: LocalAirflow, console: Console, *, days: int) -> list[Day]:
    """Shows the progress of the runs until those of all days have succeeded; gives the days in order.

    Raises: RunFailedError with the end of the failed task's log; AirflowFailedError.
    """
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    shown: set[str] = set()
    deadline = time.monotonic() + TIMEOUT_S
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("waiting for Airflow to read the DAGs", total=days * sum(DAGS.values()))
        while time.monotonic() < deadline:
            runs, instances = _look(airflow)
            if not runs:
                _check_imports(airflow)
            done = [item for item in instances if item["state"] == "success"]
            progress.update(bar, completed=len(done), description=_doing(runs, instances))
            days_done = _done_days(runs)
            for key in [key for key in days_done if key not in shown]:
                shown.add(key)
                console.print(_sentence(_collect(airflow, key, runs, instances)))
            if len(days_done) == days:
                return [_collect(airflow, key, runs, instances) for key in days_done]
            time.sleep(1)
    raise RunFailedError(f"The runs did not end within {TIMEOUT_S} s; `make ui` shows them")


def _look(airflow: LocalAirflow) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All runs and task instances.

    Raises: RunFailedError if one has failed, or if a DAG cannot be imported.
    """
    broken = airflow.get("importErrors")["import_errors"]
    if broken:
        raise RunFailedError("\n".join(f"{item['filename']}:\n{item['stack_trace']}" for item in broken))
    runs = [run for run in airflow.get("dags/~/dagRuns", limit=1000)["dag_runs"] if run["dag_id"] in DAGS]
    instances = airflow.get("dags/~/dagRuns/~/taskInstances", limit=1000)["task_instances"]
    if any(run["state"] == "failed" for run in runs):
        failed = next(item for item in instances if item["state"] == "failed")
        raise RunFailedError(_why(airflow, failed))
    return runs, instances


def is_import_timeout(error: Mapping[str, Any]) -> bool:
    """Whether an import error of the REST API is that of a file that took too long: Airflow tries it again."""
    return "AirflowTaskTimeout" in error["stack_trace"] or "import timeout" in error["stack_trace"]


def _check_imports(airflow: LocalAirflow) -> None:
    """Raises: RunFailedError if a DAG file cannot be imported."""
    errors = airflow.get("importErrors")["import_errors"]
    for error in errors:
        if not is_import_timeout(error):
            raise RunFailedError(f"Airflow cannot import {error['filename']}:\n{error['stack_trace']}")


def _why(airflow: LocalAirflow, failed: Mapping[str, Any]) -> str:
    path = f"dags/{failed['dag_id']}/dagRuns/{failed['dag_run_id']}/taskInstances/{failed['task_id']}"
    log = airflow.get(f"{path}/logs/{failed['try_number']}")["content"]
    lines = [line["event"] if isinstance(line, dict) else str(line) for line in log]
    head = f"The task {failed['task_id']} of {failed['dag_id']} failed in the run {failed['dag_run_id']}; its log ends:"
    return "\n".join([head, *lines[-TAIL_LINES:]])


def _doing(runs: Sequence[Mapping[str, Any]], instances: Sequence[Mapping[str, Any]]) -> str:
    keys = {(run["dag_id"], run["dag_run_id"]): run["partition_key"] for run in runs}
    running = [
        f"{keys.get((item['dag_id'], item['dag_run_id']), '')} {item['task_id']}"
        for item in instances
        if item["state"] == "running"
    ]
    return ", ".join(sorted(running)) or "scheduling"


def _done_days(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Partition keys for which every DAG has succeeded."""
    done = {(run["dag_id"], run["partition_key"]) for run in runs if run["state"] == "success"}
    keys = {run["partition_key"] for run in runs}
    return sorted(key for key in keys if all((dag, key) in done for dag in DAGS))


def _collect(
    airflow: LocalAirflow, key: str, runs: Sequence[Mapping[str, Any]], instances: Sequence[Mapping[str, Any]]
) -> Day:
    own = {(run["dag_id"], run["dag_run_id"]) for run in runs if run["partition_key"] == key}
    day = Day(key)
    for item in instances:
        if (item["dag_id"], item["dag_run_id"]) in own:
            path = f"dags/{item['dag_id']}/dagRuns/{item['dag_run_id']}/taskInstances/{item['task_id']}"
            returned = airflow.get(f"{path}/xcomEntries/return_value", deserialize=True)["value"]
            day.tasks[item["task_id"]] = Task(_time(item["start_date"]), _time(item["end_date"]), returned)
    return day


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _sentence(day: Day) -> str:
    write, compact = day.tasks["write"].returned, day.tasks["compact"].returned
    tag, report = day.tasks["tag"].returned["details"], day.tasks["report"].returned
    details = compact["details"]
    return (
        f"{day.key}  {write['details']['rows']:,} rows written, {details['files_before']} files to "
        f"{details['files_after']}, snapshot {tag['snapshot_id']}; {report['landed']:,} of {report['flights']:,} landed"
    )
