"""Columns of VECTOR, in turns with Java Paimon 2.0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, CorruptTableError, InvalidArgumentError, UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["v", "VECTOR<FLOAT, 3>"], ["s", "STRING"]]
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "primary key": (("k",), {"bucket": "1"}),
    "append": ((), {"bucket": "-1"}),
    "avro": (("k",), {"bucket": "1", "file.format": "avro"}),
    "partial update": (("k",), {"bucket": "2", "merge-engine": "partial-update"}),
    "last value": (("k",), {"bucket": "1", "merge-engine": "aggregation"}),
    "changelog by lookup": (("k",), {"bucket": "1", "changelog-producer": "lookup"}),
    "full compaction": (("k",), {"bucket": "1", "changelog-producer": "full-compaction"}),
    "deletion vectors": (("k",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "row ids": ((), {"bucket": "-1", "row-tracking.enabled": "true"}),
    "data evolution": ((), {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
}


def made(java: JavaPaimon, path: Path, keys: tuple[str, ...], options: dict[str, str]) -> str:
    options = {"vector-field": "v", **options}
    java.call(
        "create_table", table=str(path), fields=FIELDS, primary_keys=list(keys), partition_keys=[], options=options
    )
    return str(path)


def row(key: int, step: int = 0) -> list[Any]:
    return [key, None if key % 4 == 3 else [key + step / 2, -1.5, float(step)], f"s{key}"]


def alike(java: JavaPaimon, path: str) -> list[Any]:
    found = sorted(rows_of(open_table(path).to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_read_written_and_compacted_in_turns(kind: str, paimon2: JavaPaimon, tmp_path: Path):
    keys, options = KINDS[kind]
    path = made(paimon2, tmp_path / "t", keys, options)
    paimon2.call("write", table=path, rows=[row(key) for key in range(8)])
    paimon2.call("write", table=path, rows=[row(key, 1) for key in range(4, 12)])
    paimon2.call("compact", table=path)
    assert len(alike(paimon2, path)) == (12 if keys else 16)

    table = open_table(path)
    data = table.to_arrow(where="k < 6")
    assert data.schema.field("v").type == pa.list_(pa.field("element", pa.float32()), 3)
    vectors = pa.array([[9.0, 8.0, 7.0] if n % 2 else None for n in range(data.num_rows)], pa.list_(pa.float32()))
    table.write(data.set_column(1, "v", vectors))
    alike(paimon2, path)
    table.compact(full=True)
    assert [9.0, 8.0, 7.0] in [one[1] for one in alike(paimon2, path)]
    assert paimon2.problems(path) == []
    assert open_table(path).verify("rows").status == "sound"


def test_tables_of_this_engine_are_read_by_java(paimon2: JavaPaimon, tmp_path: Path):
    catalog = Catalog(str(tmp_path / "lake"))
    columns = {"id": "BIGINT", "v": "VECTOR<DOUBLE NOT NULL, 2> NOT NULL", "w": "VECTOR<TINYINT, 4>"}
    table = catalog.create_table("db.t", schema=columns, options={"vector-field": "v,w"})
    table.write(pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]], "w": [None, [1, 2, 3, -4]]}))
    path = str(tmp_path / "lake/db.db/t")

    assert len(alike(paimon2, path)) == 2
    [one] = [field for field in paimon2.call("schema", table=path)["schema"]["fields"] if field["name"] == "v"]
    assert one["type"] == {"type": "VECTOR NOT NULL", "element": "DOUBLE NOT NULL", "length": 2}
    assert table.to_arrow(where="id = 2", columns=["w"]).to_pylist() == [{"w": [1, 2, 3, -4]}]
    assert open_table(f"{path}$audit_log").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("vectors", "what"),
    [([[1.0]], "column 'v'"), ([[1.0, None, 2.0]], "column 'v'"), ([["x", "y", "z"]], "column 'v'")],
)
def test_vectors_that_do_not_fit_are_refused(vectors: Any, what: str, tmp_path: Path):
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema={"k": "BIGINT", "v": "VECTOR<FLOAT, 3>"})

    with pytest.raises(InvalidArgumentError, match=what):
        table.write(pa.table({"k": [1], "v": vectors}))


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("VECTOR<STRING, 3>", {}, InvalidArgumentError),
        ("VECTOR<FLOAT, 0>", {}, InvalidArgumentError),
        ("VECTOR<FLOAT>", {}, InvalidArgumentError),
        ("ARRAY<FLOAT>", {"vector-field": "v"}, InvalidArgumentError),
        ("VECTOR<FLOAT, 3>", {"vector-field": "x"}, InvalidArgumentError),
        ("VECTOR<FLOAT, 3>", {"sequence.field": "v"}, InvalidArgumentError),
        ("ARRAY<VECTOR<FLOAT, 3>>", {}, UnsupportedError),
        ("ROW<a VECTOR<FLOAT, 3>>", {}, UnsupportedError),
        ("VECTOR<FLOAT, 3>", {"file.format": "orc"}, UnsupportedError),
        ("VECTOR<FLOAT, 3>", {"vector.file.format": "vortex"}, UnsupportedError),
    ],
)
def test_columns_that_cannot_be_are_refused(kind: str, options: dict[str, str], error: type[Exception], tmp_path: Path):
    catalog = Catalog(str(tmp_path / "lake"))

    with pytest.raises(error, match=r"VECTOR|vector|'v'"):
        catalog.create_table("db.t", schema={"k": "BIGINT", "v": kind}, primary_keys=["k"], options=options)


def test_arrays_of_another_length_are_damage(tmp_path: Path):
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema={"k": "BIGINT", "v": "VECTOR<FLOAT, 3>"})
    table.write(pa.table({"k": [1], "v": [[1.0, 2.0, 3.0]]}))
    [schema] = (tmp_path / "lake/db.db/t/schema").iterdir()
    schema.write_text(schema.read_text().replace('"length" : 3', '"length" : 2').replace('"length": 3', '"length": 2'))

    with pytest.raises(CorruptTableError, match="its columns are not those of its schema"):
        open_table(str(tmp_path / "lake/db.db/t")).to_arrow()
