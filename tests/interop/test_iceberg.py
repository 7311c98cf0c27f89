"""Iceberg metadata: Java Paimon 2 writes the same for the same commits, and goes on with ours as we with its."""

from __future__ import annotations

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.iceberg.publication import publish
from paimon_engine.table.state.handle import load_table
from tests.support import iceberg
from tests.support.oracle import JavaPaimon

KEEP = {"snapshot.num-retained.min": "50"}
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}
FIELDS = [["k", "INT NOT NULL"], ["d", "DATE NOT NULL"], ["v", "STRING"], ["n", "DECIMAL(10, 2)"], ["a", "ARRAY<INT>"]]
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append": ([], [], {"bucket": "-1"}),
    "append in partitions": ([], ["d"], {"bucket": "1", "bucket-key": "k"}),
    "keys": (["k"], [], {"bucket": "1"}),
    "keys in partitions": (["k", "d"], ["d"], {"bucket": "2", "num-levels": "3"}),
    "vectors": (["k"], [], {"bucket": "1", **VECTORS}),
}


def rows(begin: int, end: int) -> list[list[Any]]:
    return [[n, f"2024-01-0{n % 3 + 1}", None if n % 5 == 0 else f"v{n}", f"{n}.25", [n, n]] for n in range(begin, end)]


def created(java: JavaPaimon, path: Path, kind: str, **options: str) -> str:
    keys, partitions, wanted = KINDS[kind]
    wanted = {"metadata.iceberg.storage": "table-location", **KEEP, **wanted, **options}
    java.call(
        "create_table",
        table=str(path),
        fields=FIELDS,
        primary_keys=keys,
        partition_keys=partitions,
        options=wanted,
    )
    return str(path)


@pytest.mark.java
@pytest.mark.parametrize("kind", KINDS)
def test_java_writes_the_same_for_the_same_commits(kind: str, tmp_path: Path, paimon2: JavaPaimon):
    path = created(paimon2, tmp_path / "java", kind)
    twin = tmp_path / "kept" / "metadata"
    for step in range(4):
        paimon2.call("write", table=path, rows=rows(step * 3, step * 3 + 6))
        if step % 2:
            paimon2.call("compact", table=path, full=True)
        # Our own metadata of the steps before, beside the table as Java has it now.
        copy = tmp_path / "java_now"
        shutil.copytree(path, copy / "t")
        theirs = copy / "t" / "metadata"
        theirs.rename(copy / "theirs")
        if twin.exists():
            shutil.copytree(twin, theirs)
        publish(load_table(str(copy / "t"), EnvConfig(str(copy / "t"))))

        assert iceberg.version(theirs) == iceberg.version(copy / "theirs")
        assert iceberg.live_files(theirs) == iceberg.live_files(copy / "theirs")
        ours, javas = iceberg.document(theirs), iceberg.document(copy / "theirs")
        for key in ("schemas", "partition-specs", "last-column-id", "current-schema-id", "last-partition-id", "refs"):
            assert ours[key] == javas[key], key
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)
        shutil.copytree(theirs, twin)
        shutil.rmtree(copy)


@pytest.mark.java
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vectors"])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_turns_on_one_table(kind: str, first: str, tmp_path: Path, paimon2: JavaPaimon):
    path = created(paimon2, tmp_path / "turns", kind)
    metadata = Path(path) / "metadata"
    for step in range(6):
        is_java = (step % 2 == 0) == (first == "java")
        table = open_table(path)
        if is_java:
            paimon2.call("write", table=path, rows=rows(step * 3, step * 3 + 6))
            paimon2.call("compact", table=path, full=True)
        else:
            table.write(open_rows(table, step))
            table.compact(full=True)

        assert iceberg.rows(metadata) == iceberg.in_order(open_table(path).to_arrow().to_pylist())
    assert len(iceberg.document(metadata)["snapshots"]) > 6


def open_rows(table: Any, step: int) -> Any:
    found = rows(step * 3, step * 3 + 6)
    columns = [
        [row[0] for row in found],
        [date.fromisoformat(row[1]) for row in found],
        [row[2] for row in found],
        [Decimal(row[3]) for row in found],
        [row[4] for row in found],
    ]
    schema = table.to_arrow().schema
    return pa.table(columns, schema=schema)
