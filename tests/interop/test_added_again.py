"""Files that are removed and added again: other readers leave out whatever any entry of a manifest removes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, RemoveOption, SetOption, Table
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import Row, rows_of

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
READERS: dict[str, Callable[[Any, str], list[Row]]] = {
    "oracle": lambda java, path: java.read(path),
    "newest": lambda java, path: java.read(path),
    "paimon2": lambda java, path: java.read(path),
    "pypaimon": lambda python, path: rows_of(python.read(path)),
}


def moved_back(table: Table) -> None:
    """The second compaction moves the file to a level on which it has been before."""
    table.compact(full=True)
    table.rollback_to_as_latest(snapshot=1)
    table.compact(full=True)


def indexed_for_a_while(table: Table) -> None:
    """The file has no index, then one in the manifest, then none, as at first."""
    table.alter([SetOption("file-index.bitmap.columns", "v"), SetOption("file-index.in-manifest-threshold", "1 mb")])
    table.rewrite_file_index()
    table.alter([RemoveOption("file-index.bitmap.columns")])
    table.rewrite_file_index()


def indexed_again(table: Table) -> None:
    """The index comes out as it was."""
    table.alter([SetOption("file-index.bitmap.columns", "v"), SetOption("file-index.in-manifest-threshold", "1 mb")])
    table.rewrite_file_index()
    table.rewrite_file_index(rebuild=True)


def removed_and_added_at_once(table: Table) -> None:
    """One commit names the file on both sides, beside a new one."""
    handle = table._handle
    entry = live_entries(handle, latest_snapshot(handle))[0]
    same = CommitMessage(
        entry.partition, entry.bucket, entry.total_buckets, compact_before=(entry.file,), compact_after=(entry.file,)
    )
    new = table.prepare_write(pa.table({"k": [3], "v": [1]}, SCHEMA))
    commit(handle, CommitRequest([same, *new], CommitKind.COMPACT, "me"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("change", [moved_back, indexed_for_a_while, indexed_again, removed_and_added_at_once])
def test_every_engine_reads_files_that_are_added_again(
    change: Callable[[Table], None], reader: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = request.getfixturevalue(reader)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write(pa.table({"k": [1, 2], "v": [1, 1]}, SCHEMA))

    change(table)

    assert sorted(READERS[reader](other, table.path))[:2] == [[1, 1], [2, 1]]


def test_a_merge_of_manifests_by_java_keeps_them(paimon2: Any, tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write(pa.table({"k": [1, 2], "v": [1, 1]}, SCHEMA))
    moved_back(table)
    table.alter([SetOption("manifest.full-compaction-threshold-size", "1 b")])

    paimon2.call("write", table=table.path, rows=[[3, 1]])

    assert sorted(rows_of(Catalog(str(tmp_path)).table("db.t").to_arrow())) == [[1, 1], [2, 1], [3, 1]]
