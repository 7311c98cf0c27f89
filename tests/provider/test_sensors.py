from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.sensors.consumer import PaimonConsumerLagSensor
from airflow_provider_paimon.sensors.partition import PaimonPartitionSensor
from airflow_provider_paimon.sensors.snapshot import PaimonFreshnessSensor, PaimonSnapshotSensor
from airflow_provider_paimon.sensors.table import PaimonTableSensor
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.triggers.table import PaimonTableTrigger
from paimon_engine import Catalog, InvalidArgumentError, StorageError, Table
from tests.provider.conftest import TABLE, make_context, set_time

TAG = "2013-01-05"
FOUND = {"tag": TAG, "snapshot_id": 2}
DAYS = "air.days"


def sensor(warehouse: str | None, kind: type[PaimonTableSensor] = PaimonTagSensor, **fields: Any) -> PaimonTableSensor:
    return kind(**{"task_id": "t", "table": TABLE, "warehouse": warehouse, "deferrable": False, **fields})


def first_event(trigger: PaimonTableTrigger) -> dict:
    async def run() -> dict:
        return (await asyncio.wait_for(anext(trigger.run()), timeout=60)).payload

    return asyncio.run(run())


def found(waiting: PaimonTableSensor, context: Any = None) -> Any:
    """What it finds; the same in a worker and in the triggerer, from arguments that Airflow stored."""
    context = context or make_context()
    looked = waiting.poke(context)
    stored = json.loads(json.dumps(waiting._trigger_arguments(waiting.fields(context))))
    trigger = PaimonTableTrigger(**{**stored, "poke_interval": 60})
    assert json.loads(json.dumps(trigger.serialize()[1])) == {**stored, "poke_interval": 60}

    async def first() -> Any:
        event = asyncio.ensure_future(anext(trigger.run()))
        done, _ = await asyncio.wait([event], timeout=20 if looked.is_done else 0.5)
        event.cancel()
        return event.result().payload["found"] if done else None

    in_triggerer = asyncio.run(first())
    if not looked.is_done:
        assert in_triggerer is None
        return None
    ages = {"age_seconds"}
    assert {k: v for k, v in in_triggerer.items() if k not in ages} == {
        k: v for k, v in looked.xcom_value.items() if k not in ages
    }
    return looked.xcom_value


@pytest.fixture
def days(catalog: Catalog) -> Table:
    """Rows of two days and hours: two at hour 1 of the first, one at hour 2 of the first, one of the second."""
    schema = {"id": "BIGINT", "day": "DATE", "hour": "INT"}
    table = catalog.create_table(DAYS, schema=schema, partition_keys=["day", "hour"], options={"bucket": "-1"})
    first, second = datetime(2013, 1, 5).date(), datetime(2013, 1, 6).date()
    table.write(pa.table({"id": [1, 2, 3, 4], "day": [first, first, first, second], "hour": [1, 1, 2, 1]}))
    return table


# ── tags ────────────────────────────────────────────────────────────────────────────────────────


def test_a_tag_that_is_there(catalog: Catalog, context):
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert sensor(catalog.warehouse).execute(context) == FOUND
    assert sensor(catalog.warehouse, mode="reschedule", tag=TAG).poke(context).xcom_value == FOUND
    assert found(sensor(catalog.warehouse, state="absent")) is None


def test_a_tag_that_is_gone(catalog: Catalog):
    assert found(sensor(catalog.warehouse, state="absent")) == {"tag": TAG, "snapshot_id": None}
    assert found(sensor(catalog.warehouse, state="absent", table="air.mistyped")) is None


@pytest.mark.parametrize("table", [TABLE, "air.not_yet"])
def test_a_tag_that_is_not_there_yet(catalog: Catalog, table):
    assert found(sensor(catalog.warehouse, table=table)) is None


def test_a_run_without_a_day_fails_at_once(catalog: Catalog):
    with pytest.raises(AirflowFailException, match="Give tag="):
        sensor(catalog.warehouse).execute(make_context(partition_key=None))


# ── snapshots ───────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_after_another(catalog: Catalog):
    table = catalog.table(TABLE)
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor))["snapshot_id"] == 3
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, after_snapshot="3")) is None

    compacted = table.compact(full=True).snapshot_id

    newer = found(sensor(catalog.warehouse, PaimonSnapshotSensor, after_snapshot=3))
    assert (newer["snapshot_id"], newer["commit_kind"], newer["watermark"]) == (compacted, "COMPACT", None)
    rows_changed = {"after_snapshot": 3, "kinds": ["APPEND", "OVERWRITE"]}
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, **rows_changed)) is None
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, kinds=["APPEND"]))["snapshot_id"] == 3


def test_a_snapshot_newer_than_a_time(catalog: Catalog):
    set_time(catalog.table(TABLE), 3, datetime(2013, 1, 5, 12, tzinfo=UTC))
    noon = datetime(2013, 1, 5, 12, tzinfo=UTC)

    for time_ in (noon, "2013-01-05T12:00:00Z", "1 h"):
        assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, newer_than=time_)) is None
    earlier = sensor(catalog.warehouse, PaimonSnapshotSensor, newer_than=noon - timedelta(milliseconds=1))
    assert found(earlier)["commit_time"] == "2013-01-05T12:00:00+00:00"


def test_a_watermark(catalog: Catalog):
    table = catalog.table(TABLE)
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, watermark=0)) is None

    table.write(table.to_arrow(), watermark=1000)

    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, watermark="1000"))["watermark"] == 1000
    assert found(sensor(catalog.warehouse, PaimonSnapshotSensor, watermark=1001)) is None


def test_fresh_enough(catalog: Catalog):
    table = catalog.table(TABLE)
    fresh = found(sensor(catalog.warehouse, PaimonFreshnessSensor, max_age="1 h"))
    assert (fresh["snapshot_id"], fresh["age_seconds"] < 3600) == (3, True)

    set_time(table, 3, datetime.now(UTC) - timedelta(hours=2))
    assert found(sensor(catalog.warehouse, PaimonFreshnessSensor, max_age=timedelta(hours=1))) is None
    table.compact(full=True)
    assert found(sensor(catalog.warehouse, PaimonFreshnessSensor, max_age=timedelta(hours=1)))["snapshot_id"] == 4
    assert found(sensor(catalog.warehouse, PaimonFreshnessSensor, max_age="1 h", kinds=["APPEND"])) is None


# ── partitions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"partition": {"day": "2013-01-05"}}, (2, 3)),
        ({"partition": "day=2013-01-05"}, (2, 3)),
        ({"partition": {"day": "2013-01-05", "hour": 1}}, (1, 2)),
        ({"partition": {"hour": "1"}, "min_rows": "3"}, (2, 3)),
        ({"partition": {"day": "2013-01-05", "hour": 1}, "min_rows": 3}, None),
        ({"partition": {"day": "2013-01-07"}}, None),
    ],
)
def test_a_partition(days: Table, catalog: Catalog, fields: dict[str, Any], expected: tuple[int, int] | None):
    looked = found(sensor(catalog.warehouse, PaimonPartitionSensor, table=DAYS, **fields))

    assert (looked and (looked["partitions"], looked["rows"])) == expected


def test_a_partition_that_is_done(days: Table, catalog: Catalog):
    partition = {"day": "2013-01-05", "hour": "1"}
    waiting = sensor(catalog.warehouse, PaimonPartitionSensor, table=DAYS, partition=partition, done="True")
    assert found(waiting) is None

    days.mark_partition_done(partition)

    assert found(waiting)["rows"] == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"partition": {"month": 1}}, "'month'.*day, hour"),
        ({"partition": {"day": "yesterday"}}, "'yesterday' is not a value of partition column 'day'"),
        ({"partition": {"day": "2013-01-05"}, "done": True}, "needs a value for hour"),
        ({"partition": {}}, "nothing"),
        ({"partition": {"day": "None", "hour": 1}}, "a template left no value for day"),
    ],
)
def test_a_wrong_partition_fails_at_once(days: Table, catalog: Catalog, fields: dict[str, Any], message: str):
    waiting = sensor(catalog.warehouse, PaimonPartitionSensor, table=DAYS, **fields)

    with pytest.raises(AirflowFailException, match=message):
        waiting.execute(make_context())
    event = first_event(PaimonTableTrigger(**waiting._trigger_arguments(waiting.fields({}))))
    assert event["status"] == "error"
    with pytest.raises(AirflowFailException, match=message):
        waiting.execute_complete({}, json.loads(json.dumps(event)))


def test_a_wrong_partition_of_a_table_that_comes_later_is_not_tried_again(catalog: Catalog):
    waiting = sensor(
        catalog.warehouse, PaimonPartitionSensor, table=DAYS, partition={"nocol": 1}, deferrable=True, poke_interval=0.1
    )
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(make_context())

    catalog.create_table(DAYS, schema={"id": "BIGINT", "day": "DATE"}, partition_keys=["day"])

    with pytest.raises(AirflowFailException, match="'nocol'"):
        waiting.execute_complete({}, first_event(deferred.value.trigger))


# ── consumers ───────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_that_has_read_nearly_all(catalog: Catalog):
    assert found(sensor(catalog.warehouse, PaimonConsumerLagSensor, consumer="reader")) is None

    catalog.table(TABLE).reset_consumer("reader", 3)

    assert found(sensor(catalog.warehouse, PaimonConsumerLagSensor, consumer="reader")) is None
    behind = found(sensor(catalog.warehouse, PaimonConsumerLagSensor, consumer="reader", max_lag="1"))
    assert behind == {"consumer": "reader", "next_snapshot": 3, "snapshot_id": 3, "lag": 1}
    catalog.table(TABLE).reset_consumer("reader", 4)
    assert found(sensor(catalog.warehouse, PaimonConsumerLagSensor, consumer="reader"))["lag"] == 0


# ── all of them ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (PaimonTagSensor, {"state": "gone"}, "state='gone'"),
        (PaimonTagSensor, {"tag": "a/b"}, "a/b"),
        (PaimonSnapshotSensor, {"after_snapshot": "many"}, "after_snapshot='many'"),
        (PaimonSnapshotSensor, {"newer_than": "soon"}, "newer_than='soon'"),
        (PaimonSnapshotSensor, {"kinds": ["INSERT"]}, "INSERT"),
        (PaimonSnapshotSensor, {"kinds": []}, "kinds="),
        (PaimonFreshnessSensor, {"max_age": "-1 h"}, "max_age"),
        (PaimonConsumerLagSensor, {"consumer": "c", "max_lag": -1}, "max_lag=-1"),
    ],
)
def test_what_makes_no_sense_fails_at_once_without_a_table(
    catalog: Catalog, kind: type[PaimonTableSensor], fields: dict[str, Any], message: str
):
    with pytest.raises(AirflowFailException, match=message):
        sensor(catalog.warehouse, kind, table="air.not_yet", **fields).execute(make_context())


def test_a_table_may_be_an_asset(catalog: Catalog):
    flights = paimon_table(TABLE, warehouse=catalog.warehouse)

    assert found(PaimonSnapshotSensor(task_id="t", table=flights))["snapshot_id"] == 3
    with pytest.raises(InvalidArgumentError, match="two locations"):
        PaimonSnapshotSensor(task_id="t", table=flights, warehouse="/elsewhere")


def test_a_deferrable_sensor_looks_before_it_waits(catalog: Catalog, context):
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert sensor(catalog.warehouse, deferrable=True).execute(context) == FOUND


def test_a_deferred_sensor_keeps_its_execution_timeout(catalog: Catalog):
    """Airflow itself does not end a task by it that has been deferred in a worker."""
    limited = {"deferrable": True, "poke_interval": 3600, "execution_timeout": timedelta(milliseconds=20)}
    waiting = sensor(catalog.warehouse, **limited)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.poke(make_context())

    stored = json.loads(json.dumps(deferred.value.trigger.serialize()[1]))
    event = first_event(PaimonTableTrigger(**stored))

    with pytest.raises(AirflowException, match=f"not there within execution_timeout: .*{TAG}") as ended:
        waiting.execute_complete({}, event)
    assert not isinstance(ended.value, AirflowFailException), "it is tried again"
    softly = sensor(catalog.warehouse, **limited, soft_fail=True)
    with pytest.raises(AirflowSkipException):
        softly.resume_execution("execute_complete", {"event": event}, make_context())
    catalog.table(TABLE).create_tag(TAG, snapshot=2)
    assert first_event(PaimonTableTrigger(**stored)) == {"status": "success", "found": FOUND}


def test_a_deferred_sensor_is_resumed_by_its_trigger(catalog: Catalog, context):
    waiting = sensor(catalog.warehouse, deferrable=True, poke_interval=0.05, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    path, arguments = deferred.value.trigger.serialize()
    stored = json.loads(json.dumps(arguments))

    async def appears_later() -> dict:
        events = PaimonTableTrigger(**stored).run()
        waits = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        assert not waits.done()
        await asyncio.to_thread(catalog.table(TABLE).create_tag, TAG, 2)
        return (await asyncio.wait_for(waits, timeout=60)).payload

    event = asyncio.run(appears_later())

    assert path == f"{PaimonTableTrigger.__module__}.{PaimonTableTrigger.__name__}"
    assert deferred.value.timeout.total_seconds() == 60
    assert waiting.execute_complete(context, event) == FOUND


def test_a_sensor_may_start_in_the_triggerer(catalog: Catalog):
    with DAG("dag", schedule=None):
        waiting = sensor(
            catalog.warehouse, deferrable=True, start_from_trigger=True, tag="{{ partition_key }}", timeout=60
        )
    arguments = waiting.start_trigger_args

    assert arguments.timeout == timedelta(seconds=60)
    assert arguments.trigger_kwargs["tag"] == "{{ partition_key }}"
    # Airflow renders those that are templates of the sensor and attributes of the trigger.
    trigger = PaimonTableTrigger(**arguments.trigger_kwargs)
    assert {name for name in waiting.template_fields if hasattr(trigger, name)} == set(waiting.template_fields)
    with pytest.raises(InvalidArgumentError, match="needs tag="):
        sensor(catalog.warehouse, deferrable=True, start_from_trigger=True)
    with (
        DAG("other", schedule=None, default_args={"start_from_trigger": True, "deferrable": True}),
        pytest.raises(InvalidArgumentError, match="needs tag="),
    ):
        PaimonTagSensor(task_id="t", table=TABLE, warehouse=catalog.warehouse)


@pytest.mark.parametrize("rendered", ["None", "", None])
def test_a_run_without_a_tag_fails_in_the_triggerer_too(catalog: Catalog, rendered: str | None):
    waiting = sensor(catalog.warehouse, deferrable=True, start_from_trigger=True, tag="{{ partition_key }}")

    event = first_event(PaimonTableTrigger(**{**waiting.start_trigger_args.trigger_kwargs, "tag": rendered}))

    with pytest.raises(AirflowFailException, match="tag=.*give a name"):
        waiting.execute_complete({}, event)


def test_the_trigger_takes_secrets_from_the_connection(catalog: Catalog, context, monkeypatch):
    fields = {"conn_type": "paimon", "host": catalog.warehouse, "password": "very secret"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))

    with pytest.raises(TaskDeferred) as deferred:
        sensor(None, paimon_conn_id="lake", deferrable=True).execute(context)
    catalog.table(TABLE).create_tag(TAG, snapshot=2)

    assert "very secret" not in json.dumps(deferred.value.trigger.serialize())
    assert first_event(deferred.value.trigger) == {"status": "success", "found": FOUND}


@pytest.mark.parametrize("waits", [{}, {"deferrable": True}, {"mode": "reschedule"}], ids=str)
@pytest.mark.parametrize(
    ("softly", "raised"),
    [
        ({}, AirflowFailException),
        ({"soft_fail": True}, AirflowSkipException),
        ({"never_fail": True}, AirflowSkipException),
    ],
    ids=str,
)
def test_the_first_look_fails_as_the_sensor_says(
    catalog: Catalog, waits: dict[str, Any], softly: dict[str, Any], raised: type[Exception]
):
    waiting = sensor(catalog.warehouse, PaimonSnapshotSensor, kinds=["INSERT"], **waits, **softly)

    with pytest.raises(raised):
        waiting.execute(in_airflow())


def in_airflow() -> dict[str, Any]:
    """A context whose task instance also knows when it began to wait."""
    context = make_context()
    context["ti"].get_first_reschedule_date = lambda _: None
    return context


def test_secrets_beside_the_connection_cannot_be_deferred(catalog: Catalog, context):
    with pytest.raises(AirflowFailException, match="into a connection"):
        sensor(catalog.warehouse, deferrable=True, storage_options={"token": "x"}).execute(context)


def test_waiting_without_use_ends_with_the_reason(context):
    event = first_event(PaimonTableTrigger(table=TABLE, kind="tag", tag=TAG, warehouse="nonsense://x"))

    assert event["status"] == "error"
    with pytest.raises(AirflowException, match="nonsense"):
        sensor("nonsense://x").execute_complete(context, event)


def test_a_store_that_fails_for_a_moment_is_asked_again(catalog: Catalog, monkeypatch):
    answers = iter([StorageError("busy"), None, FOUND])

    def answer(self, table, wait):
        value = next(answers)
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(PaimonHook, "look", answer)
    trigger = PaimonTableTrigger(table=TABLE, kind="tag", tag=TAG, warehouse="x", poke_interval=0.01)

    assert first_event(trigger)["found"] == FOUND


def test_the_triggerer_goes_on_while_a_store_is_slow(catalog: Catalog, monkeypatch):
    monkeypatch.setattr(PaimonHook, "look", lambda self, table, wait: time.sleep(0.5) or FOUND)

    async def longest_pause() -> float:
        trigger = PaimonTableTrigger(table=TABLE, kind="tag", tag=TAG, warehouse="x")
        waits, turns = asyncio.ensure_future(anext(trigger.run())), 0
        while not waits.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns

    assert asyncio.run(longest_pause()) > 5


def test_sensors_write_nothing(days: Table, catalog: Catalog):
    before = sorted(str(path) for path in Path(catalog.warehouse).rglob("*"))

    found(sensor(catalog.warehouse, PaimonPartitionSensor, table=DAYS, partition={"day": "2013-01-05"}))
    found(sensor(catalog.warehouse, PaimonTagSensor))
    found(sensor(catalog.warehouse, PaimonFreshnessSensor, max_age="1 h"))

    assert sorted(str(path) for path in Path(catalog.warehouse).rglob("*")) == before
