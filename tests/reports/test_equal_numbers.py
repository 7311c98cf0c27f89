"""apache/paimon#5872: two writers updated a key at once, and a compaction changed the value that readers saw.

Both had begun at the same snapshot, so both rows have the same sequence number. Java reads runs in order of commit, and
compacts them in another one, which depends on the names of files.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())]
)
PARTITIONS = 20
"""Each has files of other names."""


def rows(value: int) -> pa.Table:
    return pa.table([[*range(PARTITIONS)], [1] * PARTITIONS, [value] * PARTITIONS], schema=SCHEMA)


def updated_at_once(folder: Path, order: tuple[int, ...]) -> Table:
    """Writers that set key 1 to 8, 9 and so on, and commit in that order."""
    table = Catalog(str(folder)).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", "write-only": "true"},
    )
    table.write(rows(0))
    prepared = [table.prepare_write(rows(8 + number)) for number in range(len(order))]
    for number in order:
        table.commit(prepared[number], commit_user=f"writer {number}")
    return table


@pytest.mark.parametrize("order", [*permutations(range(2)), *permutations(range(3))])
def test_a_compaction_leaves_the_values_that_were_read(
    tmp_path: Path, oracle: JavaPaimon, order: tuple[int, ...]
) -> None:
    table = updated_at_once(tmp_path, order)
    before = rows_of(table.to_arrow())
    assert_same_rows(oracle.read(table.path), before, "before")

    table.compact(full=True)

    assert_same_rows(rows_of(table.to_arrow()), before, "after")
    assert_same_rows(oracle.read(table.path), before, "after, by Java")


def test_java_changes_some(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = updated_at_once(tmp_path, (0, 1))
    before = oracle.read(table.path)

    oracle.call("compact", table=table.path, full=True)

    assert sorted(oracle.read(table.path)) != sorted(before)
