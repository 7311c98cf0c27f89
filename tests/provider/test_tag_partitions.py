"""Tags are passed on once: over kills before and after Airflow has stored the events, clears, and late tags."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_provider_paimon.operators.tag_partitions import PaimonTagPartitionsOperator
from paimon_engine import Catalog, Table
from tests.provider.conftest import TABLE

DAYS = Asset("days")


class Airflow:
    """What Airflow keeps between runs: the asset's state and its events."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.events: list[SimpleNamespace] = []
        self._added: list[str] = []

    # the state store, the inlet's events and the outlet's event, as the operator uses them

    def get(self, key: str) -> Any:
        return json.loads(self.state[key]) if key in self.state else None

    def set(self, key: str, value: Any) -> None:
        self.state[key] = json.dumps(value)

    def after(self, time: str) -> list[SimpleNamespace]:
        return [event for event in self.events if event.time >= datetime.fromisoformat(time)]

    def add_partitions(self, keys: list[str]) -> None:
        self._added = keys

    def run(self, operator: PaimonTagPartitionsOperator, *, dies: bool = False) -> list[str]:
        """What a run passes on; one that dies does so after its work, before Airflow stores what it added."""
        self._added, outlet = [], SimpleNamespace(add_partitions=self.add_partitions, extra={})
        context = {
            "asset_state_store": {DAYS: self},
            "inlet_events": {DAYS: self},
            "outlet_events": {DAYS: outlet},
        }
        passed_on = operator.execute(context)["passed_on"]
        assert passed_on == self._added
        assert bool(operator.outlets) == bool(passed_on)
        if not dies:
            self.events += [SimpleNamespace(partition_key=key, time=datetime.now(UTC)) for key in self._added]
        return passed_on


def operator(catalog: Catalog, **fields: Any) -> PaimonTagPartitionsOperator:
    where = {"table": TABLE, "warehouse": catalog.warehouse, "asset": DAYS}
    return PaimonTagPartitionsOperator(task_id="t", **{**where, **fields})


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = catalog.table(TABLE)
    for name in ("2013-01-01", "2013-01-03", "release"):
        table.create_tag(name)
    return table


def test_what_was_there_before_is_left_out_and_late_tags_are_found(catalog: Catalog, table: Table):
    airflow = Airflow()
    assert airflow.run(operator(catalog)) == []

    table.create_tag("2013-01-04")
    assert airflow.run(operator(catalog)) == ["2013-01-04"]
    table.create_tag("2013-01-02")
    assert airflow.run(operator(catalog)) == ["2013-01-02"]
    assert airflow.run(operator(catalog)) == []


def test_since_a_day(catalog: Catalog, table: Table):
    airflow = Airflow()

    assert airflow.run(operator(catalog, since="2013-01-02")) == ["2013-01-03"]
    table.create_tag("2012-12-31")
    assert airflow.run(operator(catalog, since="2013-01-02")) == []


def test_a_pattern(catalog: Catalog, table: Table):
    assert Airflow().run(operator(catalog, tags="rel*", since="a")) == ["release"]


def test_a_run_that_died_is_made_up_for(catalog: Catalog, table: Table):
    airflow = Airflow()

    assert airflow.run(operator(catalog, since="2013-01-01"), dies=True) == ["2013-01-01", "2013-01-03"]
    assert airflow.run(operator(catalog, since="2013-01-01")) == ["2013-01-01", "2013-01-03"]
    assert airflow.run(operator(catalog, since="2013-01-01")) == []


def test_a_run_that_is_cleared_passes_on_nothing_twice(catalog: Catalog, table: Table):
    airflow = Airflow()
    airflow.run(operator(catalog, since="2013-01-01"))
    table.create_tag("2013-01-02")

    assert airflow.run(operator(catalog, since="2013-01-01")) == ["2013-01-02"]
    table.delete_tag("2013-01-02")
    table.create_tag("2013-01-02")
    assert airflow.run(operator(catalog, since="2013-01-01")) == []


def test_a_table_that_is_not_there_yet(catalog: Catalog):
    airflow = Airflow()
    waiting = operator(catalog, table="air.later")
    assert airflow.run(waiting) == []

    created = catalog.create_table("air.later", schema={"id": "BIGINT"})
    created.write(catalog.table(TABLE).to_arrow(["id"]))
    created.create_tag("2013-01-01")
    assert airflow.run(operator(catalog, table="air.later")) == ["2013-01-01"]


def test_two_at_a_time_are_not_allowed(catalog: Catalog):
    assert operator(catalog).max_active_tis_per_dag == 1
