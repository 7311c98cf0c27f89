"""The example that prepares in many tasks and commits in one, in a real Airflow, with tasks killed between the steps."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table
from tests.provider.conftest import SCHEMA, rows
from tests.support.airflow import PROJECT, RealAirflow

EXAMPLE = PROJECT / "dags_examples" / "prepare_then_commit.py"
DAG = "prepare_then_commit"
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

    def __init__(self, airflow: RealAirflow, home: Path) -> None:
        self._airflow, self.home = airflow, home
        catalog = Catalog(str(home / "lake"))
        self.table: Table = catalog.create_table("shop.visits", schema=SCHEMA, options={"bucket": "-1"})
        (home / "inbox").mkdir()

    def load(self, *ids: int, kill: str | None = None, broken: bool = False) -> None:
        """A run that loads a file for each id, and ends well; that which is broken fails."""
        for path in (self.home / "inbox").iterdir():
            path.unlink()
        for number in ids:
            pq.write_table(rows(number), self.home / "inbox" / f"{number}.parquet")
        if broken:
            (self.home / "inbox" / "x.parquet").write_text("no Parquet")
        if kill is not None:
            (self.home / f"kill-{kill}").touch()
        run = self._airflow.run(DAG)
        self._airflow.wait_for_run(DAG, run, "failed" if broken else "success")
        assert kill is None or not (self.home / f"kill-{kill}").exists(), "the task was not killed"

    @property
    def ids(self) -> Counter[int]:
        return Counter(self.table.to_arrow()["id"].to_pylist())

    @property
    def files(self) -> set[Path]:
        return set(Path(self.table.path).rglob("data-*"))


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    home = tmp_path_factory.mktemp("prepare then commit")
    dags = {EXAMPLE.name: EXAMPLE.read_text().replace(FUTURE, FUTURE + KILLS, 1)}
    # Tasks that start at once wait for each other in SQLite.
    environment = {"PAIMON_DEMO_HOME": str(home), "AIRFLOW__CORE__PARALLELISM": "2"}
    with RealAirflow(home / "airflow", dags, environment=environment) as airflow:
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
        loads.load(*ids, kill=kill)
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

    loads.load(41, 42, broken=True)

    assert loads.files == before
    assert loads.ids == rows_before


def age(table: Table) -> None:
    """Makes all files two days old, but for the snapshots' own times, which stay in order."""
    moment = time.time() - 2 * 86_400
    for path in Path(table.path).rglob("data-*"):
        os.utime(path, (moment, moment))
