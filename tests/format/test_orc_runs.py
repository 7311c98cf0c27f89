"""Runs of integers in ORC files: what we write is read back, and the examples of ORC's specification."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine.format.orc_runs import decode_runs, encode_runs

EXAMPLES = {
    "one value repeated": ("0a2710", [10_000] * 5),
    "values of one width": ("5e035ca1ab1edeadbeef", [23_713, 43_806, 57_005, 48_879]),
    "values with patches": (
        "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
        [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
    ),
    "a value and differences": ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
}


@pytest.mark.parametrize(("data", "values"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_specification(data: str, values: list[int]):
    assert decode_runs(bytes.fromhex(data), has_sign=False).tolist() == values


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-3, 300), max_size=1_200))
def test_what_is_written_is_read_back(values: list[int]):
    numbers = np.array(values, np.int64)

    assert decode_runs(encode_runs(numbers, has_sign=True), has_sign=True).tolist() == values
    assert decode_runs(encode_runs(abs(numbers), has_sign=False), has_sign=False).tolist() == [abs(v) for v in values]


@pytest.mark.parametrize("data", ["0a27", "5e035ca1", "5e", "8e132b2107d01e", "c609020222", "c609ff"])
def test_half_a_run_is_damaged(data: str):
    with pytest.raises((ValueError, IndexError)):
        decode_runs(bytes.fromhex(data), has_sign=True)
