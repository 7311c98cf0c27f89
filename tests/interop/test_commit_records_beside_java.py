"""Records of named commits in tables that Java writes, expires and rolls back too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options={"bucket": "-1"})
    table.write(pa.table({"k": [1]}, schema=SCHEMA))
    return table


def job(table: Table) -> str:
    return open_table(table.path).write(pa.table({"k": [7]}, schema=SCHEMA), commit_user="job").status


def keys(table: Table) -> list[int]:
    return sorted(open_table(table.path).to_arrow()["k"].to_pylist())


def written_by(oracle: JavaPaimon, table: Table) -> None:
    for key in (2, 3, 4):
        oracle.call("write", table=table.path, rows=[[key]])


def test_a_commit_that_java_has_expired_is_known(table: Table, oracle: JavaPaimon, pypaimon: PyPaimon):
    assert job(table) == "committed"
    assert_same_rows(rows_of(table.to_arrow()), pypaimon.read(table.path))
    written_by(oracle, table)
    oracle.call("expire", table=table.path, retain_max=1, retain_min=1, older_ms=0)
    assert open_table(table.path).snapshots().num_rows == 1

    assert job(table) == "already_done"
    assert keys(table) == [1, 2, 3, 4, 7]
    oracle.assert_sound(table.path)
    assert_same_rows(rows_of(open_table(table.path).to_arrow()), oracle.read(table.path))


def test_a_commit_that_java_has_taken_back_is_made_again(table: Table, oracle: JavaPaimon):
    assert job(table) == "committed"
    written_by(oracle, table)
    oracle.call("rollback", table=table.path, snapshot=1)
    written_by(oracle, table)

    assert [job(table), job(table)] == ["committed", "already_done"]
    assert keys(table) == [1, 2, 3, 4, 7]
    oracle.assert_sound(table.path)
