from __future__ import annotations

import asyncio
import json

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.triggers.tag import PaimonTagTrigger
from paimon_engine import Catalog, StorageError
from tests.provider.conftest import TABLE, make_context

TAG = "2013-01-05"
FOUND = {"tag": TAG, "snapshot_id": 2}


def sensor(warehouse: str | None, **fields) -> PaimonTagSensor:
    return PaimonTagSensor(**{"task_id": "t", "table": TABLE, "warehouse": warehouse, "deferrable": False, **fields})


def first_event(trigger: PaimonTagTrigger) -> dict:
    async def run() -> dict:
        return (await asyncio.wait_for(anext(trigger.run()), timeout=60)).payload

    return asyncio.run(run())


def test_a_tag_that_is_there(catalog: Catalog, context):
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert sensor(catalog.warehouse).execute(context) == FOUND
    assert sensor(catalog.warehouse, mode="reschedule", tag=TAG).poke(context).xcom_value == FOUND


@pytest.mark.parametrize("table", [TABLE, "air.not_yet"])
def test_a_tag_that_is_not_there_yet(catalog: Catalog, context, table):
    assert not sensor(catalog.warehouse, table=table).poke(context).is_done


def test_a_run_without_a_day_fails_at_once(catalog: Catalog):
    with pytest.raises(AirflowFailException, match="Give tag="):
        sensor(catalog.warehouse).execute(make_context(partition_key=None))


def test_a_deferrable_sensor_looks_before_it_waits(catalog: Catalog, context):
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert sensor(catalog.warehouse, deferrable=True).execute(context) == FOUND


def test_a_deferred_sensor_is_resumed_by_its_trigger(catalog: Catalog, context):
    waiting = sensor(catalog.warehouse, deferrable=True, poke_interval=0.05, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    path, arguments = deferred.value.trigger.serialize()
    stored = json.loads(json.dumps(arguments))

    async def appears_later() -> dict:
        events = PaimonTagTrigger(**stored).run()
        waits = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        assert not waits.done()
        await asyncio.to_thread(catalog.table(TABLE).create_tag, TAG, 2)
        return (await asyncio.wait_for(waits, timeout=60)).payload

    event = asyncio.run(appears_later())

    assert path == f"{PaimonTagTrigger.__module__}.{PaimonTagTrigger.__name__}"
    assert deferred.value.timeout.total_seconds() == 60
    assert waiting.execute_complete(context, event) == FOUND


def test_the_trigger_takes_secrets_from_the_connection(catalog: Catalog, context, monkeypatch):
    fields = {"conn_type": "paimon", "host": catalog.warehouse, "password": "very secret"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))

    with pytest.raises(TaskDeferred) as deferred:
        sensor(None, paimon_conn_id="lake", deferrable=True).execute(context)
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert "very secret" not in json.dumps(deferred.value.trigger.serialize())
    assert first_event(deferred.value.trigger) == {"status": "success", **FOUND}


def test_secrets_beside_the_connection_cannot_be_deferred(catalog: Catalog, context):
    with pytest.raises(AirflowFailException, match="into a connection"):
        sensor(catalog.warehouse, deferrable=True, storage_options={"token": "x"}).execute(context)


def test_waiting_in_vain_ends_with_the_reason(context):
    event = first_event(PaimonTagTrigger(table=TABLE, tag=TAG, warehouse="nonsense://x"))

    assert event["status"] == "error"
    with pytest.raises(AirflowException, match="nonsense"):
        sensor("nonsense://x").execute_complete(context, event)


def test_a_store_that_fails_for_a_moment_is_asked_again(catalog: Catalog, monkeypatch):
    answers = iter([StorageError("busy"), None, 2])

    def answer(self, table, tag):
        value = next(answers)
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(PaimonHook, "snapshot_of_tag", answer)

    assert first_event(PaimonTagTrigger(table=TABLE, tag=TAG, warehouse="x", poke_interval=0.01))["snapshot_id"] == 2
