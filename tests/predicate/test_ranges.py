"""What bounds of columns say of all rows: never that all match where one does not."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine.predicate import (
    Predicate,
    all_match,
    as_predicate,
    bind,
    col,
    columns_of,
    matches,
    may_match,
    with_values,
)
from tests.support.seeds import seeds


class Bounds(NamedTuple):
    min: Any
    max: Any
    null_count: int


def bounds_of(column: pa.Array) -> Bounds:
    """With NaN as the largest value, as files have it."""
    values = [value for value in column.to_pylist() if value is not None]
    numbers = [value for value in values if value == value]
    low = min(numbers, default=math.nan if values else None)
    return Bounds(low, math.nan if len(numbers) < len(values) else max(numbers, default=None), column.null_count)


def leaf(chance: random.Random) -> Predicate:
    number = chance.randrange(-2, 12)
    column = col(chance.choice(["k", "x"]))
    options = [
        lambda: column == number,
        lambda: column != number,
        lambda: column < number,
        lambda: column <= number,
        lambda: column > number,
        lambda: column >= number,
        lambda: column.is_in([number, number + 1]),
        lambda: column.is_not_null(),
        lambda: ~(column > number),
    ]
    return as_predicate(chance.choice(options)())


@pytest.mark.parametrize("seed", seeds(10))
def test_all_rows_match_where_bounds_say_so(seed: int):
    chance = random.Random(seed)
    found = {True: 0, False: 0}
    for _ in range(200):
        begin, count = chance.randrange(8), chance.randrange(1, 5)
        k = [chance.choice([None, *range(begin, begin + 3)]) for _ in range(count)]
        x = [chance.choice([None, math.nan, 0.0, -0.0, float(begin), begin + 0.5]) for _ in range(count)]
        rows = pa.record_batch({"k": pa.array(k, pa.int64()), "x": pa.array(x, pa.float64())})
        a, b = leaf(chance), leaf(chance)
        where = as_predicate(chance.choice([a, a & b, a | b]))
        ranges = {name: bounds_of(rows[name]) for name in rows.schema.names}

        bound = bind(where, rows.schema)
        plain = with_values(bound, lambda value: value.as_py())

        says = all_match(plain, ranges, rows.num_rows)

        matching = pc.fill_null(matches(bound, rows), fill_value=False).to_pylist()
        has_null = [any(row[name] is None for name in columns_of(where)) for row in rows.to_pylist()]
        found[says] += 1
        assert not says or all(match or null for match, null in zip(matching, has_null, strict=True)), (where, k, x)
        assert may_match(plain, ranges, rows.num_rows) or not any(matching)
    assert min(found.values()) > 20
