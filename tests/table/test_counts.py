"""The aggregate function `count`: rows become partial counts when they are written, and stay right in every cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.table.conftest import KIND, MakeTable

COUNTING = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "count"}
COLUMNS = {"k": pa.int32(), "n": pa.int64(), "total": pa.int64()}


@pytest.mark.parametrize("seed", range(4))
def test_a_count_is_that_of_all_values_however_the_history_is_cut(make_table: MakeTable, seed: int) -> None:
    chance = random.Random(seed)
    history = [
        ("+I" if chance.random() < 0.8 else "-U", chance.randrange(3), chance.choice([None, 7, -9])) for _ in range(60)
    ]
    expected = {key: 0 for _, key, _ in history}
    for kind, key, value in history:
        expected[key] += (value is not None) * (1 if kind == "+I" else -1)

    for size in (60, 13, 7):
        table = make_table(COLUMNS, primary_keys=["k"], options={**COUNTING, "fields.total.ignore-retract": "true"})
        for begin in range(0, len(history), size):
            kinds, keys, values = zip(*history[begin : begin + size], strict=True)
            table.write({KIND: list(kinds), "k": list(keys), "n": list(values), "total": [1] * len(keys)})
            if chance.random() < 0.5:
                table.compact(full=chance.random() < 0.5)

        # A key of one delete record only has no row.
        assert {key: count for key, count, _ in table.compact().rows()} == expected


def test_a_row_alone_counts_as_one_or_none(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, primary_keys=["k"], options=COUNTING)

    table.write({"k": [1, 2], "n": [500, None], "total": [3, 4]})

    assert table.rows() == [(1, 1, 3), (2, 0, 4)]


def test_counts_are_kept_by_sequence_groups_and_by_default(make_table: MakeTable) -> None:
    grouped = {"bucket": "1", "merge-engine": "partial-update", "fields.total.sequence-group": "n"}
    options = {**grouped, "fields.default-aggregate-function": "count"}
    table = make_table(COLUMNS, primary_keys=["k"], options=options)

    table.write({"k": [1, 1], "n": [50, 60], "total": [9, 8]}).write({"k": [1], "n": [70], "total": [None]})

    assert table.rows() == [(1, 2, 9)]
