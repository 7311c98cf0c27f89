"""Merging runs that hold keys several times: round by round, and ties as the tournament decides them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.repeated import merge_repeated_runs
from paimon_engine.merge.window import SequenceOrder
from paimon_engine.types import DataField, RowType, parse_atomic

KEY = RowType((DataField(0, "k", parse_atomic("INT NOT NULL")),))
Record = tuple[int, int]
"""Key and sequence number."""


def batches(run: list[Record], size: int = 100) -> list[pa.RecordBatch]:
    rows = pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array([record[1] for record in run], pa.int64()),
            "k": pa.array([record[0] for record in run], pa.int32()),
            "u": pa.array([-record[1] for record in run], pa.int32()),
        }
    )
    return rows.to_batches(max_chunksize=size)


def rounds(runs: list[list[Record]], size: int = 100, order: SequenceOrder | None = None) -> list[list[Record]]:
    """Records of each round, oldest first."""
    found = []
    for window in merge_repeated_runs([batches(run, size) for run in runs], KEY, order or SequenceOrder()):
        records = [(row["k"], row["_SEQUENCE_NUMBER"]) for row in window.rows.to_pylist()]
        starts = [*window.starts.tolist(), len(records)]
        found += [records[a:b] for a, b in pairwise(starts)]
    return found


def test_the_records_of_a_key_are_merged_in_the_order_of_each_run():
    assert rounds([[(1, 0), (1, 1), (2, 2)], [(1, 5), (3, 6), (3, 7)]]) == [
        [(1, 0), (1, 5)], [(1, 1)], [(2, 2)], [(3, 6)], [(3, 7)],
    ]  # fmt: skip


def test_user_sequences_come_before_sequence_numbers():
    order = SequenceOrder(("u",))

    assert rounds([[(1, 0)], [(1, 5)]], order=order) == [[(1, 5), (1, 0)]]
    with pytest.raises(UnsupportedError, match="descending"):
        rounds([[(1, 0)]], order=SequenceOrder(("u",), descending=True))


def test_lists_and_rows_order_records_too():
    values = [[{"x": 1}, None], None, [{"x": 2}], []]
    kind = pa.list_(pa.struct([("x", pa.int32())]))
    runs = [
        [pa.record_batch({"_SEQUENCE_NUMBER": [number], "k": pa.array([1], pa.int32()), "u": pa.array([value], kind)})]
        for number, value in enumerate(values)
    ]

    (window,) = merge_repeated_runs(runs, KEY, SequenceOrder(("u",)))

    assert window.rows["u"].to_pylist() == [None, [], [{"x": 1}, None], [{"x": 2}]]


def test_zeros_and_nan_order_records_too():
    values = [float("nan"), None, 0.0, float("-inf"), -0.0]
    runs = [
        [
            pa.record_batch(
                {"_SEQUENCE_NUMBER": [number], "k": pa.array([1], pa.int32()), "u": pa.array([value], pa.float64())}
            )
        ]
        for number, value in enumerate(values)
    ]

    (window,) = merge_repeated_runs(runs, KEY, SequenceOrder(("u",)))

    assert window.rows["_SEQUENCE_NUMBER"].to_pylist() == [1, 3, 4, 2, 0]


RUNS = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12).map(
        lambda run: sorted(run, key=lambda record: record[0])
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(runs=RUNS, size=st.integers(1, 5))
def test_rounds_are_as_many_as_the_longest_run_of_a_key(runs: list[list[Record]], size: int):
    found = rounds(runs, size)

    assert [group[0][0] for group in found] == sorted(group[0][0] for group in found)
    for key in range(6):
        mine = [group for group in found if group[0][0] == key]
        held = [[record for record in run if record[0] == key] for run in runs]
        assert len(mine) == max(map(len, held))
        for number, group in enumerate(mine):
            assert Counter(group) == Counter(records[number] for records in held if number < len(records))
            assert [sequence for _, sequence in group] == sorted(sequence for _, sequence in group)
    assert found == rounds(runs)
