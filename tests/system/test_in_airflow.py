"""The system tests in a real Airflow, as DAG files that its scheduler runs; and that a failure in one is seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk import DAG, task

from tests.support.airflow import RealAirflow
from tests.support.dag_runs import run_dag, states_of
from tests.support.system_tests import watcher

EXAMPLES = sorted(Path(__file__).parent.glob("example_*.py"))

pytestmark = [pytest.mark.airflow]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAirflow]:
    home = tmp_path_factory.mktemp("system")
    files = {path.name: path.read_text() for path in EXAMPLES}
    environment = {
        "PAIMON_SYSTEM_TESTS": str(home),
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    }
    with RealAirflow(home / "airflow", files, environment=environment) as running:
        yield running


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dag_id", [path.stem for path in EXAMPLES])
def test_each_example_succeeds(airflow: RealAirflow, dag_id: str):
    """Each runs once by its schedule."""
    airflow.wait_for_dags(dag_id)
    airflow.patch(f"dags/{dag_id}", {"is_paused": False})
    (run,) = airflow.wait_until(lambda: airflow.runs(dag_id), "its run")

    airflow.wait_for_run(dag_id, run["dag_run_id"])

    assert airflow.tasks(dag_id, run["dag_run_id"])["watcher"]["state"] == "skipped"


def test_a_run_with_a_failure_fails_though_its_last_task_succeeds():
    with DAG("fails", schedule=None) as dag:

        @task
        def fail():
            raise RuntimeError("wrong")

        @task(trigger_rule="all_done")
        def tidy():
            pass

        fail() >> tidy()
        list(dag.tasks) >> watcher()

    run = run_dag(dag)

    assert states_of(run) == {"fail": "failed", "tidy": "success", "watcher": "failed"}
    assert str(run.state) == "failed"
