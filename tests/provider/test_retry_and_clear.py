"""Retries and clears in a real Airflow: scheduler, API server and workers, over its REST API."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from dags_examples.demo.airflow_process import AirflowFailedError, LocalAirflow
from paimon_engine import Catalog
from tests.provider.conftest import SCHEMA, rows

PROJECT = Path(__file__).resolve().parents[2]
TABLES = ("append", "upsert", "keyed", "killed")
DAG_FILE = '''
import os
import signal
from datetime import timedelta

from airflow.sdk import DAG
from airflow_provider_paimon.operators.write import PaimonWriteOperator

HOME = os.environ["PAIMON_TEST_HOME"]


def die_once(context, result):
    """The worker dies after the commit, and before Airflow records it."""
    if not os.path.exists(f"{HOME}/died"):
        open(f"{HOME}/died", "x").close()
        os.kill(os.getpid(), signal.SIGKILL)


with DAG("writes", schedule=None):

    def write(name, **fields):
        PaimonWriteOperator(
            task_id=name,
            table=f"db.{name}",
            warehouse=f"{HOME}/lake",
            source=f"{HOME}/rows.parquet",
            launcher="in_process",
            retries=4,
            retry_delay=timedelta(seconds=0),
            **fields,
        )

    write("append")
    write("upsert")
    write("keyed", idempotency_key="2013-01-05")
    write("killed", post_execute=die_once)
'''

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]


class Writes:
    """The DAG's runs, and the tables that its tasks write."""

    def __init__(self, airflow: LocalAirflow, home: Path) -> None:
        self._airflow, self._home = airflow, home
        self._catalog = Catalog(str(home / "lake"))
        for name in TABLES:
            keys = ["id"] if name == "upsert" else []
            options = {"bucket": "1"} if keys else {"bucket": "-1"}
            self._catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=keys, options=options)

    def source(self, *ids: int) -> None:
        pq.write_table(rows(*ids), self._home / "rows.parquet")

    def run(self) -> str:
        """A new DAG run, once it has ended."""
        created = self._airflow.post("dags/writes/dagRuns", {"logical_date": None})
        return self._ended(created["dag_run_id"])

    def clear(self, run_id: str) -> None:
        self._airflow.post(f"dags/writes/dagRuns/{run_id}/clear", {"dry_run": False})
        self._ended(run_id)

    def clear_task(self, run_id: str, task: str) -> None:
        """Clears a task, for which Airflow does not count that its run was cleared."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task], "only_failed": False}
        self._airflow.post("dags/writes/clearTaskInstances", {**body, "reset_dag_runs": False})
        with httpx.Client(base_url=self._airflow.url, timeout=30, trust_env=False) as client:
            token = client.get("/auth/token").raise_for_status().json()["access_token"]
            run = f"/api/v2/dags/writes/dagRuns/{run_id}"
            answer = client.patch(run, json={"state": "queued"}, headers={"Authorization": f"Bearer {token}"})
            answer.raise_for_status()
        self._ended(run_id)

    def _ended(self, run_id: str) -> str:
        deadline = time.monotonic() + 400
        while (state := self._state(run_id)) != "success":
            assert state != "failed"
            assert time.monotonic() < deadline, state
            time.sleep(2)
        return run_id

    def _state(self, run_id: str) -> str | None:
        """None while a busy API server does not answer."""
        try:
            state: str = self._airflow.get(f"dags/writes/dagRuns/{run_id}")["state"]
        except AirflowFailedError:
            self._airflow.check_alive()
            return None
        return state

    def result(self, run_id: str, task: str) -> dict[str, Any]:
        path = f"dags/writes/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/return_value"
        found: dict[str, Any] = self._airflow.get(path, deserialize=True)["value"]
        return found

    def statuses(self, run_id: str) -> dict[str, str]:
        return {task: self.result(run_id, task)["status"] for task in TABLES}

    def tries(self, run_id: str) -> dict[str, int]:
        found = self._airflow.get(f"dags/writes/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {item["task_id"]: item["try_number"] for item in found}

    def ids(self, table: str) -> Counter[int]:
        return Counter(self._catalog.table(f"db.{table}").to_arrow()["id"].to_pylist())

    def expire(self) -> None:
        """Forgets the snapshots that the tasks have made."""
        for name in TABLES:
            table = self._catalog.table(f"db.{name}")
            table.write(rows(99))
            assert table.expire_snapshots(retain_max=1).status == "expired"


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writes]:
    home = tmp_path_factory.mktemp("retry and clear")
    folder = home / "dags"
    folder.mkdir()
    (folder / "writes.py").write_text(DAG_FILE)
    environment = {
        "PAIMON_TEST_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        # Tasks that start at once wait for each other in SQLite.
        "AIRFLOW__CORE__PARALLELISM": "1",
    }
    with LocalAirflow(home / "airflow", PROJECT, environment=environment) as airflow:
        airflow.wait_until_healthy()
        # The API of the workers is built by its first request, for which a busy machine takes longer than they wait.
        httpx.get(f"{airflow.url}/execution/health", timeout=180, trust_env=False)
        deadline = time.monotonic() + 120
        while not airflow.get("dags")["dags"]:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield Writes(airflow, home)


def test_retries_happen_once_and_clears_happen_again(writes: Writes):
    writes.source(10, 11)
    first = writes.run()

    assert writes.result(first, "killed")["status"] == "already_done"
    assert writes.tries(first)["killed"] > 1
    assert all(writes.ids(table) == Counter([10, 11]) for table in TABLES)

    writes.expire()
    writes.source(10, 12)
    writes.clear(first)

    assert writes.statuses(first) == {**dict.fromkeys(TABLES, "committed"), "keyed": "already_done"}
    assert writes.ids("upsert") == Counter([10, 11, 12, 99])
    assert writes.ids("keyed") == Counter([10, 11, 99])
    for table in ("append", "killed"):
        assert writes.ids(table) == Counter([10, 11, 10, 12, 99])
        assert (
            "an earlier run of this job has committed snapshot 1"
            in writes.result(first, table)["details"]["warnings"][0]
        )
    assert writes.result(first, "upsert")["details"]["warnings"] == []

    before = writes.tries(first)
    writes.clear_task(first, "append")

    assert writes.tries(first) == {**before, "append": before["append"] + 1}
    assert writes.ids("append") == Counter([10, 11, 10, 12, 10, 12, 99])
