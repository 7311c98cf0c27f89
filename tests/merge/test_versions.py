"""First and last of chosen versions per key, for histories of all lengths."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.merge.gather import gather, replaced
from paimon_engine.merge.versions import Step, Versions
from tests.support.seeds import seeds

KINDS = [
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.time32("ms"),
    pa.timestamp("us", "UTC"),
    pa.bool_(),
    pa.string(),
    pa.decimal128(20, 2),
    pa.list_(pa.int32()),
]


@pytest.mark.parametrize("seed", seeds(30))
def test_first_and_last_chosen_version(seed: int):
    random = Random(seed)
    lengths = [random.choice([0, 1, 2, 3, 30]) for _ in range(random.choice([1, 40]))]
    chosen = np.array([random.random() < random.choice([0.05, 0.5]) for _ in range(sum(lengths))], dtype=bool)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    steps = np.zeros(len(chosen), dtype=np.int8)
    versions = Versions(pa.record_batch({"k": np.arange(len(chosen))}), np.arange(len(chosen)), starts, ends, steps)

    hits = [[index for index in range(begin, end) if chosen[index]] for begin, end in zip(starts, ends, strict=True)]

    assert versions.last(chosen).tolist() == [found[-1] if found else -1 for found in hits]
    assert versions.first(chosen).tolist() == [found[0] if found else -1 for found in hits]
    kept = versions.only(chosen)
    assert kept.positions.tolist() == np.flatnonzero(chosen).tolist()
    assert (kept.ends - kept.starts).tolist() == [len(found) for found in hits]
    assert set(kept.steps.tolist()) <= {Step.ADD}


@pytest.mark.parametrize("seed", seeds(30))
def test_newest_value_that_is_not_null(seed: int):
    random = Random(seed)
    lengths = [random.choice([0, 1, 2, 3, 30]) for _ in range(random.choice([1, 40]))]
    share = random.choice([0.0, 0.5, 0.98])
    ends, count = np.cumsum(lengths), sum(lengths)
    positions = np.array(random.sample(range(count + 5), count), dtype=np.intp)
    values = pa.array([None if random.random() < share else number for number in range(count + 5)], pa.int64())
    rows = pa.record_batch({"v": values})
    versions = Versions(rows, positions, ends - lengths, ends, np.zeros(count, dtype=np.int8))

    found, newest = versions.newest_valid("v"), versions.newest

    assert newest.tolist() == [
        int(positions[end - 1]) if length else -1 for end, length in zip(ends, lengths, strict=True)
    ]
    for key, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        history = [int(position) for position in positions[end - length : end] if values[int(position)].is_valid]
        assert found[key] == (history[-1] if history else newest[key])


def some_values(kind: pa.DataType, count: int, *, nulls: bool) -> pa.Array:
    numbers = [None if nulls and number % 3 == 0 else number % 100 for number in range(count)]
    if pa.types.is_list(kind):
        return pa.array([None if number is None else [number] for number in numbers], kind)
    if pa.types.is_string(kind) or pa.types.is_decimal(kind):
        return pa.array(numbers, pa.int64()).cast(pa.string()).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if number is None else number % 2 == 0 for number in numbers])
    return pa.array(numbers, pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind, safe=False)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("skip", [0, 5])
def test_values_at_places(kind: pa.DataType, nulls: bool, skip: int):
    column = some_values(kind, 50, nulls=nulls).slice(skip)
    indices = np.array([3, 0, 44, 7, 7, 20, 1])
    values = column.to_pylist()

    assert gather(column, indices).to_pylist() == [values[index] for index in indices]
    absent = np.where(indices == 7, -1, indices)
    found = gather(column, absent)
    found.validate(full=True)
    assert found.to_pylist() == [None if index < 0 else values[index] for index in absent]
    assert gather(column.slice(0, 0), np.array([-1, -1])).to_pylist() == [None, None]

    new = some_values(kind, 9, nulls=not nulls).slice(6)
    mixed = replaced(column, indices, np.array([1, 2, 6]), new)
    mixed.validate(full=True)
    expected = [values[index] for index in indices]
    expected[1], expected[2], expected[6] = new.to_pylist()
    assert mixed.to_pylist() == expected
    assert mixed.type == kind
