"""Work on rows in a task's own process, ended by real signals in the middle of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_paimon.launchers import InProcess
from paimon_engine import Catalog, Table
from paimon_engine.jobs import Job, TableRef, action_type

PROJECT = Path(__file__).resolve().parents[2]
ROWS = 1_500_000
RUNS = 3
TASK = """
import signal, sys
from airflow_provider_paimon.operators.cluster import PaimonClusterOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.transfers.table_transfer import PaimonRowsTransfer
from tests.provider.conftest import make_context

class Transfer(PaimonRowsTransfer):
    def transfer(self, hook, context):
        import pyarrow as pa, pyarrow.parquet as pq
        rows = pq.ParquetFile(source).iter_batches(1_000)
        reader = pa.RecordBatchReader.from_batches(pq.read_schema(source), rows)
        return self.written(hook.table(self.table), reader, self.attempt(context))

    def work(self):
        return {}

action, warehouse, source, cores = sys.argv[1:]
there = {"task_id": "t", "table": "db.t", "warehouse": warehouse}
here = {**there, "local_cores": cores}
operator = {
    "compact": lambda: PaimonCompactOperator(full=True, **here),
    "write": lambda: PaimonWriteOperator(source=source, **here),
    "cluster": lambda: PaimonClusterOperator(columns=["a"], **here),
    "transfer": lambda: Transfer(**there),
}[action]()
# As Airflow's task runner does it.
signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
operator.execute(make_context())
"""


def rows(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"id": np.arange(ROWS), "a": random.integers(0, 1 << 62, ROWS), "b": random.random(ROWS)})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Warehouses that tests take copies of: with keys, in eight buckets; and without; and a file to write."""
    home = tmp_path_factory.mktemp("made")
    schema = {"id": "BIGINT NOT NULL", "a": "BIGINT", "b": "DOUBLE"}
    for name, keys, options in (
        ("keyed", ["id"], {"bucket": 8, "write-only": True}),
        ("append", [], {"bucket": -1, "write-only": True}),
    ):
        table = Catalog(str(home / name)).create_table("db.t", schema=schema, primary_keys=keys, options=options)
        for seed in range(RUNS):
            table.write(rows(seed))
    pq.write_table(rows(9), home / "source.parquet")
    return home


class Victim:
    """A table, and a task that works on it in a separate process."""

    def __init__(self, home: Path, made: Path, action: str, cores: int) -> None:
        kind = "append" if action in ("cluster", "transfer") else "keyed"
        subprocess.run(["cp", "-r", str(made / kind), str(home / "lake")], check=True)
        self.table: Table = Catalog(str(home / "lake")).table("db.t")
        self.before = self.files()
        arguments = [action, str(home / "lake"), str(made / "source.parquet"), str(cores)]
        self._command = [sys.executable, "-c", TASK, *arguments]

    def files(self) -> set[Path]:
        return {path for path in Path(self.table.path).rglob("*") if path.is_file()}

    def new_data(self) -> set[Path]:
        return {path for path in self.files() - self.before if path.suffix == ".parquet"}

    @contextmanager
    def at_work(self) -> Iterator[subprocess.Popen[bytes]]:
        """The task's process once it has begun a file."""
        with subprocess.Popen(self._command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                deadline = time.monotonic() + 120
                while not self.new_data():
                    assert process.poll() is None, process.stdout.read().decode()  # type: ignore[union-attr]
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                yield process
            finally:
                process.kill()

    def check_unchanged(self) -> None:
        assert self.table.snapshots().num_rows == RUNS
        assert self.table.verify(depth="files").problems == ()


@pytest.mark.parametrize(
    ("action", "cores"), [("compact", 1), ("compact", 2), ("write", 2), ("cluster", 2), ("transfer", 1)]
)
def test_a_task_that_is_stopped_leaves_nothing(tmp_path: Path, made: Path, action: str, cores: int):
    victim = Victim(tmp_path, made, action, cores)

    with victim.at_work() as process:
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)

    # By its own exception, not by the signal.
    assert process.returncode == 1, printed.decode()
    assert b"The job was stopped" in printed
    assert victim.files() == victim.before
    victim.check_unchanged()


@pytest.mark.parametrize("action", ["compact", "write"])
def test_a_task_that_is_killed_leaves_the_table_as_it_was(tmp_path: Path, made: Path, action: str):
    victim = Victim(tmp_path, made, action, 2)

    with victim.at_work() as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)

    victim.check_unchanged()
    assert victim.new_data()
    # Another attempt does not mind what is left.
    assert victim.table.compact(full=True).status == "committed"
    assert victim.table.to_arrow(["id"]).num_rows == ROWS


# Stopped between opening a file and its `with`: Python closes it a little later, and says so. Stopped while Arrow closes
# a writer, which closes itself once more when it is collected: that fails, and Python says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_job_can_be_stopped_from_another_thread(tmp_path: Path, made: Path):
    victim, launcher = Victim(tmp_path, made, "compact", 2), InProcess()
    job = Job(TableRef(path=victim.table.path), action_type("compact")(full=True), "user")

    def stop() -> None:
        while not victim.new_data():
            time.sleep(0.005)
        launcher.kill()
        launcher.kill()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(AirflowException, match="^The job was stopped$"):
        launcher.launch(job, {})
    thread.join()

    assert victim.files() == victim.before
    # Nothing runs any more.
    launcher.kill()
