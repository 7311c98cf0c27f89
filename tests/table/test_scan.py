"""Which files a filter leaves: by partition, by bucket, by key range, and by other columns only where it is safe."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_engine.arrow_types import from_arrow
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.lsm.sections import Section
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.predicate import parse_where, to_arrow_expression
from paimon_engine.table.read.scan import _pack, plan_splits
from paimon_engine.table.state import entry_choice, live_columns
from tests.table.conftest import MakeTable, Subject

KV = {"k": pa.int64(), "v": pa.int64()}


def scanned(table: Subject, where: str | None) -> int:
    """Number of files that a read with that filter opens."""
    splits = plan_splits(table.handle, table.snapshot, None if where is None else parse_where(where))
    return sum(len(run) for split in splits for section in split.sections for run in section)


def with_other_type(schema: TableSchema, column: str, data_type: pa.DataType) -> TableSchema:
    """The next version of the schema, in which the column has another type."""
    changed = tuple(
        replace(field, type=from_arrow(data_type)) if field.name == column else field for field in schema.row_type
    )
    return replace(schema, id=schema.id + 1, row_type=replace(schema.row_type, fields=changed))


@pytest.fixture
def partitioned(make_table: MakeTable) -> Subject:
    """Partitions 1970-01-01, 1970-01-02 and null, one file each."""
    table = make_table({"day": pa.date32(), "k": pa.int64()}, partition_keys=["day"])
    return table.write({"day": [0, 1, None], "k": [1, 2, 3]})


@pytest.mark.parametrize(
    ("where", "files"),
    [
        (None, 3),
        ("day = DATE '1970-01-02'", 1),
        ("day = '1970-01-02'", 1),
        ("day > DATE '1970-01-01' AND k > 0", 1),
        ("day IS NULL", 1),
        ("NOT day = DATE '1970-01-02'", 1),
        ("day = DATE '1970-01-01' OR day IS NULL", 2),
        ("day = DATE '1970-01-01' OR k = 3", 2),
        ("day > DATE '1970-01-05'", 0),
    ],
)
def test_partitions_are_chosen_exactly(partitioned: Subject, where: str | None, files: int):
    assert scanned(partitioned, where) == files


def test_a_fixed_bucket_key_leaves_one_bucket(make_table: MakeTable):
    table = make_table({**KV, "s": pa.string()}, primary_keys=["k", "s"], options={"bucket": "8"})
    table.write({"k": list(range(100)), "s": ["x"] * 100, "v": [0] * 100})

    assert scanned(table, None) == 8
    assert scanned(table, "k = 7 AND s = 'x'") == 1
    assert table.rows("k = 7 AND s = 'x'", ["k"]) == [(7,)]
    assert scanned(table, "k = 7") > 1


def test_key_ranges_leave_out_files_that_overlap_others(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1, 5], "v": [1, 5]}).write({"k": [4, 9], "v": [4, 9]})

    assert scanned(table, "k = 9") == 1
    assert scanned(table, "k = 4") == 2
    assert scanned(table, "k > 9") == 0


def test_other_columns_never_leave_out_a_newer_version(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1, 2], "v": [1, 1]}).write({"k": [1], "v": [9]})

    assert scanned(table, "v = 1") == 2
    assert table.rows("v = 1") == [(2, 1)]


def test_other_columns_leave_out_files_that_need_no_merge(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1], "v": [1]}).write({"k": [2], "v": [9]})

    assert scanned(table, "v = 1") == 1
    assert table.rows("v = 1") == [(1, 1)]


def test_append_files_are_left_out_by_any_column(make_table: MakeTable):
    table = make_table(KV).write({"k": [1, None], "v": [1, 2]}).write({"k": [5], "v": [3]})

    assert scanned(table, "k = 5") == 1
    assert scanned(table, "k IS NULL") == 1
    assert scanned(table, "k IN (1, 5)") == 2
    assert scanned(table, "v >= 3 AND k < 5") == 0


def test_ranges_of_a_column_whose_type_has_changed_are_not_used(make_table: MakeTable):
    table = make_table({"k": pa.int32(), "v": pa.int64()}).write({"k": [10], "v": [1]})
    old = table.handle.schema
    table.handle.schema_of(old.id)

    table.handle = replace(table.handle, schema=with_other_type(old, "k", pa.string()))

    assert scanned(table, "k = '10'") == 1
    assert scanned(table, "k = '9' AND v = 2") == 0
    assert table.rows("k = '10'") == [("10", 1)]


def test_sections_are_packed_into_splits_of_the_target_size(make_table: MakeTable):
    options = {"bucket": "1", "source.split.target-size": "1 kb", "source.split.open-file-cost": "400 b"}
    table = make_table(KV, primary_keys=["k"], options=options)
    for key in range(4):
        table.write({"k": [key], "v": [key]})
    table.write({"k": [3], "v": [9]})

    splits = plan_splits(table.handle, table.snapshot)

    assert len(splits) > 1
    assert [len(section) for split in splits for section in split.sections] == [1, 1, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_splits_have_as_many_sections_as_fit(make_table: MakeTable, seed: int):
    chance = random.Random(seed)
    options = {"source.split.target-size": "1 kb", "source.split.open-file-cost": "100 b"}
    table = make_table(KV, options=options).handle

    def some_file() -> DataFile:
        return DataFile(f"data-{chance.random()}.parquet", chance.choice([0, 99, 100, 300, 500, 1024, 9000]), 1)

    sections = [tuple((some_file(),) for _ in range(chance.choice([1, 1, 1, 3]))) for _ in range(60)]
    expected: list[list[Section]] = [[]]
    for section in sections:
        weight = sum(max(100, file.size_bytes) for one in (*expected[-1], section) for run in one for file in run)
        if expected[-1] and weight > 1024:
            expected.append([])
        expected[-1].append(section)

    assert [split.sections for split in _pack(table, EMPTY_ROW, 0, sections)] == [tuple(pack) for pack in expected]


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_plan_keeps_the_statistics_that_it_needs(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
):
    monkeypatch.setattr(entry_choice, "ENTRIES_MIN", 1)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)
    fields = {"day": pa.int32(), **KV}
    table = make_table(fields, primary_keys=[*keys, *(["day"] if keys else [])], partition_keys=["day"])
    for key in range(4):
        table.write({"day": [1, 2], "k": [key, key], "v": [key, 9]})

    def files(where: str | None, *, keeps: bool) -> list[DataFile]:
        splits = plan_splits(table.handle, table.snapshot, where and parse_where(where), keeps_statistics=keeps)
        return [file for split in splits for section in split.sections for run in section for file in run]

    for where in (None, "day = 1", "v = 2 AND day = 2", "k < 2"):
        kept, found = files(where, keeps=True), files(where, keeps=False)
        assert all(len(file.value_stats.null_counts) == 3 for file in kept)
        needs = where not in (None, "day = 1")
        bare = [replace(file, value_stats=EMPTY_STATS, key_stats=EMPTY_STATS, value_stats_columns=()) for file in kept]
        assert found == (kept if needs else bare), where
    assert len(files("v = 2 AND day = 2", keeps=False)) == 0
    assert sorted(table.rows("v = 2")) == [(1, 2, 2)]


def test_unknown_columns_and_values_that_do_not_fit_are_named(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"])

    with pytest.raises(InvalidArgumentError, match="no column 'x'"):
        table.rows("x = 1")
    with pytest.raises(InvalidArgumentError, match="'abc' does not fit column 'k'"):
        table.rows("k = 'abc'")


WHERE = st.sampled_from(
    ["v = 2", "v <> 2", "k >= 2", "k = 2", "s = 'b'", "s IS NULL", "v IS NOT NULL", "k IN (1, 4)", "s > 'a'"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    commits=st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.none() | st.integers(0, 3), st.none() | st.sampled_from("abc")), min_size=1
        ),
        max_size=4,
    ),
    parts=st.lists(WHERE, min_size=1, max_size=2),
    word=st.sampled_from([" AND ", " OR ", " AND NOT "]),
    keyed=st.booleans(),
)
def test_pruning_never_changes_the_result(
    make_table: MakeTable, commits: list[list[tuple[int, int, str]]], parts: list[str], word: str, keyed: bool
):
    columns = {"k": pa.int64(), "v": pa.int64(), "s": pa.string()}
    options = {"bucket": "2", **({} if keyed else {"bucket-key": "k"})}
    table = make_table(columns, primary_keys=["k"] if keyed else [], options=options)
    for rows in commits:
        table.write({name: [row[part] for row in rows] for part, name in enumerate(columns)})
    where = word.join(parts)

    kept = table.read(where)

    everything = table.read()
    assert kept == everything.filter(to_arrow_expression(parse_where(where), everything.schema))
