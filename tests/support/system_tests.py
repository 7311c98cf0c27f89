"""What the example DAGs of `tests/system` share, as the system tests of Airflow's own providers do.

Each example begins with a task that makes a folder with files, and ends with one that deletes it, whatever has happened
before. Since that one succeeds, a *watcher* fails where any task has failed, and the run with it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException

ENV_ID = os.environ.get("SYSTEM_TESTS_ENV_ID") or "local"
"""Tells runs of the same example on one machine apart."""
ROOT = Path(os.environ.get("PAIMON_SYSTEM_TESTS") or tempfile.gettempdir())


def home_of(dag_id: str) -> Path:
    """The folder of an example's run."""
    return ROOT / f"{dag_id}_{ENV_ID}"


def folder(home: Path) -> Callable[[], object]:
    """A task that makes the folder, empty but for `orders.parquet` with three orders."""

    @task
    def make_folder() -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        orders = pa.table({"id": [1, 2, 3], "day": ["2013-01-01"] * 3, "amount": [10, 20, 30]})
        pq.write_table(orders, home / "orders.parquet")

    return make_folder


def no_folder(home: Path) -> Callable[[], object]:
    """A task that deletes the folder, also after failures."""

    @task(trigger_rule="all_done")
    def delete_folder():
        shutil.rmtree(home)

    return delete_folder


@task(trigger_rule="one_failed", retries=0)
def watcher():
    """Raises AirflowException: to be put behind all tasks of an example."""
    raise AirflowException("a task of this example has failed")


def get_test_run(dag: DAG) -> Callable[[], None]:
    """A test that runs the DAG in this process."""

    @pytest.mark.airflow
    def test_run() -> None:
        from tests.support.dag_runs import run_dag, states_of

        run = run_dag(dag)
        states = states_of(run)
        assert states.pop("watcher") == "skipped", states
        assert set(states.values()) <= {"success", "skipped"}, states
        assert str(run.state) == "success"

    return test_run
