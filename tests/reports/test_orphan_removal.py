"""apache/paimon#7710: a removal of orphans deleted all old files of a table that others wrote to and expired.

The removal had listed the only snapshot, which was deleted when it was read: nothing seemed to be needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.units import DAY_MS
from tests.reports.replay import histories, keys_of
from tests.support.newest import NewestPaimon, NewestPaimonError
from tests.support.world import World, rows_of

ONE_SNAPSHOT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
LITTER = "bucket-0/data-left-by-a-job-that-died.parquet"


def old_table() -> World:
    """One snapshot, of which every file is two days old, and a file that nothing names."""
    world = World()
    world.create(by=(), snapshot__num_retained__min=1, snapshot__num_retained__max=1)
    for number in range(3):
        world.write({number: 0})
    world.table().expire_snapshots(retain_max=1)
    world.inner.overwrite(f"{world.root}/{LITTER}", b"dead")
    world.now_ms += 2 * DAY_MS
    return world


def writes_and_expires(table: Table) -> None:
    table.write(rows_of({3: 0}))
    table.expire_snapshots(retain_max=1)


def compacts_and_expires(table: Table) -> None:
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)


@pytest.mark.parametrize("others", [writes_and_expires, compacts_and_expires])
def test_others_that_commit_and_expire_lose_nothing_to_a_removal_of_orphans(others: Callable[[Table], Any]) -> None:
    alone, *beside = histories(old_table, Table.remove_orphan_files, others)

    assert [file.path for file in alone[1].deleted] == [f"{alone[0].root}/{LITTER}"]
    assert len(beside) > 10
    for world, _ in beside:
        assert keys_of(world.table()) == ([0, 1, 2, 3] if others is writes_and_expires else [0, 1, 2])
        assert world.table().verify(depth="rows").problems == ()


def test_the_newest_java_destroys_the_table_in_that_history(tmp_path: Path, newest: NewestPaimon) -> None:
    schema = pa.schema([("k", pa.int64())])
    catalog = Catalog(str(tmp_path))
    more = catalog.create_table("db.more", schema=schema)
    more.write(pa.table({"k": [3]}))
    table = catalog.create_table("db.t", schema=schema, options=ONE_SNAPSHOT)
    for number in range(3):
        table.write(pa.table({"k": [number]}))
    table.expire_snapshots(retain_max=1)
    for file in Path(table.path).rglob("*"):
        os.utime(file, (1, 1))

    # A commit of Java's also expires, which leaves its own snapshot only.
    write = {"op": "write", "table": table.path, "from": more.path}
    meanwhile = {"call": "list", "path": f"{table.path}/snapshot", "run": write}
    deleted, *_ = newest.clean_orphans(table.path, time.time_ns() // 1_000_000 - DAY_MS, meanwhile)

    assert deleted > 0
    with pytest.raises(NewestPaimonError, match="FileNotFoundException"):
        newest.read(table.path)
