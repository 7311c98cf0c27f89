"""Partitions of the branch that `scan.primary-branch` names are read in place of the table's, as Java 2.0 reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_engine import InvalidArgumentError, SetOption, UnsupportedError, open_table
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["p", "INT NOT NULL"], ["k", "INT NOT NULL"], ["v", "STRING"]]
OPTION = "scan.primary-branch"


@pytest.fixture
def path(tmp_path: Path, paimon2: JavaPaimon) -> str:
    """Main has partitions 1 and 2, the branch 2, 3 and, later, 4."""
    path = str(tmp_path / "db.db/t")
    keys = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
    paimon2.call("create_table", table=path, fields=FIELDS, options={"bucket": "1"}, **keys)
    paimon2.call("write", table=path, rows=[[1, 1, "main"]])
    table = open_table(path)
    table.create_tag("start")
    table.create_branch("first")
    branch = f"{path}/branch/branch-first"
    assert Path(branch).exists()
    paimon2.call("write", table=path, branch="first", rows=[[2, 1, "first"], [2, 2, "first"], [3, 1, "first"]])
    paimon2.call("write", table=path, rows=[[2, 1, "main"], [2, 7, "main"], [1, 2, "main"]])
    paimon2.call("write", table=path, branch="first", rows=[[4, 1, "later"]])
    paimon2.call("alter", table=path, changes=[{"change": "set_option", "name": OPTION, "value": "first"}])
    return path


@pytest.mark.parametrize(
    ("where", "theirs", "count"),
    [
        (None, None, 6),
        ("p = 2", ["=", "p", 2], 2),
        ("p = 1", ["=", "p", 1], 2),
        ("p = 4", ["=", "p", 4], 1),
        ("k = 7", ["=", "k", 7], 0),
        ("v = 'main'", ["=", "v", "main"], 2),
    ],
)
def test_java_reads_the_same_rows(path: str, paimon2: JavaPaimon, where: str | None, theirs: list | None, count: int):
    ours = open_table(path).to_arrow(where=where)
    execute = theirs is not None
    assert_same_rows(ours, paimon2.read(path, filter=theirs, execute_filter=execute), str(where))
    assert ours.num_rows == count


def test_snapshots_are_those_of_the_table(path: str, paimon2: JavaPaimon):
    table = open_table(path)
    for snapshot in (1, 2):
        assert_same_rows(table.to_arrow(snapshot=snapshot), paimon2.read(path, snapshot=snapshot), f"at {snapshot}")


def test_writes_go_to_the_table_itself(path: str, paimon2: JavaPaimon):
    table = open_table(path)
    before = table.to_arrow(branch="first")

    table.write(table.to_arrow(where="p = 4").slice(0, 1))
    table.compact(full=True)

    assert table.to_arrow(branch="first") == before
    assert_same_rows(table.to_arrow(), paimon2.read(path))
    plain = open_table(path, options={OPTION: ""})
    assert sorted(plain.to_arrow()["p"].to_pylist()) == [1, 1, 2, 2, 4]


def test_what_cannot_be_put_together_is_refused(path: str):
    table = open_table(path)
    with pytest.raises(UnsupportedError, match=r"scan\.primary-branch"):
        table.to_arrow(incremental=(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"'scan\.primary-branch' first"):
        table.delete_branch("first")
    with pytest.raises(InvalidArgumentError, match="no such branch"):
        table.alter([SetOption(OPTION, "none")])
    with pytest.raises(InvalidArgumentError, match="cannot both be set"):
        table.alter([SetOption("scan.fallback-branch", "first")])
