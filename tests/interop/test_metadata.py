"""Metadata of other writers, written on by us: nothing of it gets lost, and its writers read the table as before."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from paimon_engine import Catalog, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def batch(first: int) -> pa.Table:
    return pa.table({"k": list(range(first, first + 3)), "v": [f"v{key}" for key in range(first, first + 3)]}, SCHEMA)


def base_list(path: Path) -> list[dict[str, Any]]:
    snapshot = latest_snapshot(load_table(str(path), EnvConfig(str(path))))
    assert snapshot is not None
    return list(fastavro.reader(io.BytesIO((path / "manifest" / snapshot.base_manifest_list).read_bytes())))


def test_tables_of_pypaimon_are_written_on(tmp_path: Path, pypaimon: PyPaimon, oracle: JavaPaimon):
    path = tmp_path / "db.db" / "t"
    pypaimon.create(path, SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    pypaimon.append(path, batch(0))
    pypaimon.append(path, batch(2))
    table = open_table(str(path))
    (listed,) = base_list(path)

    table.write(batch(4))

    known = {name: value for name, value in listed.items() if value is not None}
    assert {name: base_list(path)[0].get(name) for name in known} == known
    assert "_TOTAL_BUCKETS" in known
    result = table.compact_manifests()
    assert (result.status, result.manifests_after) == ("committed", 1)
    table.analyze()
    pypaimon.append(path, batch(6))
    expected = [[key, f"v{key}"] for key in range(9)]
    assert_same_rows(rows_of(table.to_arrow()), expected)
    assert_same_rows(oracle.read(path), expected)
    assert_same_rows(rows_of(pypaimon.read(path)), expected)


def test_a_level_may_be_as_high_as_java_makes_it(tmp_path: Path, paimon2: JavaPaimon, oracle: JavaPaimon):
    path = str(tmp_path / "db.db" / "t")
    many = {"bucket": "1", "num-sorted-run.compaction-trigger": "2000"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=many)
    table.write(batch(0))
    table.write(batch(2))
    for java in (paimon2, oracle):
        java.call("compact", table=path, full=True)
        assert table.files()["level"].to_pylist() == [2000]
        assert table.verify("rows").problems == ()
        table.write(batch(4))
    table.compact(full=True)

    assert table.files()["level"].to_pylist() == [2000]
    expected = [[key, f"v{key}"] for key in range(7)]
    for read in (rows_of(table.to_arrow()), oracle.read(path), paimon2.read(path)):
        assert_same_rows(read, expected)
