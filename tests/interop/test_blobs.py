"""Columns of BLOB, in turns with Java Paimon 2.0."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, CorruptTableError, InvalidArgumentError, NotFoundError, UnsupportedError, open_table
from paimon_engine.executor import LocalExecutor
from tests.support.blob_tables import FIELDS, alike, alike_but_for_snapshots, blob_files, filled, made, row
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java


def with_ids(path: str) -> list[Any]:
    """Rows with their ids, without the numbers of snapshots, which a compaction makes those of the newest file."""
    return sorted((row[:-1] for row in rows_of(open_table(f"{path}$row_tracking").to_arrow())), key=text_of)


def files_of(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(f"{path}$files").to_arrow().to_pylist()
    return found


class Meanwhile(LocalExecutor):
    """Lets another writer act once after the first tasks are done."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(1)
        self._waiting = [act]

    def map(self, *args: Any, **how: Any) -> Any:
        done = super().map(*args, **how)
        if self._waiting:
            self._waiting.pop()()
        return done


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_are_read_from_their_files(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"file.format": file_format})
    assert len(blob_files(path)) > 12

    found = alike(paimon2, path)

    by_key = {one[0]: one for one in found}
    assert len(by_key) == 30
    assert by_key[3][2] is None
    assert by_key[10][2] is None, "written again as null"
    assert by_key[13][2] == "0xbeef03"
    assert by_key[14] == row(14), "its newer value is a placeholder"
    assert [by_key[0][3], by_key[1][3]] == [None, "0x"]
    for snapshot in range(1, 5):
        alike(paimon2, path, snapshot=snapshot)
    assert open_table(path).to_arrow().schema.field("a").type == pa.binary()
    assert open_table(path).verify("rows").status == "sound"
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    assert {file["file_format"] for file in files} == {file_format, "blob"}
    assert {tuple(file["write_cols"]) for file in files} == {("k", "s"), ("a",), ("b",)}


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("k IN (4, 13, 29)", 3),
        ("s = 's14'", 1),
        ("k > 100", 0),
        ("a IS NULL", 8),
        ("a IS NOT NULL AND k < 10", 8),
        ("a = X'BEEF03' OR k = 2", 2),
        ("b IS NULL AND s <> 's0'", 5),
    ],
)
def test_filters_and_columns(where: str, count: int, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    every = {one["k"]: one for one in table.to_arrow().to_pylist()}

    found = table.to_arrow(where=where).to_pylist()

    assert len(found) == count
    assert all(every[one["k"]] == one for one in found)
    for columns in (["a"], ["b", "k"], ["s"], ["b", "a"]):
        part = table.to_arrow(where=where, columns=columns)
        assert part.column_names == columns
        assert part.to_pylist() == [{name: one[name] for name in columns} for one in found]


def test_nothing_is_read_of_columns_and_rows_that_are_not_asked_for(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    of_last = {file.name for file in blob_files(path)} & {
        Path(one["file_path"]).name
        for one in open_table(f"{path}$files").to_arrow().to_pylist()
        if one["first_row_id"] >= 20 and one["write_cols"] == ["a"]
    }
    rest = [file for file in blob_files(path) if file.name not in of_last]
    for file in rest:
        file.unlink()

    assert table.to_arrow(columns=["k", "s"]).num_rows == 30
    assert table.to_arrow(where="k >= 22", columns=["a"]).num_rows == 8
    with pytest.raises(NotFoundError, match=r"\.blob is missing"):
        table.to_arrow(columns=["b"])
    assert len(table.verify().problems) >= len(rest)


def test_deleted_rows_are_left_out(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    names = [Path(one["file_path"]).name for one in files if one["file_format"] == "parquet"]
    paimon2.call("delete_positions", table=path, positions={name: [0, 3, 9] for name in names})

    assert len(alike(paimon2, path)) == 21
    assert open_table(path).to_arrow(where="k > 20", columns=["a"]).num_rows == 7
    assert open_table(path).verify("rows").status == "sound"


@pytest.mark.parametrize("blobs", [False, True])
def test_what_java_has_compacted_is_read(blobs: bool, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"compaction.min.file-num": "2"})
    before = alike(paimon2, path)

    paimon2.call("compact", table=path, blobs=blobs)
    assert alike(paimon2, path) == before
    paimon2.call("compact", table=path, blobs=blobs)
    assert alike(paimon2, path) == before
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    assert len([one for one in files if one["file_format"] == "parquet"]) == 1
    assert open_table(path).verify("rows").status == "sound"


def test_a_column_that_came_later_is_null_in_older_rows(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", fields=FIELDS[:2], **{"compaction.min.file-num": "2"})
    paimon2.call("write", table=path, rows=[row(key)[:2] for key in range(10)])
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "a", "type": "BLOB"}])
    paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(10, 20)])
    before = alike(paimon2, path)
    assert [one[2] for one in before if one[0] < 10] == [None] * 10
    assert open_table(path).to_arrow(where="a IS NOT NULL").num_rows == 7

    paimon2.call("compact", table=path, blobs=False)
    # Java joins the rows of both files, and cannot read what it has made of them.
    with pytest.raises(RuntimeError, match="should be aligned with normal files"):
        paimon2.read(path)
    assert sorted(rows_of(open_table(path).to_arrow()), key=text_of) == before


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_compaction_leaves_the_files_of_values(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"file.format": file_format})
    before, values = alike(paimon2, path), blob_files(path)
    ids = with_ids(path)

    done = open_table(path).compact(full=True)

    assert (done.files_before, done.files_after) == (3 + len(values), 1 + len(values))
    assert blob_files(path) == values
    assert (alike_but_for_snapshots(paimon2, path), with_ids(path)) == (before, ids)
    [made] = [one for one in files_of(path) if one["file_format"] == file_format]
    assert (made["first_row_id"], made["record_count"], made["write_cols"]) == (0, 30, ["k", "s"])
    assert open_table(path).compact(full=True).status == "noop"
    paimon2.call("write", table=path, columns=["a"], first_row_id=0, rows=[[f"0x{key:02x}"] for key in range(30)])
    paimon2.call("write", table=path, rows=[row(key) for key in range(30, 40)])
    before = alike_but_for_snapshots(paimon2, path)
    open_table(path).compact(full=True)
    assert alike_but_for_snapshots(paimon2, path) == before
    paimon2.call("compact", table=path)
    assert alike_but_for_snapshots(paimon2, path) == before
    assert paimon2.problems(path) == []
    assert open_table(path).verify("rows").status == "sound"


def test_rows_from_before_a_column_are_not_joined_with_later_ones(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", fields=FIELDS[:2])
    for step in range(2):
        paimon2.call("write", table=path, rows=[row(key)[:2] for key in range(step * 5, step * 5 + 5)])
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "a", "type": "BLOB"}])
    for step in range(2, 4):
        paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(step * 5, step * 5 + 5)])
    before = alike(paimon2, path)

    open_table(path).compact(full=True)

    assert alike_but_for_snapshots(paimon2, path) == before
    plain = [one["record_count"] for one in files_of(path) if one["file_format"] == "parquet"]
    assert plain == [10, 10]

    # The same name is another column after it was dropped, and a renamed one has other names in its files.
    paimon2.call("alter", table=path, changes=[{"change": "drop", "name": "a"}])
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "a", "type": "BLOB"}])
    paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(20, 25)])
    before = alike_but_for_snapshots(paimon2, path)
    assert open_table(path).compact(full=True).status == "noop"
    assert alike_but_for_snapshots(paimon2, path) == before


def test_a_column_added_meanwhile_keeps_rows_apart(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", fields=[*FIELDS[:2], ["a", "BLOB"]])
    for step in range(2):
        paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(step * 5, step * 5 + 5)])
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "b", "type": "BLOB"}])

    def act() -> None:
        paimon2.call("write", table=path, columns=["b"], first_row_id=0, rows=[[f"0x{key:02x}"] for key in range(5)])

    open_table(path, executor=Meanwhile(act)).compact(full=True)

    assert len(alike(paimon2, path)) == 10
    assert [one["record_count"] for one in files_of(path) if one["file_format"] == "parquet"] == [5, 5]
    assert paimon2.problems(path) == []


def test_what_java_has_broken_is_left_alone(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", fields=FIELDS[:2], **{"compaction.min.file-num": "2"})
    paimon2.call("write", table=path, rows=[row(key)[:2] for key in range(10)])
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "a", "type": "BLOB"}])
    paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(10, 20)])
    paimon2.call("compact", table=path, blobs=False)
    for step in range(4, 6):
        paimon2.call("write", table=path, rows=[row(key)[:3] for key in range(step * 5, step * 5 + 5)])
    before = sorted(rows_of(open_table(path).to_arrow()), key=text_of)

    open_table(path).compact(full=True)

    assert sorted(rows_of(open_table(path).to_arrow()), key=text_of) == before
    assert [one["record_count"] for one in files_of(path) if one["file_format"] == "parquet"] == [20, 10]


def test_deleted_rows_stay_deleted_when_files_are_joined(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    names = [Path(one["file_path"]).name for one in files_of(path) if one["file_format"] == "parquet"]
    paimon2.call("delete_positions", table=path, positions={name: [0, 3, 9] for name in names})
    before = alike(paimon2, path)

    open_table(path).compact(full=True)

    assert alike_but_for_snapshots(paimon2, path) == before
    assert len(before) == 21
    assert open_table(path).verify("rows").status == "sound"


def test_clean_ups_keep_values_that_something_reaches(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    values = blob_files(path)
    before = alike(paimon2, path)
    table.create_tag("old")
    table.compact(full=True)
    table.purge_files(keep_tags=True)
    for file in Path(path).rglob("*.*"):
        os.utime(file, (1, 1))

    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.remove_orphan_files()
    assert blob_files(path) == values
    assert sorted(rows_of(open_table(path).to_arrow(tag="old")), key=text_of) == before
    assert table.verify("files").status == "sound"

    table.delete_tag("old")
    assert blob_files(path) == []
    assert table.to_arrow().num_rows == 0


def test_a_purge_deletes_values_and_a_rollback_brings_them_back(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    before = alike(paimon2, path)
    table.compact(full=True)
    table.rollback(snapshot=4)
    assert alike(paimon2, path) == before
    table.rollback(snapshot=1)
    rest = {Path(one["file_path"]).name for one in files_of(path)}
    assert {file.name for file in blob_files(path)} == {name for name in rest if name.endswith(".blob")}
    assert len(alike(paimon2, path)) == 10
    table.purge_files()
    assert blob_files(path) == []


def test_partitions_and_exports(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", fields=[["p", "STRING"], *FIELDS], partition_keys=["p"])
    paimon2.call("write", table=path, rows=[["xy"[key % 2], *row(key)] for key in range(20)])
    table = open_table(path)
    found = alike(paimon2, path)

    assert sorted(rows_of(table.to_arrow(where="p = 'x'")), key=text_of) == [one for one in found if one[0] == "x"]
    target = tmp_path / "rows.parquet"
    pq.write_table(table.to_arrow(), target)
    assert pq.read_table(target).to_pylist() == table.to_arrow().to_pylist()
    table.drop_partition({"p": "x"})
    assert len(alike(paimon2, path)) == 10
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert len(blob_files(path)) == len(list(Path(path).rglob("p=y/*/*.blob"))) > 0
    assert len(alike(paimon2, path)) == 10


def test_orphans_go_and_needed_files_stay(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    needed = blob_files(path)
    orphan = needed[0].with_name("data-0-0.blob")
    shutil.copy(needed[0], orphan)
    before = alike(paimon2, path)

    os.utime(orphan, (1, 1))
    assert open_table(path).remove_orphan_files().files_deleted == 1

    assert blob_files(path) == needed
    assert alike(paimon2, path) == before


@pytest.mark.parametrize("harm", ["cut", "value", "index", "footer"])
def test_damage_is_found_and_named(harm: str, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    files = [one for one in open_table(f"{path}$files").to_arrow().to_pylist() if one["first_row_id"] >= 20]
    file = Path(max(files, key=lambda one: (one["file_format"] == "blob", one["file_size_in_bytes"]))["file_path"])
    data = bytearray(file.read_bytes())
    index_bytes = int.from_bytes(data[-5:-1], "little")
    changes: dict[str, Callable[[], Any]] = {
        "cut": data.pop,
        "value": lambda: data.__setitem__(4, data[4] ^ 1),
        "index": lambda: data.__setitem__(-6 - index_bytes + 1, 0x7F),
        "footer": lambda: data.__setitem__(slice(-5, -1), b"\xff\xff\xff\x7f"),
    }
    changes[harm]()
    file.write_bytes(data)

    with pytest.raises(CorruptTableError, match=file.name):
        open_table(path).to_arrow()
    assert open_table(path).to_arrow(columns=["s"]).num_rows == 30
    result = open_table(path).verify("rows")
    assert [problem for problem in result.problems if file.name in str(problem)]


def test_other_layouts_are_refused_by_name(paimon2: JavaPaimon, tmp_path: Path):
    for option, value in {"blob-as-descriptor": "true", "blob-descriptor-field": "a", "blob-view-field": "a"}.items():
        path = made(paimon2, tmp_path / option, **{option: value})
        with pytest.raises(UnsupportedError, match=f"'{option}'"):
            open_table(path).to_arrow()

    keyed = tmp_path / "keyed"
    options = {"bucket": "1", "row-tracking.enabled": "false", "data-evolution.enabled": "false"}
    fields = [["k", "BIGINT NOT NULL"], ["a", "BLOB"]]
    made(paimon2, keyed, fields, primary_keys=["k"], **{**options, "blob.target-file-size": "1 mb"})
    with pytest.raises(UnsupportedError, match="column 'a': type BLOB .* 'data-evolution.enabled'"):
        open_table(str(keyed)).to_arrow()
    listed = tmp_path / "listed"
    made(paimon2, listed, [["k", "BIGINT"], ["a", "ARRAY<BLOB>"]])
    with pytest.raises(UnsupportedError, match="a BLOB inside of another type"):
        open_table(str(listed))


def test_columns_that_cannot_be_are_refused(tmp_path: Path):
    catalog = Catalog(str(tmp_path / "lake"))
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
    cases: list[tuple[dict[str, str], dict[str, str], type[Exception], str]] = [
        ({"k": "INT", "a": "BLOB"}, {}, UnsupportedError, "'data-evolution.enabled' = 'true'"),
        ({"a": "BLOB"}, evolving, InvalidArgumentError, "a column of another type"),
        (
            {"k": "INT", "a": "BLOB"},
            {**evolving, "blob-field": "x"},
            InvalidArgumentError,
            "no column 'x' 'blob-field'",
        ),
        ({"k": "INT", "a": "BLOB"}, {**evolving, "blob-field": "k"}, InvalidArgumentError, "'blob-field': column 'k'"),
        ({"k": "INT", "a": "ARRAY<BLOB>"}, evolving, UnsupportedError, "a BLOB inside of another type"),
        ({"k": "INT", "a": "MAP<INT, BLOB>"}, evolving, UnsupportedError, "a BLOB inside of another type"),
    ]
    for columns, options, error, what in cases:
        with pytest.raises(error, match=what):
            catalog.create_table("db.t", schema=columns, options=options)
    with pytest.raises((InvalidArgumentError, UnsupportedError), match="partition"):
        catalog.create_table("db.t", schema={"k": "INT", "a": "BLOB"}, partition_keys=["a"], options=evolving)
