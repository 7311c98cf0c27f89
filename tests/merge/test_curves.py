"""Curves: near values get near positions, for all types; nulls first, NaN last."""

from __future__ import annotations

import itertools
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine.arrow_types import from_arrow
from paimon_engine.merge.curves import COLUMNS_MAX, Curve, Order, range_numbers, range_stops, to_column

ORDERS: tuple[Order, ...] = ("order", "zorder", "hilbert")
NAN = float("nan")
ASCENDING: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [None, -128, -1, 0, 127]),
    "bigint": (pa.int64(), [None, -(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [None, float("-inf"), -1.5, -0.0, 1e-40, 2.5, float("inf"), NAN]),
    "double": (pa.float64(), [None, float("-inf"), -2.0, -1e-300, 0.0, 1e-300, float("inf"), NAN]),
    "decimal": (pa.decimal128(9, 2), [None, Decimal("-9.99"), Decimal("0.00"), Decimal("0.01")]),
    "long decimal": (pa.decimal128(38, 0), [None, Decimal(-(10**37)), Decimal(-1), Decimal(0), Decimal(10**37)]),
    "text": (pa.string(), [None, "", "\0", "a", "a\0", "aa", "b", "é", "漢", "😀"]),
    "text with one beginning": (pa.string(), [None, *(f"https://one.example/{n:03}" for n in range(5))]),
    "bytes": (pa.binary(), [None, b"", b"\0", b"\0\0", b"\x01", b"\xff", b"\xff\xff"]),
    "date": (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [None, datetime(1960, 1, 1), datetime(1970, 1, 1), datetime(2100, 1, 1)]),
    "instant": (pa.timestamp("us", "UTC"), [None, datetime(1960, 1, 1), datetime(1970, 1, 1), datetime(2100, 1, 1)]),
    "boolean": (pa.bool_(), [None, False, True]),
}


def indices(order: Order, columns: dict[str, pa.Array]) -> Any:
    rows = pa.RecordBatch.from_pydict(columns)
    curve = Curve(order, tuple(from_arrow(column.type) for column in rows.columns))
    return curve.fitted(rows).positions(rows)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ASCENDING)
def test_one_column_is_ordered_by_its_values(kind: str, order: Order):
    arrow_type, values = ASCENDING[kind]

    found = indices(order, {"a": pa.array(values, arrow_type)})

    assert (found[:-1] < found[1:]).all()
    turns = [*range(1, len(values), 2), *range(0, len(values), 2)]
    column = to_column(indices(order, {"a": pa.array([values[turn] for turn in turns], arrow_type)}))
    assert [turns[row] for row in pc.sort_indices(column).to_pylist()] == [*range(len(values))]


@pytest.mark.parametrize("order", ORDERS)
def test_zeros_are_one_value_and_so_are_nans(order: Order):
    found = indices(order, {"a": pa.array([0.0, -0.0, NAN, -NAN])})

    assert found[0] == found[1] != found[2] == found[3]


def test_order_looks_at_one_column_after_another():
    values = list(itertools.product([None, "", "a", "a\0", "ab"], [None, -1, 0, 5], [None, False, True]))
    types = (pa.string(), pa.int32(), pa.bool_())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), types, strict=True)]

    found = indices("order", dict(zip("abc", columns, strict=True)))

    assert (found[:-1] < found[1:]).all()


@pytest.mark.parametrize(("columns", "bits"), [(2, 4), (3, 3), (4, 2)])
def test_a_hilbert_curve_visits_each_cell_once_and_never_jumps(columns: int, bits: int):
    cells = np.array(list(itertools.product(range(1 << bits), repeat=columns)))
    # As many different values as ranks are needed for each to be a rank of its own.
    values = {str(number): pa.array(cells[:, number]) for number in range(columns)}

    visited = cells[np.argsort(indices("hilbert", values))]

    steps = np.abs(np.diff(visited, axis=0)).sum(axis=1)
    assert len(np.unique(indices("hilbert", values))) == len(cells)
    # Ranks are spread over more cells than there are values, so that a step may pass over some of these.
    assert np.mean(steps == 1) > 0.7


def test_z_order_takes_the_bits_of_the_columns_in_turn():
    values = {"a": pa.array([0, 0, 1, 1]), "b": pa.array([0, 1, 0, 1])}

    assert np.argsort(indices("zorder", values)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("order", ["zorder", "hilbert"])
def test_columns_count_alike_however_their_values_are_spread(order: Order):
    numbers = np.arange(4096)
    columns = {"few": pa.array(numbers % 4), "far": pa.array(numbers.astype(np.int64) ** 5)}

    found = np.argsort(indices(order, columns))

    quarter = found[:1024]
    assert len(np.unique(quarter % 4)) <= 2
    assert quarter.max() - quarter.min() < 2100


@pytest.mark.parametrize("order", ["zorder", "hilbert"])
def test_many_columns_have_positions_too(order: Order):
    chance = np.random.default_rng(3)
    columns = {str(number): pa.array(chance.integers(0, 9, 50)) for number in range(COLUMNS_MAX)}

    found = indices(order, columns)

    assert found.min() >= 0
    assert len(np.unique(found)) == 50


@pytest.mark.parametrize("order", ORDERS)
def test_ranges_are_of_equal_size_and_keep_equal_rows_together(order: Order):
    chance = np.random.default_rng(5)
    found = indices(order, {"a": pa.array(chance.integers(0, 50, 10_000)), "b": pa.array(chance.random(10_000))})

    numbers = range_numbers(found, range_stops(found, 8))

    assert np.bincount(numbers, minlength=8).min() > 800
    assert all(np.sort(found[numbers == n])[-1] < np.sort(found[numbers == n + 1])[0] for n in range(7))


def test_rows_that_are_all_alike_make_one_range():
    found = indices("zorder", {"a": pa.nulls(100, pa.int64()), "b": pa.array([7] * 100)})

    assert set(range_numbers(found, range_stops(found, 8)).tolist()) <= {0, 1}
    assert len(set(range_numbers(found, range_stops(found, 8)).tolist())) == 1
