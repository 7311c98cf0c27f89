"""apache/paimon#4802 and #9790: rows inserted while a compaction sorted the table were lost after it.

Java commits sorted files as an overwrite of everything that is there when it commits, not of the files that it has
read.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.reports.replay import histories, keys_of
from tests.support.oracle import JavaPaimon
from tests.support.world import World, rows_of


def four_rows() -> World:
    world = World()
    world.create(by=(), bucket=-1)
    world.write({3: 0, 1: 0})
    world.write({4: 0, 2: 0})
    return world


def inserts(table: Table) -> None:
    table.write(rows_of({666: 0}))


@pytest.mark.parametrize("order", ["order", "zorder"])
def test_rows_inserted_while_a_table_is_sorted_stay(order: str) -> None:
    columns = ["k"] if order == "order" else ["k", "v"]

    alone, *beside = histories(four_rows, lambda table: table.cluster(columns, order=order), inserts)

    assert alone[1].status == "committed"
    assert len(beside) > 10
    for world, done in beside:
        assert done.status == "committed"
        assert keys_of(world.table()) == [1, 2, 3, 4, 666]
        assert world.table().verify(depth="rows").problems == ()


def test_java_loses_them_as_it_commits_an_overwrite(tmp_path: Path, oracle: JavaPaimon) -> None:
    """What Java's sort compaction reads and commits, step by step: it has no such action in its core."""
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("k", pa.int64())]), options={"bucket": "-1"})
    table.write(pa.table({"k": [3, 1, 4, 2]}))

    sorted_rows = sorted(oracle.read(table.path))
    table.write(pa.table({"k": [666]}))
    oracle.call("write", table=table.path, rows=sorted_rows, overwrite={})

    assert keys_of(table) == [1, 2, 3, 4]
