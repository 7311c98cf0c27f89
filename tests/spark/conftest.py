"""One embedded session for all Spark tests of a run, and one real Spark Connect server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from paimon_engine.errors import UnsupportedError
from paimon_engine.spark import check_spark, connect_session, local_session

SERVER_START_S = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def java() -> None:
    try:
        check_spark()
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    with local_session(cores=2, quick_start=True) as session:
        yield session


@pytest.fixture(autouse=True)
def classic_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Connect session makes PySpark's own functions remote for the whole process; not for tests of the other kind."""
    if "spark" in request.fixturenames:
        monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)


@pytest.fixture(params=["spark", "connect"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session of either kind."""
    session = request.getfixturevalue(request.param)
    # pyspark reads this variable, not the session; here one process has both kinds.
    if request.param == "connect":
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    else:
        monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    return session


@pytest.fixture(scope="session")
def connect_url(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server in a separate process, whose workers do not know our code."""
    home = Path(pyspark.__file__).parent
    directory = tmp_path_factory.mktemp("connect")
    port = _free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = directory / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=directory,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            _wait_for(port, server, log)
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=30)


@pytest.fixture(scope="session")
def connect(connect_url: str) -> Iterator[SparkSession]:
    session = connect_session(connect_url)
    yield session
    session.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SERVER_START_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"Spark Connect did not start:\n{log.read_text()[-3000:]}")
