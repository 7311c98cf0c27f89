"""Real Spark servers of the package: a standalone master with two workers, and a Spark Connect server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from paimon_engine.errors import SparkError
from paimon_engine.spark.connect_server import check_server
from tests.support.airflow import lives

HOME = Path(pyspark.__file__).parent
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
START_S = 180


@dataclass(frozen=True)
class Server:
    """Where it listens, and the process that leads its group."""

    port: int
    ui_port: int
    pid: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def executors(directory: Path) -> list[int]:
    """Processes of the executors that workers of `standalone(directory)` have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_one = b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes()
            if is_one and (path / "cwd").readlink().is_relative_to(directory) and lives(int(path.name)):
                found.append(int(path.name))
    return found


@contextlib.contextmanager
def standalone(directory: Path, workers: int = 2, memory: str = "1g") -> Iterator[Server]:
    """A master with workers of one core each."""
    port, ui = free_port(), free_port()
    java = [str(HOME / "bin" / "spark-class")]
    master = [*java, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with contextlib.ExitStack() as stack:
        pid = stack.enter_context(_process([*master, "--webui-port", str(ui)], directory / "master.log"))
        _wait_for_port(port, directory / "master.log")
        for number in range(workers):
            worker = [*java, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
            worker += ["--memory", memory, "--work-dir", str(directory / f"worker-{number}"), "--webui-port", "0"]
            stack.enter_context(_process([*worker, f"spark://127.0.0.1:{port}"], directory / f"worker-{number}.log"))
        for number in range(workers):
            _wait_for_text(directory / f"worker-{number}.log", "Successfully registered with master")
        yield Server(port, ui, pid)


@contextlib.contextmanager
def connect_server(
    directory: Path, settings: Mapping[str, str] | None = None, python: str = sys.executable
) -> Iterator[Server]:
    """A Spark Connect server with two cores, whose workers do not know our code; `python` runs them."""
    port, ui = free_port(), free_port()
    given = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.port": str(ui),
        **(settings or {}),
    }
    command = [str(HOME / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    with _process([*command, "spark-internal"], directory / "connect.log", python) as pid:
        _wait_for_port(port, directory / "connect.log")
        _wait_for_answer(port, directory / "connect.log")
        yield Server(port, ui, pid)


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path, python: str = sys.executable) -> Iterator[int]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": python, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = QUICK
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_port(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"Spark did not start:\n{log.read_text()[-3000:]}")


def _wait_for_answer(port: int, log: Path) -> None:
    """A busy machine may listen long before it answers."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            check_server(f"sc://127.0.0.1:{port}")
            return
        except SparkError as error:
            assert time.monotonic() < deadline, f"{error}\n{log.read_text()[-3000:]}"


def _wait_for_text(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_S
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
