"""Partitions that a table lacks are read from the branch that `scan.fallback-branch` names, as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_engine import InvalidArgumentError, NotFoundError, UnsupportedError, open_table
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon

FIELDS = [["p", "INT NOT NULL"], ["k", "INT NOT NULL"], ["v", "STRING"]]


@pytest.fixture
def path(tmp_path: Path, oracle: JavaPaimon) -> str:
    """Main has partitions 1 and 2, the branch 2, 3 and, later, 4."""
    path = str(tmp_path / "db.db/t")
    oracle.call(
        "create_table",
        table=path,
        fields=FIELDS,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1"},
    )
    oracle.call("write", table=path, rows=[[1, 1, "main"]])
    oracle.call("create_branch", table=path, name="late")
    oracle.call("write", table=path, branch="late", rows=[[2, 1, "late"], [2, 2, "late"], [3, 1, "late"]])
    oracle.call("write", table=path, rows=[[2, 1, "main"], [1, 2, "main"]])
    oracle.call("create_tag", table=path, tag="both")
    oracle.call("create_tag", table=path, branch="late", tag="both")
    oracle.call("write", table=path, branch="late", rows=[[4, 1, "later"]])
    oracle.call(
        "alter", table=path, changes=[{"change": "set_option", "name": "scan.fallback-branch", "value": "late"}]
    )
    return path


@pytest.mark.parametrize(
    ("where", "theirs"),
    [
        (None, None),
        ("p = 3", ["=", "p", 3]),
        ("p > 1", [">", "p", 1]),
        ("p IN (2, 4)", ["in", "p", [2, 4]]),
        ("k = 1", ["=", "k", 1]),
    ],
)
def test_java_reads_the_same_rows(path: str, oracle: JavaPaimon, where: str | None, theirs: list | None):
    ours = open_table(path).to_arrow(where=where)
    assert_same_rows(ours, oracle.read(path, filter=theirs), str(where))


def test_time_travel_takes_both_along(path: str, oracle: JavaPaimon):
    table = open_table(path)

    # Java 0.9 looks for the tags of a branch in main.
    assert sorted(table.to_arrow(tag="both")["v"].to_pylist()) == ["late", "main", "main", "main"]
    for snapshot in (1, 2):
        found = table.to_arrow(snapshot=snapshot)
        assert_same_rows(found, oracle.read(path, snapshot=snapshot), f"snapshot {snapshot}")


def test_partitions_are_the_tables_own_with_every_filter(path: str):
    table = open_table(path)

    assert sorted(table.to_arrow()["p"].to_pylist()) == [1, 1, 2, 3, 4]
    assert table.to_arrow(where="p = 2 AND k = 2").num_rows == 0
    assert table.to_arrow(where="p = 2 AND v = 'late'").num_rows == 0
    assert table.to_arrow(["v"], limit=5)["v"].to_pylist().count("main") == 3


def test_the_branch_itself_is_read_alone(path: str):
    table = open_table(path)

    assert sorted(table.to_arrow(branch="late")["p"].to_pylist()) == [2, 2, 3, 4]


def test_what_cannot_be_put_together_is_refused(path: str, oracle: JavaPaimon):
    with pytest.raises(UnsupportedError, match=r"scan\.fallback-branch"):
        open_table(path).to_arrow(incremental=(1, 2))
    with pytest.raises(NotFoundError, match="'none'"):
        open_table(path, options={"scan.fallback-branch": "none"}).to_arrow()
    oracle.call("alter", table=path, branch="late", changes=[{"change": "add", "name": "w", "type": "INT"}])
    with pytest.raises(InvalidArgumentError, match="other columns than main"):
        open_table(path).to_arrow()
