"""The examples beside the pipeline of the demo, in a real Airflow."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows, set_time
from tests.support.airflow import PROJECT, RealAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLES = (
    *("nightly_maintenance", "follow_tags", "recover", "month_close"),
    *("tag_per_partition", "orphans_with_approval", "fresh_users"),
)
SOON = {"timedelta(minutes=30)": "timedelta(seconds=5)", "poke_interval=30": "poke_interval=1"}
"""What would take too long for a test."""
HALF_A_YEAR_AGO = datetime.now(UTC) - timedelta(days=182)
ONCE_A_YEAR = f'"0 0 {min(HALF_A_YEAR_AGO.day, 28)} {HALF_A_YEAR_AGO.month} *"'
SELDOM = {'schedule="@weekly"': f"schedule={ONCE_A_YEAR}", 'schedule="0 3 * * *"': f"schedule={ONCE_A_YEAR}"}
"""Airflow makes the last run that was due: no other one may become due while the test runs, at whatever hour that is."""
SALES = {"2013-01-01": (1, 2), "2013-01-02": (3,), "2013-01-03": (4, 5, 6)}
"""Ids by day."""
DAYS = [f"2013-02-{day:02}" for day in range(1, calendar.monthrange(2013, 2)[1] + 1)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def orders(home: Path) -> Table:
    """A table of three snapshots, the last of which was there when February ended; and another one."""
    catalog = Catalog(str(home / "demo" / "lake"))
    users = catalog.create_table("shop.users", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    users.write(rows(1))
    set_time(users, 1, datetime(2013, 1, 30, tzinfo=UTC))
    table = catalog.create_table("shop.orders", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for number in (1, 2, 3):
        table.write(rows(number))
        set_time(table, number, datetime(2013, 1, 30, number, tzinfo=UTC))
    return table


@pytest.fixture(scope="module")
def airflow(home: Path, orders: Table) -> Iterator[RealAirflow]:
    files = {f"{name}.py": example(name) for name in EXAMPLES}
    environment = {"PAIMON_DEMO_HOME": str(home / "demo"), "PAIMON_DEMO_DAYS": str(len(SALES))}
    for day, ids in SALES.items():
        put(home, day, *ids)
    with RealAirflow(home / "airflow", files, environment=environment) as running:
        running.wait_for_dags(*EXAMPLES, "tag_orders", "read_partitions")
        yield running


def example(name: str) -> str:
    """The DAG file of an example."""
    text = (PROJECT / "dags_examples" / f"{name}.py").read_text()
    for written, tried in (SOON | SELDOM).items():
        text = text.replace(written, tried)
    return text


def test_what_is_tried_otherwise_is_in_the_examples():
    texts = [(PROJECT / "dags_examples" / f"{name}.py").read_text() for name in EXAMPLES]

    assert [written for written in SOON | SELDOM if not any(written in text for text in texts)] == []


def put(home: Path, day: str, *ids: int) -> None:
    """Puts a day's sales into the staging folder."""
    folder = home / "demo" / "staging" / "sales" / day
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"day": [day] * len(ids), "id": list(ids)}), folder / "rows.parquet")


def test_days_are_followed_and_the_month_is_closed(airflow: RealAirflow, orders: Table, home: Path):
    """All days but the last were tagged before; the last one is tagged by a run."""
    # Days that were never tagged must not be followed, only be counted for the month.
    airflow.patch("dags/follow_tags", {"is_paused": True})
    (asset,) = [item for item in airflow.get("assets", limit=100)["assets"] if item["uri"].endswith("/orders$tags")]
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
    airflow.wait_for_question("recover", run_id, "agree")

    assert orders.to_arrow()["id"].to_pylist() == [1, 2, 3, 666]

    path = f"dags/recover/dagRuns/{run_id}/taskInstances/agree/-1/hitlDetails"
    asked = airflow.get(path)
    assert asked["subject"] == "Roll shop.orders back to good?"
    airflow.patch(path, {"chosen_options": ["Approve"], "params_input": {}})
    airflow.wait_for_run("recover", run_id)

    assert orders.to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert orders.latest_snapshot_id() == newest
    assert len(orders.quarantines()) == 1


def test_each_partition_is_loaded_and_tagged_and_read(airflow: RealAirflow, home: Path):
    """Three days of catch-up, in whatever order; then one of them is corrected and cleared."""
    airflow.wait_until(lambda: len(airflow.runs("tag_per_partition")) == len(SALES), "runs of all days")
    runs = {run["partition_key"]: run["dag_run_id"] for run in airflow.runs("tag_per_partition")}
    assert sorted(runs) == sorted(SALES)
    for run in runs.values():
        airflow.wait_for_run("tag_per_partition", run)
    table = Catalog(str(home / "demo" / "lake")).table("shop.sales")
    for day, ids in SALES.items():
        assert ids_of(table, day, tag=day) == sorted(ids)
        assert (Path(table.path) / f"day={day}" / "_SUCCESS").exists()
    airflow.wait_until(lambda: counted(airflow) == {day: {len(ids)} for day, ids in SALES.items()}, "reports")
    first, *others = SALES

    put(home, first, 2, 7, 8)
    airflow.clear("tag_per_partition", runs[first])
    airflow.wait_for_run("tag_per_partition", runs[first])

    assert ids_of(table, first, tag=first) == [2, 7, 8]
    for day in others:
        assert ids_of(table, day, tag=day) == ids_of(table, day) == sorted(SALES[day])
    airflow.wait_until(lambda: counted(airflow)[first] == {2, 3}, "a report of the corrected day")


def ids_of(table: Table, day: str, **how: str) -> list[int]:
    rows = table.to_arrow(**how).to_pylist()
    return sorted(row["id"] for row in rows if row["day"] == day)


def counted(airflow: RealAirflow) -> dict[str, set[int]]:
    """Rows by day, as the runs that have ended reported them."""
    found: dict[str, set[int]] = {}
    for run in airflow.runs("read_partitions"):
        if run["state"] == "success":
            reported = airflow.xcom("read_partitions", run["dag_run_id"], "report")
            assert reported["day"] == run["partition_key"]
            found.setdefault(reported["day"], set()).add(reported["rows"])
    return found


def test_orphans_are_deleted_once_a_person_agrees(airflow: RealAirflow, orders: Table):
    """The run of last week found nothing to ask about."""
    (first,) = airflow.wait_until(lambda: airflow.runs("orphans_with_approval"), "the run of last week")
    airflow.wait_for_run("orphans_with_approval", first["dag_run_id"])
    states = {name: task["state"] for name, task in airflow.tasks("orphans_with_approval", first["dag_run_id"]).items()}
    assert {name: states[name] for name in ("agree", "remove", "empty")} == {
        "agree": "skipped",
        "remove": "skipped",
        "empty": "success",
    }
    # Files that are newer than all commits may be those of a commit that is not visible yet.
    orders.write(rows(5))
    orphan = Path(orders.path) / "bucket-0" / "data-lost-0.parquet"
    orphan.write_bytes(b"lost")
    before = time.time() - 9 * 86_400
    os.utime(orphan, (before, before))

    run_id = airflow.run("orphans_with_approval")
    airflow.wait_for_question("orphans_with_approval", run_id, "agree")
    assert orphan.exists()
    path = f"dags/orphans_with_approval/dagRuns/{run_id}/taskInstances/agree/-1/hitlDetails"
    asked = airflow.get(path)
    assert asked["subject"] == "Delete 1 files of shop.orders?"
    assert orphan.name in asked["body"]
    airflow.patch(path, {"chosen_options": ["Approve"], "params_input": {}})
    airflow.wait_for_run("orphans_with_approval", run_id)

    assert not orphan.exists()
    name = airflow.xcom("orphans_with_approval", run_id, "remove")["details"]["quarantine"]
    assert (Path(orders.path) / "quarantine" / name / "bucket-0" / orphan.name).read_bytes() == b"lost"


def test_a_table_that_is_not_fresh_in_time_is_told(airflow: RealAirflow, home: Path):
    run, *_ = airflow.wait_until(lambda: airflow.runs("fresh_users"), "the run of the last hour")
    alert = f"shop.users is late: DAG fresh_users, run {run['dag_run_id']}"
    airflow.wait_until(lambda: alert in airflow.output("triggerer"), "the alert")
    airflow.wait_for_task("fresh_users", run["dag_run_id"], "fresh", "deferred")

    users = Catalog(str(home / "demo" / "lake")).table("shop.users")
    written = users.write(rows(4)).snapshot_id

    airflow.wait_for_run("fresh_users", run["dag_run_id"])
    assert airflow.xcom("fresh_users", run["dag_run_id"], "fresh")["snapshot_id"] == written
