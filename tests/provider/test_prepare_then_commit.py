"""The example that prepares in many tasks and commits in one, in a real Airflow, with tasks killed between the steps."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from dags_examples.demo.airflow_process import AirflowFailedError, LocalAirflow
from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLE = PROJECT / "dags_examples" / "prepare_then_commit.py"
FUTURE = "from __future__ import annotations\n"
KILLS = '''
import os
import signal

from airflow_provider_paimon.hooks.commit import PaimonCommitHook as Hook


def killed(name, method):
    """The method, before and after which the process is killed once where the test has put a file of that name."""

    def die(when):
        marker = f"{os.environ['PAIMON_DEMO_HOME']}/kill-{when}-{name}"
        if os.path.exists(marker):
            os.remove(marker)
            os.kill(os.getpid(), signal.SIGKILL)

    def call(self, *arguments, **named):
        die("before")
        done = method(self, *arguments, **named)
        die("after")
        return done

    return call


Hook.prepare = killed("prepare", Hook.prepare)
Hook.commit = killed("commit", Hook.commit)
'''

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(900)]


class Loads:
    """Runs of the example, and the table that they load."""

    def __init__(self, airflow: LocalAirflow, home: Path) -> None:
        self._airflow, self.home = airflow, home
        catalog = Catalog(str(home / "lake"))
        self.table: Table = catalog.create_table("shop.visits", schema=SCHEMA, options={"bucket": "-1"})
        (home / "inbox").mkdir()

    def load(self, *ids: int, kill: str | None = None, broken: bool = False) -> str:
        """A run that loads a file for each id; its state once it has ended."""
        for path in (self.home / "inbox").iterdir():
            path.unlink()
        for number in ids:
            pq.write_table(rows(number), self.home / "inbox" / f"{number}.parquet")
        if broken:
            (self.home / "inbox" / "x.parquet").write_text("no Parquet")
        if kill is not None:
            (self.home / f"kill-{kill}").touch()
        run = self._airflow.post("dags/prepare_then_commit/dagRuns", {"logical_date": None})["dag_run_id"]
        state = self._ended(run)
        assert kill is None or not (self.home / f"kill-{kill}").exists(), "the task was not killed"
        return state

    def _ended(self, run: str) -> str:
        deadline = time.monotonic() + 300
        while (state := self._state(run)) not in ("success", "failed"):
            assert time.monotonic() < deadline, state
            time.sleep(1)
        return str(state)

    def _state(self, run: str) -> str | None:
        """None while a busy API server does not answer."""
        try:
            found: str = self._airflow.get(f"dags/prepare_then_commit/dagRuns/{run}")["state"]
        except AirflowFailedError:
            self._airflow.check_alive()
            return None
        return found

    @property
    def ids(self) -> Counter[int]:
        return Counter(self.table.to_arrow()["id"].to_pylist())

    @property
    def files(self) -> set[Path]:
        return set(Path(self.table.path).rglob("data-*"))


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    home = tmp_path_factory.mktemp("prepare then commit")
    (home / "dags").mkdir()
    (home / "dags" / EXAMPLE.name).write_text(EXAMPLE.read_text().replace(FUTURE, FUTURE + KILLS, 1))
    environment = {
        "PAIMON_DEMO_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        # Tasks that start at once wait for each other in SQLite.
        "AIRFLOW__CORE__PARALLELISM": "2",
    }
    with LocalAirflow(home / "airflow", PROJECT, environment=environment) as airflow:
        airflow.wait_until_healthy()
        httpx.get(f"{airflow.url}/execution/health", timeout=180, trust_env=False)
        deadline = time.monotonic() + 120
        while not airflow.get("dags")["dags"]:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield Loads(airflow, home)


def test_rows_are_there_once_whenever_a_task_is_killed(loads: Loads):
    expected: Counter[int] = Counter()
    lost = 0
    cases: list[tuple[str | None, tuple[int, ...]]] = [
        (None, (1, 2, 3)),
        ("after-prepare", (11, 12)),  # its files are there, and nobody knows them
        ("before-commit", (21, 22)),
        ("after-commit", (31, 32)),  # the worker is lost before Airflow hears of the commit
    ]
    for snapshots, (kill, ids) in enumerate(cases, start=1):
        assert loads.load(*ids, kill=kill) == "success", kill
        expected.update(ids)
        lost += kill == "after-prepare"
        assert loads.ids == expected, kill
        assert loads.table.latest_snapshot_id() == snapshots, kill

    assert len(loads.files) == sum(expected.values()) + lost
    age(loads.table)
    done = loads.table.remove_orphan_files()
    assert (done.status, done.files_deleted) == ("deleted", lost)
    assert loads.ids == expected
    assert loads.table.verify(depth="rows").problems == ()


def test_where_a_task_fails_for_good_nothing_stays(loads: Loads):
    before, rows_before = loads.files, loads.ids

    assert loads.load(41, 42, broken=True) == "failed"

    assert loads.files == before
    assert loads.ids == rows_before


def age(table: Table) -> None:
    """Makes all files two days old, but for the snapshots' own times, which stay in order."""
    moment = time.time() - 2 * 86_400
    for path in Path(table.path).rglob("data-*"):
        os.utime(path, (moment, moment))
