"""Rows keep their ids and sequence numbers in turns of Java Paimon 2.0 and this engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT"], ["v", "STRING"]]
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true"}
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
AVRO = "avro, of which Java 2.0 cannot read the ids, not even its own"
USES: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    AVRO: {"file.format": "avro"},
    "dense statistics": {"metadata.stats-dense-store": "true"},
    "full statistics of all columns": {"metadata.stats-dense-store": "false", "metadata.stats-mode": "full"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "small files": {"target-file-size": "2 kb"},
}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{key}" for key in keys]}, schema=SCHEMA)


def ours(folder: Path) -> Table:
    return Catalog(str(folder)).create_table("db.t", schema=SCHEMA, options=OPTIONS)


def by_java(java: JavaPaimon, path: str, options: dict[str, str]) -> None:
    java.call("create_table", table=path, fields=FIELDS, primary_keys=[], partition_keys=[], options=options)


def written_by_java(java: JavaPaimon, path: str, *keys: int) -> None:
    java.call("write", table=path, rows=[[key, f"v{key}"] for key in keys])


def tracked(table: Table) -> list[tuple[Any, ...]]:
    found = open_table(f"{table.path}$row_tracking").to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def assert_alike(java: JavaPaimon, path: str) -> list[tuple[Any, ...]]:
    """Both see the same rows with the same ids, each id once; Java finds no fault."""
    table = open_table(path)
    found = tracked(table)
    if table.schema.table_options.file_format_of(0) == "avro":
        assert sorted(row[:-2] for row in found) == sorted(tuple(row) for row in java.read(path))
    else:
        assert found == sorted(tuple(row) for row in java.read(path, system="row_tracking"))
    assert len({row[-2] for row in found}) == len(found)
    assert java.problems(path) == []
    assert table.verify("rows").status == "sound"
    return found


@pytest.mark.parametrize("options", USES.values(), ids=USES)
def test_rows_keep_their_ids_in_turns(options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    by_java(paimon2, path, {**OPTIONS, **options})
    table = open_table(path)
    ids: dict[int, tuple[int, int]] = {}

    def check() -> None:
        for key, _, row_id, number in assert_alike(paimon2, path):
            assert ids.setdefault(key, (row_id, number)) == (row_id, number)

    for turn in range(3):
        written_by_java(paimon2, path, *range(turn * 100, turn * 100 + 5))
        check()
        table.write(rows(*range(turn * 100 + 50, turn * 100 + 55)))
        check()
        if turn != 1 or options == USES[AVRO]:
            table.compact(full=True)
        else:
            paimon2.call("compact", table=path)
        check()
    if "deletion-vectors.enabled" in options:
        table.delete("k IN (3, 53, 103, 253)")
        check()
        table.compact(full=True)
        check()
        written_by_java(paimon2, path, 1000)
        check()
    assert len(ids) >= 30


def test_ids_begin_at_zero_and_go_on(paimon2: JavaPaimon, tmp_path: Path):
    table = ours(tmp_path)
    table.write(rows(7, 8))
    table.write(rows(9))
    table.compact(full=True)
    table.write(rows(10))

    found = assert_alike(paimon2, table.path)

    assert found == [(7, "v7", 0, 1), (8, "v8", 1, 1), (9, "v9", 2, 2), (10, "v10", 3, 4)]


def test_a_clustered_table_keeps_its_ids(paimon2: JavaPaimon, tmp_path: Path):
    table = ours(tmp_path)
    for start in (50, 0, 100):
        table.write(rows(*range(start, start + 20)))
    before = assert_alike(paimon2, table.path)

    table.cluster(["k"])

    assert assert_alike(paimon2, table.path) == before
    written_by_java(paimon2, table.path, 7)
    assert set(before) < set(assert_alike(paimon2, table.path))


def test_ids_survive_a_column_that_changes(paimon2: JavaPaimon, tmp_path: Path):
    table = ours(tmp_path)
    table.write(rows(1, 2))
    table.compact(full=True)
    table.write(rows(3))
    table.compact(full=True)
    paimon2.call(
        "alter",
        table=table.path,
        changes=[
            {"change": "rename", "name": "v", "to": "w"},
            {"change": "add", "name": "v", "type": "INT"},
        ],
    )
    table = open_table(table.path)

    expected = [(1, "v1", None, 0, 1), (2, "v2", None, 1, 1), (3, "v3", None, 2, 2)]
    assert assert_alike(paimon2, table.path) == expected
    paimon2.call("write", table=table.path, rows=[[4, "w", 4]])
    table.compact(full=True)
    assert assert_alike(paimon2, table.path) == [*expected, (4, "w", 4, 3, 4)]


def test_a_filter_on_ids_finds_the_rows(paimon2: JavaPaimon, tmp_path: Path):
    table = ours(tmp_path)
    table.write(rows(*range(10)))
    table.write(rows(*range(10, 20)))
    table.compact(full=True)
    table.write(rows(*range(20, 30)))

    view = open_table(f"{table.path}$row_tracking")

    assert view.to_arrow(where="_ROW_ID IN (3, 25)", columns=["k"]).to_pydict() == {"k": [3, 25]}
    assert view.to_arrow(where="_SEQUENCE_NUMBER = 2", columns=["_ROW_ID"]).num_rows == 10
    assert view.to_arrow(where="_SEQUENCE_NUMBER = 4 AND v = 'v29'").to_pylist() == [
        {"k": 29, "v": "v29", "_ROW_ID": 29, "_SEQUENCE_NUMBER": 4}
    ]
    assert paimon2.read(table.path) == [list(row.values()) for row in table.to_arrow().to_pylist()]


def test_ids_are_unique_after_a_release_that_does_not_know_them(
    oracle: JavaPaimon, paimon2: JavaPaimon, tmp_path: Path
):
    table = ours(tmp_path)
    table.write(rows(1, 2))
    oracle.call("write", table=table.path, rows=[[3, "v3"]])
    table.write(rows(4))

    assert tracked(table) == [(1, "v1", 0, 1), (2, "v2", 1, 1), (3, "v3", None, 0), (4, "v4", 2, 3)]
    table.compact(full=True)
    assert tracked(table) == [(1, "v1", 0, 1), (2, "v2", 1, 1), (3, "v3", None, 0), (4, "v4", 2, 3)]
    assert len(paimon2.read(table.path)) == 4


def test_an_empty_commit_and_a_rollback_keep_the_next_id(paimon2: JavaPaimon, tmp_path: Path):
    table = ours(tmp_path)
    table.write(rows(1, 2))
    table.write(rows(3))
    table.rollback_to_as_latest(snapshot=1)
    table.compact_manifests()
    table.write(rows(4))

    assert assert_alike(paimon2, table.path) == [(1, "v1", 0, 1), (2, "v2", 1, 1), (4, "v4", 3, 5)]
