"""`pk-clustering-override`: files of a primary-key table in the order of other columns, by Java Paimon 2.0."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["city", "STRING"], ["v", "INT"]]
CITIES = ("Lima", "Oslo", "Bonn", "Rome", "Kyiv")
KINDS = {
    "deduplicate": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
    "two columns": {"deletion-vectors.enabled": "true", "clustering.columns": "city,v"},
    "dense statistics": {"deletion-vectors.enabled": "true", "metadata.stats-mode": "full"},
}


def row(key: int, step: int) -> list[Any]:
    return [key, CITIES[(key * 7 + step) % 5], None if key % 11 == 3 else step * 100 + key]


def made(java: JavaPaimon, path: Path, kind: str) -> str:
    """Ten commits with compactions by the writer, keys again and again; rows are deleted where the engine does that."""
    options = {"bucket": "1", "pk-clustering-override": "true", "clustering.columns": "city", **KINDS[kind]}
    java.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], partition_keys=[], options=options)
    for step in range(10):
        keys = range(step * 13 % 40, step * 13 % 40 + 25)
        deletes = kind != "first row"
        rows = [["-D" if deletes and key % 9 == step else "+I", *row(key, step)] for key in keys]
        java.call("write", table=str(path), rows=rows, kinds=True)
        if step == 5:
            java.call("compact", table=str(path), full=True)
    java.call("compact", table=str(path), full=False)
    return str(path)


def sorted_rows(rows: Any) -> list[Any]:
    return sorted(rows, key=text_of)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_as_java_reads_them(kind: str, paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", kind)
    table, theirs = open_table(path), sorted_rows(paimon2.read(path))

    assert sorted_rows(rows_of(table.to_arrow())) == theirs and theirs
    for snapshot in range(1, table.latest_snapshot_id() + 1):
        ours = table.to_arrow(snapshot=snapshot)
        assert sorted_rows(rows_of(ours)) == sorted_rows(
            paimon2.read(path, options={"scan.snapshot-id": str(snapshot)})
        )
    for number in range(0, 70, 3):
        assert rows_of(table.to_arrow(where=f"k = {number}")) == [one for one in theirs if one[0] == number]
    for city in (*CITIES, "Quito"):
        assert sorted_rows(rows_of(table.to_arrow(where=f"city = '{city}'"))) == [
            one for one in theirs if one[1] == city
        ]
    assert table.to_arrow(columns=["v"]).num_rows == len(theirs)
    assert table.verify("rows").problems == ()


def test_what_does_not_change_rows_works(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", "deduplicate")
    table, theirs = open_table(path), sorted_rows(paimon2.read(path))
    files = [one for one in open_table(f"{path}$files").to_arrow().to_pylist() if one["level"]]

    ends = {text.strip("[]") for one in files for text in (one["min_key"], one["max_key"])}
    assert files and ends <= set(CITIES)
    table.create_tag("one")
    table.create_branch("b", tag="one")
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(confirm_latest_snapshot=table.latest_snapshot_id())
    table.delete_branch("b")
    assert sorted_rows(rows_of(open_table(path).to_arrow())) == theirs == sorted_rows(paimon2.read(path))
    assert table.verify("rows").problems == ()


OURS = {"write": 4, "delete": 2, "compact": 3, "full": 1}


class Turns:
    """A table that Java and we write and compact in turns, and the rows that it must have when all is compacted."""

    def __init__(self, java: JavaPaimon, path: str, kind: str, seed: int) -> None:
        self.java, self.path, self.rng = java, path, Random(f"{kind} {seed}")
        self.keeps_first = kind == "first row"
        self.expected: dict[int, list[Any]] = {}

    def take(self, number: int) -> None:
        """A write, or a compaction, by one of both."""
        by_java = self.rng.random() < 0.5
        what = self.rng.choices(list(OURS), list(OURS.values()))[0]
        rows = [row(key, number) for key in sorted(self.rng.sample(range(60), self.rng.randint(1, 30)))]
        if what == "write" or (what == "delete" and self.keeps_first):
            self.write(rows, by_java=by_java)
        elif what == "delete":
            self.delete(rows, by_java=by_java)
        elif by_java:
            self.java.call("compact", table=self.path, full=what == "full")
        else:
            open_table(self.path).compact(full=what == "full")

    def write(self, rows: list[list[Any]], *, by_java: bool) -> None:
        if by_java:
            self.java.call("write", table=self.path, rows=rows)
        else:
            open_table(self.path).write(columns_of(rows))
        for one in rows:
            self.expected[one[0]] = self.expected.get(one[0], one) if self.keeps_first else one

    def delete(self, rows: list[list[Any]], *, by_java: bool) -> None:
        if by_java:
            self.java.call("write", table=self.path, rows=[["-D", *one] for one in rows], kinds=True)
        else:
            open_table(self.path).write(columns_of(rows), row_kinds=["-D"] * len(rows))
        for one in rows:
            self.expected.pop(one[0], None)


def columns_of(rows: list[list[Any]]) -> pa.Table:
    return pa.table(dict(zip(("k", "city", "v"), map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("kind", KINDS)
def test_turns_with_java_on_one_table(kind: str, seed: int, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    options = {"bucket": "1", "pk-clustering-override": "true", "clustering.columns": "city", **KINDS[kind]}
    options |= {"num-sorted-run.compaction-trigger": "3"}
    paimon2.call("create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options=options)
    turns = Turns(paimon2, path, kind, seed)

    for number in range(14):
        turns.take(number)
        assert sorted_rows(rows_of(open_table(path).to_arrow())) == sorted_rows(paimon2.read(path)), number
    table = open_table(path)
    table.compact(full=True)
    found = sorted_rows(rows_of(table.to_arrow()))

    assert found == sorted_rows(turns.expected.values()) == sorted_rows(paimon2.read(path))
    assert table.verify("rows").problems == ()
    paimon2.assert_sound(path)
