"""BinaryRow: the bytes of the specification, round trips of every type, and damaged input."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.arrow_types import from_arrow
from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.binary_columns import values_by_column
from paimon_engine.format.binary_row import (
    EMPTY_ROW,
    decode_row,
    encode_row,
    internal_values,
    row_order,
    to_arrow_array,
)
from paimon_engine.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_type,
)
from tests.support.seeds import seeds

# columns; values; hex with the arity in front
WORKED = [
    ("INT", (1,), "00000001 0000000000000000 0100000000000000"),
    ("STRING", ("p",), "00000001 0000000000000000 7000000000000081"),
    ("STRING", ("abcdefgh",), "00000001 0000000000000000 0800000010000000 6162636465666768"),
    ("INT", (None,), "00000001 0001000000000000 0000000000000000"),
    ("", (), "00000000 0000000000000000"),
    (
        "BOOLEAN; TINYINT; SMALLINT; INT",
        (True, -2, 300, -1),
        "00000004 0000000000000000 0100000000000000 fe00000000000000 2c01000000000000 ffffffff00000000",
    ),
    (
        "BIGINT; DOUBLE; FLOAT",
        (5000000000, 1.5, -2.5),
        "00000003 0000000000000000 00f2052a01000000 000000000000f83f 000020c000000000",
    ),
    ("BYTES", (b"\1\2\3",), "00000001 0000000000000000 0102030000000083"),
    ("DECIMAL(10, 2)", (Decimal("-12.34"),), "00000001 0000000000000000 2efbffffffffffff"),
    (
        "DECIMAL(20, 2)",
        (Decimal("-12.34"),),
        "00000001 0000000000000000 0200000010000000 fb2e000000000000 0000000000000000",
    ),
    ("TIMESTAMP(3)", (1_500_000_000,), "00000001 0000000000000000 dc05000000000000"),
    ("TIMESTAMP(6)", (1_500_007_000,), "00000001 0000000000000000 581b000010000000 dc05000000000000"),
    ("DATE; STRING", (19782, "é"), "00000002 0000000000000000 464d000000000000 c3a9000000000082"),
    ("TIMESTAMP(6)", (None,), "00000001 0001000000000000 0000000010000000 0000000000000000"),
    (
        "DECIMAL(20, 2)",
        (None,),
        "00000001 0001000000000000 0000000010000000 0000000000000000 0000000000000000",
    ),
]


def parse_types(text: str) -> list[DataType]:
    return [parse_type(part.strip()) for part in text.split(";") if part]


@pytest.mark.parametrize(("types", "values", "expected"), WORKED)
def test_worked_rows_of_the_specification(types: str, values: tuple[Any, ...], expected: str) -> None:
    data = bytes.fromhex(expected)

    assert data == encode_row(parse_types(types), values, reserve_null=True)
    assert values == decode_row(parse_types(types), data)


@pytest.mark.parametrize("text", ["TIMESTAMP(6)", "DECIMAL(20, 2)", "STRING"])
def test_null_of_statistics_takes_no_space(text: str) -> None:
    types = parse_types(text)

    data = encode_row(types, [None], reserve_null=False)

    assert bytes.fromhex("00000001 0001000000000000 0000000000000000") == data
    assert (None,) == decode_row(types, data)


def test_empty_row_is_the_row_without_columns() -> None:
    assert EMPTY_ROW == encode_row([], [], reserve_null=True)


def test_null_bits_take_a_second_word_beyond_56_columns() -> None:
    types = parse_types(";".join(["INT"] * 57))
    values = [None if index in (0, 56) else index for index in range(57)]

    data = encode_row(types, values, reserve_null=True)

    assert 4 + 16 + 57 * 8 == len(data)
    assert bytes.fromhex("0001000000000000 0100000000000000") == data[4:20]
    assert tuple(values) == decode_row(types, data)


def test_nested_array_bytes() -> None:
    data = encode_row([ArrayType(AtomicType(TypeRoot.INT))], [[7, None, 9]], reserve_null=False)

    array = "03000000 02000000 07000000 00000000 09000000 00000000"
    assert bytes.fromhex("00000001 0000000000000000 1800000010000000" + array) == data


# ── Round trips ─────────────────────────────────────────────────────────────────────────────────

INT64 = st.integers(-(2**63), 2**63 - 1)


def atomic_cases() -> st.SearchStrategy[tuple[DataType, Any]]:
    """A type and a value of it, in the range that Arrow holds as well."""

    def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
        limit = 10**precision - 1
        return st.integers(-limit, limit).map(
            lambda unscaled: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
        )

    def timestamps(precision: int) -> st.SearchStrategy[int]:
        unit = 10 ** (9 - precision)
        return st.integers(-(2**63) // unit, (2**63 - 1) // unit).map(lambda value: value * unit)

    fixed: dict[str, st.SearchStrategy[Any]] = {
        "BOOLEAN": st.booleans(),
        "TINYINT": st.integers(-128, 127),
        "SMALLINT": st.integers(-(2**15), 2**15 - 1),
        "INT": st.integers(-(2**31), 2**31 - 1),
        "BIGINT": INT64,
        "FLOAT": st.floats(width=32, allow_nan=False),
        "DOUBLE": st.floats(allow_nan=False),
        "STRING": st.text(st.characters(codec="utf-8"), max_size=20),
        "CHAR(3)": st.text("aé😀", max_size=3),
        "BYTES": st.binary(max_size=20),
        "DATE": st.integers(-(2**31), 2**31 - 1),
        "TIME(3)": st.integers(0, 86_399_999),
    }
    cases = [st.tuples(st.just(parse_type(text)), values) for text, values in fixed.items()]
    for precision, scale in ((1, 0), (10, 2), (18, 18), (19, 0), (20, 2), (38, 10)):
        cases.append(st.tuples(st.just(parse_type(f"DECIMAL({precision}, {scale})")), decimals(precision, scale)))
    for precision in (0, 3, 6, 9):
        for text in (f"TIMESTAMP({precision})", f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE"):
            cases.append(st.tuples(st.just(parse_type(text)), timestamps(precision)))
    return st.one_of(cases)


def nested_cases() -> st.SearchStrategy[tuple[DataType, Any]]:
    def extend(cases: st.SearchStrategy[tuple[DataType, Any]]) -> st.SearchStrategy[tuple[DataType, Any]]:
        return st.one_of(
            cases.map(lambda case: (ArrayType(case[0]), [case[1], None, case[1]])),
            cases.map(lambda case: (MapType(AtomicType(TypeRoot.INT), case[0]), [(1, case[1]), (-2, None)])),
            cases.map(lambda case: (MultisetType(case[0]), [] if case[1] is None else [(case[1], 3)])),
            st.lists(cases, min_size=1, max_size=3).map(
                lambda parts: (
                    RowType(tuple(DataField(i, f"f{i}", part[0]) for i, part in enumerate(parts))),
                    tuple(part[1] for part in parts),
                )
            ),
        )

    return st.recursive(atomic_cases(), extend, max_leaves=4)


def nullable(cases: st.SearchStrategy[tuple[DataType, Any]]) -> st.SearchStrategy[tuple[DataType, Any]]:
    return st.tuples(cases, st.booleans()).map(lambda pair: (pair[0][0], None if pair[1] else pair[0][1]))


ROWS = st.lists(nullable(st.one_of(atomic_cases(), nested_cases())), max_size=6)


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_rows_round_trip(row: list[tuple[DataType, Any]], reserve_null: bool) -> None:
    types, values = [part[0] for part in row], tuple(part[1] for part in row)

    data = encode_row(types, values, reserve_null=reserve_null)

    assert 4 == len(data) % 8
    assert values == decode_row(types, data)


@settings(deadline=None)
@given(ROWS)
def test_arrow_arrays_round_trip(row: list[tuple[DataType, Any]]) -> None:
    for data_type, value in row:
        array = to_arrow_array([None, value, value], data_type)

        assert [None, value, value] == internal_values(array, data_type)
        assert [value] == internal_values(array.slice(1, 1), data_type)


@settings(deadline=None)
@given(ROWS, st.data())
def test_damaged_rows_raise_nothing_but_corrupt_table(row: list[tuple[DataType, Any]], data: st.DataObject) -> None:
    types = [part[0] for part in row]
    whole = encode_row(types, [part[1] for part in row], reserve_null=False)
    cut = data.draw(st.integers(0, len(whole) - 1))
    flip = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:flip] + bytes([whole[flip] ^ data.draw(st.integers(1, 255))]) + whole[flip + 1 :]

    for damaged in (whole[:cut], flipped):
        try:
            decode_row(types, damaged)
        except CorruptTableError:
            pass


def test_rows_of_another_arity_are_corrupt() -> None:
    with pytest.raises(CorruptTableError, match="expected 1 columns, found 0"):
        decode_row(parse_types("INT"), EMPTY_ROW)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INT", 2**31),
        ("INT", "1"),
        ("DECIMAL(4, 2)", Decimal("100.00")),
        ("DECIMAL(4, 2)", Decimal("0.001")),
        ("STRING", 5),
        ("TIMESTAMP(3)", "now"),
    ],
)
def test_values_outside_their_type_are_refused(text: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        encode_row(parse_types(text), [value], reserve_null=True)


# ── Order and Arrow ─────────────────────────────────────────────────────────────────────────────


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_strings_compare_as_their_unsigned_bytes(left: str, right: str) -> None:
    assert (left.encode() < right.encode()) == (left < right)


def test_row_order_puts_null_first() -> None:
    rows = [(1, "b"), (None, "z"), (1, None), (None, None)]

    assert [(None, None), (None, "z"), (1, None), (1, "b")] == sorted(rows, key=row_order)


def test_internal_values_take_other_arrow_forms_of_a_type() -> None:
    string, date = parse_type("STRING"), parse_type("DATE")

    assert ["a", None, "a"] == internal_values(pa.array(["a", None, "a"]).dictionary_encode(), string)
    assert ["a"] == internal_values(pa.array(["a"], pa.large_string()), string)
    assert [1] == internal_values(pa.array([86_400_000], pa.date64()), date)
    assert [1_000_001_000] == internal_values(
        pa.array([1_000_001], pa.timestamp("us", "Asia/Tokyo")), parse_type("TIMESTAMP_LTZ(9)")
    )


def test_timestamps_beyond_arrow_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="timestamp"):
        to_arrow_array([2**70], parse_type("TIMESTAMP(9)"))


# ── many rows ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", seeds(30))
def test_values_by_column_are_those_of_each_row(seed: int):
    random = Random(seed)
    makers: dict[pa.DataType, Callable[[], Any]] = {
        pa.int8(): lambda: random.randint(-128, 127),
        pa.date32(): lambda: random.randint(-(10**6), 10**6),
        pa.int64(): lambda: random.randint(-(2**63), 2**63 - 1),
        pa.string(): lambda: random.choice(["", "a", "ünter", "sieben!", "länger als acht Bytes"]),
        **({pa.bool_(): lambda: random.random() < 0.5} if random.random() < 0.2 else {}),
    }
    kinds = random.choices(list(makers), k=random.randint(1, 4))
    types = [from_arrow(kind) for kind in kinds]
    values = [
        [None if random.random() < 0.2 else makers[kind]() for kind in kinds] for _ in range(random.choice([0, 1, 40]))
    ]
    rows = [encode_row(types, some, reserve_null=False) for some in values]

    assert values_by_column(types, rows) == [[some[index] for some in values] for index in range(len(types))]


def test_a_damaged_row_among_many_is_named():
    types = [from_arrow(pa.int64())]
    rows = [encode_row(types, [7], reserve_null=False)] * 5

    with pytest.raises(CorruptTableError):
        values_by_column(types, [*rows, rows[0][:-3]])
