"""Jobs that tasks leave to themselves, in a real Airflow: what is killed, and what becomes of the job and the table.

The job's process is the engine's own. It waits at a gate before its work, and works on threads instead of Spark.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog
from paimon_engine.job_record import JobRecord
from tests.provider.conftest import SCHEMA, rows
from tests.support.airflow import PROJECT, RealAirflow, lives

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(900)]

TASKS = ("parts", "worker", "driver", "marked")
GATE = """
import contextlib, os, runpy, sys, time

from paimon_engine import job_process
from paimon_engine.executor import LocalExecutor

HOME = os.environ["PAIMON_TEST_HOME"]


@contextlib.contextmanager
def on_threads(*_, **__):
    table = next(name for name in ("parts", "worker", "driver", "marked") if f"db.{name}" in JOB)
    open(f"{HOME}/{table}.{os.getpid()}", "x").close()
    while not os.path.exists(f"{HOME}/{table}.go"):
        time.sleep(0.1)
    yield LocalExecutor()


sys.argv = sys.argv[2:]
if "run" in sys.argv:
    JOB = job_process.job_text(sys.argv[sys.argv.index("--job") + 1])
    job_process.open_executor = on_threads
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
DAG_FILE = """
import os
import signal
from datetime import timedelta

from airflow.sdk import DAG
from airflow_provider_paimon.operators.write import PaimonWriteOperator

HOME = os.environ["PAIMON_TEST_HOME"]


class DiesOnce(PaimonWriteOperator):
    def defer(self, **kwargs):
        if not os.path.exists(f"{HOME}/died"):
            open(f"{HOME}/died", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        super().defer(**kwargs)


with DAG("jobs", schedule=None):

    def write(name, operator=PaimonWriteOperator):
        operator(
            task_id=name,
            table=f"db.{name}",
            warehouse=f"{HOME}/lake",
            source=f"{HOME}/rows.parquet",
            launcher="subprocess",
            engine_python=f"{HOME}/python",
            deferrable=True,
            poll_interval=1.0,
            retries=3,
            retry_delay=timedelta(seconds=0),
        )

    write("parts")
    write("worker", DiesOnce)
    write("driver")
    write("marked")
"""


class Jobs:
    """One run of the DAG: its tasks, the processes of their jobs, and the tables that these write."""

    def __init__(self, airflow: RealAirflow, home: Path) -> None:
        self.airflow, self.home = airflow, home
        self.lake = Catalog(str(home / "lake"))
        for name in TASKS:
            self.lake.create_table(f"db.{name}", schema=SCHEMA, options={"bucket": "-1"})
        self.abandon_a_record()
        self.run = airflow.run("jobs")

    def abandon_a_record(self) -> None:
        """One of a month ago, that no task waits for any more; a job that starts deletes it."""
        folder = self.home / "lake" / "_paimon_jobs" / str(uuid.uuid4()) / str(uuid.uuid4())
        JobRecord.at(str(folder)).prepare()
        moment = time.time() - 31 * 86_400
        for path in folder.iterdir():
            os.utime(path, (moment, moment))

    def drivers(self, name: str) -> list[int]:
        return sorted(int(path.suffix[1:]) for path in self.home.glob(f"{name}.[0-9]*"))

    def wait_until_begun(self, name: str, count: int = 1) -> int:
        """The newest process of the job, which waits at the gate while its task is deferred."""
        self.airflow.wait_until(lambda: len(self.drivers(name)) == count, f"process {count} of {name}")
        self.airflow.wait_for_task("jobs", self.run, name, "deferred")
        return next(pid for pid in self.drivers(name) if lives(pid))

    def go(self, name: str) -> None:
        (self.home / f"{name}.go").touch()

    def ids(self, name: str) -> Counter[int]:
        return Counter(self.lake.table(f"db.{name}").to_arrow()["id"].to_pylist())

    def record_of(self, driver: int) -> Path:
        """The folder with the record of the job that this process carries out."""
        beats = (path for path in self.records() if path.name == "beat.json")
        return next(path.parent for path in beats if json.loads(path.read_text())["pid"] == driver)

    def records(self) -> list[Path]:
        return [path for path in (self.home / "lake" / "_paimon_jobs").rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    home = tmp_path_factory.mktemp("deferred")
    (home / "gate.py").write_text(GATE)
    python = home / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{home}/gate.py" "$@"\n')
    python.chmod(0o755)
    pq.write_table(rows(1, 2), home / "rows.parquet")
    environment = {"PAIMON_TEST_HOME": str(home), "PYTHONPATH": str(PROJECT)}
    with RealAirflow(home / "airflow", {"jobs.py": DAG_FILE}, environment=environment) as airflow:
        yield Jobs(airflow, home)


def test_a_job_whose_driver_was_killed_is_started_again(jobs: Jobs):
    driver = jobs.wait_until_begun("driver")

    os.kill(driver, signal.SIGKILL)

    jobs.wait_until_begun("driver", count=2)
    jobs.go("driver")
    jobs.airflow.wait_for_task("jobs", jobs.run, "driver", "success")
    assert jobs.ids("driver") == {1: 1, 2: 1}
    assert "was ended by SIGKILL" in jobs.airflow.log("jobs", jobs.run, "driver")


def test_a_job_whose_worker_was_killed_is_found_again(jobs: Jobs):
    driver = jobs.wait_until_begun("worker")
    assert (jobs.home / "died").exists()

    jobs.go("worker")

    jobs.airflow.wait_for_task("jobs", jobs.run, "worker", "success")
    assert jobs.drivers("worker") == [driver]
    assert jobs.ids("worker") == {1: 1, 2: 1}


def test_a_task_that_is_marked_failed_ends_its_job(jobs: Jobs):
    driver = jobs.wait_until_begun("marked")
    record = jobs.record_of(driver)

    jobs.airflow.patch(f"dags/jobs/dagRuns/{jobs.run}/taskInstances/marked", {"new_state": "failed"})

    jobs.airflow.wait_until(lambda: not lives(driver), "the end of the job's process")
    assert jobs.lake.table("db.marked").latest_snapshot_id() is None
    # The trigger deletes it, which a killed triggerer could not: the next test kills that.
    jobs.airflow.wait_until(lambda: not any(record.glob("*")), "the end of the job's record")


def test_a_job_goes_on_while_triggerer_and_scheduler_are_killed(jobs: Jobs):
    driver = jobs.wait_until_begun("parts")
    jobs.airflow.restart("triggerer")
    jobs.airflow.restart("scheduler")
    assert lives(driver)

    jobs.go("parts")

    task = jobs.airflow.wait_for_task("jobs", jobs.run, "parts", "success")
    assert (jobs.drivers("parts"), task["try_number"]) == ([driver], 1)
    assert jobs.ids("parts") == {1: 1, 2: 1}
    assert jobs.airflow.xcom("jobs", jobs.run, "parts")["status"] == "committed"


def test_no_record_of_a_job_stays(jobs: Jobs):
    deadline = time.monotonic() + 60
    while jobs.records() and time.monotonic() < deadline:
        time.sleep(0.5)

    assert jobs.records() == []
