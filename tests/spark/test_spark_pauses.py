"""Tasks of Spark that have written are paused while a clean-up removes what nothing names, and continue then.

As in `tests.pauses`: the work is refused, or what it committed can be read.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import PaimonError
from paimon_engine.spark import SparkExecutor
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from tests.support.clock import next_ms

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WAIT_S = 120
KEYED, PLAIN = {"bucket": "2"}, {"bucket": "-1", "deletion-vectors.enabled": "true"}


class Held:
    """A task that has done its work, and reports it only when it may continue."""

    def __init__(self, run: Callable[..., Any], folder: Path) -> None:
        self._run, self._folder = run, folder

    def __call__(self, *arguments: Any) -> Any:
        outcome = self._run(*arguments)
        (self._folder / "held").touch()
        deadline = time.monotonic() + WAIT_S
        while not (self._folder / "go").exists():
            assert time.monotonic() < deadline, "no test let the task continue"
            time.sleep(0.05)
        return outcome


class HoldingExecutor(SparkExecutor):
    """Pauses every task until a clean-up has ended."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        super().__init__(session)
        self._folder = folder

    def map(self, run: Callable[..., Any], tasks: Any, **more: Any) -> Any:
        return super().map(Held(run, self._folder), tasks, **more)

    def shuffle(self, source: Any, *, run: Callable[..., Any], **more: Any) -> Any:
        return super().shuffle(source, run=Held(run, self._folder), **more)


def _clean_up_once_held(path: str, folder: Path, statuses: list[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    try:
        while not (folder / "held").exists():
            assert time.monotonic() < deadline, "no task was paused"
            time.sleep(0.05)
        table = open_table(path)
        statuses.append(table.remove_orphan_files(next_ms(), confirm_latest_snapshot=2).status)
    finally:
        (folder / "go").touch()


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    keys, options = (["k"], KEYED) if request.param == "keyed" else ([], PLAIN)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=not keys), pa.field("v", pa.string())])
    made = Catalog(str(tmp_path / "lake")).create_table("d.t", schema=schema, primary_keys=keys, options=options)
    for number in (1, 2):
        made.write(pa.table({"k": [number, number + 10], "v": ["old", "old"]}, schema=schema))
    return made


def _write(table: Table, session: SparkSession) -> None:
    table.write(session.createDataFrame([(3, "new"), (13, "new")], "k BIGINT, v STRING"))


def _delete(table: Table, session: SparkSession) -> None:
    table.delete("k = 1")


def _compact(table: Table, session: SparkSession) -> None:
    table.compact(full=True)


WRITTEN = [(1, "old"), (2, "old"), (3, "new"), (11, "old"), (12, "old"), (13, "new")]
OLD = [row for row in WRITTEN if row[1] == "old"]
ACTIONS = {"write": (_write, WRITTEN), "delete": (_delete, OLD[1:]), "compact": (_compact, OLD)}


@pytest.mark.parametrize("name", ACTIONS)
def test_what_was_paused_during_a_clean_up_is_refused_or_readable(
    name: str, table: Table, spark: SparkSession, tmp_path: Path
) -> None:
    if name == "delete" and table.schema.primary_keys:
        pytest.skip("deletes by a filter are for tables without a primary key")
    act, rows_after = ACTIONS[name]
    folder = tmp_path / "flags"
    folder.mkdir()
    statuses: list[str] = []
    beside = threading.Thread(target=_clean_up_once_held, args=(table.path, folder, statuses))
    beside.start()
    is_done = True
    try:
        act(open_table(table.path, executor=HoldingExecutor(spark, folder)), spark)
    except PaimonError as error:
        is_done = False
        assert "run it again" in str(error), error
    beside.join()

    assert statuses == ["deleted"], "the files of the tasks were no orphans"
    assert _rows(table) == (rows_after if is_done else OLD)
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []


def _rows(table: Table) -> list[tuple[int, str]]:
    def each() -> Iterator[tuple[int, str]]:
        for row in open_table(table.path).to_arrow().to_pylist():
            yield row["k"], row["v"]

    return sorted(each())
