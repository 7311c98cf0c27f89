"""The same job in each place that it can run: same result, same end when it is killed."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from paimon_engine import Catalog
from paimon_engine.errors import UnsupportedError
from paimon_engine.spark import check_spark
from tests.provider.conftest import SCHEMA, make_context, rows
from tests.support.spark_servers import Server, connect_server, executors, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SUBMIT_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
}
ON_SPARK = ("embedded", "submit", "connect")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    try:
        check_spark()
    except UnsupportedError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    with standalone(directory) as submit, connect_server(directory) as connect:
        yield {"submit": submit, "connect": connect}


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: dict[str, Server], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an operator is given for the place."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    connections = {
        "SUBMIT": {"conn_type": "spark", "host": "spark://127.0.0.1", "port": servers["submit"].port},
        "CONNECT": {"conn_type": "spark_connect", "host": "127.0.0.1", "port": servers["connect"].port},
    }
    for name, fields in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(fields))
    return {
        "in_process": {"launcher": "in_process"},
        "embedded": {"launcher": "subprocess"},
        "submit": {"spark_conn_id": "submit", "spark_conf": SUBMIT_CONF},
        "connect": {"spark_conn_id": "connect"},
    }[request.param]


def compaction(warehouse: str, place: dict[str, Any], **more: Any) -> PaimonCompactOperator:
    return PaimonCompactOperator(task_id="t", table="db.t", warehouse=warehouse, full=True, **place, **more)


@pytest.mark.parametrize("place", ["in_process", *ON_SPARK], indirect=True)
def test_the_same_job_gives_the_same_result(place: dict[str, Any], tmp_path: Path):
    warehouse = str(tmp_path / "lake")
    table = Catalog(warehouse).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    for number in range(3):
        table.write(rows(number, number + 1, number + 10))

    result = compaction(warehouse, place).execute(make_context())

    assert (result["status"], result["snapshot_id"]) == ("committed", 4)
    assert [result["details"][name] for name in ("rows_before", "rows_after", "failed")] == [9, 7, []]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 10, 11, 12]
    assert compaction(warehouse, place).execute(make_context())["status"] == "already_done"


class _OnceItWorks(logging.Handler):
    """Calls a function in a thread when the first tasks have begun."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.thread = threading.Thread(target=call)
        self._is_called = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("compact: 0 of") and not self._is_called:
            self._is_called = True
            self.thread.start()


@pytest.mark.parametrize("place", ON_SPARK, indirect=True)
def test_a_job_that_is_killed_leaves_the_table_and_no_process(place, servers, tmp_path: Path, caplog):
    caplog.set_level(logging.INFO)
    warehouse = str(tmp_path / "lake")
    table = Catalog(warehouse).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    ids = np.arange(4_000_000)
    for text in ("a", "b"):
        table.write(
            pa.table({"id": ids, "carrier": pa.array([text]).take(pa.array(np.zeros(len(ids), "int8")))}, SCHEMA)
        )
    before = executors()
    operator = compaction(warehouse, place)
    killing = _OnceItWorks(operator.on_kill)
    logger = logging.getLogger("airflow_provider_paimon.launchers.base")
    logger.addHandler(killing)
    try:
        with pytest.raises(AirflowException):
            operator.execute(make_context())
    finally:
        logger.removeHandler(killing)
    killing.thread.join(timeout=60)

    assert table.latest_snapshot_id() == 2
    assert drivers_of(tmp_path) == []
    deadline = time.monotonic() + 60
    while set(executors()) - set(before) or running_jobs(servers["connect"]):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def drivers_of(folder: Path) -> list[str]:
    """Processes of the engine whose job names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"paimon_job.py" in command or (b"paimon_engine" in command and str(folder).encode() in command):
            found.append(command.decode())
    return found


def running_jobs(server: Server) -> list[Any]:
    api = f"http://127.0.0.1:{server.ui_port}/api/v1/applications"
    (application,) = httpx.get(api, trust_env=False, timeout=60).json()
    jobs: list[Any] = httpx.get(
        f"{api}/{application['id']}/jobs", params={"status": "running"}, trust_env=False, timeout=60
    ).json()
    return jobs


@pytest.mark.parametrize("place", ["submit"], indirect=True)
def test_a_worker_without_packages_says_which_and_is_not_tried_again(place: dict[str, Any], tmp_path: Path):
    warehouse = str(tmp_path / "lake")
    table = Catalog(warehouse).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.write(rows(1))
    # Without `site`, no package is found.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    conf = {**place["spark_conf"], "spark.pyspark.python": str(python)}

    with pytest.raises(AirflowFailException) as failed:
        compaction(warehouse, {**place, "spark_conf": conf}).execute(make_context())

    message = str(failed.value)
    assert message.startswith("UnsupportedError: the worker on ")
    assert "pyarrow" in message
    assert "pip install" in message
    assert "paimon-engine pack" in message
