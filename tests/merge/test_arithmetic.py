"""Sums and products of numbers: bit for bit a fold from left to right, for histories of all lengths."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.merge.arithmetic import product_of, sum_of
from paimon_engine.merge.versions import Step, Versions
from tests.support.seeds import seeds

NUMBERS = {
    "f8": [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 0.1, 0.2, 1e16, -1.5],
    "f4": [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 3e38, 0.1, 0.2, 1e8, -1.5],
    "i1": [-128, 127, 1, 2, 3, -1, 0],
    "i2": [-32768, 32767, 1, 2, 3, -1, 0],
    "i4": [-(1 << 31), (1 << 31) - 1, 1, 2, 3, -1, 0],
    "i8": [-(1 << 63), (1 << 63) - 1, 1, 2, 3, -1, 0],
}


def fold(ufunc: np.ufunc, steps: list[tuple[Any, bool]]) -> Any:
    result = None
    for value, taken_back in steps:
        if value is not None:
            signed = np.negative(value) if taken_back else value
            result = signed if result is None else ufunc(result, signed)
    return result


def bits(values: list[Any], dtype: str) -> list[Any]:
    """Numbers by what is stored, but that all NaN are alike."""
    return [
        None if value is None else "nan" if value != value else np.array(value, dtype).tobytes() for value in values
    ]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("function", "ufunc"), [(sum_of, np.add), (product_of, np.multiply)])
@pytest.mark.parametrize("seed", seeds(10))
def test_numbers_are_folded_from_left_to_right(
    function: Callable[[Versions, str], pa.Array], ufunc: np.ufunc, dtype: str, seed: int
):
    random = Random(seed)
    lengths = [random.choice(random.choice([[2, 3], [0, 1, 2, 30, 60]])) for _ in range(random.choice([1, 3, 50]))]
    ends, count = np.cumsum(lengths), sum(lengths)
    values = np.array(random.choices(NUMBERS[dtype], k=count), dtype)
    nulls = np.array([random.random() < random.choice([0, 0.5]) for _ in range(count)], dtype=bool)
    taken_back = [function is sum_of and random.random() < 0.2 for _ in range(count)]
    column = pa.array(np.append(values.dtype.type(1), values), mask=np.append(False, nulls)).slice(1)
    steps = np.where(taken_back, Step.RETRACT, Step.ADD).astype(np.int8)
    versions = Versions(pa.record_batch({"v": column}), np.arange(count), ends - lengths, ends, steps)

    found = function(versions, "v")

    found.validate(full=True)
    with np.errstate(all="ignore"):
        given = [(None if null else value, back) for value, null, back in zip(values, nulls, taken_back, strict=True)]
        expected = [fold(ufunc, given[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    assert bits(found.to_pylist(), dtype) == bits(expected, dtype)
