"""Normalised keys order and equal one another as the columns' values do, in one array and across arrays."""

from __future__ import annotations

import math
import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge import keys as keys_module
from paimon_engine.merge.keys import count_up_to, has_between, indices_of, join_keys, normalise_keys
from paimon_engine.types import ArrayType, DataType, parse_atomic, to_arrow

# Few letters, so that prefixes, equal values, zeros and escape bytes are frequent.
BYTES = st.lists(st.sampled_from([0, 1, 2, 97, 255]), max_size=4).map(bytes)
TEXTS = st.text(st.sampled_from("\x00\x01\x02aé€😀"), max_size=4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    "DOUBLE": st.floats(allow_nan=True) | st.sampled_from([-0.0, 0.0]),
    "FLOAT": st.floats(width=32) | st.sampled_from([-0.0, 0.0]),
    "BOOLEAN": st.booleans(),
    "STRING": TEXTS,
    "BYTES": BYTES,
    # Of one length, unless a byte is escaped.
    "CHAR(2)": st.text(st.sampled_from("ab"), min_size=2, max_size=2),
    "BINARY(8)": st.lists(st.sampled_from([1, 2, 255, 255, 255]), min_size=8, max_size=8).map(bytes),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(6)": st.integers(-(2**63), 2**63 - 1),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(9, 2)": st.decimals(-9999999, 9999999, places=2),
    "DECIMAL(38, 3)": st.decimals(-(10**30), 10**30, places=3),
}


def naive_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What Python's own comparison makes of the row."""

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, float):
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
        return value

    return tuple(plain(value) for value in row)


def arrow_column(values: list[Any], data_type: DataType) -> pa.Array:
    arrow_type = to_arrow(data_type)
    if pa.types.is_temporal(arrow_type):
        return pa.array(values, pa.int32() if arrow_type.bit_width == 32 else pa.int64()).view(arrow_type)
    return pa.array(values, arrow_type)


@st.composite
def key_rows(draw: st.DrawFn) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(VALUES[name] for name in names)), min_size=1, max_size=12))
    return [parse_atomic(name) for name in names], rows


def normalised(types: list[DataType], rows: list[tuple[Any, ...]]) -> keys_module.Keys:
    """Keys of the rows, computed from slices so that offsets count."""
    doubled = [rows[0], *rows, rows[-1]]
    columns = [arrow_column([row[i] for row in doubled], data_type) for i, data_type in enumerate(types)]
    return normalise_keys([column.slice(1, len(rows)) for column in columns], types)


@pytest.mark.parametrize("padded_bytes_max", [keys_module.PADDED_BYTES_MAX, 0, 40])
def test_keys_compare_as_their_values_do(padded_bytes_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "PADDED_BYTES_MAX", padded_bytes_max)

    @settings(max_examples=250, deadline=None)
    @given(key_rows(), st.data())
    def check(drawn: tuple[list[DataType], list[tuple[Any, ...]]], data: st.DataObject) -> None:
        types, rows = drawn
        cut = data.draw(st.integers(0, len(rows)))
        parts = [normalised(types, part) for part in (rows[:cut], rows[cut:]) if part]
        order = np.argsort(join_keys(parts), kind="stable")
        assert list(order) == sorted(range(len(rows)), key=lambda i: naive_order(rows[i]))
        joined = join_keys(parts)[order]
        values = [naive_order(rows[i]) for i in order]
        assert list(joined[1:] != joined[:-1]) == [a != b for a, b in zip(values[1:], values[:-1], strict=True)]
        # A bound of one array cuts the other where its value would.
        ascending, bounds = np.sort(parts[0], kind="stable"), parts[-1]
        for bound, row in zip(bounds, rows[-len(bounds) :], strict=True):
            expected = sum(naive_order(other) <= naive_order(row) for other in rows[: len(ascending)])
            assert count_up_to(ascending, bound) == expected
        values, members = (
            {naive_order(row) for row in part} for part in (rows[: len(ascending)], rows[-len(bounds) :])
        )
        indices = indices_of(np.unique(bounds), np.unique(ascending))
        assert indices.tolist() == [index for index, value in enumerate(sorted(values)) if value in members]
        for index, row in enumerate(rows[-len(bounds) :]):
            low, high = sorted([index, 0], key=lambda i: naive_order(rows[i - len(bounds)]))
            between = [
                naive_order(rows[low - len(bounds)]) <= naive_order(other) <= naive_order(rows[high - len(bounds)])
                for other in rows[: len(ascending)]
            ]
            assert has_between(ascending, bounds[low], bounds[high]) == any(between), row

    check()


@pytest.mark.parametrize("name", sorted(VALUES))
def test_no_rows_give_no_keys(name: str) -> None:
    data_type = parse_atomic(name)
    assert len(normalise_keys([arrow_column([], data_type)], [data_type])) == 0
    assert len(normalise_keys([arrow_column([], data_type)] * 2, [data_type] * 2)) == 0


def test_a_single_number_stays_a_number() -> None:
    for name in ("INT", "DATE", "DECIMAL(18, 4)", "TIMESTAMP(9)"):
        data_type = parse_atomic(f"{name} NOT NULL")
        values = [Decimal("1.5")] if name.startswith("DEC") else [7]
        assert normalise_keys([arrow_column(values, data_type)], [data_type]).dtype == np.int64


def test_one_long_key_does_not_widen_all() -> None:
    text = parse_atomic("STRING")
    short = normalise_keys([pa.array([f"{i:05}" for i in range(50_000)])], [text])
    long = normalise_keys([pa.array(["x" * 100_000])], [text])
    joined = join_keys([short, long])
    assert joined.dtype == object
    assert list(np.argsort(joined, kind="stable")[-2:]) == [49_999, 50_000]
    tracemalloc.start()
    assert count_up_to(short, long[-1]) == 50_000
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_objects_and_fixed_widths_make_equal_keys() -> None:
    types = [parse_atomic("STRING"), parse_atomic("BIGINT")]
    # The number 0 ends in zero bytes, which fixed-width arrays drop.
    short = normalise_keys([pa.array(["a"]), pa.array([0])], types)
    long = normalise_keys([pa.array(["a"] * 1500 + ["x" * 100_000]), pa.array([0] * 1501)], types)
    assert (short.dtype.kind, long.dtype.kind) == ("S", "O")
    joined = join_keys([short, long])
    assert all(joined[1:-1] == joined[0])
    assert count_up_to(long, short[0]) == 1500
    assert count_up_to(short, long[0]) == 1


def test_nested_columns_are_no_keys() -> None:
    with pytest.raises(UnsupportedError):
        normalise_keys([pa.array([[1]])], [ArrayType(parse_atomic("INT"))])


@pytest.mark.parametrize(
    "name",
    [
        "INT",
        "STRING",
        "BOOLEAN",
        "DOUBLE",
        "DECIMAL(30, 2)",
        "DECIMAL(10, 2)",
        "DECIMAL(20, 0)",
        "TIMESTAMP(9)",
        "DATE",
        "BYTES",
    ],
)
def test_null_is_the_smallest_key_and_no_other(name: str) -> None:
    low: dict[str, Any] = {"STRING": "", "BOOLEAN": False, "DOUBLE": float("-inf"), "BYTES": b""}
    smallest = low.get(name, Decimal(-9) if name.startswith("DEC") else -(2**31))
    kind = parse_atomic(name)
    column = arrow_column([smallest, None], kind)
    other = arrow_column([3, None], INT := parse_atomic("INT"))
    for columns, types in (([column], [kind]), ([column, other.take([0, 0])], [kind, INT])):
        keys = normalise_keys(columns, types)
        again = normalise_keys([part.slice(0, 1) for part in columns], types)
        assert keys[1] < keys[0] == again[0]
