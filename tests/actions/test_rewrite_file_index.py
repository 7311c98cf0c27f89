"""Writing the indexes that the options require for existing files: what changes, what stays, and what others may do meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.action import Context
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, rewrite_file_index
from paimon_engine.env import EnvConfig
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows
from tests.support.meddling import Meddling
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string()), pa.field("s", pa.string())])
BITMAP = {"file-index.bitmap.columns": "s"}
BLOOM = {"file-index.bloom-filter.columns": "k,s"}


@pytest.fixture(params=[True, False], ids=["keyed", "append"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """Three files in two partitions, without indexes."""
    options = {"bucket": "1", "bucket-key": "k"}
    keys = ["k", "p"] if request.param else []
    made = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, partition_keys=["p"], options=options
    )
    made.write(pa.table({"k": [1, 2, 3], "p": ["a", "a", "b"], "s": ["x", "y", "x"]}, SCHEMA))
    made.write(pa.table({"k": [4], "p": ["a"], "s": [None]}, SCHEMA))
    return made


def handle_of(table: Table) -> TableHandle:
    return load_table(table.path, EnvConfig(table.path))


def files_of(table: Table) -> list[DataFile]:
    handle = handle_of(table)
    return [entry.file for entry in live_entries(handle, latest_snapshot(handle))]


def with_options(table: Table, options: dict[str, str]) -> Table:
    return open_table(table.path, options=options)


def index_files(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.index")}


def test_files_get_indexes_and_keep_their_rows(table: Table, oracle: JavaPaimon):
    before = table.to_arrow()

    result = with_options(table, {**BITMAP, **BLOOM}).rewrite_file_index()

    assert (result.status, result.files, result.files_indexed, result.files_current) == ("committed", 3, 3, 0)
    assert result.index_bytes == sum(path.stat().st_size for path in Path(table.path).rglob("*.index"))
    assert result.bytes_read == sum(file.size_bytes for file in files_of(table))
    assert index_files(table) == {name for file in files_of(table) for name in file.extra_files}
    handle = handle_of(table)
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.COMPACT, 0)
    assert check_table(handle) == []
    assert table.to_arrow() == before
    assert table.to_arrow(where="s = 'x'").num_rows == 2
    assert_same_rows(before, oracle.read(table.path))
    oracle.assert_sound(table.path)


def test_what_is_as_it_should_be_is_left_unless_all_is_to_be_rebuilt(table: Table):
    indexed = with_options(table, BITMAP)
    indexed.rewrite_file_index()
    before = files_of(table)

    again = indexed.rewrite_file_index()
    assert (again.status, again.files_current, again.snapshot_id) == ("noop", 3, None)
    assert files_of(table) == before
    second = with_options(table, {**BITMAP, "file-index.bitmap.s.version": "2"}).rewrite_file_index(rebuild=True)
    assert second.files_indexed == 3
    assert files_of(table) != before


def test_indexes_that_come_out_as_they_were_are_left(table: Table, oracle: JavaPaimon):
    """Newer readers do not see a file that one commit removes and adds again under the same name."""
    small = with_options(table, BITMAP)
    small.rewrite_file_index()
    before, rows = files_of(table), table.to_arrow().num_rows

    again = small.rewrite_file_index(rebuild=True)

    assert (again.status, again.files_current, again.files_indexed, again.snapshot_id) == ("noop", 3, 0, None)
    assert files_of(table) == before
    assert len(oracle.read(table.path)) == rows


def test_indexes_that_are_no_longer_wanted_are_deleted_and_other_extra_files_stay(table: Table):
    with_options(table, BLOOM).rewrite_file_index()
    assert all(file.extra_files for file in files_of(table))

    small = with_options(table, BITMAP).rewrite_file_index()
    assert small.files_indexed == 3
    assert all(file.embedded_file_index and not file.extra_files for file in files_of(table))
    result = table.rewrite_file_index()

    assert (result.files_indexed, result.files_cleared, result.index_bytes) == (0, 3, 0)
    assert all(file.embedded_file_index is None and not file.extra_files for file in files_of(table))
    assert check_table(handle_of(table)) == []


def test_partitions_choose_the_files(table: Table):
    result = with_options(table, BITMAP).rewrite_file_index(where="p = 'b'")

    assert (result.files, result.files_indexed) == (1, 1)
    assert sum(file.embedded_file_index is not None for file in files_of(table)) == 1
    with pytest.raises(InvalidArgumentError, match=r"partition columns only \(p\)"):
        table.rewrite_file_index(where="s = 'x'")


def test_a_dry_run_says_what_would_be_done(table: Table):
    result = with_options(table, BITMAP).rewrite_file_index(dry_run=True)

    assert (result.status, result.files, result.files_indexed, result.files_cleared) == ("dry_run", 3, 3, 0)
    assert result.bytes_read > 0
    assert all(file.embedded_file_index is None for file in files_of(table))
    assert latest_snapshot(handle_of(table)).id == 2  # type: ignore[union-attr]


def test_readers_of_older_snapshots_keep_their_indexes_until_these_expire(table: Table):
    with_options(table, BLOOM).rewrite_file_index()
    old = index_files(table)
    with_options(table, {**BLOOM, "file-index.bloom-filter.s.items": "50"}).rewrite_file_index(rebuild=True)
    assert old < index_files(table)
    assert table.to_arrow(where="s = 'x'", snapshot=3).num_rows == 2

    table.expire_snapshots(retain_max=1, retain_min=1)

    assert index_files(table) == {name for file in files_of(table) for name in file.extra_files}
    assert not old & index_files(table)
    assert table.to_arrow().num_rows == 4


def test_a_rollback_takes_the_indexes_that_came_later(table: Table):
    with_options(table, BLOOM).rewrite_file_index()
    table.rollback(snapshot=2)

    assert index_files(table) == set()
    assert table.to_arrow(where="s = 'x'").num_rows == 2


def test_wrong_options_are_reported_before_anything_is_read(table: Table):
    with pytest.raises(UnsupportedError, match="'file-index.bsi.columns': no such index of 's'"):
        with_options(table, {"file-index.bsi.columns": "s"}).rewrite_file_index()
    with pytest.raises(UnsupportedError, match="'file-index.of-tomorrow.columns'"):
        with_options(table, {"file-index.of-tomorrow.columns": "s"}).rewrite_file_index()


def test_a_job_that_is_repeated_indexes_once(table: Table):
    ref = TableRef(path=table.path)
    job = Job(ref, RewriteFileIndex(), commit_user="me", table_options=BITMAP)

    first, second = run(Job.from_json(job.to_json())), run(job)

    assert (first.status, first.details["files_indexed"]) == ("committed", 3)
    assert (second.status, second.snapshot_id) == ("already_done", first.snapshot_id)


def test_buckets_that_others_compact_meanwhile_are_done_again(table: Table):
    def meddle() -> None:
        assert table.compact(full=True, where="p = 'a'").status == "committed"

    indexed = with_options(table, {**BITMAP, **BLOOM})
    handle = load_table(table.path, EnvConfig(table.path), options={**BITMAP, **BLOOM})
    result = rewrite_file_index(Context(handle, Meddling(meddle, 1)), RewriteFileIndex())

    assert (result.status, result.conflicts, result.files_indexed) == ("committed", 1, 2)
    assert index_files(table) == {name for file in files_of(table) for name in file.extra_files}
    assert check_table(handle_of(table)) == []
    assert indexed.to_arrow(where="s = 'x'").num_rows == 2


def test_others_that_never_stop_are_a_conflict(table: Table):
    def meddle() -> None:
        table.write(pa.table({"k": [9], "p": ["a"], "s": ["z"]}, SCHEMA))
        table.write(pa.table({"k": [9], "p": ["b"], "s": ["z"]}, SCHEMA))
        table.compact(full=True)

    handle = load_table(table.path, EnvConfig(table.path), options=BLOOM)

    with pytest.raises(ConflictError, match="run it later"):
        rewrite_file_index(Context(handle, Meddling(meddle, 9)), RewriteFileIndex())
    assert index_files(table) == set()


def test_a_missing_file_does_not_stop_the_others(table: Table):
    gone = next(path for path in Path(table.path).rglob("data-*") if "p=b" in str(path))
    gone.unlink()

    result = with_options(table, BITMAP).rewrite_file_index()

    assert result.files_indexed == 2
    assert gone.name in result.failed[0]
    with pytest.raises(NotFoundError):
        with_options(table, BITMAP).rewrite_file_index(where="p = 'b'")


def test_writers_and_compactions_index_from_then_on(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **BITMAP}
    )
    for number in range(3):
        table.write(pa.table({"k": [number], "p": ["a"], "s": ["x"]}, SCHEMA))
    table.compact(full=True)

    assert all(file.embedded_file_index for file in files_of(table))
    assert table.rewrite_file_index().status == "noop"
