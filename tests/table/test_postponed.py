"""Postponed buckets: rows wait unseen until a compaction gives them their buckets, in their order of arrival."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine import Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.write import Write, write
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write import distribute as distributing
from paimon_engine.table.write.postponed import in_arrival_order
from tests.support.key_places import handle_of, partition_values

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())]
)


def new_table(path: str | None = None, options: Mapping[str, str] | None = None) -> Table:
    catalog = Catalog(path or f"memory://postponed/{uuid.uuid4()}", executor=LocalExecutor(1))
    texts = {"bucket": "-2", "postpone.default-bucket-num": "2", **(options or {})}
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=texts)


def rows(*values: tuple[int, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*values, strict=True)], schema=SCHEMA)


def rows_of(table: Table) -> list[tuple[int, int, int]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def buckets(table: Table) -> set[tuple[Any, int, int]]:
    """Partition, bucket and number of buckets of all live files."""
    handle = handle_of(table)
    return {
        (partition_values(handle, entry.partition)[0], entry.bucket, entry.total_buckets)
        for entry in live_entries(handle, latest_snapshot(handle))
    }


def test_postponed_rows_are_seen_when_they_have_a_bucket():
    table = new_table()
    table.write(rows((1, 1, 0), (1, 2, 0), (2, 1, 0)))
    assert rows_of(table) == []
    assert buckets(table) == {(1, -2, -2), (2, -2, -2)}

    result = table.compact()

    assert (result.status, result.rows_distributed) == ("committed", 3)
    assert rows_of(table) == [(1, 1, 0), (1, 2, 0), (2, 1, 0)]
    assert all(bucket in (0, 1) and total == 2 for _, bucket, total in buckets(table))
    kinds = [row["commit_kind"] for row in table.snapshots().to_pylist()]
    assert kinds[:2] == ["APPEND", "COMPACT"]
    assert check_table(handle_of(table)) == []
    assert table.compact().status == "noop"


def test_postponed_rows_may_come_in_any_order_of_their_keys():
    table = new_table()
    table.write(rows((1, 5, 0), (1, 9, 0), (1, 2, 0), (1, 7, 0), (1, 3, 0)))
    assert table.verify("rows").problems == ()

    table.compact()

    assert rows_of(table) == [(1, 2, 0), (1, 3, 0), (1, 5, 0), (1, 7, 0), (1, 9, 0)]


def test_files_are_named_as_java_names_them_and_are_in_their_own_directory(tmp_path: Path):
    table = new_table(str(tmp_path))
    table.write(rows((1, 1, 0)))

    (file,) = Path(table.path).glob("p=1/bucket-postpone/*")
    begin, _, end = file.name.partition("-s-")
    assert begin.startswith("data--u-")
    assert end.split("-w-")[0].isdigit()


def test_a_partition_keeps_its_number_of_buckets():
    table = new_table()
    table.write(rows(*((1, k, 0) for k in range(20))))
    table.compact()
    later = open_table(table.path, options={"postpone.default-bucket-num": "5"})
    later.write(rows(*((p, k, 1) for k in range(10, 40) for p in (1, 2))))
    later.compact()

    assert {(p, total) for p, _, total in buckets(table)} == {(1, 2), (2, 5)}
    assert len(rows_of(table)) == 40 + 30
    assert check_table(handle_of(table)) == []


def test_a_dry_run_leaves_postponed_rows_where_they_are():
    table = new_table()
    table.write(rows((1, 1, 0)))

    result = table.compact(dry_run=True)

    assert result.status == "dry_run"
    assert "postponed" in (result.buckets[0].skipped or "")
    assert table.latest_snapshot_id() == 1


def test_a_compaction_of_some_partitions_leaves_the_others_postponed():
    table = new_table()
    table.write(rows((1, 1, 0), (2, 2, 0)))
    table.compact(where="p = 2")

    assert rows_of(table) == [(2, 2, 0)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_rows_keep_their_order_over_tasks_writes_and_compactions(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = {"merge-engine": engine, "target-file-size": "1 kb", "fields.v.aggregate-function": "last_value"}
    if engine != "aggregation":
        del options["fields.v.aggregate-function"]
    table, expected = new_table(str(tmp_path / "lake"), options), {}
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    for step in range(3):
        folder = tmp_path / f"in{step}"
        folder.mkdir()
        for number in range(3):
            found = [(1, k % 40, 1000 * step + 100 * number + k) for k in range(60)]
            for p, k, v in found:
                if engine != "first-row" or k not in expected:
                    expected[k] = (p, k, v)
            pq.write_table(rows(*found), folder / f"{number}.parquet")
        write(Context(handle_of(table), LocalExecutor(3)), Write(str(folder / "*.parquet")))
        if step == 1:
            table.compact()
    table.compact()

    assert rows_of(table) == sorted(expected.values())
    assert check_table(handle_of(table)) == []


def test_of_two_compactions_at_once_one_distributes_the_rows(monkeypatch: pytest.MonkeyPatch):
    table = new_table()
    table.write(rows(*((p, k, 0) for k in range(20) for p in (1, 2))))
    results = []

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(distributing, "commit", commit)
        results.append(table.compact(where="p = 1"))
        return commit(*arguments)

    monkeypatch.setattr(distributing, "commit", meanwhile)
    outer = compact(Context(handle_of(table), LocalExecutor(1)), Compact())

    assert (results[0].rows_distributed, outer.rows_distributed, outer.conflicts) == (20, 20, 1)
    assert len(rows_of(table)) == 40
    assert check_table(handle_of(table)) == []
    stored = handle_of(table).env.storage.walk(table.path)
    data = [info.path for info in stored if info.path.endswith(".parquet") and "bucket-postpone" not in info.path]
    assert len(data) == len(live_entries(handle_of(table), latest_snapshot(handle_of(table))))


def test_an_overwrite_replaces_rows_in_buckets_and_postponed_ones():
    table = new_table()
    table.write(rows((1, 1, 0), (2, 1, 0)))
    table.compact()
    table.write(rows((1, 2, 1)))
    table.write(rows((1, 3, 2)), overwrite={})
    table.compact()

    assert rows_of(table) == [(1, 3, 2), (2, 1, 0)]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.booleans()), min_size=1, max_size=8),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_random_writes_give_the_rows_of_a_dict_after_a_compaction(history: list[Any]):
    table, model = new_table(), {}
    for step, (changes, compacts) in enumerate(history):
        values = [(p, k, 100 * step + n) for n, (p, k, _) in enumerate(changes)]
        kinds = ["-D" if deletes else "+I" for _, _, deletes in changes]
        for (p, k, v), kind in zip(values, kinds, strict=True):
            model.pop((p, k), None)
            if kind == "+I":
                model[p, k] = (p, k, v)
        table.write(rows(*values), row_kinds=kinds)
        if compacts:
            table.compact(full=step % 2 == 0)
            assert rows_of(table) == sorted(model.values())
    table.compact()
    assert rows_of(table) == sorted(model.values())
    assert check_table(handle_of(table)) == []


def test_files_of_one_write_follow_each_other_whenever_they_were_made():
    table = new_table()
    table.write(rows((1, 1, 0)))
    handle = handle_of(table)
    (file,) = [entry.file for entry in live_entries(handle, latest_snapshot(handle))]

    def made(write: str, number: int, sequence: int, time_ms: int) -> Any:
        name = f"data--u-x-s-{write}-w-abc-{number}.parquet"
        return replace(file, name=name, min_sequence_number=sequence, creation_time_ms=time_ms)

    tasks = [made("1", 0, 0, 50), made("1", 0, 100, 20), made("1", 1, 200, 60)]
    streaming = [made("2", number, -1, 10 * number + 1) for number in range(12)]
    for found in (in_arrival_order([*streaming, *tasks]), in_arrival_order([*tasks[::-1], *streaming[::-1]])):
        assert [one for one in found if one in tasks] == tasks
        assert [one for one in found if one in streaming] == streaming
        assert found.index(streaming[4]) < found.index(tasks[0]) < found.index(streaming[5])


@pytest.mark.parametrize("option", ["postpone.target-row-num-per-bucket", "postpone.target-size-per-bucket"])
def test_other_ways_to_choose_the_number_of_buckets_are_refused(option: str):
    with pytest.raises(UnsupportedError, match=option):
        new_table(options={option: "1000"})


def test_changelogs_of_postponed_rows_are_refused():
    with pytest.raises(UnsupportedError, match="'changelog-producer' = 'input' together with 'bucket' = '-2'"):
        new_table(options={"changelog-producer": "input"})


def test_postponed_tables_need_a_key_with_their_partition_columns():
    catalog = Catalog(f"memory://postponed/{uuid.uuid4()}")
    with pytest.raises(InvalidArgumentError, match="primary key"):
        catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "-2"})
    with pytest.raises(InvalidArgumentError, match="must contain all partition keys"):
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], partition_keys=["p"], options={"bucket": "-2"})
