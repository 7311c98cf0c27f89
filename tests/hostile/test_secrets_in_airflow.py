"""A DAG run by a real Airflow with a secret in its connection: nothing that Airflow keeps holds it.

The folder of Airflow has its database, with XComs, rendered fields and serialized DAGs, and all logs.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dags_examples.demo.airflow_process import AirflowFailedError, LocalAirflow
from paimon_engine import Catalog
from tests.hostile.marker import MARK, S3, Watch
from tests.hostile.sandbox import SCHEMA, rows
from tests.support.s3 import BUCKET, start_s3

PROJECT = Path(__file__).resolve().parents[2]
RUN_S = 400

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.s3, pytest.mark.timeout(700)]

DAG = """
from airflow.sdk import DAG
from airflow_provider_paimon.operators.job import PaimonJobOperator

with DAG("secrets", schedule=None):
    PaimonJobOperator(
        task_id="tag", table="db.t", action="create_tag", arguments={"tag": "now"}, paimon_conn_id="lake"
    ) >> PaimonJobOperator(
        task_id="child", table="db.t", action="create_tag", arguments={"tag": "then"}, paimon_conn_id="lake",
        launcher="subprocess",
    ) >> PaimonJobOperator(
        task_id="fail", table="db.none", action="create_tag", arguments={"tag": "t"}, paimon_conn_id="lake"
    )
"""


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    for options in start_s3():
        yield {**options, **S3}


def test_nothing_that_airflow_keeps_contains_the_secret(store: dict[str, str], tmp_path: Path):
    warehouse = f"s3://{BUCKET}/airflow"
    Catalog(warehouse, storage_options=store).create_table("db.t", schema=SCHEMA).write(rows(("a", 1)))
    dags, temporary = tmp_path / "dags", tmp_path / "tmp"
    dags.mkdir()
    temporary.mkdir()
    (dags / "secrets.py").write_text(DAG)
    connection = {"conn_type": "paimon", "host": warehouse, "extra": {"storage_options": store}}
    environment = {
        "AIRFLOW_CONN_LAKE": json.dumps(connection),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "TMPDIR": str(temporary),
    }
    home = tmp_path / "airflow"

    with Watch(temporary) as watch, LocalAirflow(home, PROJECT, environment=environment) as airflow:
        airflow.wait_until_healthy()
        states = run_dag(airflow)

    assert states == {"tag": "success", "child": "success", "fail": "failed"}
    found = [path for path in home.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]
    assert found == []
    assert [path for path in home.rglob("*.db*") if b"db.none" in path.read_bytes()], "the database was not looked at"
    assert [path for path in home.rglob("*.log") if b"create_tag" in path.read_bytes()], "the logs were not looked at"
    assert [path for path in watch.files if path.endswith("job.json")], "the job's file was never seen"
    assert not [path for path, data in watch.files.items() if MARK.encode() in data]
    assert not [command for command in watch.commands if MARK.encode() in command]


def run_dag(airflow: LocalAirflow) -> dict[str, str]:
    """The states of the tasks of one run, once it has ended."""
    deadline = time.monotonic() + RUN_S
    while not any(dag["dag_id"] == "secrets" for dag in airflow.get("dags", limit=100)["dags"]):
        assert time.monotonic() < deadline, "the DAG was not found"
        time.sleep(1)
    run = airflow.post("dags/secrets/dagRuns", {"logical_date": None})
    path = f"dags/secrets/dagRuns/{run['dag_run_id']}"
    state = None
    while state not in ("success", "failed"):
        assert time.monotonic() < deadline, state
        time.sleep(2)
        # A busy machine may let it wait too long.
        with contextlib.suppress(AirflowFailedError):
            state = airflow.get(path)["state"]
    return {item["task_id"]: item["state"] for item in airflow.get(f"{path}/taskInstances")["task_instances"]}
