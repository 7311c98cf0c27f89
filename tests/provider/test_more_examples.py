"""The examples beside the pipeline of the demo, in a real Airflow."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows, set_time
from tests.support.airflow import PROJECT, RealAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLES = ("nightly_maintenance", "follow_tags", "recover", "month_close")
DAYS = [f"2013-02-{day:02}" for day in range(1, calendar.monthrange(2013, 2)[1] + 1)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def orders(home: Path) -> Table:
    """A table of three snapshots, the last of which was there when February ended; and another one."""
    catalog = Catalog(str(home / "demo" / "lake"))
    catalog.create_table("shop.users", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"}).write(rows(1))
    table = catalog.create_table("shop.orders", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for number in (1, 2, 3):
        table.write(rows(number))
        set_time(table, number, datetime(2013, 1, 30, number, tzinfo=UTC))
    return table


@pytest.fixture(scope="module")
def airflow(home: Path, orders: Table) -> Iterator[RealAirflow]:
    files = {f"{name}.py": (PROJECT / "dags_examples" / f"{name}.py").read_text() for name in EXAMPLES}
    environment = {"PAIMON_DEMO_HOME": str(home / "demo")}
    with RealAirflow(home / "airflow", files, environment=environment) as running:
        running.wait_for_dags("nightly_maintenance", "tag_orders", "follow_tags", "recover", "month_close")
        yield running


def test_days_are_followed_and_the_month_is_closed(airflow: RealAirflow, orders: Table, home: Path):
    """All days but the last were tagged before; the last one is tagged by a run."""
    # Days that were never tagged must not be followed, only be counted for the month.
    airflow.patch("dags/follow_tags", {"is_paused": True})
    (asset,) = [item for item in airflow.get("assets", limit=100)["assets"] if item["uri"].endswith("$tags")]
    for day in DAYS[:-1]:
        airflow.post("assets/events", {"asset_id": asset["id"], "partition_key": day, "extra": {}})
    airflow.patch("dags/follow_tags", {"is_paused": False})
    early = [run["partition_key"] for run in airflow.runs("month_close")]

    run_id = airflow.run("tag_orders", partition_key=DAYS[-1])
    airflow.wait_for_run("tag_orders", run_id)
    followed = airflow.wait_until(
        lambda: [run for run in airflow.runs("follow_tags") if run["partition_key"] == DAYS[-1]], "the day is followed"
    )
    airflow.wait_for_run("follow_tags", followed[0]["dag_run_id"])
    (closed,) = airflow.wait_until(lambda: airflow.runs("month_close"), "the month is closed")
    airflow.wait_for_run("month_close", closed["dag_run_id"])

    assert early == []
    assert airflow.xcom("follow_tags", followed[0]["dag_run_id"], "count") == {"day": DAYS[-1], "rows": 3}
    found = airflow.xcom("month_close", closed["dag_run_id"], "close")
    assert (found["tag"], found["rows"]) == (DAYS[-1], 3)


def test_the_night_keeps_all_tables_in_shape(airflow: RealAirflow, orders: Table):
    (run,) = airflow.wait_until(lambda: airflow.runs("nightly_maintenance"), "the run of last night")
    run_id = run["dag_run_id"]
    airflow.wait_for_run("nightly_maintenance", run_id)

    tasks = airflow.tasks("nightly_maintenance", run_id)
    assert sorted(tasks) == [f"{name}.{number}" for name in ("compact", "expire", "orphans") for number in (0, 1)]
    assert {item["rendered_map_index"] for item in tasks.values()} == {"shop.orders", "shop.users"}


def test_a_rollback_waits_for_a_person(airflow: RealAirflow, orders: Table):
    newest = orders.latest_snapshot_id()
    orders.create_tag("good", snapshot=newest)
    orders.write(rows(666))
    run_id = airflow.run("recover", conf={"table": "shop.orders", "tag": "good"})
    airflow.wait_for_task("recover", run_id, "agree", "awaiting_input", "deferred")

    assert orders.to_arrow()["id"].to_pylist() == [1, 2, 3, 666]

    path = f"dags/recover/dagRuns/{run_id}/taskInstances/agree/-1/hitlDetails"
    asked = airflow.get(path)
    assert asked["subject"] == "Roll shop.orders back to good?"
    airflow.patch(path, {"chosen_options": ["Approve"], "params_input": {}})
    airflow.wait_for_run("recover", run_id)

    assert orders.to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert orders.latest_snapshot_id() == newest
    assert len(orders.quarantines()) == 1
