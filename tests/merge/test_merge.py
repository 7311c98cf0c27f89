"""Merging sorted runs against a model that walks row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge import frontier
from paimon_engine.merge import sorted_parts as sorted_parts_module
from paimon_engine.merge.chosen_rows import ChosenRows
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import sequence_order
from paimon_engine.merge.keys import normalise_keys
from paimon_engine.merge.records import drop_retracts
from paimon_engine.merge.sorted_parts import sorted_parts
from paimon_engine.merge.window import SequenceOrder, sort_window
from paimon_engine.options import TableOptions
from paimon_engine.types import DataField, RowType, parse_atomic

KEY_TYPE = RowType(
    (DataField(0, "a", parse_atomic("INT NOT NULL")), DataField(1, "b", parse_atomic("STRING NOT NULL")))
)
SCHEMA = pa.schema(
    [
        ("_SEQUENCE_NUMBER", pa.int64()),
        ("_VALUE_KIND", pa.int8()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("u", pa.int64()),
        ("v", pa.string()),
        ("n", pa.list_(pa.int32())),
    ]
)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


@dataclass(frozen=True)
class Record:
    """One version of a key. `u` and `v` may serve as sequence fields."""

    sequence: int
    kind: int
    a: int
    b: str
    u: int | None
    v: str | None

    @property
    def key(self) -> tuple[int, bytes]:
        return self.a, self.b.encode()


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    columns = zip(*((r.sequence, r.kind, r.a, r.b, r.u, r.v, [r.sequence]) for r in records), strict=True)
    return pa.record_batch(list(map(list, columns)) if records else [[]] * len(SCHEMA), schema=SCHEMA)


def records_of(batches: Sequence[pa.RecordBatch]) -> list[Record]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["n"] == [row["_SEQUENCE_NUMBER"]] for row in rows)
    return [Record(r["_SEQUENCE_NUMBER"], r["_VALUE_KIND"], r["a"], r["b"], r["u"], r["v"]) for r in rows]


def model_age(record: Record, sequence: SequenceOrder) -> tuple[Any, ...]:
    """Later compares greater: user columns with null first, then sequence number, then retract before add."""
    ranks: list[Any] = []
    for name in sequence.user_columns:
        value = getattr(record, name)
        number = value if isinstance(value, int) else -1 if value is None else "\x00ab".index(value)
        ranks.append((value is not None, -number if sequence.descending else number))
    return (*ranks, record.sequence, record.kind in (INSERT, UPDATE_AFTER))


def model(records: Sequence[Record], sequence: SequenceOrder) -> list[Record]:
    newest: dict[tuple[int, bytes], Record] = {}
    for record in records:
        present = newest.get(record.key)
        if present is None or model_age(record, sequence) >= model_age(present, sequence):
            newest[record.key] = record
    return [newest[key] for key in sorted(newest)]


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records in order of arrival; few keys, so that there are versions to merge."""
    fields = st.tuples(
        st.sampled_from([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]),
        st.integers(-2, 2),
        st.sampled_from(["", "x", "x\x00", "é"]),
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from(["\x00", "a", "b"]),
    )
    return [Record(number, *values) for number, values in enumerate(draw(st.lists(fields, max_size=40)))]


SEQUENCES = st.builds(SequenceOrder, st.sampled_from([(), ("u",), ("v", "u")]), st.booleans())


def flush(records: Sequence[Record], sequence: SequenceOrder) -> list[Record]:
    """What a writer makes of a full buffer."""
    rows = batch_of(records)
    keys = normalise_keys([rows[name] for name in KEY_TYPE.names], [field.type for field in KEY_TYPE])
    return records_of([deduplicate(sort_window(rows, keys, sequence))])


def in_batches(records: Sequence[Record], sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    begin, turn = 0, 0
    while begin < len(records):
        size = sizes[turn % len(sizes)]
        yield batch_of(records[begin : begin + size])
        begin, turn = begin + size, turn + 1


def merged(runs: Sequence[Sequence[Record]], sequence: SequenceOrder, sizes: Sequence[int] = (3,)) -> list[Record]:
    windows = merge_runs([in_batches(run, sizes) for run in runs], KEY_TYPE, sequence)
    return records_of([deduplicate(window) for window in windows])


@settings(max_examples=150, deadline=None)
@given(histories(), SEQUENCES, st.data())
def test_merging_gives_the_newest_version_of_each_key(
    history: list[Record], sequence: SequenceOrder, data: st.DataObject
) -> None:
    run_of = data.draw(st.lists(st.integers(0, 4), min_size=len(history), max_size=len(history)))
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any))
    runs = [flush([r for r, run in zip(history, run_of, strict=True) if run == n], sequence) for n in range(5)]
    assert merged(runs, sequence, sizes) == model(history, sequence)


@settings(max_examples=100, deadline=None)
@given(histories(), SEQUENCES, st.data())
def test_merging_parts_first_gives_the_same(
    history: list[Record], sequence: SequenceOrder, data: st.DataObject
) -> None:
    run_of = data.draw(st.lists(st.integers(0, 3), min_size=len(history), max_size=len(history)))
    a, b, c, d = (flush([r for r, run in zip(history, run_of, strict=True) if run == n], sequence) for n in range(4))
    everything = merged([a, b, c, d], sequence)
    assert merged([merged([a, b], sequence), merged([c, d], sequence)], sequence) == everything
    assert merged([a, merged([b, merged([c, d], sequence)], sequence)], sequence) == everything


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(1, 9))
def test_runs_in_order_of_arrival_need_no_sequence_numbers(history: list[Record], size: int) -> None:
    by_number, by_arrival = SequenceOrder(), SequenceOrder(by_arrival=True)
    runs = [flush(history[i : i + size], by_arrival) for i in range(0, len(history), size)]
    assert merged(runs, by_arrival) == model(history, by_number)


@settings(max_examples=100, deadline=None)
@given(histories(), SEQUENCES, st.integers(1, 9), st.integers(1, 12))
def test_rows_that_wait_are_sorted_part_by_part(
    history: list[Record], sequence: SequenceOrder, size: int, part_rows: int
) -> None:
    parts = list(
        sorted_parts(
            [ChosenRows(rows) for rows in in_batches(history, [size])], KEY_TYPE, sequence, part_rows=part_rows
        )
    )
    assert records_of([deduplicate(part) for part in parts]) == model(history, sequence)
    assert sum(part.rows.num_rows for part in parts) == len(history)
    assert all(part.rows.num_rows <= part_rows or len(part.starts) == 1 for part in parts)


def test_of_large_rows_fewer_are_gathered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Record(number, INSERT, -number, "x" * 100, None, None) for number in range(50)]
    batches = [batch_of(rows[:20]), batch_of(rows[20:])]
    monkeypatch.setattr(sorted_parts_module, "ROW_GROUP_BYTES_MAX", 5 * batches[0].nbytes // 20)
    counts = [
        part.rows.num_rows for part in sorted_parts([ChosenRows(rows) for rows in batches], KEY_TYPE, SequenceOrder())
    ]
    assert sum(counts) == 50
    assert 4 <= max(counts) <= 5


@settings(max_examples=50, deadline=None)
@given(histories())
def test_a_window_orders_all_versions_oldest_first(history: list[Record]) -> None:
    sequence = SequenceOrder(("u",))
    rows = batch_of(history[::-1])
    keys = normalise_keys([rows[name] for name in KEY_TYPE.names], [field.type for field in KEY_TYPE])
    window = sort_window(rows, keys, sequence)
    assert window.order is not None
    ordered = records_of([rows.take(pa.array(window.order))])
    assert ordered == sorted(history, key=lambda r: (r.key, model_age(r, sequence)))
    starts = [i for i, r in enumerate(ordered) if i == 0 or r.key != ordered[i - 1].key]
    assert list(window.starts) == starts


def test_with_equal_sequence_numbers_the_add_counts() -> None:
    retract = Record(5, UPDATE_BEFORE, 1, "x", None, None)
    add = replace(retract, kind=UPDATE_AFTER)
    assert merged([[add], [retract]], SequenceOrder()) == [add]


def test_a_delete_record_counts_and_stays_until_it_is_dropped() -> None:
    add = Record(0, INSERT, 1, "x", None, None)
    delete = replace(add, sequence=1, kind=DELETE)
    other = replace(add, b="y")
    assert merged([[add, other], [delete]], SequenceOrder()) == [delete, other]
    assert records_of([drop_retracts(batch_of([delete, other]))]) == [other]
    untouched = batch_of([other])
    assert drop_retracts(untouched) is untouched


def test_rows_of_one_run_alone_pass_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "SMALL_ROWS", 0)
    first = batch_of([Record(n, INSERT, n, "x", None, None) for n in range(4)])
    second = batch_of([Record(n, INSERT, n, "x", None, None) for n in range(10, 14)])
    windows = list(merge_runs([[second], [first]], KEY_TYPE, SequenceOrder()))
    assert [window.order for window in windows] == [None, None]
    assert deduplicate(windows[0])["a"].buffers()[1].address == first["a"].buffers()[1].address


def test_small_runs_are_one_window_and_larger_ones_end_it() -> None:
    def run(*numbers: int) -> pa.RecordBatch:
        return batch_of([Record(n, INSERT, n, "x", None, None) for n in numbers])

    def windows(*runs: list[pa.RecordBatch]) -> list[list[int]]:
        found = merge_runs(runs, KEY_TYPE, SequenceOrder())
        return [sorted(record.key[0] for record in records_of([window.rows])) for window in found]

    assert windows([run(1, 9)], [run(2, 3)], [run(4)]) == [[1, 2, 3, 4, 9]]
    assert windows([run(1, 5), run(6, 7)], [run(2, 9)]) == [[1, 2, 5, 6, 7, 9]]
    large = range(frontier.SMALL_ROWS)
    assert windows([run(*large[:9]), run(*large[9:]), run(2_000)], [run(3_000)]) == [[*large], [2_000, 3_000]]
    assert windows([run(*large)], [run(0, 2_000)]) == [[0, *large], [2_000]]


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_of_runs_that_follow_there_is_what_has_a_key_of_the_others(history: list[Record], data: st.DataObject) -> None:
    run_of = data.draw(st.lists(st.integers(0, 3), min_size=len(history), max_size=len(history)))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    order = SequenceOrder()
    runs = [flush([r for r, run in zip(history, run_of, strict=True) if run == n], order) for n in range(4)]

    windows = list(merge_runs([in_batches(run, sizes) for run in runs], KEY_TYPE, order, followers=2))

    wanted = {record.key for run in runs[2:] for record in run}
    expected = [record for run in runs for record in run if record.key in wanted]
    found = records_of([window.rows for window in windows])
    assert sorted(found, key=model_key) == sorted(expected, key=model_key)
    assert records_of([deduplicate(window) for window in windows]) == model(expected, order)


def model_key(record: Record) -> tuple[tuple[int, bytes], int]:
    return record.key, record.sequence


@pytest.mark.parametrize(("bound", "value"), [("SMALL_ROWS", 5), ("_SMALL_BYTES", 1)])
def test_memory_is_bounded_by_a_batch_of_each_run(bound: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, bound, value)
    taken = [0, 0]

    def run(number: int) -> Iterator[pa.RecordBatch]:
        for begin in range(0, 1000, 10):
            taken[number] += 1
            yield batch_of([Record(n, INSERT, n, "x", None, None) for n in range(begin + number, begin + 10, 2)])

    windows = merge_runs([run(0), run(1)], KEY_TYPE, SequenceOrder())
    for count, _ in enumerate(windows, 1):
        assert max(taken) <= count + 2


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        ([None, -5, 3], pa.int8()),
        ([None, False, True], pa.bool_()),
        ([None, -1.5, 2.5], pa.float32()),
        ([None, "", "é"], pa.string()),
        ([None, b"\x00", b"\xff"], pa.binary()),
        ([None, Decimal("-1.5"), Decimal("2.5")], pa.decimal128(30, 1)),
        ([None, datetime(1969, 1, 1), datetime(2024, 1, 1)], pa.timestamp("us")),
        ([None, datetime(1969, 1, 1), datetime(2024, 1, 1)], pa.timestamp("ms", tz="UTC")),
        ([None, 1, 2], pa.date32()),
        ([None, 1, 2], pa.time32("ms")),
        ([None, [], [None]], pa.list_(pa.int32())),
        ([None, [1, None], [1, 0]], pa.list_(pa.int32())),
        ([None, {"x": 1, "y": None}, {"x": 1, "y": ""}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ([None, [{"x": 1}, None], [{"x": 2}]], pa.list_(pa.struct([("x", pa.int32())]))),
    ],
    ids=str,
)
@pytest.mark.parametrize("descending", [False, True])
def test_any_column_but_a_map_can_order_versions(values: list[Any], arrow_type: pa.DataType, descending: bool) -> None:
    column = pa.array(values, arrow_type)
    arrivals = [1, 2, 0]
    rows = pa.record_batch(
        [pa.array(range(3), pa.int64()), pa.array([0, 0, 0], pa.int8()), column.take(pa.array(arrivals))],
        names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "u"],
    )
    window = sort_window(rows, np.zeros(3, dtype=np.int64), SequenceOrder(("u",), descending))
    assert window.order is not None
    assert [arrivals[i] for i in window.order] == ([0, 2, 1] if descending else [0, 1, 2])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("descending", [False, True])
def test_zeros_and_nan_order_versions_as_java_sorts_them(kind: pa.DataType, descending: bool) -> None:
    values = [None, float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")]
    shuffled = np.random.default_rng(3).permutation(len(values))
    rows = pa.record_batch(
        [
            pa.array(range(len(values)), pa.int64()),
            pa.array([0] * len(values), pa.int8()),
            pa.array(values, kind).take(pa.array(shuffled)),
        ],
        names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "u"],
    )
    order = SequenceOrder(("u",), descending)

    window = sort_window(rows, np.zeros(len(values), dtype=np.int64), order)

    assert window.order is not None
    oldest_first = [0, *reversed(range(1, len(values)))] if descending else [*range(len(values))]
    assert shuffled[window.order].tolist() == oldest_first


def test_maps_cannot_order_versions() -> None:
    rows = pa.record_batch(
        [pa.array([0, 1]), pa.array([0, 0], pa.int8()), pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32()))],
        names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "u"],
    )

    with pytest.raises(UnsupportedError, match="maps have no order"):
        sort_window(rows, np.zeros(2, dtype=np.int64), SequenceOrder(("u",)))


def test_the_options_choose_the_order() -> None:
    options = TableOptions({"sequence.field": "u, v", "sequence.field.sort-order": "descending"})
    assert sequence_order(options) == SequenceOrder(("u", "v"), descending=True)


def test_sequence_numbers_far_apart_are_ordered_too() -> None:
    numbers = [2**61, 0, 2**61 - 1, 7]
    rows = pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array([0] * 4, pa.int8())], names=["_SEQUENCE_NUMBER", "_VALUE_KIND"]
    )
    window = sort_window(rows, np.array([5, 5, 5, 4]), SequenceOrder())
    assert window.order is not None
    assert [numbers[i] for i in window.order] == [7, 0, 2**61 - 1, 2**61]
