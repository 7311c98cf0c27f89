"""Deleted rows of tables whose files have some of the columns, in turns with Java Paimon 2.0."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import UnsupportedError, open_table
from paimon_engine.table.commit.abort import commit_or_delete
from tests.support.evolution import again, assert_alike, created
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

VECTORS = {"deletion-vectors.enabled": "true"}
COMMIT = "paimon_engine.actions.delete_rows.commit_or_delete"


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("bits", ["false", "true"])
def test_rows_are_deleted_by_their_newest_values(file_format: str, bits: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **VECTORS, **{"file.format": file_format, "deletion-vectors.bitmap64": bits})

    done = table.delete("a BETWEEN 204 AND 206 OR b = 'new14' OR a = 25")

    found = assert_alike(paimon2, path)
    assert (done.rows, done.files) == (5, 3)
    assert {row[0] for row in found} == set(range(30)) - {4, 5, 6, 14, 25}
    assert table.delete("a = 104 OR a = 5").status == "noop"
    assert table.delete("c IS NULL OR k = 7").rows == 1
    assert_alike(paimon2, path)
    assert table.verify("rows").problems == ()


def test_all_rows(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **VECTORS)

    assert table.delete("k >= 0").rows == 30

    assert assert_alike(paimon2, path) == []


def test_without_vectors_it_is_refused(paimon2: JavaPaimon, tmp_path: Path):
    table = created(paimon2, str(tmp_path / "t"))

    with pytest.raises(UnsupportedError, match=r"deletion-vectors\.enabled"):
        table.delete("a = 1")


def test_beside_values_of_blobs(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    fields = [["k", "BIGINT"], ["b", "BLOB"]]
    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true", **VECTORS}
    paimon2.call("create_table", table=path, fields=fields, primary_keys=[], partition_keys=[], options=options)
    table = open_table(path)
    table.write(pa.table({"k": [1, 2, 3], "b": [b"x", None, b"z"]}))

    assert table.delete("k = 1").rows == 1
    assert table.delete("b IS NULL").rows == 1

    assert assert_alike(paimon2, path) != []
    assert table.to_arrow().to_pylist() == [{"k": 3, "b": b"z"}]


@pytest.mark.parametrize("seed", range(3))
def test_turns(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    chance = random.Random(seed)
    path = str(tmp_path / "t")
    created(paimon2, path, **VECTORS)
    for step in range(10):
        table = open_table(path)
        what = chance.choice(["delete", "delete", "ours", "theirs", "rows", "compaction"])
        found = open_table(f"{path}$row_tracking").to_arrow()
        if what == "delete":
            table.delete(f"k IN ({step}, {step * 2}, {step + 20})")
        elif what == "ours" and found.num_rows:
            ids = chance.sample(found["_ROW_ID"].to_pylist(), chance.randrange(1, found.num_rows + 1))
            table.update_columns(pa.table({"_ROW_ID": ids, "k": [step + number for number in ids]}))
        elif what == "theirs":
            files = open_table(f"{path}$files").to_arrow().to_pylist()
            one = chance.choice(files)
            rows = [[f"java{step}"] for _ in range(one["record_count"])]
            again(paimon2, path, ["b"], rows, one["first_row_id"])
        elif what == "rows":
            table.write(pa.table({"k": [step, None], "b": ["n", None]}))
        elif what == "compaction":
            # Java's core alone does not move deletion vectors; its Flink and Spark jobs do.
            table.compact(full=True)
        assert_alike(paimon2, path)
    assert open_table(path).verify("rows").problems == ()
    paimon2.assert_sound(path)


# ── others meanwhile ────────────────────────────────────────────────────────────────────────────


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Has `act` done once between the marking of rows and the commit."""
    left = [act]

    def late(*given: Any) -> Any:
        if left:
            left.pop()()
        return commit_or_delete(*given)

    monkeypatch.setattr(COMMIT, late)


def test_a_row_that_does_not_match_any_more_stays(paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **VECTORS)
    new = pa.table({"_ROW_ID": [25], "a": pa.array([0], pa.int32())})
    meanwhile(monkeypatch, lambda: open_table(path).update_columns(new))

    done = table.delete("a = 25 OR a = 26")

    assert (done.rows, done.conflicts) == (1, 1)
    assert [25, 0, "b25", [25]] in assert_alike(paimon2, path)


def test_updates_of_other_columns_do_not_matter(paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **VECTORS)

    def act() -> None:
        open_table(path).update_columns(pa.table({"_ROW_ID": [25], "b": ["x"]}))
        open_table(path).update_columns(pa.table({"_ROW_ID": [1], "a": pa.array([0], pa.int32())}))

    meanwhile(monkeypatch, act)

    done = table.delete("a = 25 OR a = 26")

    assert (done.rows, done.conflicts) == (2, 0)
    assert len(assert_alike(paimon2, path)) == 28


def test_a_delete_meets_a_compaction(paimon2: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **VECTORS)
    meanwhile(monkeypatch, lambda: open_table(path).compact(full=True))

    done = table.delete("a = 25")

    assert (done.rows, done.conflicts) == (1, 1)
    assert len(assert_alike(paimon2, path)) == 29
