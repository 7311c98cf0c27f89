"""Columns of VECTOR in files of their own (`vector.file.format`), in turns with Java Paimon 2.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, CorruptTableError, SetOption, Table, UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

OPTIONS = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "vector.file.format": "parquet",
}
FIELDS = [["k", "BIGINT"], ["v", "VECTOR<FLOAT, 3>"], ["s", "STRING"], ["u", "VECTOR<FLOAT, 2>"]]


def made(java: JavaPaimon, path: Path, **options: Any) -> str:
    java.call(
        "create_table",
        table=str(path),
        fields=options.pop("fields", FIELDS),
        primary_keys=[],
        partition_keys=options.pop("partition_keys", []),
        options={**OPTIONS, **options},
    )
    return str(path)


def made_here(path: Path, **options: Any) -> Table:
    schema = dict(options.pop("fields", FIELDS))
    keys = options.pop("partition_keys", [])
    return Catalog(str(path)).create_table("db.t", schema=schema, partition_keys=keys, options={**OPTIONS, **options})


def row(key: int) -> list[Any]:
    return [key, None if key % 4 == 3 else [key, -1.5, 0.25], f"s{key}", [key, -key] if key % 3 else None]


def rows(table: Table, first: int, end: int) -> pa.Table:
    names = [name for name, _ in FIELDS]
    return pa.Table.from_pylist(
        [dict(zip(names, row(key), strict=True)) for key in range(first, end)],
        pa.schema([table.arrow_schema.field(name) for name in names]),
    )


def alike(java: JavaPaimon, path: str) -> list[Any]:
    found = sorted(rows_of(open_table(path).to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    return found


def layout(java: JavaPaimon, path: str) -> list[Any]:
    kept = ("rows", "first_row_id", "columns", "level", "delete_rows")
    files = java.call("files", table=path)["files"]
    return sorted(([*(one.get(name) for name in kept), one["file"].split(".", 1)[1]] for one in files), key=json.dumps)


@pytest.mark.parametrize("vectors", ["parquet", "avro"])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_both_engines_make_and_read_the_same(vectors: str, file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    options = {"vector.file.format": vectors, "file.format": file_format}
    theirs = made(paimon2, tmp_path / "t", **options)
    ours = made_here(tmp_path, **options)
    for step in range(3):
        assert ours.write(rows(ours, step * 5, step * 5 + 5)).rows == 5
        paimon2.call("write", table=theirs, rows=[row(key) for key in range(step * 5, step * 5 + 5)])

    found = alike(paimon2, ours.path)

    assert found == alike(paimon2, theirs)
    assert len(found) == 15
    assert layout(paimon2, ours.path) == layout(paimon2, theirs)
    for path in (ours.path, theirs):
        table = open_table(path)
        checked = table.verify("rows")
        assert (checked.status, checked.rows) == ("sound", 15)
        assert table.to_arrow(where="k = 7", columns=["u"]).to_pylist() == [{"u": [7.0, -7.0]}]
        assert table.to_arrow(where="v IS NULL", columns=["k"])["k"].to_pylist() == [3, 7, 11]
        assert table.to_arrow(columns=["s"]).num_rows == 15
        done = table.compact(full=True)
        assert (done.status, done.rows_before, done.rows_after) == ("committed", 15, 15)
        assert alike(paimon2, path) == found
        assert table.compact(full=True).status == "noop"
        names = [one["file_format"] for one in open_table(f"{path}$files").to_arrow().to_pylist()]
        assert len(names) == 4
        assert paimon2.problems(path) == []
        table.write(rows(table, 15, 20))
        paimon2.call("write", table=path, rows=[row(key) for key in range(20, 25)])
        assert len(alike(paimon2, path)) == 25
        paimon2.call("compact", table=path)
        assert len(alike(paimon2, path)) == 25


def test_several_files_of_vectors_beside_one(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path, **{"vector.target-file-size": "1 b"})
    keys = range(2_500)
    names = [name for name, _ in FIELDS]
    given = [dict(zip(names, row(key), strict=True)) for key in keys]
    table.write(pa.Table.from_pylist(given, table.arrow_schema))

    assert [one[:3] for one in layout(paimon2, table.path) if one[2] == ["v", "u"]] == [
        [1000, 0, ["v", "u"]],
        [1000, 1000, ["v", "u"]],
        [500, 2000, ["v", "u"]],
    ]
    assert len(alike(paimon2, table.path)) == 2_500
    assert table.to_arrow(where="k = 1999").to_pylist() == [given[1999]]


def test_vectors_that_are_written_again(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t")
    for step in range(2):
        paimon2.call("write", table=path, rows=[row(key) for key in range(step * 5, step * 5 + 5)])
    again = [[[9.0, key, 1.0], [key, key]] for key in range(5)]
    paimon2.call("write", table=path, columns=["v", "u"], first_row_id=5, rows=again)

    found = alike(paimon2, path)

    assert [one[1] for one in found if one[0] >= 5] == [[9.0, float(key), 1.0] for key in range(5)]
    assert open_table(path).compact(full=True).status == "committed"
    assert alike(paimon2, path) == found


def test_partitions_deleted_rows_and_overwrites(paimon2: JavaPaimon, tmp_path: Path):
    fields = [["p", "STRING"], *FIELDS]
    table = made_here(tmp_path, fields=fields, partition_keys=["p"], **{"deletion-vectors.enabled": "true"})
    given = rows(table, 0, 10).add_column(0, "p", pa.array(list("xyxyxyxyxy")))
    table.write(given)
    assert len(alike(paimon2, table.path)) == 10
    files = open_table(f"{table.path}$files").to_arrow().to_pylist()
    names = [Path(one["file_path"]).name for one in files if ".vector." not in one["file_path"]]
    paimon2.call("delete_positions", table=table.path, positions={name: [0, 3] for name in names})
    assert len(alike(paimon2, table.path)) == 6
    table.write(given.slice(0, 1), overwrite={})
    assert len(alike(paimon2, table.path)) == 4
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert len(alike(paimon2, table.path)) == 4
    assert table.verify("rows").status == "sound"


def test_a_table_whose_vectors_were_in_data_files(paimon2: JavaPaimon, tmp_path: Path):
    """Rows from before the option keep their vectors, also in compactions: Java's would lose them."""
    table = made_here(tmp_path, **{"vector.file.format": ""})
    for step in range(2):
        table.write(rows(table, step * 5, step * 5 + 5))
    table.alter([SetOption("vector.file.format", "parquet")])
    for step in range(2, 4):
        table.write(rows(table, step * 5, step * 5 + 5))
    found = alike(paimon2, table.path)
    assert len(found) == 20

    table.compact(full=True)

    assert alike(paimon2, table.path) == found
    assert [one[1] for one in found if one[0] == 1] == [[1.0, -1.5, 0.25]]


def test_a_file_of_vectors_that_is_missing_or_of_no_rows(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path, **{"vector.target-file-size": "1 b"})
    names = [name for name, _ in FIELDS]
    table.write(
        pa.Table.from_pylist([dict(zip(names, row(key), strict=True)) for key in range(1_500)], table.arrow_schema)
    )
    [_, last] = sorted(Path(table.path).rglob("*.vector.parquet"), key=lambda path: path.stat().st_size, reverse=True)
    data = last.read_bytes()
    last.write_bytes(data[:-1])
    with pytest.raises(CorruptTableError, match=last.name):
        table.to_arrow()
    assert table.to_arrow(columns=["s"]).num_rows == 1_500
    assert any(last.name in str(problem) for problem in table.verify().problems)


@pytest.mark.parametrize("vectors", ["lance", "vortex", "orc"])
def test_formats_that_are_not_written(vectors: str, tmp_path: Path):
    with pytest.raises(UnsupportedError, match=f"'vector.file.format' = '{vectors}'"):
        made_here(tmp_path, **{"vector.file.format": vectors})
