"""Where jobs run in a real Airflow: 50 small tables without a JVM; what is ended in the middle of its work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows
from tests.support.airflow import RealAirflow, lives, processes_of

TABLES = 50
RUNS = 3
MANY = 3_000_000
DAG_FILE = """
import os
from datetime import timedelta

from airflow.sdk import DAG
from airflow_provider_paimon.operators.compact import PaimonCompactOperator

LAKE = os.environ["PAIMON_TEST_LAKE"]

with DAG("many", schedule=None):
    PaimonCompactOperator.partial(task_id="compact", warehouse=LAKE, full=True).expand(
        table=[f"db.t{number}" for number in range(50)]
    )

with DAG("large", schedule=None):
    # Airflow tells a task at its next heartbeat that it was marked; the compaction must take longer than that.
    slow = {"file.compression.zstd-level": "19"}
    PaimonCompactOperator(task_id="compact", warehouse=LAKE, full=True, table="db.large", table_options=slow)

with DAG("on_spark", schedule=None):
    PaimonCompactOperator(
        task_id="compact",
        warehouse=LAKE,
        full=True,
        table="db.large",
        table_options=slow,
        launcher="subprocess",
        retries=1,
        retry_delay=timedelta(seconds=0),
    )
"""
JAVA = """#!/bin/sh
echo "$@" >> {log}
exec {java} "$@"
"""

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(900)]


class Lake:
    """Small tables and a large one, and a `java` that notes each start."""

    def __init__(self, home: Path) -> None:
        self.warehouse, self._log, folder = str(home / "lake"), home / "java.log", home / "bin"
        self.catalog = Catalog(self.warehouse)
        for number in range(TABLES):
            table = self.catalog.create_table(
                f"db.t{number}", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1}
            )
            for run in range(RUNS):
                table.write(rows(run, run + 1))
        folder.mkdir()
        real = shutil.which("java")
        assert real, "the test looks for starts of a Java that is there"
        (folder / "java").write_text(JAVA.format(log=shlex.quote(str(self._log)), java=shlex.quote(real)))
        (folder / "java").chmod(0o755)
        self.path = os.pathsep.join([str(folder), os.environ["PATH"]])

    def java_starts(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("placed"))


@pytest.fixture(scope="module")
def airflow(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAirflow]:
    environment = {"PAIMON_TEST_LAKE": lake.warehouse, "PATH": lake.path, "JAVA_HOME": ""}
    home = tmp_path_factory.mktemp("airflow")
    with RealAirflow(home, {"dags.py": DAG_FILE}, environment=environment) as running:
        yield running


def test_fifty_small_tables_start_no_jvm(lake: Lake, airflow: RealAirflow):
    run = airflow.run("many")
    airflow.wait_for_run("many", run, timeout=600)

    found = airflow.tasks("many", run)
    assert len(found) == TABLES
    assert {item["state"] for item in found.values()} == {"success"}
    assert airflow.xcom("many", run, "compact", map_index=7)["status"] == "committed"
    assert all(len(lake.catalog.table(f"db.t{number}").files()) == 1 for number in range(TABLES))
    assert "below 256.0 MiB: in this process" in airflow.log("many", run, "compact", map_index=7)
    assert lake.java_starts() == []
    # A start would have been noted.
    subprocess.run(["java", "-version"], env={"PATH": lake.path}, check=True, capture_output=True)
    assert lake.java_starts() == ["-version"]


@pytest.fixture(scope="module")
def large(lake: Lake) -> Table:
    """A table whose compaction takes a while."""
    table = lake.catalog.create_table(
        "db.large", schema=SCHEMA, primary_keys=["id"], options={"bucket": 8, "write-only": True}
    )
    for seed in range(RUNS):
        texts = pa.array(np.random.default_rng(seed).integers(0, 1 << 40, MANY)).cast(pa.string())
        table.write(pa.table({"id": np.arange(MANY), "carrier": texts}, SCHEMA))
    return table


def data_of(table: Table) -> set[Path]:
    return set(Path(table.path).rglob("*.parquet"))


def test_a_task_that_is_marked_failed_ends_and_leaves_nothing(large: Table, airflow: RealAirflow):
    before = data_of(large)
    run = airflow.run("large")
    airflow.wait_until(lambda: data_of(large) - before, "a file that the task writes")
    pid = airflow.tasks("large", run)["compact"]["pid"]
    assert pid is not None and lives(pid)

    airflow.patch(f"dags/large/dagRuns/{run}/taskInstances/compact", {"new_state": "failed"})

    airflow.wait_until(lambda: not lives(pid), "the task's process has ended", timeout=60)
    assert data_of(large) == before
    assert large.snapshots().num_rows == RUNS
    assert "Stopping the job" in airflow.log("large", run, "compact")


def test_an_engine_that_was_killed_is_started_again(large: Table, airflow: RealAirflow):
    """The process of an embedded Spark, with its JVM; the task that waits for it has a retry."""
    before = data_of(large)
    run = airflow.run("on_spark")
    airflow.wait_until(lambda: data_of(large) - before, "a file that the job writes")
    (engine,) = re.findall(r"in process (\d+) with Spark", airflow.log("on_spark", run, "compact"))
    processes = processes_of(int(engine))
    assert int(engine) in processes
    assert len(processes) > 1

    os.kill(int(engine), signal.SIGKILL)

    airflow.wait_for_run("on_spark", run)
    assert airflow.tasks("on_spark", run)["compact"]["try_number"] == 2
    assert "was ended by SIGKILL" in airflow.log("on_spark", run, "compact", try_number=1)
    assert not any(lives(pid) for pid in processes)
    assert airflow.xcom("on_spark", run, "compact")["status"] == "committed"
    assert large.snapshots().num_rows == RUNS + 1
    assert large.files()["level"].to_pylist() == [5] * 8
    assert np.array_equal(np.sort(large.to_arrow(["id"])["id"].to_numpy()), np.arange(MANY))
    assert large.verify(depth="files").problems == ()
