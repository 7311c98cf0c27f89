"""The same job in each place that it can run: the same result, the same end when its task is ended, bounded memory."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from paimon_engine import Catalog, Table
from paimon_engine.errors import UnsupportedError
from paimon_engine.spark import check_spark
from tests.provider.conftest import SCHEMA, make_context, rows
from tests.support.airflow import PROJECT, lives
from tests.support.spark_servers import Server, connect_server, executors, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SUBMIT_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
}
ON_SPARK = ("embedded", "submit", "connect")
EVERYWHERE = ("in_process", *ON_SPARK)
GONE_S = 40
"""How long what a task has started may take to end on a busy machine; a driver has 20 s for its files."""


@dataclass(frozen=True)
class Servers:
    directory: Path
    submit: Server
    connect: Server

    def connections(self) -> dict[str, str]:
        """Airflow's connections to them, as environment variables."""
        fields = {
            "SUBMIT": {"conn_type": "spark", "host": "spark://127.0.0.1", "port": self.submit.port},
            "CONNECT": {"conn_type": "spark_connect", "host": "127.0.0.1", "port": self.connect.port},
        }
        return {f"AIRFLOW_CONN_{name}": json.dumps(given) for name, given in fields.items()}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    try:
        check_spark()
    except UnsupportedError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    with standalone(directory) as submit, connect_server(directory) as connect:
        yield Servers(directory, submit, connect)


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an operator is given for the place."""
    if request.param == "submit" and " " in sys.prefix:
        pytest.skip("Spark's script find-spark-home cannot be run from a path that holds a space")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in servers.connections().items():
        monkeypatch.setenv(name, value)
    return {
        "in_process": {"launcher": "in_process"},
        "embedded": {"launcher": "subprocess"},
        "submit": {"spark_conn_id": "submit", "spark_conf": SUBMIT_CONF},
        "connect": {"spark_conn_id": "connect"},
    }[request.param]


def compaction(warehouse: str, place: dict[str, Any], **more: Any) -> PaimonCompactOperator:
    return PaimonCompactOperator(task_id="t", table="db.t", warehouse=warehouse, full=True, **place, **more)


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
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


# ── a worker that lacks packages ────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.parametrize("place", ["submit"], indirect=True)
def test_workers_without_packages_are_named_with_the_way_out(place: dict[str, Any], tmp_path: Path):
    venv.create(tmp_path / "bare", with_pip=False)
    conf = {**SUBMIT_CONF, "spark.pyspark.python": str(tmp_path / "bare" / "bin" / "python")}

    check_that_packages_lack(tmp_path, {**place, "spark_conf": conf})


@pytest.mark.long
def test_workers_of_a_server_without_packages_are_named_with_the_way_out(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    with connect_server(tmp_path, python=python) as server:
        connection = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": server.port}
        monkeypatch.setenv("AIRFLOW_CONN_BARE", json.dumps(connection))

        check_that_packages_lack(tmp_path, {"spark_conn_id": "bare"})


@pytest.mark.long
@pytest.mark.parametrize("place", ["submit"], indirect=True)
def test_workers_with_another_python_are_named_with_the_way_out(place: dict[str, Any], tmp_path: Path):
    other = another_python()
    if other is None:
        pytest.skip("no other Python 3.11 to 3.14 on the path or among those of pyenv")
    subprocess.run([other, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    conf = {**SUBMIT_CONF, "spark.pyspark.python": str(tmp_path / "other" / "bin" / "python")}
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    table.write(rows(1))

    with pytest.raises(AirflowFailException) as failed:
        compaction(str(tmp_path / "lake"), {**place, "spark_conf": conf}).execute(make_context())

    ours = ".".join(map(str, sys.version_info[:2]))
    assert f"has another Python than this process ({ours})" in str(failed.value)
    assert f"Set spark.pyspark.python to a Python {ours} there" in str(failed.value)
    assert table.snapshots().num_rows == 1


def another_python() -> str | None:
    """A Python of another minor version than this one's that Spark takes."""
    names = [f"python3.{minor}" for minor in range(11, 15) if minor != sys.version_info.minor]
    installed = Path.home() / ".pyenv" / "versions"
    found = [shutil.which(name) for name in names]
    found += [str(path) for name in names for path in sorted(installed.glob(f"*/bin/{name}"))]
    return next((one for one in found if one is not None and _starts(one)), None)


def _starts(program: str) -> bool:
    """Whether it is a Python that starts: those that pyenv puts on the path do not, unless they are chosen."""
    return subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0


def check_that_packages_lack(home: Path, place: dict[str, Any]) -> None:
    """The error says who lacks what and what to do, and lets no retry begin; nothing was changed."""
    warehouse = str(home / "lake")
    table = Catalog(warehouse).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.write(rows(1))
    table.write(rows(2))

    with pytest.raises(AirflowFailException) as failed:
        compaction(warehouse, place).execute(make_context())

    message = str(failed.value)
    assert "lacks packages" in message
    assert str(home / "bare") in message
    assert all(f"No module named '{name}'" in message for name in ("pyarrow", "numpy", "fastavro"))
    assert 'pip install "cramjam>=' in message
    assert "`paimon-engine pack environment.tar.gz`" in message
    assert table.snapshots().num_rows == 2


# ── a task that is ended in the middle of its work ──────────────────────────────────────────────

ROWS = 2_000_000
RUNS = 3
SLOW = {"file.compression.zstd-level": "9"}
TASK = """
import json, signal, sys
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from tests.provider.conftest import make_context

action, arguments = sys.argv[1:]
operator = {"compact": PaimonCompactOperator, "write": PaimonWriteOperator}[action](**json.loads(arguments))
# As Airflow's task runner does it.
signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
print(operator.execute(make_context()))
"""


class Task:
    """A task in a process of its own, and all processes that come from it: they have its folder of temporary files."""

    def __init__(self, folder: Path, action: str, **arguments: Any) -> None:
        self._mark = f"TMPDIR={folder}".encode()
        folder.mkdir(exist_ok=True)
        self._log = folder / "task.log"
        command = [sys.executable, "-c", TASK, action, json.dumps({"task_id": "t", **arguments})]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=PROJECT, env={**os.environ, "TMPDIR": str(folder)}, stdout=log, stderr=log
            )

    def message(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def pids(self) -> list[int]:
        """What runs of it, the driver of a cluster and a JVM among it."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark in (path / "environ").read_bytes().split(b"\0") and lives(int(path.name)):
                    found.append(int(path.name))
        return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse, of which tests take copies, with a table whose compaction takes a while."""
    home = tmp_path_factory.mktemp("made")
    table = Catalog(str(home)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 8, "write-only": True}
    )
    for seed in range(RUNS):
        texts = pa.array(np.random.default_rng(seed).integers(0, 1 << 60, ROWS)).cast(pa.string())
        table.write(pa.table({"id": np.arange(ROWS), "carrier": texts}, SCHEMA))
    return home


def wait_until(look: Callable[[], Any], what: Callable[[], Any], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_a_task_that_is_ended_leaves_a_whole_table_and_no_process(
    place: dict[str, Any], number: int, lake: Path, servers: Servers, tmp_path: Path
):
    warehouse = str(tmp_path / "lake")
    subprocess.run(["cp", "-r", str(lake), warehouse], check=True)
    table = Catalog(warehouse).table("db.t")
    before = files_of(table)
    arguments = {"table": "db.t", "warehouse": warehouse, "full": True, **place}

    task = Task(tmp_path / "tmp", "compact", table_options=SLOW, **arguments)
    wait_until(lambda: files_of(table) - before or task.process.poll() is not None, task.message)
    assert task.process.poll() is None, task.message()
    task.process.send_signal(number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        task.process.wait(timeout=GONE_S)

    wait_until(lambda: not task.pids(), lambda: (task.pids(), task.message()), GONE_S)
    wait_until(lambda: not executors(servers.directory), lambda: "executors are left", GONE_S)
    wait_until(lambda: not running_jobs(servers.connect), lambda: running_jobs(servers.connect), GONE_S)
    check_whole(table)
    left = files_of(table) - before
    if number == signal.SIGTERM:
        assert task.process.returncode == 1, task.message()
        assert "job was stopped" in task.message() or "it was stopped on request" in task.message()
        # Spark ends its tasks at once; what they were in the middle of is for the orphan clean-up.
        assert not left or place.get("launcher") != "in_process"
    time.sleep(1)
    assert files_of(table) - before == left

    result = compaction(warehouse, place).execute(make_context())

    assert result["status"] in ("committed", "already_done")
    assert table.files().num_rows == 8
    check_whole(table)


def files_of(table: Table) -> set[Path]:
    return set(Path(table.path).rglob("*.parquet"))


def check_whole(table: Table) -> None:
    """The rows that were there before, by whichever snapshot."""
    assert table.snapshots().num_rows in (RUNS, RUNS + 1)
    assert table.verify(depth="files").problems == ()
    assert table.to_arrow(["id"]).num_rows == ROWS


def running_jobs(server: Server) -> list[Any]:
    """Jobs that a Spark Connect server works on."""
    address = f"http://127.0.0.1:{server.ui_port}/api/v1/applications"
    (application,) = httpx.get(address, trust_env=False, timeout=30).raise_for_status().json()
    found = httpx.get(f"{address}/{application['id']}/jobs?status=running", trust_env=False, timeout=30)
    jobs: list[Any] = found.raise_for_status().json()
    return jobs


# ── much ────────────────────────────────────────────────────────────────────────────────────────

MANY = 20_000_000
PART = 2_000_000
MANY_FILES = 5
TASK_MB, WORKER_MB = 1400, 900
"""What a task's own process may take, with two parts of the job in it at a time, and what other Python processes may.

Of a part that is what Python has when it starts, a write buffer twice, and row groups. Measured: 1,081 in the task's
process, and 1,224 with 40 million rows; 680 to 756 in one of Spark's workers.
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files with 20 million narrow rows, in no order of their keys."""
    home = tmp_path_factory.mktemp("many")
    order = np.random.default_rng(0)
    parts = MANY // PART // MANY_FILES
    for file in range(MANY_FILES):
        with pq.ParquetWriter(home / f"{file}.parquet", SCHEMA) as writer:
            for part in range(parts):
                # Each part has every tenth key of all.
                ids = order.permutation(PART) * (parts * MANY_FILES) + file * parts + part
                carriers = pa.array(["AA", "BB", "CC", "DD"]).take(pa.array(ids % 4))
                writer.write_table(pa.table({"id": ids, "carrier": carriers}, SCHEMA), row_group_size=500_000)
    return str(home / "*.parquet")


class Meter:
    """The highest resident memory of Python processes: of a task, and of Spark servers."""

    def __init__(self, task: Task, servers: Path) -> None:
        self._task, self._servers, self._ended = task, servers, threading.Event()
        self.highest: dict[int, int] = {}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for pid in [*self._task.pids(), *self._of_servers()]:
                with contextlib.suppress(OSError, StopIteration):
                    if "python" in Path(f"/proc/{pid}/comm").read_text():
                        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                        kibibytes = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
                        self.highest[pid] = max(self.highest.get(pid, 0), int(kibibytes) >> 10)

    def _of_servers(self) -> Iterator[int]:
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "cwd").readlink().is_relative_to(self._servers):
                    yield int(path.name)

    def end(self) -> list[int]:
        """MB, of the process that took most first."""
        self._ended.set()
        self._thread.join()
        return sorted(self.highest.values(), reverse=True)


@pytest.mark.long
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_twenty_million_rows_take_bounded_memory(
    place: dict[str, Any], many: str, servers: Servers, tmp_path: Path, record_property: Callable[[str, Any], None]
):
    warehouse = str(tmp_path / "lake")
    table = Catalog(warehouse).create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 4, "write-only": True}
    )
    peaks = {}
    for name, action, fields in (
        ("write", "write", {"source": many}),
        ("write again", "write", {"source": many, "idempotency_key": "again"}),
        ("compact", "compact", {"full": True}),
    ):
        task = Task(tmp_path / "tmp", action, table="db.t", warehouse=warehouse, **place, **fields)
        meter = Meter(task, servers.directory)
        try:
            assert task.process.wait(timeout=800) == 0, task.message()
        finally:
            task.process.kill()
            peaks[name] = meter.end()
    print(f"MB by process: {peaks}")
    record_property("megabytes", peaks)

    assert table.snapshots().num_rows == 3
    assert table.files()["level"].to_pylist() == [5] * table.files().num_rows
    assert sum(table.files()["record_count"].to_pylist()) == MANY
    most = TASK_MB if place.get("launcher") == "in_process" else WORKER_MB
    assert all(found and found[0] <= most for found in peaks.values()), peaks
