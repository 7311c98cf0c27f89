"""A bucket lives through flushes and planned compactions; rows and the shape of the tree must stay right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.lsm.levels import key_order, sorted_runs
from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.lsm.sections import sections
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from tests.lsm.text_cases import COLUMNS, key, table

ORDER = key_order(COLUMNS.project(("k",)))
ROW_BYTES = 10
Rows = Mapping[int, tuple[int, bool]]
"""Key → sequence number, and whether the row is a delete record."""


class Bucket:
    """Files with their rows in memory."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.files: dict[str, DataFile] = {}
        self.rows: dict[str, Rows] = {}
        self.next_sequence = 0
        self.target_rows = schema.table_options.target_file_size_bytes // ROW_BYTES

    def flush(self, changes: Mapping[int, bool]) -> None:
        rows = {}
        for number, delete in sorted(changes.items()):
            rows[number] = (self.next_sequence, delete)
            self.next_sequence += 1
        self.add(rows, 0)

    def add(self, rows: Rows, level: int) -> None:
        numbers = [sequence for sequence, _ in rows.values()]
        name = f"f{len(self.rows)}"
        self.rows[name] = rows
        self.files[name] = DataFile(
            name=name,
            size_bytes=ROW_BYTES * len(rows),
            row_count=len(rows),
            min_key=key(min(rows)),
            max_key=key(max(rows)),
            min_sequence_number=min(numbers),
            max_sequence_number=max(numbers),
            level=level,
            delete_row_count=sum(delete for _, delete in rows.values()),
        )

    def compact(self, task: CompactTask) -> None:
        for file in task.input_files:
            assert self.files.pop(file.name) == file, "a file is taken twice, or is not a file of the bucket"
        for group in task.rewrites:
            merged = [row for section in group for row in newest(self.rows[f.name] for run in section for f in run)]
            kept = [(k, row) for k, row in merged if not (task.drop_deletes and row[1])]
            assert [k for k, _ in kept] == sorted(k for k, _ in kept), "sections of a group come in key order"
            for begin in range(0, len(kept), self.target_rows):
                self.add(dict(kept[begin : begin + self.target_rows]), task.output_level)
        for file in task.upgrades:
            self.files[file.name] = file.upgraded(task.output_level)

    def live_keys(self) -> dict[int, int]:
        rows = newest(self.rows[name] for name in self.files)
        return {number: sequence for number, (sequence, delete) in rows if not delete}

    def check_shape(self) -> None:
        for run in sorted_runs(list(self.files.values()), ORDER):
            assert all(ORDER(a.max_key) < ORDER(b.min_key) for a, b in pairwise(run.files)), (
                f"level {run.level} overlaps"
            )


def newest(files: Iterable[Rows]) -> list[tuple[int, tuple[int, bool]]]:
    found: dict[int, tuple[int, bool]] = {}
    for rows in files:
        for number, row in rows.items():
            found[number] = max(found.get(number, row), row)
    return sorted(found.items())


STEPS = st.one_of(
    st.dictionaries(st.integers(0, 40), st.booleans(), min_size=1, max_size=12),
    st.sampled_from(["minor", "minor", "full"]),
)
OPTIONS = st.sampled_from(
    [["trigger=2"], ["trigger=3"], ["trigger=2", "levels=6"], ["trigger=3", "force-up=true"], ["amplification=1000"]]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=25), OPTIONS, st.sampled_from([30, 70, 200]))
def test_planned_compactions_keep_rows_and_levels(
    steps: list[dict[int, bool] | str], words: list[str], target_bytes: int
) -> None:
    bucket = Bucket(table([*words, f"target={target_bytes}"], append=False))
    expected: dict[int, int] = {}
    for step in steps:
        if isinstance(step, dict):
            for offset, (number, delete) in enumerate(sorted(step.items())):
                expected.pop(number, None)
                if not delete:
                    expected[number] = bucket.next_sequence + offset
            bucket.flush(step)
        else:
            task = plan_bucket(
                b"", 0, 1, list(bucket.files.values()), schema=bucket.schema, full=step == "full", now_ms=0
            )
            if isinstance(task, CompactTask):
                bucket.compact(task)
            if step == "full":
                assert len({file.level for file in bucket.files.values()}) <= 1
                assert not any(file.delete_row_count for file in bucket.files.values())
        bucket.check_shape()
        assert bucket.live_keys() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 40), st.booleans(), min_size=1), max_size=15), OPTIONS)
def test_compaction_comes_to_rest(flushes: list[dict[int, bool]], words: list[str]) -> None:
    bucket = Bucket(table([*words, "target=50"], append=False))
    trigger = bucket.schema.table_options.num_sorted_run_compaction_trigger
    for changes in flushes:
        bucket.flush(changes)
    for _ in range(6):
        files = list(bucket.files.values())
        task = plan_bucket(b"", 0, 1, files, schema=bucket.schema, full=False, now_ms=0)
        if isinstance(task, NothingToDo):
            assert len(sorted_runs(files, ORDER)) <= trigger
            return
        bucket.compact(task)
    raise AssertionError("compaction does not end")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 8)), max_size=15))
def test_sections_are_apart_and_have_the_fewest_runs(ranges: list[tuple[int, int]]) -> None:
    files = [
        DataFile(name=f"f{i}", size_bytes=1, row_count=1, min_key=key(low), max_key=key(low + span))
        for i, (low, span) in enumerate(ranges)
    ]
    span_of = {f"f{i}": (low, low + span) for i, (low, span) in enumerate(ranges)}
    found = sections(files, ORDER)
    assert sorted(f.name for section in found for run in section for f in run) == sorted(span_of)
    for section in found:
        for run in section:
            assert all(span_of[a.name][1] < span_of[b.name][0] for a, b in pairwise(run))
        spans = [span_of[f.name] for run in section for f in run]
        depth = max(sum(low <= point <= high for low, high in spans) for point, _ in spans)
        assert len(section) == depth
    ends = [
        (min(span_of[f.name][0] for run in s for f in run), max(span_of[f.name][1] for run in s for f in run))
        for s in found
    ]
    assert all(before[1] < after[0] for before, after in pairwise(ends))
