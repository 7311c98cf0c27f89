"""Comparing two states: which values count as the same, and what comes of keys on one side only."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.merge import difference
from paimon_engine.merge.difference import differences, equal_values, uncovered
from paimon_engine.merge.window import SequenceOrder
from paimon_engine.types import DataField, RowType, parse_atomic

KEY = RowType((DataField(0, "k", parse_atomic("INT NOT NULL")),))
INNER = st.none() | st.integers(0, 2)
NESTED = {
    "int": (pa.int32(), INNER),
    "text": (pa.string(), st.none() | st.sampled_from(["", "a"])),
    "list": (pa.list_(pa.int32()), st.none() | st.lists(INNER, max_size=2)),
    "list of lists": (pa.list_(pa.list_(pa.int32())), st.none() | st.lists(st.none() | st.lists(INNER, max_size=1), max_size=2)),
    "map": (pa.map_(pa.string(), pa.int32()), st.none() | st.dictionaries(st.sampled_from("ab"), INNER).map(lambda d: sorted(d.items()))),
    "struct": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int32()))]), st.none() | st.fixed_dictionaries({"x": INNER, "y": st.none() | st.lists(INNER, max_size=1)})),
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTED)
@settings(deadline=None)
@given(data=st.data())
def test_values_are_the_same_where_python_finds_them_equal(kind: str, data: st.DataObject):
    arrow_type, values = NESTED[kind]
    pairs = data.draw(st.lists(st.tuples(values, values), max_size=8))
    left, right = (pa.array([pair[side] for pair in pairs], arrow_type) for side in (0, 1))

    same = equal_values(left, right)

    assert same.tolist() == [a == b for a, b in pairs]
    assert equal_values(left[1:], right[1:]).tolist() == same[1:].tolist()


def test_numbers_with_a_point_are_compared_by_their_bits():
    left, right = pa.array([math.nan, 0.0, 1.5, None]), pa.array([math.nan, -0.0, 1.5, None])

    assert equal_values(left, right).tolist() == [True, False, True, True]


def state(*rows: tuple[int, Any, int]) -> list[pa.RecordBatch]:
    """`(key, value, sequence number)` by key."""
    columns = {
        "_SEQUENCE_NUMBER": pa.array([row[2] for row in rows], pa.int64()),
        "_VALUE_KIND": pa.array([0] * len(rows), pa.int8()),
        "k": pa.array([row[0] for row in rows], pa.int32()),
        "v": pa.array([row[1] for row in rows], pa.string()),
    }
    return [pa.record_batch(columns)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([(1, "a", 0)], [], [(3, 1, "a")]),
        ([], [(1, "a", 0)], [(0, 1, "a")]),
        ([(1, "a", 0), (2, "a", 1)], [(1, "a", 2), (2, "b", 3)], [(0, 2, "b")]),
        ([(1, None, 0)], [(1, "a", 0)], [(0, 1, "a")]),
        ([(1, "new", 5), (2, "same", 6)], [(1, "old", 2), (2, "same", 3)], [(0, 1, "old")]),
        ([(1, "a", 0), (3, "c", 1)], [(2, "b", 2), (3, "c", 1)], [(3, 1, "a"), (0, 2, "b")]),
    ],
    ids=["gone", "new", "same or changed", "null became a value", "older than before", "side by side"],
)
def test_differences(before: list[Any], after: list[Any], expected: list[Any]):
    found = differences(iter(state(*before)), iter(state(*after)), KEY, SequenceOrder(), ["v"])

    rows = [tuple(row.values())[1:] for batch in found for row in batch.to_pylist()]
    assert rows == expected


@pytest.mark.parametrize("bytes_at_once", [1, 1 << 20])
def test_of_a_key_that_went_the_row_beneath_is_seen(bytes_at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(difference, "GONE_BYTES_MAX", bytes_at_once)
    before, after = state((1, "a", 9), (2, "b", 8), (4, "d", 7)), state((2, "B", 10), (3, "C", 11))
    beneath = state((1, "old", 1), (2, "hidden", 2), (5, "other", 3))
    changed = differences(iter(before), iter(after), KEY, SequenceOrder(), ["v"])

    found = uncovered(changed, lambda: iter(beneath), KEY, SequenceOrder())

    rows = sorted(tuple(row.values())[1:] for batch in found for row in batch.to_pylist())
    assert rows == [(0, 1, "old"), (0, 2, "B"), (0, 3, "C"), (3, 4, "d")]


def test_what_is_beneath_is_not_read_where_no_key_went():
    changed = differences(iter(state((1, "a", 1))), iter(state((1, "b", 2))), KEY, SequenceOrder(), ["v"])

    found = uncovered(changed, lambda: pytest.fail("it is read"), KEY, SequenceOrder())

    assert [tuple(row.values())[1:] for batch in found for row in batch.to_pylist()] == [(0, 1, "b")]
