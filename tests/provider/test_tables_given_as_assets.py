"""All that takes the name of a table takes a `paimon_table`, with the same errors; transfers send events of changes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, Asset, lineage
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.lineage import HookLineageCollector

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.decorators.write import PaimonWriteDecoratedOperator
from airflow_provider_paimon.hooks.commit import PaimonCommitHook
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.transfers.paimon_to_files import PaimonToFilesOperator
from airflow_provider_paimon.transfers.paimon_to_sql import PaimonToSqlOperator
from airflow_provider_paimon.transfers.sql_to_paimon import SqlToPaimonOperator
from airflow_provider_paimon.triggers.events import PaimonTableEventTrigger
from airflow_provider_paimon.triggers.table import PaimonTableTrigger
from paimon_engine import Catalog, EnvConfig
from paimon_engine.errors import InvalidArgumentError
from tests.provider.conftest import TABLE, make_context, rows
from tests.support.s3 import BUCKET, start_s3

pytestmark = pytest.mark.airflow

TAKERS: dict[str, Any] = {
    "operator": lambda **at: PaimonCompactOperator(task_id="t", **at),
    "sensor": lambda **at: PaimonTagSensor(task_id="t", tag="x", **at),
    "trigger": lambda **at: PaimonTableTrigger(kind="tag", tag="x", **at),
    "event trigger": lambda **at: PaimonTableEventTrigger(**at),
    "to SQL": lambda **at: PaimonToSqlOperator(task_id="t", target="x", sql_conn_id="db", **at),
    "from SQL": lambda **at: SqlToPaimonOperator(task_id="t", sql="SELECT 1", sql_conn_id="db", **at),
    "to files": lambda **at: PaimonToFilesOperator(task_id="t", target="/tmp/x", **at),
    "decorator": lambda **at: PaimonWriteDecoratedOperator(task_id="t", python_callable=rows, **at),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_table_is_given_by_name_or_as_an_asset(taker: str):
    orders = paimon_table("shop.orders", "lake", warehouse="/lake", storage_options={"s3.region": "eu"})

    made = TAKERS[taker](table=orders, storage_options={"s3.endpoint": "http://s"})

    assert (made.table, made.paimon_conn_id, made.warehouse) == ("shop.orders", "lake", "/lake")
    assert made.storage_options == {"s3.region": "eu", "s3.endpoint": "http://s"}
    assert TAKERS[taker](table="shop.orders", paimon_conn_id="lake").table == "shop.orders"


@pytest.mark.parametrize("taker", TAKERS)
def test_a_plain_asset_of_the_same_address_is_the_table(taker: str):
    plain = Asset("orders", "paimon://lake/shop/orders", extra={"team": "shop"})

    made = TAKERS[taker](table=plain)

    assert (made.table, made.paimon_conn_id, made.warehouse) == ("shop.orders", "lake", None)
    assert all(known == plain for known in [*getattr(made, "inlets", ()), *getattr(made, "outlets", ())])
    assert TAKERS[taker](table=Asset("paimon://%2Flake/shop/orders")).warehouse == "/lake"
    for other in ("s3://lake/shop/orders", "paimon://lake/shop/orders$tags", "orders"):
        with pytest.raises(InvalidArgumentError, match="is not a table"):
            TAKERS[taker](table=Asset(other))


def test_a_plain_asset_is_written_and_read(catalog: Catalog):
    plain = Asset(paimon_table(TABLE, warehouse=catalog.warehouse).uri)
    copy = Asset(paimon_table("air.copy", warehouse=catalog.warehouse).uri)
    write = PaimonWriteOperator(task_id="t", table=copy, source=plain, create={}, launcher="in_process")

    assert (write.inlets, write.outlets) == ([plain], [copy])
    assert write.execute(make_context())["details"]["rows"] == 3


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("place", [{"paimon_conn_id": "other"}, {"warehouse": "/other"}])
def test_two_places_are_refused(taker: str, place: dict[str, str]):
    with pytest.raises(InvalidArgumentError, match="shop.orders; give one of them"):
        TAKERS[taker](table=paimon_table("shop.orders", "lake"), **place)


def test_a_trigger_on_an_asset_is_stored_as_plain_values():
    made = PaimonTableEventTrigger(table=paimon_table("shop.orders", "lake"))

    path, arguments = made.serialize()
    assert json.loads(json.dumps(arguments))["table"] == "shop.orders"
    assert PaimonTableEventTrigger(**arguments).serialize() == (path, arguments)


def test_who_writes_has_an_outlet_and_who_reads_an_inlet():
    orders = paimon_table("shop.orders", "lake")

    assert TAKERS["from SQL"](table=orders).outlets == TAKERS["to files"](table=orders).inlets == [orders]
    assert TAKERS["decorator"](table=orders).outlets == TAKERS["to SQL"](table=orders).inlets == [orders]
    assert TAKERS["to files"](table=orders, inlets=[]).inlets == []


# ── to files ────────────────────────────────────────────────────────────────────────────────────


def export(warehouse: str, **fields: Any) -> dict[str, Any]:
    with DAG("d", schedule=None):
        task = PaimonToFilesOperator(task_id="t", table=paimon_table(TABLE, warehouse=warehouse), **fields)
    done: dict[str, Any] = task.execute(make_context())
    return done


def test_a_table_goes_to_a_file_and_to_partitions(catalog: Catalog, warehouse: str, tmp_path: Path):
    one = export(warehouse, target=f"{tmp_path}/out.parquet", snapshot="2", columns="['id']")
    many = export(warehouse, target=f"{tmp_path}/out", format="csv", partition_by=["id"], where="id > 1")

    assert (one["status"], one["details"]["rows"], one["snapshot_id"]) == ("exported", 2, 2)
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{"id": 1}, {"id": 2}]
    assert (many["details"]["rows"], sorted(path.name for path in (tmp_path / "out").iterdir())) == (
        2,
        ["_SUCCESS", "id=2", "id=3"],
    )
    assert json.dumps([one, many])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "xml"}, "format='xml'"),
        ({"tag": "nothing"}, "nothing"),
        ({"if_exists": "maybe"}, "if_exists='maybe'"),
        ({"snapshot": "newest"}, "snapshot='newest'"),
        ({"where": "nothing = 1"}, "nothing"),
    ],
)
def test_a_mistake_fails_without_a_retry(
    catalog: Catalog, warehouse: str, tmp_path: Path, fields: dict[str, str], message: str
):
    with pytest.raises(AirflowFailException, match=message):
        export(warehouse, target=f"{tmp_path}/out", **fields)
    assert not (tmp_path / "out").exists()


def test_a_repeat_replaces_what_it_wrote_and_nothing_without_being_asked(
    catalog: Catalog, warehouse: str, tmp_path: Path
):
    target = f"{tmp_path}/out.parquet"
    export(warehouse, target=target)
    catalog.table(TABLE).write(rows(4))

    with pytest.raises(Exception, match="if_exists='replace'"):
        export(warehouse, target=target)
    assert export(warehouse, target=target, if_exists="replace")["details"]["rows"] == 4


def test_lineage_names_what_is_read_and_written(catalog: Catalog, warehouse: str, tmp_path: Path):
    pytest.importorskip("airflow.providers.openlineage")
    task = PaimonToFilesOperator(task_id="t", table=TABLE, warehouse=warehouse, target=f"{tmp_path}/out.parquet")
    task.execute(make_context())

    datasets = task.get_openlineage_facets_on_complete(None)

    assert [(item.name, item.facets["version"].datasetVersion) for item in datasets.inputs] == [(TABLE, "3")]
    (written,) = datasets.outputs
    assert (written.namespace, written.name) == ("file", f"{tmp_path}/out.parquet")
    assert written.outputFacets["outputStatistics"].rowCount == 3


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    yield from start_s3()


@pytest.mark.s3
def test_the_target_may_be_in_a_store_of_another_connection(
    catalog: Catalog, warehouse: str, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AIRFLOW_CONN_PARTNERS", json.dumps({"conn_type": "paimon", "extra": {"storage_options": s3}}))
    target = f"s3://{BUCKET}/out.csv"

    done = export(warehouse, target=target, format="csv", target_conn_id="partners")

    assert (done["status"], done["details"]["rows"]) == ("exported", 3)
    assert EnvConfig(target, s3).build().storage.read(target).count(b"\n") == 4


# ── what transfers tell ─────────────────────────────────────────────────────────────────────────


def test_a_transfer_into_a_table_sends_an_event_once(catalog: Catalog, warehouse: str):
    flights = paimon_table(TABLE, warehouse=warehouse)

    def run() -> tuple[int, dict[str, Any]]:
        task = PaimonWriteDecoratedOperator(task_id="t", python_callable=lambda: rows(7), table=flights)
        events: Any = defaultdict(lambda: SimpleNamespace(extra={}))
        task.execute(make_context(outlet_events=events))
        return len(task.outlets), events[flights].extra

    assert run() == (1, {"table": TABLE, "action": "write", "status": "committed", "snapshot_id": 4, "rows": 1})
    again, _ = run()
    assert again == 1  # a retry tells, as the attempt before it could not
    empty = PaimonWriteDecoratedOperator(task_id="u", python_callable=lambda: rows(), table=flights)
    empty.execute(make_context("another run"))
    assert empty.outlets == []


def test_a_commit_of_prepared_rows_is_lineage_of_the_task(
    catalog: Catalog, warehouse: str, monkeypatch: pytest.MonkeyPatch
):
    # Airflow has a collector that keeps what it is told where a plugin reads lineage.
    collector = HookLineageCollector()
    monkeypatch.setattr(lineage, "get_hook_lineage_collector", lambda: collector)
    hook = PaimonCommitHook(warehouse=warehouse)
    prepared = hook.prepare(TABLE, rows(8))
    assert collector.collected_assets.outputs == []

    hook.commit(prepared, commit_user="u")

    assert [item.asset.uri for item in collector.collected_assets.outputs] == [hook.asset_uri(TABLE)]
