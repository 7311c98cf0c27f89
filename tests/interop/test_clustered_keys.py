"""`pk-clustering-override`: files of a primary-key table in the order of other columns, by Java Paimon 2.0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

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
        kinds = {"row_kinds": ["-D" if key % 9 == step else "+I" for key in keys]} if kind != "first row" else {}
        java.call("write", table=str(path), rows=[row(key, step) for key in keys], **kinds)
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


def test_what_would_change_rows_is_refused_by_name(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", "deduplicate")
    table, name = open_table(path), r"'pk-clustering-override'"

    with pytest.raises(UnsupportedError, match=name):
        table.write(pa.table({"k": [1], "city": ["Lima"], "v": [1]}))
    with pytest.raises(UnsupportedError, match=name):
        table.compact(full=True)
    with pytest.raises(UnsupportedError, match=name):
        table.to_arrow(incremental=(1, 3))
