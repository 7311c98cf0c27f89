"""Bucket hash: the table of the specification, agreement with encoded rows, and buckets that Java chose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.binary_row import encode_row_body, to_arrow_array
from paimon_engine.format.bucket_hash import bucket_of, buckets, hash_rows
from paimon_engine.format.murmur import hash_bytes
from paimon_engine.types import ArrayType, AtomicType, DataType, TypeRoot, parse_type

# columns; row; hash; bucket of 3; bucket of 8
WORKED = [
    ("INT", (1,), 1465514398, 1, 6),
    ("STRING", ("p",), 1896746560, 1, 0),
    ("STRING", ("abcdefgh",), -843760178, 2, 2),
    ("BIGINT", (-7,), 1145478327, 0, 7),
    ("INT; STRING", (1, "b1"), 1223483821, 1, 5),
    ("STRING", (None,), -1748325344, 2, 0),
    ("DECIMAL(20, 2)", (Decimal("-12.34"),), 809605724, 2, 4),
]

KEY_TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME(3)",
    "STRING",
    "BYTES",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 0)",
    "DECIMAL(19, 4)",
    "DECIMAL(38, 0)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(6)",
]


def parse_types(text: str) -> list[DataType]:
    return [parse_type(part.strip()) for part in text.split(";")]


def columns_of(types: list[DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [to_arrow_array([row[i] for row in rows], data_type) for i, data_type in enumerate(types)]


def row_hashes(types: list[DataType], rows: list[tuple[Any, ...]]) -> list[int]:
    """The same hashes the slow way: encode each row."""
    return [hash_bytes(encode_row_body(types, row, reserve_null=True)) for row in rows]


@pytest.mark.parametrize(("types", "row", "expected", "of_3", "of_8"), WORKED)
def test_worked_hashes_of_the_specification(
    types: str, row: tuple[Any, ...], expected: int, of_3: int, of_8: int
) -> None:
    hashes = hash_rows(columns_of(parse_types(types), [row]), parse_types(types))

    assert [expected] == hashes.tolist() == row_hashes(parse_types(types), [row])
    assert (of_3, of_8) == (bucket_of(hashes, 3)[0], bucket_of(hashes, 8)[0])


def test_bucket_is_the_magnitude_of_the_truncated_remainder() -> None:
    hashes = np.array([-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1], np.int32)

    for count in (1, 2, 5, 8, 2**30, 2**31 - 1):
        assert [abs(number) % count for number in hashes.tolist()] == bucket_of(hashes, count).tolist()
        assert np.int32 == bucket_of(hashes, count).dtype
    assert hashes.tolist() == [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]


def values_of(text: str) -> st.SearchStrategy[Any]:
    data_type = parse_type(text)
    assert isinstance(data_type, AtomicType)
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "BIGINT": 64}
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT:
            return st.floats(width=32)
        case TypeRoot.DOUBLE:
            return st.floats()
        case TypeRoot.TIME:
            return st.integers(0, 86_399_999)
        case TypeRoot.VARCHAR:
            return st.text(st.characters(codec="utf-8"), max_size=30)
        case TypeRoot.VARBINARY:
            return st.binary(max_size=30)
        case TypeRoot.DECIMAL:
            limit = 10**data_type.precision - 1
            digits = st.one_of(st.integers(-limit, limit), st.integers(-(2**17), 2**17))
            return digits.map(lambda value: Decimal(f"{min(max(value, -limit), limit)}E-{data_type.scale}"))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            unit = 10 ** (9 - data_type.precision)
            return st.integers(-(2**62) // unit, 2**62 // unit).map(lambda value: value * unit)
        case root:
            return st.integers(-(2 ** (bits[root] - 1)), 2 ** (bits[root] - 1) - 1)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    texts = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=5))
    row = st.tuples(*[st.one_of(st.none(), values_of(text)) for text in texts])
    # More rows than the limit below which strings are finished one by one.
    return [parse_type(text) for text in texts], draw(st.lists(row, min_size=1, max_size=24))


@settings(deadline=None, max_examples=300)
@given(tables())
def test_hashes_equal_those_of_encoded_rows(table: tuple[list[DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    columns = columns_of(types, rows)

    assert row_hashes(types, rows) == hash_rows(columns, types).tolist()
    assert row_hashes(types, rows[1:]) == hash_rows([column.slice(1) for column in columns], types).tolist()


@pytest.mark.parametrize("text", KEY_TYPES)
def test_rows_of_several_chunks(text: str) -> None:
    types = [parse_type("STRING"), parse_type(text), parse_type(text)]
    block = [("x" * (i % 50), None if i % 7 == 0 else _example(text), _example(text)) for i in range(101)]
    columns = [pa.concat_arrays([column] * 400) for column in columns_of(types, block)]

    assert row_hashes(types, block) * 400 == hash_rows(columns, types).tolist()


def _example(text: str) -> Any:
    head = text.split("(", maxsplit=1)[0]
    special = {"BOOLEAN": True, "FLOAT": -0.5, "DOUBLE": 2.5, "STRING": "a longer text", "BYTES": b"\xff" * 9}
    if head in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return -77_000_000_000
    return Decimal(-12) if head == "DECIMAL" else special.get(head, 77)


@pytest.mark.parametrize("length", [*range(1, 18), 23, 24, 100])
@pytest.mark.parametrize("text", ["STRING", "STRING; STRING", "BIGINT; STRING; TIMESTAMP(9); STRING"])
def test_strings_of_one_length(text: str, length: int) -> None:
    types = parse_types(text)
    letters = "".join(map(chr, range(33, 127))) * 3
    rows = [
        tuple(letters[i + j :][:length] if kind == types[-1] else i for j, kind in enumerate(types)) for i in range(20)
    ]
    columns = columns_of(types, rows)

    for begin, end in ((0, 20), (1, 20), (5, 14), (5, 8)):
        found = hash_rows([column.slice(begin, end - begin) for column in columns], types)
        assert row_hashes(types, rows[begin:end]) == found.tolist()


def test_one_long_string_among_short_ones() -> None:
    types = parse_types("STRING")
    rows = [(text,) for text in ["a", "b" * 100_001, None, "", "c" * 9, "d" * 8]]

    assert row_hashes(types, rows) == hash_rows(columns_of(types, rows), types).tolist()


def test_bytes_under_nulls_do_not_count() -> None:
    values = pa.array([1, 2, 3])
    validity = pa.py_buffer(bytes([0b101]))
    longs = pa.Array.from_buffers(pa.int64(), 3, [validity, values.buffers()[1]])
    texts = pa.array(["aaaaaaaaaaaa", "bbbbbbbbbbbb", "c"])
    strings = pa.Array.from_buffers(pa.string(), 3, [validity, *texts.buffers()[1:]])
    types = parse_types("BIGINT; STRING")

    expected = row_hashes(types, [(1, "aaaaaaaaaaaa"), (None, None), (3, "c")])
    assert expected == hash_rows([longs, strings], types).tolist()


def test_other_arrow_forms_hash_alike() -> None:
    texts, string = ["a", "bcdefghijk", None], parse_types("STRING")
    expected = hash_rows([pa.array(texts)], string).tolist()

    for array in (
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([texts[:1], texts[1:]], pa.string()),
    ):
        assert expected == hash_rows([array], string).tolist()
    millis, stamp = [-1, 5], parse_types("TIMESTAMP(6)")
    expected = hash_rows([pa.array([value * 1000 for value in millis], pa.timestamp("us"))], stamp).tolist()
    assert expected == hash_rows([pa.array(millis, pa.timestamp("ms"))], stamp).tolist()


def test_empty_arrays_and_all_null_arrays() -> None:
    for text in KEY_TYPES:
        types = parse_types(text)

        assert [] == hash_rows(columns_of(types, []), types).tolist()
        assert row_hashes(types, [(None,)] * 3) == hash_rows([pa.nulls(3)], types).tolist()


def test_nested_and_missing_keys_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="nested"):
        hash_rows([pa.array([[1]])], [ArrayType(AtomicType(TypeRoot.INT))])
    with pytest.raises(InvalidArgumentError):
        hash_rows([], [])


# ── Other bucket functions ──────────────────────────────────────────────────────────────────────


def test_mod_is_the_floor_modulo() -> None:
    found = buckets([pa.array([-7, 7, None, -(2**63)])], parse_types("BIGINT"), 4, function="mod")

    assert [1, 3, 0, 0] == found.tolist()
    with pytest.raises(UnsupportedError, match="mod"):
        buckets([pa.array(["a"])], parse_types("STRING"), 4, function="mod")


def test_hive_hash_codes_are_those_of_java() -> None:
    many = 2**31 - 1
    # "Hello".hashCode() is 69609650, Long.hashCode(-7) is 6, new BigDecimal("12.34").hashCode() is 38256.
    cases: list[tuple[str, Any, int]] = [
        ("STRING", "Hello", 69609650),
        ("STRING", "", 0),
        ("BYTES", b"\xff", -1),
        ("BIGINT", -7, 6),
        ("INT", -7, -7),
        ("BOOLEAN", True, 1),
        ("DOUBLE", -0.0, 0),
        ("FLOAT", 1.0, 0x3F800000),
        ("DECIMAL(10, 3)", Decimal("12.340"), 31 * 1234 + 2),
        ("DECIMAL(10, 2)", Decimal("-12.34"), 31 * -1234 + 2),
        ("DECIMAL(10, 2)", Decimal("100.00"), 3100),
        ("DECIMAL(10, 2)", Decimal("0.00"), 0),
        ("DECIMAL(38, 0)", Decimal(2**64 + 2), 31 * (31 * 31 + 2)),
        ("DATE", 3, 3),
    ]
    for text, value, code in cases:
        found = buckets(columns_of(parse_types(text), [(value,), (None,)]), parse_types(text), many, function="hive")

        assert [(code & many) % many, 0] == found.tolist(), (text, value)


def test_hive_combines_columns_with_31() -> None:
    types = parse_types("INT; STRING")
    rows = [(5, "Hello"), (None, "Hello"), (2, None), (3, "")]

    found = buckets(columns_of(types, rows), types, 1000, function="hive")

    assert [(5 * 31 + 69609650) % 1000, 69609650 % 1000, 62, 93] == found.tolist()


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1))
def test_hive_hashes_of_bytes_equal_those_taken_byte_by_byte(values: list[bytes | None]) -> None:
    def code(value: bytes | None) -> int:
        result = 0
        for byte in value or b"":
            result = (31 * result + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
        return result

    found = buckets([pa.array(values, pa.binary())], parse_types("BYTES"), 97, function="hive")

    assert [(code(value) & 0x7FFFFFFF) % 97 for value in values] == found.tolist()


def test_unknown_bucket_functions_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="bucket-function.type"):
        buckets([pa.array([1])], parse_types("BIGINT"), 4, function="other")
