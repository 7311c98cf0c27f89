"""Runs of DAGs in this process, with Airflow's database, as `dag.test()` makes them; and the asset events they sent."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from airflow.sdk import DAG

BUNDLE = "testing"


@cache
def prepare_database() -> None:
    """Makes the database of the test run's Airflow, once."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name=BUNDLE))


def run_dag(dag: DAG, **how: Any) -> Any:
    """The run, finished. A DAG made in a test is in no file, so it has to be registered with Airflow first."""
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    prepare_database()
    # dag.fileloc is the file of the test; Airflow wants it below a bundle.
    dag.relative_fileloc = f"{dag.dag_id}.py"
    with create_session() as session:
        parsed = [LazyDeserializedDAG.from_dag(dag)]
        update_dag_parsing_results_in_db(BUNDLE, None, parsed, {}, 0.0, set(), session)
    return dag.test(**{"logical_date": datetime(2013, 1, 6, 2, tzinfo=UTC), **how})


def states_of(run: Any) -> dict[str, str]:
    """State of each task; mapped ones as `task[2]`."""
    found = run.get_task_instances()
    return {
        item.task_id if item.map_index < 0 else f"{item.task_id}[{item.map_index}]": str(item.state) for item in found
    }


def events_of(run: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Of a run: the task, the address of the asset and the extra of each event, in order."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetEvent.source_task_id, AssetModel.uri, AssetEvent.extra)
        query = query.join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        query = query.where(AssetEvent.source_run_id == run.run_id, AssetEvent.source_dag_id == run.dag_id)
        return [tuple(row) for row in session.execute(query.order_by(AssetEvent.id))]


def xcom_of(run: Any, task: str) -> Any:
    """What a task returned."""
    return run.get_task_instance(task).xcom_pull(task_ids=task)
