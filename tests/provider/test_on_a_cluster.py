"""The example that works on a Spark cluster, in a real Airflow, on a real master with two workers; and what is killed.

A compaction has four tasks for two executors. As soon as it has made its first file, a test stops the executors, so that
it is in the middle of its work for as long as the test needs, however fast the machine is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import UnsupportedError
from paimon_engine.spark import check_spark
from tests.provider.conftest import SCHEMA
from tests.support.airflow import PROJECT, RealAirflow, lives
from tests.support.spark_servers import executors, standalone

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]

EXAMPLE = PROJECT / "dags_examples" / "on_a_cluster.py"
FUTURE = "from __future__ import annotations\n"
DIES_ONCE = """
import os
import signal

from airflow_provider_paimon.operators.compact import PaimonCompactOperator as Operator


def defer(self, **how):
    marker = f"{os.environ['PAIMON_DEMO_HOME']}/dies"
    if os.path.exists(marker):
        os.remove(marker)
        os.kill(os.getpid(), signal.SIGKILL)
    waits(self, **how)


waits, Operator.defer = Operator.defer, defer
"""
FIRST = date(2013, 1, 1)
ROWS = 1_500_000
COMPACT = "compact_visits"


class Nights:
    """Runs of the example, one for each day, each of which loads the same keys again."""

    def __init__(self, airflow: RealAirflow, home: Path, spark: Path) -> None:
        self.airflow, self._home, self._spark = airflow, home, spark
        options = {"bucket": 4, "file.compression.zstd-level": "9", "write-only": True}
        self.table = Catalog(str(home / "lake")).create_table(
            "shop.visits", schema=SCHEMA, primary_keys=["id"], options=options
        )
        self.days: list[date] = []
        self._loaded: set[Path] = set()

    def begin(self, *, dies: bool = False) -> str:
        """The run of the next day, once it has loaded its rows."""
        day = FIRST + timedelta(days=len(self.days))
        self.days.append(day)
        folder = self._home / "staging" / "visits" / str(day)
        folder.mkdir(parents=True)
        texts = pa.array(np.random.default_rng(day.toordinal()).integers(0, 1 << 60, ROWS)).cast(pa.string())
        # One key more each day tells the days apart.
        ids = np.append(np.arange(ROWS - 1), ROWS + len(self.days))
        pq.write_table(pa.table({"id": ids, "carrier": texts}, SCHEMA), folder / "rows.parquet")
        if dies:
            (self._home / "dies").touch()
        run = self.airflow.run("on_a_cluster", partition_key=str(day))
        self.airflow.wait_for_task("on_a_cluster", run, "write_visits", "success", timeout=400)
        # The compaction needs a session first.
        self._loaded = self.files()
        return run

    @contextlib.contextmanager
    def stopped_at_work(self, run: str) -> Iterator[int]:
        """The driver of the compaction, in the middle of its work; its task is deferred. Afterwards it goes on."""
        deadline = time.monotonic() + 400
        while not self.files() - self._loaded:
            assert time.monotonic() < deadline, "the compaction has made no file"
            time.sleep(0.02)
        stopped = self.executors()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert stopped
            self.airflow.wait_for_task("on_a_cluster", run, COMPACT, "deferred")
            (driver,) = self.drivers()
            yield driver
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def drivers(self) -> list[int]:
        """Python processes of drivers, by what the beats of their records say."""
        beats = (self._home / "lake" / "_paimon_jobs").rglob("beat.json")
        found = set()
        for beat in beats:
            with contextlib.suppress(OSError, ValueError):
                found.add(json.loads(beat.read_text())["pid"])
        return [pid for pid in found if lives(pid)]

    def executors(self) -> list[int]:
        return executors(self._spark)

    def files(self) -> set[Path]:
        return set(Path(self.table.path).rglob("data-*"))

    def check(self, run: str, day: date) -> None:
        """The day's tag holds what its run has loaded; nothing of the job is left."""
        self.airflow.wait_for_run("on_a_cluster", run, timeout=600)
        ids = self.table.to_arrow(["id"], tag=str(day))["id"].to_pylist()
        count = self.days.index(day) + 1
        assert sorted(ids)[-count:] == [ROWS + number for number in range(1, count + 1)]
        assert len(ids) == ROWS - 1 + count
        self.airflow.wait_until(lambda: not self.executors() and not self.drivers(), "the end of all processes")
        assert self.table.verify(depth="files").problems == ()
        result = self.airflow.xcom("on_a_cluster", run, COMPACT)
        assert result["status"] in ("committed", "already_done")
        assert self.table.files().num_rows == 4


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    try:
        check_spark()
    except UnsupportedError as error:
        pytest.skip(str(error))
    if " " in sys.prefix:
        pytest.skip("Spark's script find-spark-home cannot be run from a path that holds a space")
    home, spark = tmp_path_factory.mktemp("nights"), tmp_path_factory.mktemp("spark")
    dags = {EXAMPLE.name: EXAMPLE.read_text().replace(FUTURE, FUTURE + DIES_ONCE, 1)}
    with standalone(spark, memory="1g") as master:
        connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": master.port}
        environment = {
            "PAIMON_DEMO_HOME": str(home),
            "AIRFLOW_CONN_CLUSTER": json.dumps(connection),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AIRFLOW__CORE__PARALLELISM": "2",
        }
        with RealAirflow(home / "airflow", dags, environment=environment) as airflow:
            airflow.wait_for_dags("on_a_cluster")
            yield Nights(airflow, home, spark)


def test_a_day_is_loaded_compacted_and_tagged(nights: Nights):
    run = nights.begin()

    nights.check(run, nights.days[-1])

    task = nights.airflow.tasks("on_a_cluster", run)[COMPACT]
    assert task["try_number"] == 1


def test_the_job_goes_on_while_triggerer_and_scheduler_are_killed(nights: Nights):
    run = nights.begin()

    with nights.stopped_at_work(run) as driver:
        nights.airflow.restart("triggerer")
        nights.airflow.restart("scheduler")
        assert lives(driver)

    nights.check(run, nights.days[-1])
    assert nights.airflow.tasks("on_a_cluster", run)[COMPACT]["try_number"] == 1


def test_a_job_whose_driver_was_killed_is_started_again(nights: Nights):
    run = nights.begin()

    with nights.stopped_at_work(run) as driver:
        os.kill(driver, signal.SIGKILL)

    nights.check(run, nights.days[-1])
    assert nights.airflow.tasks("on_a_cluster", run)[COMPACT]["try_number"] == 2


def test_a_job_whose_worker_was_killed_is_found_again(nights: Nights):
    run = nights.begin(dies=True)

    nights.check(run, nights.days[-1])

    assert nights.airflow.tasks("on_a_cluster", run)[COMPACT]["try_number"] == 2
    assert "Found the job of an earlier attempt" in nights.airflow.log("on_a_cluster", run, COMPACT, try_number=2)


def test_a_task_that_is_marked_failed_ends_its_job(nights: Nights):
    run = nights.begin()
    before = nights.table.snapshots().num_rows

    with nights.stopped_at_work(run):
        nights.airflow.patch(f"dags/on_a_cluster/dagRuns/{run}/taskInstances/{COMPACT}", {"new_state": "failed"})

    nights.airflow.wait_until(lambda: not nights.executors() and not nights.drivers(), "the end of all processes")
    assert nights.table.snapshots().num_rows == before
    assert nights.table.verify(depth="files").problems == ()
