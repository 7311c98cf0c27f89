"""Items that need not wait for each other: in which order, in which threads, and with which error they end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.side_by_side import in_threads


@pytest.fixture
def table(tmp_path: Path) -> TableHandle:
    path = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("id", pa.int64())])).path
    return load_table(path, EnvConfig(path))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 50])
def test_values_keep_the_order_of_the_items(table: TableHandle, count: int):
    assert in_threads(table, lambda _table, item: item * 2, range(count)) == [item * 2 for item in range(count)]


def test_items_that_wait_are_under_way_together(table: TableHandle):
    at_once, count = table.env.reader_threads, 50
    first, done = threading.Barrier(at_once), []

    def run(_table: TableHandle, item: int) -> int:
        time.sleep(0.01)
        # Eight of them meet here, which they could not do one after another.
        if count - 2 * at_once <= item < count - at_once:
            first.wait(timeout=60)
        done.append(item)
        return item

    assert in_threads(table, run, range(count)) == list(range(count))
    assert done[:2] == [0, 1], "nothing is known of the first ones before they are done"
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("pause_s", [0, 0.005])
def test_the_first_error_counts_and_all_are_done(table: TableHandle, pause_s: float):
    done = []

    def run(_table: TableHandle, item: int) -> None:
        time.sleep(pause_s)
        done.append(item)
        if item == 1:
            raise NotFoundError("the second one")
        if item == 30:
            raise CorruptTableError("a later one")

    with pytest.raises(NotFoundError, match="the second one"):
        in_threads(table, run, range(40))
    assert sorted(done) == list(range(40))


def test_items_that_do_not_wait_are_done_by_the_caller(table: TableHandle):
    def run(_table: TableHandle, _item: int) -> str:
        return threading.current_thread().name

    # A busy machine may let the caller wait before some of them, and so start threads for the rest.
    found = [in_threads(table, run, range(40)).count(threading.current_thread().name) for _ in range(20)]
    assert max(found) == 40
