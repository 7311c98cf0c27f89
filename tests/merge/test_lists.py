"""Lists and maps with their elements stored in every way: in order or not, in slices, with elements below nulls.

Also the numbers by which elements are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.merge.equality import codes, distances_from_least, equal_pairs
from paimon_engine.merge.lists import Collect, ListFunction, MergeMap, PlainNestedUpdate
from paimon_engine.merge.versions import INSERT, Kinds, Merged, Versions, merge_versions, put_back
from paimon_engine.merge.window import Window
from tests.support.seeds import seeds

ITEM = pa.struct([("a", pa.int64()), ("b", pa.string())])
KINDS = {
    "collect": (Collect(distinct=False), pa.list_(pa.int32())),
    "collect distinct": (Collect(distinct=True), pa.list_(pa.int32())),
    "merge_map": (MergeMap(), pa.map_(pa.int32(), pa.int32())),
    "nested_update": (PlainNestedUpdate(["a"]), pa.list_(ITEM)),
    "nested_update by two fields": (PlainNestedUpdate(["b", "a"]), pa.list_(ITEM)),
}


def joined(name: str, lists: Sequence[list[Any] | None]) -> list[Any] | None:
    """What becomes of the lists of a key with several versions."""
    given = [found for found in lists if found is not None]
    elements = [element for found in given for element in found]
    match name:
        case "collect distinct":
            elements = [one for position, one in enumerate(elements) if one not in elements[:position]]
        case "merge_map" | "nested_update" | "nested_update by two fields" if len(given) > 1:
            key = {"merge_map": lambda one: one[0], "nested_update": lambda one: one["a"]}.get(name, lambda one: one)
            keys = [key(one) for one in elements]
            elements = [one for position, one in enumerate(elements) if keys[position] not in keys[position + 1 :]]
    return elements if given else None


def some_lists(random: Random, kind: pa.DataType, count: int, nulls: float) -> pa.Array:
    """Lists in the middle of longer buffers, in which nulls have elements, too."""
    offsets, lengths = [random.choice([0, 3])], random.choice([[0, 1, 1, 3], [1]])
    for _ in range(count + 2):
        offsets.append(offsets[-1] + random.choice(lengths))
    child = kind.field(0).type if pa.types.is_list(kind) else pa.struct([kind.key_field, kind.item_field])
    rows: list[Any] = [random.choice([1, 2, 3, None]) for _ in range(offsets[-1] + 2)]
    if pa.types.is_map(kind):
        rows = [{"key": number % 4, "value": row} for number, row in enumerate(rows)]
    elif pa.types.is_struct(child):
        rows = [{"a": row, "b": random.choice(["x", None])} for row in rows]
    valid = np.packbits([random.random() >= nulls for _ in range(count + 2)], bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(np.array(offsets, dtype=np.int32))]
    # Arrow itself reads no map whose entries are a slice.
    elements = pa.array(rows, child) if pa.types.is_map(kind) else pa.array([None, *rows], child).slice(1)
    lists = pa.Array.from_buffers(kind, count + 2, buffers, children=[elements])
    return lists.slice(random.choice([0, 2]), count)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", seeds(30))
def test_lists_of_a_key_become_one(name: str, seed: int):
    random = Random(seed)
    function, kind = KINDS[name]
    lengths = [random.choice([1, 1, 2, 5]) for _ in range(random.choice([1, 30]))]
    ends = np.cumsum(lengths)
    order = random.choice([None, np.array(random.sample(range(ends[-1]), int(ends[-1])))])
    column = some_lists(random, kind, int(ends[-1]), random.choice([0, 0, 0.5]))
    rows = pa.record_batch(
        {
            "_SEQUENCE_NUMBER": pa.array(np.arange(ends[-1])),
            "_VALUE_KIND": pa.array(np.zeros(ends[-1], np.int8)),
            "v": column,
        }
    )

    found = merge_versions(Window(rows, order, ends - lengths), lambda versions: every(function, versions), ())["v"]

    found.validate(full=True)
    values = column.to_pylist() if order is None else column.take(pa.array(order)).to_pylist()
    keys = [values[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    assert found.to_pylist() == [lists[0] if len(lists) == 1 else joined(name, lists) for lists in keys]


def every(function: ListFunction, versions: Versions) -> tuple[dict[str, Merged], Kinds]:
    return {"v": function(versions, "v")}, np.full(len(versions.starts), INSERT, np.int8)


def test_joined_lists_give_way_to_a_stored_one():
    rows = pa.record_batch({"v": pa.array([[1], [2], [3], None])})
    versions = Versions(rows, np.arange(4), np.array([0, 2]), np.array([2, 4]), np.zeros(4, np.int8))
    merged = Collect(distinct=False)(versions, "v")

    found = put_back(versions, merged, "v", np.array([False, True]), np.array([1, 3]))

    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [[1, 2], None]
    assert put_back(versions, merged, "v", np.array([True, False]), np.array([1, 3])).to_pylist() == [[2], [3]]


@pytest.mark.parametrize("far", [0, 1 << 31, 1 << 62])
@pytest.mark.parametrize("seed", seeds(10))
def test_equal_numbers_of_a_group_are_found(far: int, seed: int):
    random = Random(seed)
    groups = np.array(sorted(random.choices(range(5), k=60)))
    numbers = np.array(random.choices([0, 1, 2, far // 6, far // 5], k=60))
    positions = [(int(group), int(number)) for group, number in zip(groups, numbers, strict=True)]
    expected = [
        (position, positions.index(one, position + 1))
        for position, one in enumerate(positions)
        if one in positions[position + 1 :]
    ]

    keys, earlier, later = equal_pairs(np.bincount(groups, minlength=7), numbers)

    assert sorted(zip(earlier.tolist(), later.tolist(), strict=True)) == expected
    assert keys.tolist() == sorted(keys) == groups[earlier].tolist()


LIMITS = [np.iinfo(np.int64).min, np.iinfo(np.int64).max]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, -4, 3, 100, None], pa.int8()),
        pa.array([LIMITS[0], LIMITS[0] + 2, None, LIMITS[0]], pa.int64()),
        pa.array([LIMITS[1], None, LIMITS[1] - 2, LIMITS[1]], pa.int64()),
        pa.array([*LIMITS, None, 0, LIMITS[0]], pa.int64()),
        pa.array([None, None], pa.int32()),
        pa.array([], pa.int32()),
        pa.array([5, 6, 5, None], pa.timestamp("us")),
        pa.array([0, 1 << 40, 0, None], pa.timestamp("us")),
        pa.array([9, 6, 9, None], pa.date32()),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [0, 1])
def test_integers_are_distinguished_by_their_distances(values: pa.Array, skip: int):
    values = values.slice(skip)
    listed = values.to_pylist()

    found = codes(values).tolist()
    distances = distances_from_least(values, 1 << 62)

    assert [[a == b for b in found] for a in found] == [[a == b for b in listed] for a in listed]
    assert min(found, default=0) >= 0
    if distances is None:
        assert set(LIMITS) <= {*listed}
    else:
        known = [(number, value) for number, value in zip(distances.tolist(), listed, strict=True) if value is not None]
        assert all((a < b) == (x < y) for a, x in known for b, y in known)
        assert [number == 0 for number in distances] == [value is None for value in listed]
