"""Tables as assets: their addresses, what they give operators, and when operators report changes."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.lineage import HookLineageCollector
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_paimon.assets import create_asset, paimon_table, sanitize_uri, table_address
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from tests.provider.conftest import TABLE, make_context, rows
from tests.support.dag_runs import events_of, run_dag, states_of

pytestmark = pytest.mark.airflow

IN_PROCESS = {"launcher": "in_process"}


@pytest.fixture
def lake(warehouse: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connection to the warehouse."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": warehouse}))
    return "lake"


# ── addresses ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "uri", "name"),
    [
        ({"conn_id": "lake"}, "paimon://lake/shop/orders", "lake.shop.orders"),
        ({}, "paimon://paimon_default/shop/orders", "paimon_default.shop.orders"),
        ({"warehouse": "/lake"}, "paimon://%2Flake/shop/orders", "paimon://%2Flake/shop/orders"),
        ({"conn_id": "Lake.1", "name": "orders"}, "paimon://Lake.1/shop/orders", "orders"),
        ({"conn_id": "a/b"}, "paimon://a%2Fb/shop/orders", "paimon://a%2Fb/shop/orders"),
    ],
)
def test_a_table_has_one_address(arguments: dict, uri: str, name: str):
    table = paimon_table("shop.orders", **arguments)

    assert (table.uri, table.name, table.normalized_uri) == (uri, name, uri)
    assert table_address(uri).table == "shop.orders"
    assert table.tags.uri == f"{uri}$tags"
    assert table_address(table.tags.uri).is_tags


@pytest.mark.parametrize(
    "wrong", ["orders", "a.b.c", "shop.", "shop.{{ params.t }}", "/lake/shop.db/orders", "shop.orders$branch_b"]
)
def test_what_is_no_table_is_no_asset(wrong: str):
    with pytest.raises(InvalidArgumentError, match=r"database\.table"):
        paimon_table(wrong, "lake")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("paimon://lake", "names no table"),
        ("paimon://lake/shop", "names no table"),
        ("paimon:///shop/orders", "names no table"),
        ("paimon://lake/a/b/c", "names no table"),
        ("paimon://lake/shop/$tags", "names no table"),
        ("paimon://lake/shop/or.ders", "no dot"),
        ("paimon://ann@lake/shop/orders", "user or a password"),
        ("paimon://lake/shop/orders?version=1", "no query"),
    ],
)
def test_airflow_refuses_addresses_that_name_no_table(uri: str, reason: str):
    with pytest.raises(ValueError, match=reason) as caught:
        Asset(uri)

    assert "paimon://connection/database/table" in str(caught.value)
    assert "ann" not in str(caught.value)


def test_a_password_is_dropped_and_never_shown():
    with pytest.warns(UserWarning, match="password"):
        asset = Asset("paimon://ann:s3cret@lake/shop/orders")

    assert asset.uri == "paimon://lake/shop/orders"
    with pytest.raises(ValueError) as caught:
        sanitize_uri(urlsplit("paimon://ann:s3cret@lake/shop/orders"))
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="credentials") as refused:
        paimon_table("shop.orders", warehouse="s3://key:s3cret@bucket/lake")
    assert "s3cret" not in str(refused.value)


def test_other_spellings_are_the_same_asset():
    assert Asset("PAIMON://lake/shop/orders/#x").uri == paimon_table("shop.orders", "lake").uri
    assert Asset("paimon://lake/sh%6fp/orders").uri == paimon_table("shop.orders", "lake").uri


def test_hook_lineage_makes_assets_by_the_scheme():
    collector = HookLineageCollector()
    made = collector.create_asset(scheme="paimon", asset_kwargs={"table": "shop.orders", "conn_id": "lake"})

    assert made == create_asset(table="shop.orders", conn_id="lake") == paimon_table("shop.orders", "lake")


def test_copies_are_whole():
    table = paimon_table("shop.orders", "lake", table_options={"a": "b"}, extra={"owner": "ann"})

    for other in (copy.deepcopy(table), copy.copy(table), pickle.loads(pickle.dumps(table))):
        assert other == table and hash(other) == hash(table)
        assert (other.table, other.conn_id, other.table_options) == ("shop.orders", "lake", {"a": "b"})


# ── operators ───────────────────────────────────────────────────────────────────────────────────


def test_a_table_brings_all_arguments():
    orders = paimon_table(
        "shop.orders", "lake", storage_options={"a": "1", "b": "2"}, table_options={"x": "y"}, spark_conn_id="spark"
    )

    task = PaimonCompactOperator(task_id="t", storage_options={"b": "3"}, **orders)

    assert (task.table, task.paimon_conn_id, task.warehouse, task.spark_conn_id) == (
        "shop.orders",
        "lake",
        None,
        "spark",
    )
    assert task.storage_options == {"a": "1", "b": "3"}
    assert task.table_options == {"x": "y"}
    assert orders.arguments == {
        "table": "shop.orders",
        "paimon_conn_id": "lake",
        "storage_options": {"a": "1", "b": "2"},
    }


@pytest.mark.parametrize("second", [{"paimon_conn_id": "other"}, {"warehouse": "/other"}])
def test_two_places_are_refused(second: dict):
    with pytest.raises(InvalidArgumentError, match="two locations"):
        PaimonCompactOperator(task_id="t", table=paimon_table("shop.orders", "lake"), **second)


def test_which_operators_tell_of_what():
    orders = paimon_table("shop.orders", "lake")

    def outlets(kind: type, **fields) -> list:
        return kind(task_id="t", table=orders, **fields).outlets

    assert outlets(PaimonWriteOperator, source="x") == [orders]
    assert outlets(PaimonCreateTagOperator) == [orders.tags]
    assert outlets(PaimonCompactOperator) == outlets(PaimonExpireSnapshotsOperator) == []
    assert outlets(PaimonJobOperator, action="rollback") == [orders]
    assert outlets(PaimonCompactOperator, outlets=[orders]) == [orders]
    assert outlets(PaimonWriteOperator, source="x", outlets=[]) == []


def test_a_dag_with_tables_can_be_stored():
    orders, users = paimon_table("shop.orders", "lake"), paimon_table("shop.users", "lake")
    with DAG("stored_assets", schedule=[orders.tags]) as dag:
        PaimonWriteOperator(task_id="write", source="x", table=orders)
        PaimonCompactOperator.partial(task_id="compact", outlets=[orders, users]).expand(table=[orders, users])

    stored = DagSerialization.serialize_dag(dag)
    read = DagSerialization.deserialize_dag(stored)

    json.dumps(stored)
    assert [outlet.uri for outlet in read.task_dict["write"].outlets] == ["paimon://lake/shop/orders"]


def test_events_of_a_run(lake: str, source: str):
    flights = paimon_table(TABLE, lake)
    with DAG("events_of_a_run", schedule=None) as dag:
        write = PaimonWriteOperator(task_id="write", source=source, **flights, **IN_PROCESS)
        plan = PaimonCompactOperator(
            task_id="plan", full=True, dry_run=True, outlets=[flights], **flights, **IN_PROCESS
        )
        compact = PaimonCompactOperator(task_id="compact", full=True, outlets=[flights], **flights, **IN_PROCESS)
        again = PaimonCompactOperator(task_id="again", full=True, outlets=[flights], **flights, **IN_PROCESS)
        quiet = PaimonExpireSnapshotsOperator(task_id="expire", retain_max=5, **flights)
        tag = PaimonCreateTagOperator(task_id="tag", tag="2013-01-05", **flights)
        others = [Asset("done"), Asset("s3://lake/other/done")]
        other = PaimonExpireSnapshotsOperator(task_id="report", retain_max=9, outlets=others, **flights)
        write >> plan >> compact >> again >> quiet >> tag >> other

    run = run_dag(dag)

    assert set(states_of(run).values()) == {"success"}
    events = {task: (uri, extra) for task, uri, extra in events_of(run)}
    common = {"table": TABLE, "status": "committed"}
    uri = "paimon://lake/air/flights"
    assert events["write"] == (uri, {**common, "action": "write", "snapshot_id": 4, "rows": 2})
    assert events["compact"] == (uri, {**common, "action": "compact", "snapshot_id": 5})
    # The tag is on what this run has compacted.
    expected = {"table": TABLE, "status": "created", "action": "create_tag", "snapshot_id": 5, "tag": "2013-01-05"}
    assert events["tag"] == (f"{uri}$tags", expected)
    # Neither a dry run, nor what had nothing to do; other assets as with any operator.
    assert events.keys() == {"write", "compact", "tag", "report"}
    assert {uri for task, uri, _ in events_of(run) if task == "report"} == {asset.uri for asset in others}


def test_another_run_with_the_same_key_tells_too(lake: str, source: str):
    flights = paimon_table(TABLE, lake)
    with DAG("repeated_events", schedule=None) as dag:
        PaimonWriteOperator(task_id="write", source=source, idempotency_key="day 1", **flights, **IN_PROCESS)

    runs = [run_dag(dag, logical_date=datetime(2013, 1, day, tzinfo=UTC)) for day in (6, 7)]

    # It cannot know whether the first one came to tell.
    assert [extra["status"] for run in runs for _, _, extra in events_of(run)] == ["committed", "already_done"]


def test_a_retry_tells_what_the_attempt_before_could_not(lake: str, source: str):
    flights, store = paimon_table(TABLE, lake), {}

    def attempt() -> tuple:
        task = PaimonWriteOperator(task_id="write", source=source, on_clear="once", table=flights, **IN_PROCESS)
        context = make_context(task_state_store=Store(store), outlet_events=OutletEventAccessors())
        return task.execute(context)["status"], list(context["outlet_events"]), context, task

    first, retried = attempt(), attempt()
    for callback in retried[3].on_success_callback:
        callback(retried[2])
    cleared = attempt()

    assert [item[0] for item in (first, retried, cleared)] == ["committed", "already_done", "already_done"]
    assert [item[3].outlets for item in (first, retried, cleared)] == [[flights], [flights], []]
    assert cleared[1] == []


class Store:
    """A task's state store."""

    def __init__(self, values: dict) -> None:
        self.values = values

    def get(self, key: str):
        return self.values.get(key)

    def set(self, key: str, value, retention=None) -> None:
        self.values[key] = value


def test_mapped_tasks_tell_each_of_its_own_table(lake: str, warehouse: str, source: str):
    tables = [paimon_table(TABLE, lake), paimon_table("air.planes", lake)]
    with DAG("mapped_events", schedule=None) as dag:
        PaimonWriteOperator.partial(
            task_id="write", source=source, create={"primary_keys": ["id"]}, outlets=tables, **IN_PROCESS
        ).expand(table=tables)

    run = run_dag(dag)

    events = {(uri, extra["table"]) for _, uri, extra in events_of(run)}
    assert events == {("paimon://lake/air/flights", TABLE), ("paimon://lake/air/planes", "air.planes")}
    assert len(events_of(run)) == 2


def test_a_failed_task_tells_nothing(lake: str):
    flights = paimon_table(TABLE, lake)
    with DAG("failed_events", schedule=None) as dag:
        PaimonCreateTagOperator(task_id="tag", tag="t", snapshot=99, **flights)

    run = run_dag(dag)

    assert states_of(run) == {"tag": "failed"}
    assert events_of(run) == []


# ── the hook ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lineage(monkeypatch: pytest.MonkeyPatch) -> HookLineageCollector:
    """A collector, as there is one where a plugin reads lineage."""
    from airflow.sdk import lineage

    collector = HookLineageCollector()
    monkeypatch.setattr(lineage, "get_hook_lineage_collector", lambda: collector)
    return collector


def test_the_hook_notes_what_is_read_and_written(lake: str, warehouse: str, lineage: HookLineageCollector):
    hook = PaimonHook(lake)
    found = hook.read(TABLE, ["id"], where="id > 1")
    hook.read(f"{TABLE}$snapshots")
    PaimonHook(warehouse=warehouse).write("air.flights", rows(7))
    hook.read(f"{warehouse}/air.db/flights", ["id"], limit=1)

    assert found["id"].to_pylist() == [2, 3]
    collected = lineage.collected_assets
    uri = "paimon://lake/air/flights"
    assert [(item.asset.uri, item.count) for item in collected.inputs] == [
        (uri, 2),
        (Path(warehouse, "air.db/flights").as_uri(), 1),
    ]
    assert [item.asset.uri for item in collected.outputs] == [paimon_table(TABLE, warehouse=warehouse).uri]


def test_what_cannot_be_read_is_not_noted(lake: str, lineage: HookLineageCollector):
    with pytest.raises(NotFoundError):
        PaimonHook(lake).read("air.none")

    assert not lineage.has_collected
