"""The harness itself: parts die and are started again, tasks are seen, no process is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dags_examples.demo.follow import is_import_timeout
from tests.support.airflow import PROJECT, RealAirflow, lives

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

DAG_FILE = """
import time
from datetime import timedelta

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, DAG, task


class Later(BaseOperator):
    def execute(self, context):
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=1)), method_name="resume")

    def resume(self, context, event):
        return "resumed"


# Airflow's LocalExecutor may report the end of a process that deferred only when the task is queued again; the scheduler
# then counts it as failed. A task that defers therefore needs retries.
with DAG("waits", schedule=None):
    Later(task_id="later", retries=2, retry_delay=timedelta(seconds=0))

with DAG("maps", schedule=None):

    @task
    def double(number):
        return 2 * number

    double.expand(number=[1, 2])

with DAG("sleeps", schedule=None):

    @task(retries=1, retry_delay=timedelta(seconds=0))
    def sleep(dag_run=None, ti=None):
        if ti.try_number == 1:
            time.sleep(600)
        return ti.try_number

    sleep()
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAirflow]:
    with RealAirflow(tmp_path_factory.mktemp("real"), {"dags.py": DAG_FILE}) as running:
        yield running


def test_mapped_tasks_return_values(airflow: RealAirflow):
    run = airflow.run("maps")
    airflow.wait_for_run("maps", run)

    assert [airflow.xcom("maps", run, "double", map_index=index) for index in (0, 1)] == [2, 4]
    assert sorted(airflow.tasks("maps", run)) == ["double.0", "double.1"]


def test_a_long_read_of_the_database_lets_runs_start(airflow: RealAirflow):
    """With SQLite's default journal a writer waits for 5 s, and then the API answers 500: database is locked."""
    with closing(sqlite3.connect(airflow.home / "airflow" / "airflow.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM dag").fetchone()
        run = airflow.run("maps")

    airflow.wait_for_run("maps", run)


def test_a_triggerer_that_was_killed_is_replaced(airflow: RealAirflow):
    airflow.kill("triggerer")
    run = airflow.run("waits")
    airflow.wait_for_task("waits", run, "later", "deferred")

    airflow.start("triggerer")

    airflow.wait_for_run("waits", run)


def test_a_task_whose_scheduler_was_killed_is_run_again(airflow: RealAirflow):
    run = airflow.run("sleeps")
    task = airflow.wait_for_task("sleeps", run, "sleep", "running")
    assert airflow.wait_until(lambda: airflow.tasks("sleeps", run)["sleep"]["pid"], "a process") in airflow.pids(
        "scheduler"
    )

    airflow.restart("scheduler")

    airflow.wait_for_run("sleeps", run)
    assert airflow.xcom("sleeps", run, "sleep") > task["try_number"]


SLOW_AT_FIRST = """
import time
from pathlib import Path

from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

seen = Path(__file__).with_suffix(".seen")
if not seen.exists():
    seen.touch()
    time.sleep(300)
with DAG("slow", schedule=None):
    EmptyOperator(task_id="nothing")
"""


@pytest.mark.long
def test_a_dag_file_whose_import_took_too_long_is_read_again(tmp_path: Path):
    environment = {"AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "20"}
    parts = ["api-server", "dag-processor"]
    with RealAirflow(tmp_path, {"slow.py": SLOW_AT_FIRST}, environment=environment, parts=parts) as airflow:
        timed_out = airflow.wait_until(lambda: airflow.get("importErrors")["import_errors"], "a timeout")
        assert [is_import_timeout(item) for item in timed_out] == [True], timed_out

        airflow.wait_for_dags("slow")


PROGRAM = """
import sys, time
from pathlib import Path
from tests.support.airflow import RealAirflow
with RealAirflow(Path(sys.argv[1]), parts=["api-server", "triggerer"]) as airflow:
    print(*(pid for part in airflow.parts for pid in airflow.pids(part)), flush=True)
    time.sleep(600)
"""


@pytest.mark.long
def test_nothing_stays_when_the_test_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, start_new_session=True)
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) >= 2

    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    deadline = time.monotonic() + 30
    while any(lives(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)
