"""How much an action will read, as its plan says, compared with what it reads when it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, SetOption, Table
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.jobs import ACTIONS, Job, NewTable, TableRef, action_type, check_job, planned_bytes, run

ROWS = 2_000


def rows(begin: int, count: int = ROWS) -> pa.Table:
    numbers = list(range(begin, begin + count))
    return pa.table({"id": numbers, "day": [f"d{number % 2}" for number in numbers]})


def table_of(tmp_path: Path, *, keys: bool = False, **options: str) -> Table:
    """Three writes, in files of their own."""
    partitions = ["day"] if options.pop("partitioned", None) else []
    schema = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL"}
    made = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=schema, primary_keys=["id"] if keys else [], partition_keys=partitions, options=options
    )
    for number in range(3):
        made.write(rows(number * ROWS // 2))
    return made


def job(table: Table, action: str, **fields: object) -> Job:
    return Job(TableRef(path=table.path), action_type(action)(**fields), "user")


def bytes_of(table: Table) -> int:
    return sum(table.files()["file_size_in_bytes"].to_pylist())


@pytest.mark.parametrize("fields", [{"full": True}, {"full": True, "max_bytes": 1}, {"full": True, "buckets": [0]}])
def test_a_compaction_rewrites_what_was_planned(tmp_path: Path, fields: dict):
    table = table_of(tmp_path, keys=True, bucket="2")

    planned = planned_bytes(job(table, "compact", **fields))
    result = run(job(table, "compact", **fields))

    assert planned == sum(bucket["rewritten_bytes"] for bucket in result.details["buckets"])
    assert (planned == 0) == ("max_bytes" in fields)
    assert planned_bytes(job(table, "compact", **fields)) == 0


def test_postponed_rows_count_with_all_that_they_may_be_merged_with(tmp_path: Path):
    table = table_of(tmp_path, keys=True, bucket="-2")

    assert planned_bytes(job(table, "compact")) == bytes_of(table) > 0


@pytest.mark.parametrize(
    ("action", "fields", "options"),
    [
        ("cluster", {"columns": ["id"]}, {"bucket": "-1"}),
        ("analyze", {}, {"bucket": "-1"}),
        ("delete_rows", {"where": "id >= 0"}, {"bucket": "-1", "deletion-vectors.enabled": "true"}),
        ("verify", {"depth": "rows"}, {"bucket": "-1"}),
        ("rewrite_file_index", {}, {"bucket": "-1"}),
        ("rescale", {}, {"bucket": "2", "bucket-key": "id"}),
    ],
)
def test_actions_that_read_all_rows(tmp_path: Path, action: str, fields: dict, options: dict[str, str]):
    table = table_of(tmp_path, **options)
    if action == "rewrite_file_index":
        table.alter([SetOption("file-index.bloom-filter.columns", "id")])
    if action == "rescale":
        table.alter([SetOption("bucket", "3")])

    assert planned_bytes(job(table, action, **fields)) == bytes_of(table) > 0


@pytest.mark.parametrize(
    ("action", "fields", "options"),
    [
        ("verify", {"depth": "files"}, {"bucket": "-1"}),
        ("delete_rows", {"where": "id < 0"}, {"bucket": "-1", "deletion-vectors.enabled": "true"}),
        ("rewrite_file_index", {}, {"bucket": "-1"}),
        ("rescale", {}, {"bucket": "2", "bucket-key": "id"}),
        ("compact", {"full": True, "dry_run": True}, {"bucket": "-1"}),
        ("create_tag", {"tag": "t"}, {"bucket": "-1"}),
    ],
)
def test_actions_that_read_no_rows(tmp_path: Path, action: str, fields: dict, options: dict[str, str]):
    assert planned_bytes(job(table_of(tmp_path, **options), action, **fields)) == 0


def test_verification_counts_files_of_all_versions_once(tmp_path: Path):
    table = table_of(tmp_path, keys=True, bucket="1")
    before = bytes_of(table)
    table.compact(full=True)

    assert planned_bytes(job(table, "verify", depth="rows")) == before + bytes_of(table)


@pytest.fixture
def source(tmp_path: Path) -> Callable[[int], str]:
    def write(count: int) -> str:
        path = str(tmp_path / f"{count}.parquet")
        pq.write_table(rows(0, count), path)
        return path

    return write


def test_a_write_reads_its_sources(tmp_path: Path, source: Callable[[int], str]):
    table = table_of(tmp_path, keys=True, bucket="1")
    first, second = source(10), source(1000)

    assert planned_bytes(job(table, "write", source=[first, second])) == sum(
        Path(path).stat().st_size for path in (first, second)
    )
    with pytest.raises(NotFoundError, match="no source file matches"):
        planned_bytes(job(table, "write", source=f"{tmp_path}/missing-*.parquet"))


def test_a_write_whose_keys_move_reads_the_table_too(tmp_path: Path, source: Callable[[int], str]):
    table = table_of(tmp_path, keys=True, bucket="-1", partitioned="yes")
    path = source(10)

    assert planned_bytes(job(table, "write", source=path)) == Path(path).stat().st_size + bytes_of(table)


def test_planning_a_write_makes_no_table(tmp_path: Path, source: Callable[[int], str]):
    path = source(10)
    ref, create = TableRef(path=str(tmp_path / "lake" / "db.db" / "new")), NewTable(primary_keys=["id"])

    assert planned_bytes(Job(ref, action_type("write")(path), "u", create=create)) == Path(path).stat().st_size
    assert not (tmp_path / "lake").exists()
    with pytest.raises(NotFoundError):
        planned_bytes(Job(ref, action_type("write")(path), "u"))


def test_a_wrong_condition_is_found_by_planning(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="partition columns"):
        planned_bytes(job(table_of(tmp_path, bucket="-1"), "compact", where="id > 1"))


def test_every_action_on_rows_can_be_planned():
    assert [name for name, info in ACTIONS.items() if info.on_tasks and info.planned_bytes is None] == []


@pytest.mark.parametrize("is_new", [False, True])
def test_a_write_that_is_done_asks_for_no_source(tmp_path: Path, source: Callable[[int], str], *, is_new: bool):
    """An attempt whose answer was lost is repeated, and its files have been moved away since."""
    path = source(10)
    ref = TableRef(path=str(tmp_path / "lake/db.db/new")) if is_new else TableRef(path=table_of(tmp_path).path)
    again = Job(ref, action_type("write")(path), "u", create=NewTable() if is_new else None)
    first = run(again)
    Path(path).unlink()

    check_job(again)
    assert planned_bytes(again) == 0
    assert (run(again).status, run(again).snapshot_id) == ("already_done", first.snapshot_id)
    with pytest.raises(NotFoundError, match="no source file"):
        planned_bytes(replace(again, commit_user="another"))
