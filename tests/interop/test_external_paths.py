"""Data files outside the table (`data-file.external-paths`), in turns with Java Paimon 2.0 and pypaimon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, SetOption, Table, open_table
from tests.support.canonical import rows_of as canonical_rows
from tests.support.canonical import text_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

FIELDS = [["p", "STRING NOT NULL"], ["k", "BIGINT NOT NULL"], ["v", "STRING"]]
SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)
STRATEGIES: dict[str, dict[str, str]] = {
    "round-robin": {},
    "entropy-inject": {},
    "weight-robin": {"data-file.external-paths.weights": "3, 1"},
    "specific-fs": {"data-file.external-paths.specific-fs": "FILE"},
}


def spread(folder: Path, strategy: str) -> dict[str, str]:
    """Options for files in two directories beside the table."""
    return {
        "data-file.external-paths": f"file://{folder}/far, file:{folder}/off",
        "data-file.external-paths.strategy": strategy,
        **STRATEGIES[strategy],
    }


def made(folder: Path, options: Mapping[str, str], *, keyed: bool = True) -> Table:
    keys = ["p", "k"] if keyed else []
    catalog = Catalog(str(folder), storage_options=allowed(folder))
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, partition_keys=["p"], options=options)


def allowed(folder: Path) -> dict[str, str]:
    return {"external-paths.deletable": f"{folder}/far, {folder}/off"}


def lines(*keys: int, value: str = "x") -> pa.Table:
    return pa.table({"p": ["ab"[key % 2] for key in keys], "k": list(keys), "v": [value] * len(keys)}, SCHEMA)


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.*") if path.is_file() and path.name.startswith("data-"))


def alike(java: JavaPaimon, table: Table) -> list[Any]:
    found = sorted(canonical_rows(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(table.path), key=text_of)
    assert java.problems(table.path) == []
    checked = table.verify("rows")
    assert (checked.status, checked.closed) == ("sound", 0)
    return found


@pytest.mark.java
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "lines"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_engines_write_outside_and_read_each_other(
    strategy: str, keyed: bool, paimon2: JavaPaimon, tmp_path: Path
):
    options = {"bucket": "1" if keyed else "-1", **spread(tmp_path, strategy)}
    table = made(tmp_path, options, keyed=keyed)

    for step in range(4):
        assert table.write(lines(step, step + 10, step + 11)).rows == 3
        paimon2.call("write", table=table.path, rows=[["a", step, "java"], ["b", step + 100, "java"]])
    assert data_files(Path(table.path)) == []
    assert len(data_files(tmp_path)) >= 12
    before = alike(paimon2, open_table(table.path, storage_options=allowed(tmp_path)))

    assert table.compact(full=True).status == "committed"
    after = alike(paimon2, open_table(table.path, storage_options=allowed(tmp_path)))

    assert after == before
    assert data_files(Path(table.path)) == []
    table.expire_snapshots(retain_max=1, retain_min=1)
    live = [entry["file_path"].removeprefix("file:") for entry in table.files().to_pylist()]
    assert sorted(live) == [str(path) for path in data_files(tmp_path)]
    assert alike(paimon2, table) == after


@pytest.mark.java
def test_java_chooses_the_same_places(paimon2: JavaPaimon, tmp_path: Path):
    options = {"bucket": "1", "data-file.path-directory": "data", **spread(tmp_path, "entropy-inject")}
    table = made(tmp_path, options)

    table.write(lines(1))
    paimon2.call("write", table=table.path, rows=[["b", 3, "java"]])

    places = [path.relative_to(tmp_path).parts[1:-1] for path in data_files(tmp_path)]
    assert [place[:3] for place in places] == [("data", "p=b", "bucket-0")] * 2
    assert [list(map(len, place[3:])) for place in places] == [[4, 4, 4, 8]] * 2
    for file in data_files(tmp_path):
        # What Java made of its own names must be what is made of them here.
        assert _entropy(file.name) == "/".join(file.relative_to(tmp_path).parts[4:-1])


def _entropy(name: str) -> str:
    mmh3 = pytest.importorskip("mmh3")
    digits = f"{mmh3.hash(name) & 0xFFFFF:020b}"
    return "/".join((digits[:4], digits[4:8], digits[8:12], digits[12:]))


@pytest.mark.java
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "lines"])
def test_files_move_out_and_back_by_full_compactions(keyed: bool, paimon2: JavaPaimon, tmp_path: Path):
    table = made(tmp_path, {"bucket": "1", **({} if keyed else {"bucket-key": "k"})}, keyed=keyed)
    for step in range(3):
        table.write(lines(step, step + 1))
    table.compact(full=True)
    rows = alike(paimon2, table)
    inside = data_files(Path(table.path))

    table.alter([SetOption(*item) for item in spread(tmp_path, "round-robin").items()])
    assert table.compact(full=True).status == "noop"
    moving = open_table(
        table.path, options={"compaction.force-rewrite-all-files": "true"}, storage_options=allowed(tmp_path)
    )
    assert moving.compact(full=True).status == "committed"

    assert alike(paimon2, moving) == rows
    assert not any(
        "bucket-0" in entry["file_path"] and str(table.path) in entry["file_path"] for entry in entries(moving)
    )
    assert set(data_files(Path(table.path))) == set(inside), "older snapshots need them"

    table.alter([SetOption("data-file.external-paths.strategy", "none")])
    moving = open_table(
        table.path, options={"compaction.force-rewrite-all-files": "true"}, storage_options=allowed(tmp_path)
    )
    assert moving.compact(full=True).status == "committed"
    assert alike(paimon2, moving) == rows
    assert all(str(table.path) in entry["file_path"] for entry in entries(moving))


def entries(table: Table) -> list[dict[str, Any]]:
    return table.files().to_pylist()


@pytest.mark.java
def test_file_indexes_are_beside_their_files(paimon2: JavaPaimon, tmp_path: Path):
    options = {
        "bucket": "1",
        "file-index.bloom-filter.columns": "v",
        "file-index.in-manifest-threshold": "1 b",
        **spread(tmp_path, "entropy-inject"),
    }
    table = made(tmp_path, options)
    table.write(lines(1, 2, 3))
    outside = {path.name: path.parent for path in data_files(tmp_path)}
    assert len(outside) == 4
    assert all(outside[name] == outside[name.partition(".index")[0].partition("-index")[0]] for name in outside)
    assert table.to_arrow(where="v = 'nothing'").num_rows == 0

    table.alter([SetOption("file-index.bitmap.columns", "k")])
    again = open_table(table.path, storage_options=allowed(tmp_path))
    assert again.rewrite_file_index().status == "committed"

    assert alike(paimon2, again)
    assert data_files(Path(table.path)) == []
    assert again.to_arrow(where="v = 'nothing'").num_rows == 0
    assert again.to_arrow(where="k = 2")["v"].to_pylist() == ["x"]


@pytest.mark.java
def test_files_beside_data_files_are_outside_too(paimon2: JavaPaimon, tmp_path: Path):
    schema = {"k": "BIGINT", "v": "VECTOR<FLOAT, 2>", "b": "BLOB"}
    options = {
        "bucket": "-1",
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "vector.file.format": "parquet",
        **spread(tmp_path, "round-robin"),
    }
    catalog = Catalog(str(tmp_path), storage_options=allowed(tmp_path))
    table = catalog.create_table("db.t", schema=schema, options=options)
    for step in range(2):
        rows = [{"k": step, "v": [step, 1.0], "b": b"\x01" * (step + 1)}]
        table.write(pa.Table.from_pylist(rows, pa.schema([table.arrow_schema.field(name) for name in schema])))

    alike(paimon2, table)
    assert data_files(Path(table.path)) == []
    assert {path.name.split(".", 1)[1] for path in data_files(tmp_path)} == {"parquet", "blob", "vector.parquet"}
    table.compact(full=True)
    assert len(alike(paimon2, table)) == 2
    assert data_files(Path(table.path)) == []


@pytest.mark.parametrize("client", ["python", "rust"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "lines"])
def test_pypaimon_reads_files_outside(keyed: bool, client: Any, pypaimon: PyPaimon, tmp_path: Path):
    table = made(tmp_path, {"bucket": "1" if keyed else "-1", **spread(tmp_path, "entropy-inject")}, keyed=keyed)
    table.write(lines(1, 2, 3))
    table.write(lines(2, 4, value="y"))

    found = pypaimon.read(table.path, client=client)

    order = [(name, "ascending") for name in SCHEMA.names]
    assert found.select(SCHEMA.names).sort_by(order).to_pylist() == table.to_arrow().sort_by(order).to_pylist()


@pytest.mark.java
def test_changelogs_are_outside_too(paimon2: JavaPaimon, tmp_path: Path):
    table = made(tmp_path, {"bucket": "1", "changelog-producer": "input", **spread(tmp_path, "round-robin")})
    table.write(lines(1, 3))
    table.write(lines(3, value="y"))

    changes = table.to_arrow(incremental=(0, 2))

    assert sorted(canonical_rows(changes), key=text_of) == [["b", 1, "x"], ["b", 3, "y"]]
    assert list(Path(table.path).rglob("*.parquet")) == []
    assert len(list(tmp_path.rglob("changelog-*"))) == 2
    assert len(alike(paimon2, table)) == 2
