"""Arrow values made of bytes are those that Arrow makes of Python's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.arrow_values import (
    as_numbers,
    of_numbers,
    of_values,
    scalar_of_bytes,
    scalar_of_float,
    scalar_of_number,
)


@pytest.mark.parametrize(
    ("arrow_type", "numbers"),
    [
        (pa.int8(), [-128, 0, 127]),
        (pa.int16(), [-(1 << 15), 300]),
        (pa.int32(), [-1, (1 << 31) - 1]),
        (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
        (pa.uint8(), [0, 255]),
        (pa.uint64(), [0, (1 << 64) - 1]),
        (pa.date32(), [-719_162, 0, 20_000]),
        (pa.time32("ms"), [0, 86_399_999]),
        (pa.timestamp("s"), [-5, 5]),
        (pa.timestamp("ns", tz="UTC"), [-1, 1 << 60]),
    ],
    ids=str,
)
def test_scalars(arrow_type: pa.DataType, numbers: list[int]) -> None:
    for number in numbers:
        found = scalar_of_number(number, arrow_type)
        assert found.equals(pa.scalar(number, arrow_type))
        assert found.type == arrow_type


@pytest.mark.parametrize(
    ("arrow_type", "number"), [(pa.int8(), 128), (pa.uint16(), -1), (pa.int64(), 1 << 63)], ids=str
)
def test_numbers_that_a_type_does_not_have(arrow_type: pa.DataType, number: int) -> None:
    with pytest.raises(OverflowError):
        scalar_of_number(number, arrow_type)


def test_arrays() -> None:
    numbers = np.array([3, -1, 1 << 40, 5])
    assert of_numbers(numbers[::2], pa.int64()).equals(pa.array([3, 1 << 40], pa.int64()))
    assert of_numbers(numbers[:0], pa.int64()).equals(pa.array([], pa.int64()))


@pytest.mark.parametrize("begin", [0, 1, 4])
@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.int32(), pa.int64(), pa.float64()], ids=str)
def test_numbers_of_arrays(arrow_type: pa.DataType, begin: int) -> None:
    array = pa.array([1, 2, 3, 4], arrow_type).slice(begin)
    found = as_numbers(array)
    assert found.dtype == arrow_type.to_pandas_dtype()
    assert found.tolist() == array.to_pylist()
    assert as_numbers(array.slice(0, 0)).tolist() == []


@pytest.mark.parametrize(
    ("arrow_type", "values"),
    [
        (pa.int8(), [-128, None, 127]),
        (pa.int64(), [None] * 9 + [1 << 62]),
        (pa.date32(), [-719_162, None]),
        (pa.timestamp("us", tz="UTC"), [-1, 1 << 60]),
        (pa.string(), ["", None, "Köln", "x" * 300]),
        (pa.binary(), [b"\x00", b"", None]),
        (pa.bool_(), [True, None]),
        (pa.float64(), [1.5, None]),
        (pa.list_(pa.int32()), [[1], None]),
    ],
    ids=str,
)
def test_arrays_of_values(arrow_type: pa.DataType, values: list[Any]) -> None:
    for some in (values, values[:1], []):
        found = of_values(some, arrow_type)
        found.validate(full=True)
        assert found.equals(pa.array(some, arrow_type))
        assert found.null_count == some.count(None)


@pytest.mark.parametrize(
    ("arrow_type", "value"), [(pa.int8(), 128), (pa.int64(), 1 << 63), (pa.date32(), 1 << 31)], ids=str
)
def test_values_that_a_type_does_not_have(arrow_type: pa.DataType, value: int) -> None:
    with pytest.raises(OverflowError):
        of_values([0, value], arrow_type)


@pytest.mark.parametrize("number", [0.0, -0.0, 0.1, 1e300, -math.inf, math.nan])
@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()], ids=str)
def test_scalars_of_floats(arrow_type: pa.DataType, number: float) -> None:
    assert repr(scalar_of_float(number, arrow_type)) == repr(pa.scalar(number, arrow_type))


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_scalars_of_bytes(arrow_type: pa.DataType) -> None:
    assert scalar_of_bytes("é".encode(), arrow_type).equals(pa.scalar("é".encode(), pa.binary()).cast(arrow_type))


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        scalar_of_bytes("\ud800", pa.string())
