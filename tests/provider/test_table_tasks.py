"""The short way: a table that makes its own tasks, which are the plain operators."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.sdk.exceptions import DuplicateTaskIdFound

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.table_tasks import TableTasks, for_tables
from paimon_engine import Catalog
from tests.provider.conftest import TABLE, rows, set_time
from tests.support.dag_runs import events_of, run_dag, states_of, xcom_of

pytestmark = pytest.mark.airflow

orders = paimon_table("shop.orders", "lake")


@pytest.fixture
def lake(warehouse: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": warehouse}))
    return "lake"


def test_the_chain_runs(lake: str, catalog: Catalog, source: str):
    flights = paimon_table(TABLE, lake)
    here = {"launcher": "in_process"}
    with DAG("short_way", schedule=None, default_args={"idempotency_key": "{{ ds }}"}) as dag:
        write = flights.write(source, **here)
        write >> flights.compact(full=True, **here) >> flights.tag_day() >> flights.expire(keep=1)

    run = run_dag(dag, logical_date=datetime(2013, 1, 6, 2, tzinfo=UTC))

    assert states_of(run) == dict.fromkeys(
        ("write_flights", "compact_flights", "tag_day_flights", "expire_flights"), "success"
    )
    # The tag is on what this run wrote and compacted, and keeps it.
    assert xcom_of(run, "tag_day_flights")["snapshot_id"] == xcom_of(run, "compact_flights")["snapshot_id"] == 5
    assert xcom_of(run, "expire_flights")["details"]["expired_snapshots"] == [1, 2, 3, 4]
    assert sorted(catalog.table(TABLE).to_arrow(tag="2013-01-05")["id"].to_pylist()) == [1, 2, 3, 10, 11]
    assert [task for task, _, _ in events_of(run)] == ["write_flights", "tag_day_flights"]


def test_a_day_without_a_compaction_is_tagged_where_it_was_written(lake: str, catalog: Catalog, source: str):
    flights = paimon_table(TABLE, lake)
    with DAG("short_way_noop", schedule=None) as dag:
        write = flights.write(source, launcher="in_process")
        write >> flights.compact(max_bytes=1, launcher="in_process") >> flights.tag_day()

    run = run_dag(dag)

    assert xcom_of(run, "compact_flights")["status"] == "noop"
    assert xcom_of(run, "tag_day_flights")["snapshot_id"] == 4


def test_each_method_makes_a_plain_operator_that_knows_the_table():
    needed = {"write": ["x"], "delete": ["id > 1"], "create_tag": ["t"], "run": ["analyze"]}
    names = [name for name, member in vars(TableTasks).items() if inspect.isfunction(member) and name[0] != "_"]
    names.remove("task_id")

    with DAG("all_methods", schedule=None) as dag:
        made = {name: getattr(orders, name)(*needed.get(name, [])) for name in names}

    for name, task in made.items():
        assert (task.table, task.paimon_conn_id, task.warehouse) == ("shop.orders", "lake", None), name
        assert type(task).__name__ in inspect.getdoc(getattr(TableTasks, name)), name
        assert task.task_id == ("analyze_orders" if name == "run" else f"{name}_orders")
    assert {type(task) for task in made.values()} >= {PaimonJobOperator, PaimonTagSensor, PaimonWriteOperator}
    assert set(dag.task_ids) == {task.task_id for task in made.values()}


def test_arguments_reach_the_operator():
    with DAG("short_arguments", schedule=None):
        expire = orders.expire(keep="{{ params.keep }}", older_than="7 d", retries=3, pool="lake", limit=5)
        tag = orders.tag_day(timezone="Europe/Berlin", time_retained="90 d", task_id="tag")

    assert isinstance(expire, PaimonExpireSnapshotsOperator)
    assert (expire.retain_max, expire.older_than, expire.limit) == ("{{ params.keep }}", "7 d", 5)
    assert (expire.retries, expire.pool) == (3, "lake")
    assert isinstance(tag, PaimonCreateTagOperator)
    assert (tag.task_id, tag.timezone, tag.time_retained, tag.tag) == ("tag", "Europe/Berlin", "90 d", None)
    with pytest.raises(TypeError, match="keep_all"):
        orders.expire(keep_all=True)


def test_names_of_tasks_can_be_foretold():
    odd = paimon_table("shop.täg lich+1", "lake")
    with DAG("short_names", schedule=None):
        orders.compact()
        with pytest.raises(DuplicateTaskIdFound, match="compact_orders"):
            orders.compact()
        with TaskGroup("nightly"):
            inside = orders.compact()
        assert odd.compact().task_id == "compact_täg_lich_1"

    assert inside.task_id == "nightly.compact_orders"


def test_one_mapped_task_per_table(lake: str, catalog: Catalog):
    planes = catalog.create_table("air.planes", schema=catalog.table(TABLE).arrow_schema, primary_keys=["id"])
    planes.write(rows(1))
    for snapshot in (1, 2, 3):
        set_time(catalog.table(TABLE), snapshot, datetime(2013, 1, 5, tzinfo=UTC))
    set_time(planes, 1, datetime(2013, 1, 5, tzinfo=UTC))
    tables = [paimon_table(TABLE, lake), paimon_table("air.planes", lake)]
    with DAG("mapped_tables", schedule=None) as dag:
        compact = for_tables(tables, PaimonCompactOperator, task_id="compact", full=True, launcher="in_process")
        compact >> for_tables(tables, PaimonCreateTagOperator, task_id="tag")

    run = run_dag(dag)

    assert set(states_of(run).values()) == {"success"}
    names = [item.rendered_map_index for item in run.get_task_instances() if item.task_id == "compact"]
    assert sorted(names) == ["air.flights", "air.planes"]
    assert {(task, uri) for task, uri, _ in events_of(run)} == {("tag", table.tags.uri) for table in tables}
