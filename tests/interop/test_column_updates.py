"""Updates of some columns, in turns with Java Paimon 2.0: it reads what we add, and adds to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import AddColumn, Table, UnsupportedError, open_table
from paimon_engine.meta.schema import ROW_ID
from tests.support.canonical import rows_of, text_of
from tests.support.evolution import again, assert_alike, created
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

pytestmark = pytest.mark.java

TYPES = {"k": pa.int64(), "a": pa.int32(), "b": pa.string(), "c": pa.list_(pa.int32())}


def updated(table: Table, numbers: list[int], **columns: list[Any]) -> None:
    arrays = {name: pa.array(column, TYPES[name]) for name, column in columns.items()}
    table.update_columns(pa.table({ROW_ID: pa.array(numbers, pa.int64()), **arrays}))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_reads_updates(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"file.format": file_format})

    updated(table, [25, 4, 14], a=[7, None, 9], c=[None, [1, 2], []])

    found = assert_alike(paimon2, path)
    assert [4, None, "b4", [1, 2]] in found
    assert [14, 9, "new14", []] in found
    assert [25, 7, "b25", None] in found
    assert [5, 205, "b5", [5, 5]] in found
    again(paimon2, path, ["a"], [[1] for _ in range(10)], 0)
    updated(open_table(path), [0, 29], b=["ours", "ours"])
    assert_alike(paimon2, path)
    assert table.verify("rows").problems == ()


def test_entries_are_those_that_java_writes(paimon2: JavaPaimon, tmp_path: Path):
    paths = [str(tmp_path / name) for name in ("ours", "theirs")]
    for path in paths:
        created(paimon2, path)
    updated(open_table(paths[0]), list(range(10, 20)), a=list(range(10)), b=[f"n{key}" for key in range(10)])
    again(paimon2, paths[1], ["a", "b"], [[key, f"n{key}"] for key in range(10)], 10)

    names = [
        "partition",
        "bucket",
        "file_format",
        "schema_id",
        "level",
        "record_count",
        "null_value_counts",
        "min_value_stats",
        "max_value_stats",
        "min_sequence_number",
        "max_sequence_number",
        "first_row_id",
        "write_cols",
    ]
    entries = []
    for path in paths:
        files = open_table(f"{path}$files").to_arrow().sort_by([("max_sequence_number", "descending")])
        entries.append(files.select(names).slice(0, 1).to_pylist())
    assert entries[0] == entries[1]
    snapshots = [open_table(f"{path}$snapshots").to_arrow().to_pylist()[-1] for path in paths]
    for name in ("commit_kind", "total_record_count", "delta_record_count", "next_row_id"):
        assert snapshots[0][name] == snapshots[1][name], name
    assert_alike(paimon2, paths[0])


def test_rows_that_are_deleted_stay_deleted(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"deletion-vectors.enabled": "true"})
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    oldest = min(files, key=lambda one: (one["first_row_id"], one["max_sequence_number"]))
    paimon2.call("delete_positions", table=path, positions={Path(oldest["file_path"]).name: [2, 3, 9]})

    updated(table, [2, 4], a=[1, 1])

    found = assert_alike(paimon2, path)
    assert not {2, 3, 9} & {row[0] for row in found}
    assert [4, 1, "b4", [4, 4]] in found


@pytest.mark.parametrize("client", ["python", "rust"])
def test_pypaimon_reads_updates(client: str, paimon2: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path):
    path = str(tmp_path / "db.db" / "t")
    table = created(paimon2, path)

    updated(table, [25, 4], a=[7, None], b=["x", "y"])

    found = rows_of(pypaimon.read(path, client=client))
    assert sorted(found, key=text_of) == assert_alike(paimon2, path)


@pytest.mark.parametrize("seed", range(3))
def test_turns(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    chance = random.Random(seed)
    path = str(tmp_path / "t")
    created(paimon2, path)
    for step in range(10):
        table = open_table(path)
        what = chance.choice(["ours", "ours", "theirs", "rows", "our compaction", "their compaction"])
        if what == "ours":
            ids = open_table(f"{path}$row_tracking").to_arrow()[ROW_ID].to_pylist()
            chosen = chance.sample(ids, chance.randrange(1, len(ids)))
            name = chance.choice(["a", "b", "k"])
            updated(table, chosen, **{name: [f"s{step}" if name == "b" else step for _ in chosen]})
        elif what == "theirs":
            groups = {(one["first_row_id"], one["record_count"]) for one in _files(path)}
            first, count = chance.choice(sorted(groups))
            again(paimon2, path, ["b"], [[f"java{step}"] for _ in range(count)], first)
        elif what == "rows":
            table.write(pa.table({name: pa.array([None], kind) for name, kind in TYPES.items()}))
        elif what == "our compaction":
            table.compact(full=True)
        else:
            paimon2.call("compact", table=path)
        assert_alike(paimon2, path)
    assert open_table(path).verify("rows").problems == ()
    paimon2.assert_sound(path)


def _files(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(f"{path}$files").to_arrow().to_pylist()
    return found


def test_columns_that_came_later_and_were_renamed(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    created(paimon2, path)
    changes = [{"change": "rename", "name": "a", "to": "x"}, {"change": "add", "name": "a", "type": "DOUBLE"}]
    paimon2.call("alter", table=path, changes=changes)
    table = open_table(path)

    table.update_columns(pa.table({ROW_ID: [4, 25], "a": [0.5, 1.5]}))
    table.update_columns(pa.table({ROW_ID: [5], "x": pa.array([1], pa.int32())}))

    found = assert_alike(paimon2, path)
    assert [4, 204, "b4", [4, 4], 0.5] in found
    assert [5, 1, "b5", [5, 5], None] in found
    assert [25, 25, "b25", [25], 1.5] in found


EVOLUTION = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def made(paimon2: JavaPaimon, path: str, fields: list[list[str]], **options: str) -> Table:
    paimon2.call(
        "create_table", table=path, fields=fields, primary_keys=[], partition_keys=[], options={**EVOLUTION, **options}
    )
    return open_table(path)


@pytest.mark.parametrize("size", ["1 gb", "40 b"])
def test_values_of_blobs(size: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = made(paimon2, path, [["k", "BIGINT"], ["b", "BLOB"], ["d", "BLOB"]], **{"blob.target-file-size": size})
    values = [b"x" * key if key % 4 else None for key in range(12)]
    for begin in (0, 6):
        keys = range(begin, begin + 6)
        table.write(pa.table({"k": list(keys), "b": values[begin : begin + 6], "d": [b"d"] * 6}))

    table.update_columns(pa.table({ROW_ID: [11, 0, 1, 4], "b": [None, b"zero", b"one", b"four"]}))

    values[0], values[1], values[4], values[11] = b"zero", b"one", b"four", None
    assert_alike(paimon2, path)
    assert table.to_arrow().sort_by("k")["b"].to_pylist() == values
    table.update_columns(pa.table({ROW_ID: [1, 2, 8], "k": [101, 102, 108], "b": [b"1", None, b"8"], "d": [b"e"] * 3}))
    values[1], values[2], values[8] = b"1", None, b"8"
    assert_alike(paimon2, path)
    found = {row["k"] % 100: row for row in table.to_arrow().to_pylist()}
    assert [found[key]["b"] for key in range(12)] == values
    assert [key for key in range(12) if found[key]["d"] == b"e"] == [1, 2, 8]
    table.compact(full=True)
    assert_alike(paimon2, path)
    assert table.verify("rows").problems == ()


def test_values_of_blobs_in_a_new_column(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = made(paimon2, path, [["k", "BIGINT"]])
    table.write(pa.table({"k": [0, 1, 2]}))
    table.alter([AddColumn("b", "BLOB")])

    open_table(path).update_columns(pa.table({ROW_ID: [1], "b": [b"one"]}))

    assert_alike(paimon2, path)
    assert open_table(path).to_arrow()["b"].to_pylist() == [None, b"one", None]


def test_vectors(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = made(paimon2, path, [["k", "BIGINT"], ["v", "VECTOR<FLOAT, 2>"]])
    kind = pa.list_(pa.float32(), 2)
    table.write(pa.table({"k": [0, 1, 2], "v": pa.array([[0, 0], [1, 1], [2, 2]], kind)}))

    table.update_columns(pa.table({ROW_ID: [1, 2], "v": pa.array([None, [30, 31]], kind)}))

    assert_alike(paimon2, path)
    assert table.to_arrow().sort_by("k")["v"].to_pylist() == [[0, 0], None, [30, 31]]


def test_vectors_in_files_of_their_own_are_refused(paimon2: JavaPaimon, tmp_path: Path):
    fields = [["k", "BIGINT"], ["v", "VECTOR<FLOAT, 1>"]]
    table = made(paimon2, str(tmp_path / "t"), fields, **{"vector.file.format": "parquet"})
    vectors = pa.array([[1]], pa.list_(pa.float32(), 1))
    table.write(pa.table({"k": [1], "v": vectors}))

    with pytest.raises(UnsupportedError, match="column 'v' is in files of its own"):
        table.update_columns(pa.table({ROW_ID: [0], "v": vectors}))
    table.update_columns(pa.table({ROW_ID: [0], "k": [2]}))

    assert_alike(paimon2, str(tmp_path / "t"))
