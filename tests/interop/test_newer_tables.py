"""Tables with what releases after 0.9 brought, made by Java Paimon 2, read and maintained by both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from tests.support.canonical import assert_same_rows, rows_of, table_of
from tests.support.oracle import JavaPaimon

FIELDS = [["k", "INT"], ["s", "STRING"]]


@dataclass(frozen=True)
class Feature:
    """Options of a table, and its columns."""

    options: Mapping[str, str]
    keys: tuple[str, ...] = ("k",)
    fields: list[list[str]] = field(default_factory=lambda: FIELDS)
    rows: tuple[list[list[Any]], ...] = (
        [[1, "a"], [2, "b"]],
        [[2, "c"], [3, None]],
        [[3, "d"], [4, "e"]],
        [[1, "f"]],
    )


VECTORS = {"deletion-vectors.enabled": "true"}
MAINTAINED = {
    "codecs in names": Feature({"bucket": "1", "file.suffix.include.compression": "true"}),
    "codecs in names of avro": Feature(
        {"bucket": "1", "file.suffix.include.compression": "true", "file.format": "avro", "file.compression": "snappy"}
    ),
    "vectors beside data": Feature({"bucket": "2", "index-file-in-data-file-dir": "true", **VECTORS}),
    "clustering": Feature(
        {"bucket": "-1", "clustering.incremental": "true", "clustering.columns": "k", "compaction.min.file-num": "2"},
        keys=(),
    ),
    "clustering in buckets": Feature(
        {
            "bucket": "2",
            "bucket-key": "k",
            "clustering.incremental": "true",
            "clustering.columns": "k",
            "bucket-append-ordered": "false",
        },
        keys=(),
    ),
    "manifests of ORC": Feature({"bucket": "2", "manifest.format": "orc", **VECTORS}),
    "manifests of Parquet": Feature({"bucket": "-1", "manifest.format": "parquet"}),
    "manifests of Parquet, append": Feature({"bucket": "-1", "manifest.format": "parquet"}, keys=()),
    "hash indexes beside data": Feature({"bucket": "-1", "index-file-in-data-file-dir": "true"}),
}


def create(java: JavaPaimon, path: Path, feature: Feature) -> None:
    java.call(
        "create_table",
        table=str(path),
        fields=feature.fields,
        primary_keys=list(feature.keys),
        partition_keys=[],
        options=dict(feature.options),
    )


def files_of(path: Path) -> set[str]:
    """Every file that holds rows or indexes."""
    return {str(one.relative_to(path)) for one in path.rglob("bucket-*/*")} | {
        str(one.relative_to(path)) for one in path.glob("index/*")
    }


@pytest.mark.parametrize("name", MAINTAINED)
def test_both_engines_maintain_one_table(name: str, tmp_path: Path, paimon2: JavaPaimon):
    feature = MAINTAINED[name]
    path = tmp_path / "db.db" / "t"
    create(paimon2, path, feature)
    table = open_table(str(path))

    for step, rows in enumerate(feature.rows):
        if step % 2:
            table.write(table_of(rows, table.arrow_schema))
        else:
            paimon2.call("write", table=str(path), rows=rows)
        if step != 2:
            table.compact(full=True)
        else:
            paimon2.call("compact", table=str(path))
        assert_same_rows(rows_of(table.to_arrow()), paimon2.read(path), f"step {step}")
        assert paimon2.problems(path) == []

    if feature.keys:
        newest = {row[0]: row for rows in feature.rows for row in rows}
        assert_same_rows(rows_of(table.to_arrow()), list(newest.values()))
    assert table.verify(depth="rows").problems == ()


@pytest.mark.parametrize("name", MAINTAINED)
def test_expiry_and_orphan_removal_know_its_files(name: str, tmp_path: Path, paimon2: JavaPaimon):
    feature = MAINTAINED[name]
    path = tmp_path / "db.db" / "t"
    create(paimon2, path, feature)
    table = open_table(str(path))
    for rows in feature.rows:
        paimon2.call("write", table=str(path), rows=rows)
        table.compact(full=True)
    expected = rows_of(table.to_arrow())
    before = files_of(path)

    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    needed = files_of(path)
    assert needed < before
    table.remove_orphan_files(older_than="0 s")

    assert files_of(path) == needed
    assert_same_rows(expected, rows_of(table.to_arrow()))
    assert_same_rows(expected, paimon2.read(path))
    assert paimon2.problems(path) == []
