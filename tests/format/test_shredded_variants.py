"""VARIANT values in several columns of a Parquet file, made here: all types, damaged bytes, and limits."""

from __future__ import annotations

import io
import random
import struct
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import CorruptTableError, UnsupportedError
from paimon_engine.arrow_variant import ARROW_VARIANT
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches

SCHEMA = pa.schema([pa.field("v", ARROW_VARIANT)])
NO_NAMES = b"\x01\x00\x00"


def group(typed: pa.DataType | None) -> pa.DataType:
    """The columns of a part of a value."""
    fields = [pa.field("value", pa.binary())]
    return pa.struct(fields if typed is None else [*fields, pa.field("typed_value", typed)])


def obj(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind, nullable=False) for name, kind in fields.items()])


def array_of(typed: pa.DataType, values: list[Any]) -> pa.Array:
    """A column with values such as {"metadata": ..., "value": ..., "typed_value": ...}."""
    return pa.array(values, pa.struct([pa.field("metadata", pa.binary()), *group(typed)]))


def read(column: pa.Array, schema: pa.Schema = SCHEMA, **more: Any) -> list[Any]:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": column}), sink, store_schema=False, **more)
    batches = list(read_batches(io.BytesIO(sink.getvalue()), schema, path="some/file.parquet"))
    return [row for batch in batches for row in batch["v"].to_pylist()]


def metadata(*names: str) -> bytes:
    texts = [name.encode() for name in names]
    offsets = bytes(sum(map(len, texts[:index])) for index in range(len(texts) + 1))
    return bytes([1, len(texts)]) + offsets + b"".join(texts)


def top(typed: Any = None, value: bytes | None = None, names: bytes = NO_NAMES) -> dict[str, Any]:
    return {"metadata": names, "value": value, "typed_value": typed}


NAN = float("nan")
SCALARS = [
    (pa.bool_(), True, b"\x04"),
    (pa.bool_(), False, b"\x08"),
    (pa.int8(), -5, b"\x0c\xfb"),
    (pa.int16(), 5, b"\x0c\x05"),
    (pa.int32(), 300, b"\x10\x2c\x01"),
    (pa.int64(), -40_000, b"\x14" + struct.pack("<i", -40_000)),
    (pa.int64(), 2**40, b"\x18" + struct.pack("<q", 2**40)),
    (pa.float32(), 1.5, b"\x38" + struct.pack("<f", 1.5)),
    (pa.float64(), 1.5, b"\x1c" + struct.pack("<d", 1.5)),
    (pa.float64(), NAN, b"\x1c" + bytes.fromhex("000000000000f87f")),
    (pa.date32(), date(1970, 1, 3), b"\x2c\x02\0\0\0"),
    (pa.timestamp("ms", "UTC"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), b"\x30" + struct.pack("<q", 1_000_000)),
    (pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 1), b"\x34" + struct.pack("<q", 1_000_000)),
    (pa.decimal128(9, 2), Decimal("-1.25"), b"\x20\x02" + struct.pack("<i", -125)),
    (pa.decimal128(20, 2), Decimal("1.25"), b"\x20\x02" + struct.pack("<i", 125)),
    (pa.decimal128(20, 2), Decimal("12345678.25"), b"\x24\x02" + struct.pack("<q", 1234567825)),
    (
        pa.decimal128(20, 2),
        Decimal("-123456789012345678.25"),
        b"\x28\x02" + (-12345678901234567825).to_bytes(16, "little", signed=True),
    ),
    (pa.decimal128(38, 12), Decimal(0), b"\x24\x0c" + bytes(8)),
    (pa.decimal128(38, 20), Decimal(0), b"\x28\x14" + bytes(16)),
    (pa.string(), "é" * 31, bytes([62 << 2 | 1]) + "é".encode() * 31),
    (pa.string(), "x" * 64, b"\x40\x40\0\0\0" + b"x" * 64),
    (pa.binary(), b"ab", b"\x3c\x02\0\0\0ab"),
    (pa.binary(16), uuid.UUID(int=5).bytes, b"\x50" + uuid.UUID(int=5).bytes),
]


@pytest.mark.parametrize(("kind", "value", "expected"), SCALARS)
def test_scalars_have_the_bytes_of_their_type(kind: pa.DataType, value: Any, expected: bytes):
    found = read(array_of(kind, [top(value), None, top(None, b"\0"), top(value)]))
    assert found == [
        {"value": expected, "metadata": NO_NAMES},
        None,
        {"value": b"\0", "metadata": NO_NAMES},
        {"value": expected, "metadata": NO_NAMES},
    ]


def test_an_old_timestamp_of_96_bits_is_a_local_one():
    column = array_of(pa.timestamp("ns"), [top(datetime(1970, 1, 1, 0, 0, 1))])
    found = read(column, use_deprecated_int96_timestamps=True)
    assert found[0]["value"] == b"\x34" + struct.pack("<q", 1_000_000)


def test_fields_of_both_columns_are_joined_and_names_numbered_in_the_order_of_the_visit():
    kind = obj(b=group(pa.int32()), a=group(obj(c=group(pa.string()))))
    names = metadata("unused", "c", "a0")
    # An object where a0 is true and c is null.
    rest = b"\x02\x02\x02\x01\x00\x01\x02\x04\x00"
    rows = [
        top(
            {
                "b": {"value": None, "typed_value": 7},
                "a": {"value": None, "typed_value": {"c": {"value": b"\0", "typed_value": None}}},
            },
            rest,
            names,
        ),
        top({"b": {"value": None, "typed_value": None}, "a": {"value": None, "typed_value": None}}, None, names),
    ]
    first, second = read(array_of(kind, rows))
    assert first["metadata"] == metadata("b", "a", "c", "a0")
    inner = b"\x02\x01\x02\x00\x01\x00"
    parts = b"\x0c\x07" + inner + b"\x04" + b"\x00"
    # By name: a, a0, b, c; by place: b, a, a0, c.
    assert first["value"] == b"\x02\x04" + b"\x01\x03\x00\x02" + b"\x02\x08\x00\x09\x0a" + parts
    assert second == {"value": b"\x02\x00\x00", "metadata": NO_NAMES}


BAD: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "no value at all": (pa.int32(), top()),
    "no metadata": (pa.int32(), {"metadata": None, "value": None, "typed_value": 1}),
    "an empty value": (pa.int32(), top(None, b"")),
    "an unknown type": (pa.int32(), top(None, b"\xfc")),
    "a text that ends early": (pa.int32(), top(None, b"\x15ab")),
    "a long text that ends early": (pa.int32(), top(None, b"\x40\xff\xff\xff\xffab")),
    "a number that ends early": (pa.int32(), top(None, b"\x18\0\0")),
    "an array longer than its bytes": (pa.int32(), top(None, b"\x13\xff\xff\xff\xff\0\0\0")),
    "a part beyond the value": (pa.int32(), top(None, b"\x03\x01\x09\x01\x00")),
    "a name that is not there": (pa.int32(), top(None, b"\x02\x01\x07\x00\x01\x00", metadata("a"))),
    "names of another version": (pa.int32(), top(None, b"\x02\x01\x00\x00\x01\x00", b"\x02\x01\x00\x01a")),
    "names that end early": (pa.int32(), top(None, b"\x02\x01\x00\x00\x01\x00", b"\x01\x01\x00\x09a")),
    "empty metadata": (pa.int32(), top(None, b"\x02\x01\x00\x00\x01\x00", b"")),
    "a name that is not text": (pa.int32(), top(None, b"\x02\x01\x00\x00\x01\x00", b"\x01\x01\x00\x01\xff")),
    "a field twice": (pa.int32(), top(None, b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", metadata("a"))),
    "a field in both columns": (
        obj(a=group(pa.int32())),
        top({"a": {"value": None, "typed_value": None}}, b"\x02\x01\x00\x00\x01\x00", metadata("a")),
    ),
    "no object beside fields": (obj(a=group(pa.int32())), top({"a": {"value": b"\0", "typed_value": None}}, b"\0")),
    "a null element": (pa.list_(group(pa.int32())), top([None])),
    "a missing element": (pa.list_(group(pa.int32())), top([{"value": None, "typed_value": None}])),
    "a type that is no group": (pa.list_(pa.int32()), top([1])),
}


@pytest.mark.parametrize(("kind", "row"), BAD.values(), ids=BAD)
def test_damaged_values_are_refused_with_the_file(kind: pa.DataType, row: dict[str, Any]):
    with pytest.raises(CorruptTableError, match=r"some/file\.parquet: column 'v'"):
        read(array_of(kind, [row]))


def test_a_type_that_no_variant_has_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="time32"):
        read(array_of(pa.time32("ms"), [top(1)]))


def test_values_that_overlap_do_not_fill_the_memory():
    value = b"\0"
    for _ in range(40):
        # Both elements are the same bytes: each step doubles what a reader makes of it.
        value = b"\x0f\x02" + bytes(4) + bytes(4) + struct.pack("<I", len(value)) + value
    with pytest.raises(CorruptTableError, match="overlap"):
        read(array_of(pa.int32(), [top(None, value)]))


def test_texts_that_overlap_do_not_fill_the_memory():
    text = b"\x40" + struct.pack("<I", 100_000) + bytes(100_000)
    count = 50_000
    value = b"\x1f" + struct.pack("<I", count) + bytes(4 * count) + struct.pack("<I", len(text)) + text
    with pytest.raises(CorruptTableError, match="overlap"):
        read(array_of(pa.int32(), [top(None, value)]))


def test_deep_values_end():
    def nested(depth: int) -> bytes:
        value = b"\0"
        for _ in range(depth):
            value = b"\x0f\x01" + bytes(4) + struct.pack("<I", len(value)) + value
        return value

    [found] = read(array_of(pa.int32(), [top(None, nested(900))]))
    assert len(found["value"]) > 900
    with pytest.raises(CorruptTableError, match="within each other"):
        read(array_of(pa.int32(), [top(None, nested(5_000))]))


def test_random_damage_gives_a_value_or_an_error():
    chance = random.Random(5)
    names = metadata("a", "b", "c")
    good = b"\x02\x02\x01\x02\x00\x06\x0b" + b"\x03\x02\x00\x01\x03\x00" + b"\x0d\x0dxx\x00"
    kind = obj(a=group(pa.int32()))
    for _ in range(400):
        value, listed = bytearray(good), bytearray(names)
        for _ in range(chance.randint(1, 3)):
            value[chance.randrange(len(value))] = chance.randrange(256)
        listed[chance.randrange(len(listed))] = chance.randrange(256)
        rows = [top({"a": {"value": None, "typed_value": 1}}, bytes(value), bytes(listed))]
        try:
            read(array_of(kind, rows))
        except CorruptTableError:
            continue


def test_long_names_come_in_batches_of_the_limit():
    name = "n" * 100_000
    kind = obj(**{name: group(pa.int32())})
    column = array_of(kind, [top({name: {"value": None, "typed_value": 1}})] * 500)
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": column}), sink, store_schema=False)
    limit = BatchLimit(size_bytes=1 << 20)
    batches = list(read_batches(io.BytesIO(sink.getvalue()), SCHEMA, path="f", limit=limit))
    assert sum(batch.num_rows for batch in batches) == 500
    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert batches[0]["v"][0].as_py()["metadata"].endswith(name.encode())


def test_values_within_other_types_are_joined():
    kind = pa.struct([pa.field("metadata", pa.binary(), nullable=False), *group(pa.int32())])
    column = pa.array(
        [
            {"x": top(1), "l": [top(2), None], "m": [("p", top(3)), ("q", None)], "n": 4},
            None,
            {"x": None, "l": None, "m": None, "n": 5},
            {"x": top(None, b"\0"), "l": [], "m": [], "n": 6},
        ],
        pa.struct([("x", kind), ("l", pa.list_(kind)), ("m", pa.map_(pa.string(), kind)), ("n", pa.int32())]),
    )
    wanted = pa.struct(
        [
            ("x", ARROW_VARIANT),
            ("l", pa.list_(ARROW_VARIANT)),
            ("m", pa.map_(pa.string(), ARROW_VARIANT)),
            ("n", pa.int32()),
        ]
    )

    def whole(value: bytes) -> dict[str, bytes]:
        return {"value": value, "metadata": NO_NAMES}

    expected = [
        {"x": whole(b"\x0c\1"), "l": [whole(b"\x0c\2"), None], "m": [("p", whole(b"\x0c\3")), ("q", None)], "n": 4},
        None,
        {"x": None, "l": None, "m": None, "n": 5},
        {"x": whole(b"\0"), "l": [], "m": [], "n": 6},
    ]
    assert read(column, schema=pa.schema([("v", wanted)])) == expected
    few = pa.struct([("n", pa.int32()), ("x", ARROW_VARIANT)])
    found = read(column, schema=pa.schema([("v", few)]))
    assert [row and (row["x"], row["n"]) for row in found] == [row and (row["x"], row["n"]) for row in expected]


@pytest.mark.parametrize("name", ["metadata", "value"])
def test_a_file_with_one_of_the_two_columns_is_refused(name: str):
    with pytest.raises(CorruptTableError, match=r"some/file\.parquet: column 'v'"):
        read(pa.array([{name: b"\1\0\0"}]))
