"""Sorted runs, sections, picks and plans, as text cases."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import encode_row
from paimon_engine.lsm.append import small_file_bytes
from paimon_engine.lsm.levels import SortedRun, key_order
from paimon_engine.lsm.pick import pick_minor
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.lsm.sections import sections, written_at_once
from paimon_engine.meta.manifest import DataFile
from paimon_engine.options import TableOptions
from paimon_engine.types import DataField, RowType, parse_atomic
from tests.lsm.text_cases import CASES, COLUMNS, check_file, parse_file, table


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda path: path.stem)
def test_cases_answer_as_written(path: Path) -> None:
    check_file(path)


def test_nan_keys_are_greater_than_all_others() -> None:
    order = key_order(RowType((DataField(0, "k", parse_atomic("DOUBLE NOT NULL")),)))

    def file(name: str, low: float, high: float) -> DataFile:
        low_key, high_key = (encode_row([parse_atomic("DOUBLE")], [v], reserve_null=True) for v in (low, high))
        return DataFile(name=name, size_bytes=1, row_count=1, min_key=low_key, max_key=high_key)

    files = [file("a", 1.0, float("nan")), file("b", 5.0, 9.0), file("c", -1.0, 0.5)]
    assert [[f.name for run in s for f in run] for s in sections(files, order)] == [["c"], ["a", "b"]]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a L0 5 1..9 seq=1-5", "b L0 5 1..9 seq=5-9"], True),
        (["a L0 5 1..9 seq=1-5", "b L0 5 1..9 seq=6-9"], False),
        (["a L5 5 1..4 seq=1-5", "b L5 5 5..9 seq=1-5", "c L0 5 1..9 seq=6-9"], False),
        (["a L5 5 1..4 seq=1-3", "b L5 5 5..9 seq=2-6", "c L0 5 1..9 seq=6-9"], True),
    ],
)
def test_files_of_writers_at_once_share_sequence_numbers(lines: list[str], expected: bool) -> None:
    assert written_at_once(map(parse_file, lines)) is expected


def test_runs_of_writers_at_once_are_in_the_order_of_java() -> None:
    order = key_order(COLUMNS.project(("k",)))
    files = [parse_file(f"{name} L0 {size} 1..9 seq=1-5") for name, size in [("b", 7), ("a", 5), ("c", 6)]]

    def names(runs_in_memory_max: int) -> list[str]:
        [section] = sections(files, order, runs_in_memory_max)
        return [file.name for run in section for file in run]

    # In order of commit; of more runs than fit in memory the smallest come last.
    assert names(9) == ["b", "a", "c"]
    assert names(2) == ["c", "b", "a"]


def test_a_task_has_its_cost_and_can_be_pickled() -> None:
    schema = table(["target=100"], append=False)
    files = [
        parse_file("a L0 30 1..9 seq=1-1 rows=10"),
        parse_file("b L0 20 1..9 seq=2-2 rows=5"),
        parse_file("c L0 90 20..21"),
    ]
    task = plan_bucket(b"p", 3, 4, files, schema=schema, full=True, now_ms=0)
    assert isinstance(task, CompactTask)
    assert (task.bytes_to_rewrite, task.rows_to_rewrite, task.run_count) == (50, 15, 3)
    assert task.memory_bytes > 0
    assert pickle.loads(pickle.dumps(task)) == task
    assert (task.partition, task.bucket, task.total_buckets) == (b"p", 3, 4)


def test_a_task_without_rewrites_needs_no_memory() -> None:
    task = plan_bucket(b"", 0, 1, [parse_file("a L0 30 1..9")], schema=table([], append=False), full=True, now_ms=0)
    assert isinstance(task, CompactTask)
    assert (task.memory_bytes, task.within(1)) == (0, task)


@pytest.mark.parametrize(("total_buckets", "groups"), [(-1, [["b", "a"]]), (4, [["a", "b"]])])
def test_append_tables_keep_the_order_of_a_bucket(total_buckets: int, groups: list[list[str]]) -> None:
    """Tables without buckets keep all files in bucket 0, where no order of rows is kept."""
    schema = table(["target=100", "min-files=2"], append=True)
    files = [parse_file("b L0 10 seq=10-19"), parse_file("a L0 30 seq=0-9")]
    task = plan_bucket(b"", 0, total_buckets, files, schema=schema, full=False, now_ms=0)
    assert isinstance(task, CompactTask)
    assert [[f.name for section in group for run in section for f in run] for group in task.rewrites] == groups
    assert (task.output_level, task.drop_deletes, task.upgrades) == (0, False, ())


def test_two_threads_work_in_batches_half_as_large_but_of_some_rows() -> None:
    files = [parse_file("a L0 100000000 rows=1000000"), parse_file("b L0 100000000 rows=1000000")]
    task = plan_bucket(b"", 0, 1, files, schema=table([], append=False), full=True, now_ms=0)
    assert isinstance(task, CompactTask)
    usual, small = task.in_memory_of(352 << 20), task.in_memory_of(1)

    assert usual.in_smaller_batches() == replace(
        usual, limit=replace(usual.limit, size_bytes=usual.limit.size_bytes // 2)
    )
    assert small.in_smaller_batches() == small


def test_a_threshold_that_is_no_size_names_its_option() -> None:
    options = TableOptions({"compaction.total-size-threshold": "much"})
    runs = [SortedRun(0, (parse_file("a L0 1"),)), SortedRun(5, (parse_file("b L5 1"),))]
    with pytest.raises(InvalidArgumentError, match=r"compaction\.total-size-threshold"):
        pick_minor(runs, 5, options, now_ms=0)


def test_small_files_are_below_seven_whole_tenths_of_the_target_as_in_java():
    given = {"target-file-size": "2 kb"}

    assert small_file_bytes(TableOptions(given)) == 1428
    assert small_file_bytes(TableOptions({**given, "compaction.small-file-ratio": "0.7"})) == 1433
