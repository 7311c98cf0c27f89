"""Keys that are unique over all partitions, held against a model that takes one row after another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine import Catalog, InvalidArgumentError, Table, UnsupportedError
from paimon_engine.action import Context
from paimon_engine.actions.write import Write, write, write_arrow, write_frame
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.check.table_check import check_table
from tests.support.key_places import handle_of, partition_values, stored_keys

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]
Row = tuple[str | None, int, int]
KINDS = st.sampled_from(["+I", "+I", "+I", "-D"])


def new_table(engine: str = "deduplicate", path: str | None = None, **options: str) -> Table:
    texts = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "merge-engine": engine, **options}
    if engine == "aggregation":
        texts["fields.v.aggregate-function"] = "sum"
    catalog = Catalog(path or f"memory://cross/{uuid.uuid4()}", executor=LocalExecutor(1))
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], partition_keys=["p"], options=texts)


def batch(*rows: Row) -> pa.RecordBatch:
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def put(table: Table, *rows: Row, during: Callable[[], object] = lambda: None, **how: Any) -> Any:
    """Writes rows; `during` runs when the table's state has been read, before anything is committed."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(*rows)
        during()

    return write_arrow(handle_of(table), batches(), **how)


def rows_of(table: Table) -> set[Row]:
    found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def merged(engine: str, old: Row | None, new: Row, kind: str) -> Row | None:
    """What becomes of a key's row; None: it is deleted. Only deduplicate knows deletions here."""
    if engine == "deduplicate":
        return None if kind == "-D" else new
    if old is None:
        return new
    if engine == "first-row":
        return old
    return (old[0], new[1], new[2] + (old[2] if engine == "aggregation" else 0))


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 12), KINDS), min_size=1, max_size=10),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(["1 b", "1 mb"]),
)
@pytest.mark.parametrize("engine", ENGINES)
def test_random_writes_give_the_rows_of_a_dict(
    engine: str, history: list[list[tuple[str | None, int, str]]], compacts: list[bool], buffer: str
):
    table, model = new_table(engine, **{"write-buffer-size": buffer}), {}
    for step, changes in enumerate(history):
        kinds = [kind if engine == "deduplicate" else "+I" for _, _, kind in changes]
        rows: list[Row] = [(p, k, 100 * step + n) for n, (p, k, _) in enumerate(changes)]
        for row, kind in zip(rows, kinds, strict=True):
            new = merged(engine, model.pop(row[1], None), row, kind)
            if new is not None:
                model[row[1]] = new
        # A small buffer makes the write assign its rows in several parts.
        pieces = pa.Table.from_batches([batch(*rows[:3]), *([batch(*rows[3:])] if rows[3:] else [])])
        table.write(pieces, row_kinds=kinds)
        if compacts[step] or engine == "first-row":
            table.compact(full=True)

        assert rows_of(table) == set(model.values())
        assert check_table(handle_of(table)) == []


def test_a_key_keeps_its_bucket_in_its_partition_and_new_keys_fill_buckets():
    table = new_table()
    put(table, *(("a", k, 0) for k in range(7)))
    put(table, ("a", 6, 1), ("a", 0, 1), ("b", 3, 1))

    places = {}
    handle = handle_of(table)
    for partition, bucket, keys in stored_keys(handle):
        for k in keys["k"].to_pylist():
            places.setdefault((partition_values(handle, partition)[0], k), set()).add(bucket)
    assert places == {**{("a", k): {k // 3} for k in range(7)}, ("b", 3): {0}}


def test_only_files_that_can_have_a_key_are_read():
    table = new_table()
    for first in (0, 100, 200):
        put(table, *(("a", first + k, 0) for k in range(3)))
    others = [file["file_path"] for file in table.files().to_pylist() if file["min_key"] != "[100]"]
    assert len(others) == 2
    handle_of(table).env.storage.delete(others)

    put(table, ("b", 101, 1))

    assert [tuple(row.values()) for row in table.to_arrow(where="k = 101").to_pylist()] == [("b", 101, 1)]


def test_keys_that_others_have_moved_meanwhile_are_found_in_their_new_partition():
    table = new_table()
    put(table, ("a", 1, 0), ("a", 2, 0))
    put(table, ("b", 1, 2), ("b", 3, 2), during=lambda: put(table, ("c", 1, 1), ("c", 3, 1)))

    assert rows_of(table) == {("b", 1, 2), ("b", 3, 2), ("a", 2, 0)}
    assert check_table(handle_of(table)) == []


def test_a_compaction_meanwhile_is_no_reason_to_begin_again():
    table = new_table()
    put(table, ("a", 1, 0))
    put(table, ("a", 2, 0))
    calls = []

    def others() -> None:
        calls.append(table.compact(full=True).status)

    put(table, ("b", 1, 1), during=others)

    assert calls == ["committed"]
    assert rows_of(table) == {("b", 1, 1), ("a", 2, 0)}


def test_all_rows_can_be_replaced_but_not_those_of_some_partitions():
    table = new_table(**{"dynamic-partition-overwrite": "false"})
    put(table, ("a", 1, 0), ("b", 2, 0))
    put(table, ("c", 1, 1), overwrite={})

    assert rows_of(table) == {("c", 1, 1)}
    with pytest.raises(UnsupportedError, match="dynamic-partition-overwrite"):
        put(table, ("c", 1, 1), overwrite={"p": "c"})
    with pytest.raises(UnsupportedError, match="dynamic-partition-overwrite"):
        put(new_table(), ("c", 1, 1), overwrite={})


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_assign_rows_in_the_order_of_the_files(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table, executor, model = new_table(engine, str(tmp_path / "lake")), LocalExecutor(3), {}
    (tmp_path / "in").mkdir()
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    for number in range(4):
        rows: list[Row] = [("abc"[(k + number) % 3], k, number) for k in range(number * 5, number * 5 + 20)]
        for row in rows:
            model[row[1]] = merged(engine, model.get(row[1]), row, "+I")
        found = pa.Table.from_batches([batch(*rows)])
        if number == 2:
            found = found.set_column(1, "k", found["k"].cast(pa.int32())).select(["v", "k", "p"])
        pq.write_table(found, tmp_path / "in" / f"{number}.parquet")

    result = write(Context(handle_of(table), executor), Write(str(tmp_path / "in" / "*.parquet")))
    table.compact(full=True)

    assert result.files > 3
    assert rows_of(table) == set(model.values())
    assert check_table(handle_of(table)) == []


def test_a_frame_moves_keys_too(tmp_path: Path):
    table, executor = new_table(path=str(tmp_path)), LocalExecutor(3)
    for number in range(2):
        rows = [("abc"[(k + number) % 3], k, number) for k in range(30)]
        write_frame(handle_of(table), pa.Table.from_batches([batch(*rows)]), executor)

    assert rows_of(table) == {("abc"[(k + 1) % 3], k, 1) for k in range(30)}
    assert check_table(handle_of(table)) == []


def test_a_partition_column_may_be_part_of_the_key(tmp_path: Path):
    schema = pa.schema([pa.field("day", pa.date32(), nullable=False), pa.field("p", pa.int32()), *list(SCHEMA)[1:]])
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["day", "k"], partition_keys=["day", "p"], options={"bucket": "-1"}
    )
    table.write(pa.table([[0, 0, 1], [1, 2, 1], [5, 6, 5], [1, 1, 1]], schema=schema))
    table.write(pa.table([[0, 1], [2, 1], [5, 5], [2, 2]], schema=schema))

    found = table.to_arrow(columns=["p", "k", "v"], where="day = DATE '1970-01-01'").to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(2, 5, 2), (2, 6, 1)]
    assert table.to_arrow().num_rows == 3


def test_order_by_a_column_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"sequence\.field"):
        new_table(**{"sequence.field": "v"})
