"""Verifying at depth `rows` finds what is wrong with the rows of files, and nothing in tables that Java wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table
from paimon_engine.arrow_types import from_arrow
from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import encode_row
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.meta.stats import ColumnStats, from_simple_stats, to_simple_stats
from paimon_engine.table.check.table_check import Depth, check_table
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.corpus import Case, corpus_cases

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("x", pa.float64())])

TYPES = [from_arrow(field.type) for field in SCHEMA]


@pytest.mark.parametrize("case", corpus_cases())
def test_rows_of_tables_written_by_java_are_as_their_manifests_say(case: Case) -> None:
    table = load_table(str(case.table), EnvConfig(str(case.table)))

    assert check_table(table, depth=Depth.ROWS) == []


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "1", "file.format": "parquet"}
    made = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    made.write(pa.table({"k": [1, 2, 3], "v": ["a", None, "c"], "x": [0.5, float("nan"), -1.0]}, SCHEMA))
    made.write(pa.table({"k": [1], "v": ["a"], "x": [None]}, SCHEMA), row_kinds=["-D"])
    return made


def test_a_table_that_was_just_written_is_valid(table: Table) -> None:
    found = table.verify("rows")

    assert (found.status, found.problems) == ("sound", ())
    assert (found.roots, found.data_files, found.rows) == (2, 2, 4)


def _with_manifest(table: Table, change: Callable[[DataFile], DataFile]) -> None:
    """Another snapshot, in which the largest file is described as `change` has it."""
    handle = table._handle
    entry = max(live_entries(handle, latest_snapshot(handle)), key=lambda item: item.file.row_count)
    changed = change(entry.file)
    # The same file again, one level up: as a compaction that moves it would.
    message = CommitMessage(
        entry.partition,
        entry.bucket,
        entry.total_buckets,
        compact_before=(entry.file,),
        compact_after=(replace(changed, level=1),),
    )
    commit(handle, CommitRequest([message], CommitKind.COMPACT, "somebody"))


def _stats(file: DataFile, position: int, **changes: Any) -> DataFile:
    columns = from_simple_stats(TYPES, file.value_stats)
    columns[position] = replace(columns[position], **changes)
    return replace(file, value_stats=to_simple_stats(TYPES, columns))


DAMAGES: dict[str, tuple[Callable[[DataFile], DataFile], str]] = {
    "a bound below": (lambda f: _stats(f, 1, min="b"), "column v has 'a', below 'b'"),
    "a bound above": (lambda f: _stats(f, 1, max="b"), "column v has 'c', above 'b'"),
    "a null count": (lambda f: _stats(f, 1, null_count=0), "column v has 1 nulls, its statistics say 0"),
    "a delete count": (lambda f: replace(f, delete_row_count=2), "has 0 delete records, its manifest says 2"),
    "sequence numbers": (lambda f: replace(f, min_sequence_number=1), "_SEQUENCE_NUMBER is 0 to 2"),
    "the largest key": (
        lambda f: replace(f, max_key=encode_row(TYPES[:1], [2], reserve_null=True)),
        "its last key is (3,)",
    ),
    "statistics of keys": (
        lambda f: replace(f, key_stats=to_simple_stats(TYPES[:1], [ColumnStats(2, 3, 0)])),
        "column k has 1, below 2",
    ),
}


@pytest.mark.parametrize(("change", "what"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_manifest_that_says_other_than_the_rows_is_found(
    table: Table, change: Callable[[DataFile], DataFile], what: str
) -> None:
    _with_manifest(table, change)

    assert table.verify("files").status == "sound"
    # The snapshots before the change describe the same file rightly, and are looked at first.
    table.expire_snapshots(retain_max=1, retain_min=1)
    found = table.verify("rows")

    assert found.status == "damaged"
    assert any(what in problem.what for problem in found.problems), found.problems


def test_rows_that_are_out_of_order_are_found(table: Table) -> None:
    handle = table._handle
    entry = max(live_entries(handle, latest_snapshot(handle)), key=lambda item: item.file.row_count)
    path = Path(table.path, "bucket-0", entry.file.name)
    stored = pq.read_table(path)
    # Only the keys at both ends are held against the manifest by every read.
    path.unlink()
    pq.write_table(stored.take([0, 0, 2]), path, compression="zstd")
    _with_manifest(table, lambda file: replace(file, size_bytes=path.stat().st_size))
    table.expire_snapshots(retain_max=1, retain_min=1)

    found = table.verify("rows")

    assert any("do not ascend at row 1" in problem.what for problem in found.problems), found.problems


@pytest.mark.parametrize("number", [7, None])
def test_keys_in_front_of_rows_that_are_not_those_of_the_rows_are_found(table: Table, number: int | None) -> None:
    """A reader may take either of them for the key."""
    handle = table._handle
    entry = max(live_entries(handle, latest_snapshot(handle)), key=lambda item: item.file.row_count)
    path = Path(table.path, "bucket-0", entry.file.name)
    stored = pq.read_table(path)
    path.unlink()
    pq.write_table(stored.set_column(0, "_KEY_k", pa.array([1, 2, number], pa.int64())), path, compression="zstd")
    _with_manifest(table, lambda file: replace(file, size_bytes=path.stat().st_size))
    table.expire_snapshots(retain_max=1, retain_min=1)

    found = table.verify("rows")

    what = "a key is null" if number is None else "row 2 has another key than the one in front of it"
    assert any(what in problem.what for problem in found.problems), found.problems


@pytest.mark.parametrize(
    ("partition", "bucket", "what"),
    [("b", 0, "has rows of another partition"), ("a", 1, "row 0 belongs to bucket 0, not to 1")],
)
def test_rows_of_another_bucket_are_found(tmp_path: Path, partition: str, bucket: int, what: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("p", pa.string())])
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "2"}
    )
    table.write(pa.table({"k": [1], "p": ["a"]}, schema))
    handle = table._handle
    (entry,) = live_entries(handle, latest_snapshot(handle))
    assert entry.bucket == 0
    key = encode_row([field.type for field in handle.schema.partition_type], [partition], reserve_null=True)
    target = Path(table.path, f"p={partition}", f"bucket-{bucket}")
    target.mkdir(parents=True)
    Path(table.path, "p=a", "bucket-0", entry.file.name).rename(target / entry.file.name)
    moved = [CommitMessage(entry.partition, 0, 2, compact_before=(entry.file,))]
    moved.append(CommitMessage(key, bucket, 2, compact_after=(entry.file,)))
    commit(handle, CommitRequest(moved, CommitKind.COMPACT, "somebody"))
    table.expire_snapshots(retain_max=1, retain_min=1)

    found = table.verify("rows")

    assert [problem.what for problem in found.problems] == [what]


def test_a_key_that_the_hash_index_of_its_bucket_does_not_know_is_found(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "-1"})
    table.write(pa.table({"k": [1, 2, 3]}, schema))
    (index,) = Path(table.path, "index").iterdir()
    stored = bytearray(index.read_bytes())
    # Another hash, which is as good as any: the keys that have it would get a bucket again.
    stored[-1] ^= 1
    index.write_bytes(stored)

    assert table.verify("files").status == "sound"
    (problem,) = table.verify("rows").problems

    assert "is not in the bucket's hash index" in problem.what


def test_another_depth_is_refused(table: Table) -> None:
    with pytest.raises(InvalidArgumentError, match="depth='deep' is not allowed; give 'metadata' or 'files' or 'rows'"):
        table.verify("deep")
