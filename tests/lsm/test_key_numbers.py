"""Keys of integers are ordered by numbers as they are one by one, and other bytes are left to the checked path."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.lsm.levels import KeyOrder, key_order, sorted_runs
from paimon_engine.lsm.sections import sections
from paimon_engine.meta.manifest import DataFile
from paimon_engine.types import DataField, RowType, parse_atomic

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "TIME": 31, "BIGINT": 64}
KINDS = [[name] for name in BITS] + [["BIGINT", "INT"], ["DATE", "TINYINT", "BIGINT"], ["INT"] * 60]


class OneByOne(KeyOrder):
    """The order without numbers."""

    def numbers(self, keys: Sequence[bytes]) -> None:
        return None


def row_type(kinds: Sequence[str]) -> RowType:
    return RowType(tuple(DataField(index, f"k{index}", parse_atomic(kind)) for index, kind in enumerate(kinds)))


def random_key(rng: random.Random, kinds: Sequence[str]) -> bytes:
    values = []
    for kind in kinds:
        low, high = -(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1
        low = 0 if kind == "TIME" else low
        values.append(rng.choice([low, high, *(max(low, min(high, rng.randrange(-4, 300))) for _ in range(6))]))
    return encode_row([parse_atomic(kind) for kind in kinds], values, reserve_null=True)


def random_files(rng: random.Random, kinds: Sequence[str], *, is_sound: bool = True) -> list[DataFile]:
    order = OneByOne(row_type(kinds))
    files = []
    for number in range(rng.choice([1, 2, 30, 100])):
        ends = [random_key(rng, kinds) for _ in range(2)]
        low, high = sorted(ends, key=order) if is_sound else ends
        sequence = rng.randrange(1_000)
        level = rng.choice([0, 1, 5])
        files.append(DataFile(f"f{number}", 1, 1, low, high, level=level, max_sequence_number=sequence))
    return files


@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(kinds[:3]))
def test_numbers_compare_as_keys_do(kinds: list[str]) -> None:
    rng = random.Random(7)
    order = key_order(row_type(kinds))
    keys = [random_key(rng, kinds) for _ in range(200)]

    numbers = order.numbers(keys)

    assert numbers is not None
    found = numbers.tolist()
    for _ in range(2_000):
        one, other = rng.randrange(200), rng.randrange(200)
        assert (found[one] < found[other]) == (order(keys[one]) < order(keys[other]))
        assert (found[one] == found[other]) == (order(keys[one]) == order(keys[other]))


@pytest.mark.parametrize("is_sound", [True, False])
@pytest.mark.parametrize("kinds", KINDS[:-1], ids=lambda kinds: "-".join(kinds))
def test_runs_and_sections_are_those_of_the_order_one_by_one(kinds: list[str], is_sound: bool) -> None:
    rng = random.Random(5)
    for _ in range(10):
        files = random_files(rng, kinds, is_sound=is_sound)
        by_number, one_by_one = key_order(row_type(kinds)), OneByOne(row_type(kinds))

        assert sections(files, by_number) == sections(files, one_by_one)
        assert sorted_runs(files, by_number) == sorted_runs(files, one_by_one)


def with_byte(key: bytes, index: int, value: int) -> bytes:
    return key[:index] + bytes([value]) + key[index + 1 :]


KEY = encode_row([parse_atomic("INT")], [7], reserve_null=True)
NULL = encode_row([parse_atomic("INT")], [None], reserve_null=True)


@pytest.mark.parametrize(
    "key",
    [NULL, EMPTY_ROW, b"", KEY[:-1], KEY + b"\0", with_byte(KEY, 3, 2), with_byte(KEY, 4, 1), b"\xff" * 20],
    ids=repr,
)
def test_other_rows_have_no_numbers(key: bytes) -> None:
    order, plain = key_order(row_type(["INT"])), OneByOne(row_type(["INT"]))
    files = [DataFile("a", 1, 1, KEY, KEY), DataFile("b", 1, 1, key, key)]

    assert order.numbers([KEY, key]) is None
    try:
        expected = sections(files, plain)
    except CorruptTableError as error:
        with pytest.raises(CorruptTableError) as caught:
            sections(files, order)
        assert str(caught.value) == str(error)
    else:
        assert sections(files, order) == expected


@pytest.mark.parametrize("kinds", [["STRING"], ["INT", "STRING"], ["DOUBLE"], ["BOOLEAN"], []], ids=str)
def test_keys_of_other_types_have_no_numbers(kinds: list[str]) -> None:
    types = [parse_atomic(kind) for kind in kinds]
    values = [{"INT": 1, "STRING": "a", "DOUBLE": 1.0, "BOOLEAN": True}[kind] for kind in kinds]
    order = key_order(row_type(kinds))

    assert order.numbers([encode_row(types, values, reserve_null=True)] * 3) is None
    assert order.numbers([]) is None
