"""Global indexes of Java 2.0 (`btree`, `bitmap`): tables are read right without them, and no write leaves one stale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

KINDS = ("btree", "bitmap")


def make(paimon2: JavaPaimon, tmp_path: Path, kind: str, **more: Any) -> str:
    """A table of 1,000 rows in which Java has indexed the column `v`, and replaced 200 rows; three versions."""
    path = f"{tmp_path}/lake/db.db/t"
    fields = [["id", "BIGINT NOT NULL"], ["v", "STRING"], *more.pop("fields", [])]
    options = {"bucket": "1", "deletion-vectors.enabled": "true", f"pk-{kind}.index.columns": "v"}
    paimon2.call("create_table", table=path, fields=fields, options=options, **{"primary_keys": ["id"], **more})
    wide = len(fields) > 2
    for begin, end, word in ((0, 1000, "v"), (500, 700, "w")):
        rows = [[i, f"{word}{i % 7}", *([f"p{i % 2}"] if wide else [])] for i in range(begin, end)]
        paimon2.call("write", table=path, rows=rows)
        paimon2.call("compact", table=path, full=True)
    assert kind in kinds(path)
    return path


def index_files(path: str) -> list[IndexFile]:
    handle = load_table(path, EnvConfig(path))
    return live_index_files(handle, latest_snapshot(handle))


def kinds(path: str) -> set[str]:
    return {file.kind for file in index_files(path)}


def without_index(path: str, kind: str) -> Table:
    """The table as somebody writes to it who sets the option that the engine lacks aside."""
    return open_table(path, options={f"pk-{kind}.index.columns": ""})


def found(paimon2: JavaPaimon, path: str, value: str) -> list[int]:
    """Keys of the rows with that value, by Java, which uses the index."""
    return sorted(
        row[0] for row in paimon2.call("read", table=path, filter=["=", "v", value], execute_filter=True)["rows"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_without_the_index(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    path = make(paimon2, tmp_path, kind)
    table = open_table(path)
    expected = [key for key in range(500, 700) if key % 7 == 3]
    assert sorted(table.to_arrow(where="v = 'w3'")["id"].to_pylist()) == expected == found(paimon2, path, "w3")
    assert table.to_arrow().num_rows == 1000
    assert table.verify().status == "sound"


@pytest.mark.parametrize("kind", KINDS)
def test_writes_are_refused_by_name(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    table = open_table(make(paimon2, tmp_path, kind))
    for act in (lambda: table.write(pa.table({"id": [1], "v": ["x"]})), lambda: table.compact(full=True)):
        with pytest.raises(UnsupportedError, match=f"'pk-{kind}.index.columns'"):
            act()


@pytest.mark.parametrize("kind", KINDS)
def test_what_needs_no_rows_keeps_the_index(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    path = make(paimon2, tmp_path, kind)
    table = open_table(path)
    table.create_tag("t")
    table.compact_manifests()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert table.remove_orphan_files(older_than="1 d").files_deleted == 0
    assert kind in kinds(path)
    assert found(paimon2, path, "w3") == [key for key in range(500, 700) if key % 7 == 3]
    assert paimon2.problems(path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_only_added_leave_a_valid_index(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    path = make(paimon2, tmp_path, kind)
    without_index(path, kind).write(pa.table({"id": [3, 2000], "v": ["new", "new"]}))
    assert kind in kinds(path)
    paimon2.call("compact", table=path, full=True)
    assert found(paimon2, path, "new") == [3, 2000]
    assert 3 not in found(paimon2, path, "v3")


@pytest.mark.parametrize("kind", KINDS)
def test_a_compaction_drops_the_index_of_what_it_replaces(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    path = make(paimon2, tmp_path, kind)
    before = {file.name for file in index_files(path) if file.kind == kind}
    table = without_index(path, kind)
    table.write(pa.table({"id": [3, 2000], "v": ["new", "new"]}))
    table.compact(full=True)
    assert kind not in kinds(path)
    assert found(paimon2, path, "new") == [3, 2000]
    assert found(paimon2, path, "v3") == [
        key for key in range(1000) if key % 7 == 3 and key != 3 and not 500 <= key < 700
    ]
    assert paimon2.problems(path) == []

    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert not before & {info.name for info in Path(path, "index").iterdir()}
    # With the option Java makes a new one.
    paimon2.call("write", table=path, rows=[[4, "newer"]])
    paimon2.call("compact", table=path, full=True)
    assert kind in kinds(path)
    assert found(paimon2, path, "newer") == [4]


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_that_is_dropped_takes_its_index_and_no_other(paimon2: JavaPaimon, tmp_path: Path, kind: str):
    more = {"fields": [["p", "STRING NOT NULL"]], "primary_keys": ["id", "p"], "partition_keys": ["p"]}
    path = make(paimon2, tmp_path, kind, **more)
    entries = [file for file in index_files(path) if file.kind == kind]
    assert len({file.partition for file in entries}) == 2

    open_table(path).drop_partition({"p": "p0"})

    left = [file for file in index_files(path) if file.kind == kind]
    assert left == [file for file in entries if file.partition == left[0].partition]
    assert [file.unknown for file in left] == [file.unknown for file in entries if file in left]
    assert found(paimon2, path, "w3") == [key for key in range(501, 700, 2) if key % 7 == 3]
    assert paimon2.problems(path) == []


def evolved_with_index(paimon2: JavaPaimon, tmp_path: Path) -> Table:
    """A table with data evolution, and a global index of its column `v` by what its index manifest says."""
    [entry] = [file for file in index_files(make(paimon2, tmp_path / "keyed", "btree")) if file.kind == "btree"][:1]
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = Catalog(str(tmp_path)).create_table(
        "db.e", schema={"id": "BIGINT", "v": "STRING", "w": "STRING"}, options=options
    )
    table.write(pa.table({"id": [1, 2], "v": ["a", "b"], "w": ["c", "d"]}))
    writer = MetadataWriter(load_table(table.path, EnvConfig(table.path)))
    name = writer.index_manifest([replace(entry, partition=EMPTY_ROW)])
    path = Path(table.path, "snapshot", "snapshot-1")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"indexManifest": name}))
    return table


def test_updates_leave_no_index_that_does_not_fit(paimon2: JavaPaimon, tmp_path: Path):
    table = evolved_with_index(paimon2, tmp_path)

    with pytest.raises(UnsupportedError, match=r"btree.*'global-index\.column-update-action'"):
        table.update_columns(pa.table({"_ROW_ID": [0], "v": ["x"]}))
    table.update_columns(pa.table({"_ROW_ID": [0], "w": ["x"]}))

    assert kinds(table.path) == {"btree"}
    dropping = open_table(table.path, options={"global-index.column-update-action": "DROP_PARTITION_INDEX"})
    dropping.update_columns(pa.table({"_ROW_ID": [0], "v": ["x"]}))
    assert kinds(table.path) == set()
    assert table.to_arrow(where="v = 'x'").to_pylist() == [{"id": 1, "v": "x", "w": "x"}]
