"""Watchers, sensors and partitions of tags in a real Airflow, whose triggerer and scheduler are killed meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows
from tests.support.airflow import RealAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(1200)]

DAG_FILE = """
import os

from airflow.sdk import DAG, Asset, AssetWatcher, PartitionedAssetTimetable, task
from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.operators.tag_partitions import PaimonTagPartitionsOperator
from airflow_provider_paimon.sensors.snapshot import PaimonSnapshotSensor
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.triggers.events import PaimonTableEventTrigger

LAKE = os.environ["PAIMON_TEST_LAKE"]


def watched(table):
    trigger = PaimonTableEventTrigger(table=table, warehouse=LAKE, poke_interval=0.5)
    return paimon_table(table, warehouse=LAKE, name=table, watchers=[AssetWatcher(name=table, trigger=trigger)])


commits, stress, days = watched("db.commits"), watched("db.stress"), watched("db.days")
passed_on = Asset("days as partitions")

with DAG("on_commits", schedule=[commits]):

    @task
    def payloads(triggering_asset_events=None):
        return [event.extra["payload"] for event in triggering_asset_events[commits]]

    payloads()

with DAG("on_stress", schedule=[stress]):

    @task
    def nothing():
        return None

    nothing()

with DAG("pass_on", schedule=[days], max_active_runs=1):
    PaimonTagPartitionsOperator(task_id="pass_on", table=days, asset=passed_on, since="2013-01-01")

with DAG("each_day", schedule=PartitionedAssetTimetable(assets=passed_on)):

    @task
    def day(dag_run=None):
        return dag_run.partition_key

    day()

with DAG("waits", schedule=None):
    common = {"table": "db.waits", "warehouse": LAKE, "deferrable": True, "poke_interval": 0.5}
    PaimonTagSensor(task_id="tag", tag="{{ dag_run.conf['tag'] }}", **common)
    PaimonTagSensor(task_id="at_once", tag="{{ dag_run.conf['tag'] }}", start_from_trigger=True, **common)
    PaimonSnapshotSensor(task_id="snapshot", after_snapshot=1, **common)
"""


class Watching:
    """A running Airflow, and a warehouse whose tables are watched before they are there."""

    def __init__(self, airflow: RealAirflow, catalog: Catalog) -> None:
        self.airflow, self.catalog = airflow, catalog

    def table(self, name: str) -> Table:
        return self.catalog.create_table(f"db.{name}", schema=SCHEMA, options={"bucket": "-1"}, if_not_exists=True)

    def _asset(self, name: str) -> int:
        found = self.airflow.get("assets", name_pattern=name, limit=100)["assets"]
        return next(asset["id"] for asset in found if asset["name"] == name)

    def wait_for_watcher(self, name: str) -> None:
        """Until the trigger has noted where it begins."""
        path = f"assets/{self._asset(name)}/state-store"
        self.airflow.wait_until(lambda: self.airflow.get(path)["asset_state_store"], f"the watcher of {name}")

    def payloads(self, name: str) -> list[dict[str, Any]]:
        found = self.airflow.get("assets/events", asset_id=self._asset(name), limit=100)["asset_events"]
        return [event["extra"]["payload"] for event in sorted(found, key=lambda event: event["id"])]

    def covered(self, name: str) -> list[int]:
        """The snapshots of all events, those that were sent again among them."""
        return _snapshots(self.payloads(name))

    def wait_for_snapshot(self, name: str, number: int) -> None:
        """Until there is an event of this snapshot."""
        self.airflow.wait_until(lambda: number in self.covered(name), f"an event of snapshot {number} of {name}")

    def days(self) -> Counter[str]:
        """How many runs each day has had."""
        return Counter(run["partition_key"] for run in self.airflow.runs("each_day"))


def _snapshots(payloads: list[dict[str, Any]]) -> list[int]:
    ranges = [(one["from_snapshot"], one["to_snapshot"]) for one in payloads if one["from_snapshot"] is not None]
    return [number for first, last in ranges for number in range(first, last + 1)]


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    home: Path = tmp_path_factory.mktemp("events")
    catalog = Catalog(str(home / "lake"))
    environment = {"PAIMON_TEST_LAKE": str(home / "lake")}
    with RealAirflow(home / "airflow", {"dags.py": DAG_FILE}, environment=environment) as airflow:
        airflow.wait_for_dags("on_commits", "on_stress", "pass_on", "each_day", "waits")
        running = Watching(airflow, catalog)
        for name in ("db.commits", "db.stress", "db.days"):
            running.wait_for_watcher(name)
        yield running


def test_each_commit_is_in_one_event_over_a_killed_triggerer(watching: Watching):
    airflow, table = watching.airflow, watching.table("commits")
    for number in range(1, 5):
        table.write(rows(number))
    airflow.wait_until(lambda: watching.covered("db.commits")[-1:] == [4], "events of 4 commits")
    time.sleep(5)  # until Airflow has told the trigger that it has them

    airflow.kill("triggerer")
    for number in range(5, 8):
        table.write(rows(number))
    airflow.start("triggerer")
    for number in range(8, 11):
        table.write(rows(number))
    airflow.wait_until(lambda: watching.covered("db.commits")[-1:] == [10], "events of 10 commits")
    time.sleep(5)

    payloads = watching.payloads("db.commits")
    assert _snapshots(payloads) == list(range(1, 11))
    assert all(one["reset"] is None and not one["redelivered"] for one in payloads)

    def seen() -> list[dict[str, Any]]:
        runs = [run["dag_run_id"] for run in airflow.runs("on_commits") if run["state"] == "success"]
        return [one for run in runs for one in airflow.xcom("on_commits", run, "payloads")]

    airflow.wait_until(lambda: len(seen()) == len(payloads), "runs for all events")
    assert sorted(_snapshots(seen())) == list(range(1, 11))


def test_killed_at_the_worst_moment_no_commit_is_lost_and_what_comes_again_says_so(watching: Watching):
    airflow, table = watching.airflow, watching.table("stress")
    for number in (1, 2):
        table.write(rows(number))
        watching.wait_for_snapshot("db.stress", number)
        airflow.restart("triggerer")
    table.write(rows(3))
    watching.wait_for_snapshot("db.stress", 3)
    time.sleep(3)

    payloads = watching.payloads("db.stress")
    first = {one["event_id"]: one for one in reversed(payloads)}
    assert sorted(_snapshots(list(first.values()))) == [1, 2, 3]
    for event_id, times in Counter(one["event_id"] for one in payloads).items():
        same = [one["redelivered"] for one in payloads if one["event_id"] == event_id]
        assert same[1:] == [True] * (times - 1)


def test_each_tag_has_one_run_and_late_ones_are_found(watching: Watching):
    airflow, table = watching.airflow, watching.table("days")
    table.write(rows(1))
    table.create_tag("release")
    table.create_tag("2013-01-01")
    table.create_tag("2013-01-03")
    airflow.wait_until(lambda: watching.days().keys() == {"2013-01-01", "2013-01-03"}, "runs of two days")

    airflow.kill("triggerer")
    table.create_tag("2013-01-02")
    airflow.restart("scheduler")
    airflow.start("triggerer")
    airflow.wait_until(lambda: "2013-01-02" in watching.days(), "the run of a late day")
    for run in airflow.runs("pass_on"):
        airflow.wait_for_run("pass_on", run["dag_run_id"])
        airflow.clear("pass_on", run["dag_run_id"])
        airflow.wait_for_run("pass_on", run["dag_run_id"])
    table.create_tag("2013-01-04")
    airflow.wait_until(lambda: "2013-01-04" in watching.days(), "the run of the last day")
    time.sleep(5)

    assert watching.days() == Counter([f"2013-01-0{number}" for number in range(1, 5)])
    for run in airflow.runs("each_day"):
        airflow.wait_for_run("each_day", run["dag_run_id"])
        assert airflow.xcom("each_day", run["dag_run_id"], "day") == run["partition_key"]


def test_sensors_wait_over_a_killed_triggerer(watching: Watching):
    airflow = watching.airflow
    run = airflow.run("waits", conf={"tag": "2013-01-01"})
    for task in ("tag", "at_once", "snapshot"):
        airflow.wait_for_task("waits", run, task, "deferred")

    airflow.kill("triggerer")
    table = watching.table("waits")
    table.write(rows(1))
    table.create_tag("2013-01-01")
    table.write(rows(2))
    airflow.start("triggerer")

    airflow.wait_for_run("waits", run)
    for task in ("tag", "at_once"):
        assert airflow.xcom("waits", run, task) == {"tag": "2013-01-01", "snapshot_id": 1}
    assert airflow.xcom("waits", run, "snapshot")["snapshot_id"] == 2
