"""Arrow types as columns of a table: each is held without loss, or refused by name."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine import Catalog, InvalidArgumentError, UnsupportedError
from paimon_engine.arrow_types import from_arrow
from paimon_engine.meta.schema_change import AddColumn, RenameColumn, UpdateColumnType
from paimon_engine.types import parse_type, to_arrow, type_to_json

DAY = datetime(2024, 2, 29, 13, 5, 9, 123456)
HELD: list[tuple[pa.DataType, list[Any], Any]] = [
    (pa.bool_(), [True], "BOOLEAN"),
    (pa.int8(), [-128], "TINYINT"),
    (pa.uint8(), [255], "SMALLINT"),
    (pa.int16(), [-(2**15)], "SMALLINT"),
    (pa.uint16(), [2**16 - 1], "INT"),
    (pa.int32(), [-(2**31)], "INT"),
    (pa.uint32(), [2**32 - 1], "BIGINT"),
    (pa.int64(), [-(2**63)], "BIGINT"),
    (pa.uint64(), [2**64 - 1], "DECIMAL(20, 0)"),
    (pa.float16(), [0.5], "FLOAT"),
    (pa.float32(), [0.5], "FLOAT"),
    (pa.float64(), [0.1], "DOUBLE"),
    (pa.decimal32(5, 2), [Decimal("-999.99")], "DECIMAL(5, 2)"),
    (pa.decimal64(18, 0), [Decimal(10**18 - 1)], "DECIMAL(18, 0)"),
    (pa.decimal128(38, 38), [Decimal(f"0.{'9' * 38}")], "DECIMAL(38, 38)"),
    (pa.decimal256(38, 1), [Decimal("1.5")], "DECIMAL(38, 1)"),
    (pa.decimal128(5, -2), [Decimal(9999900)], "DECIMAL(7, 0)"),
    (pa.string(), ["ü"], "STRING"),
    (pa.large_string(), ["ü"], "STRING"),
    (pa.string_view(), ["a text that is longer than a view stores inline"], "STRING"),
    (pa.binary(), [b"\0"], "BYTES"),
    (pa.large_binary(), [b"\0"], "BYTES"),
    (pa.binary_view(), [b"\0"], "BYTES"),
    (pa.binary(3), [b"abc"], "BINARY(3)"),
    (pa.dictionary(pa.int8(), pa.string()), ["a"], "STRING"),
    (pa.date32(), [date(1, 1, 1)], "DATE"),
    (pa.date64(), [date(9999, 12, 31)], "DATE"),
    (pa.time32("s"), [time(23, 59, 59)], "TIME(0)"),
    (pa.time32("ms"), [time(23, 59, 59, 999000)], "TIME(3)"),
    (pa.timestamp("s"), [DAY.replace(microsecond=0)], "TIMESTAMP(0)"),
    (pa.timestamp("ms"), [DAY.replace(microsecond=123000)], "TIMESTAMP(3)"),
    (pa.timestamp("us"), [DAY], "TIMESTAMP(6)"),
    (pa.timestamp("us", "Asia/Tokyo"), [DAY.replace(tzinfo=UTC)], "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    (pa.list_(pa.uint8()), [[255, None]], {"type": "ARRAY", "element": "SMALLINT"}),
    (pa.large_list(pa.string_view()), [["a"]], {"type": "ARRAY", "element": "STRING"}),
    (pa.list_(pa.int32(), 2), [[1, 2]], {"type": "ARRAY", "element": "INT"}),
    (
        pa.map_(pa.int32(), pa.date64()),
        [[(1, date(1970, 1, 2))]],
        {"type": "MAP", "key": "INT NOT NULL", "value": "DATE"},
    ),
    (pa.struct([("x", pa.large_binary())]), [{"x": b""}], None),
]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_values_of_arrow_types_are_stored(tmp_path: Path, form: str):
    columns = {f"c{index}": pa.array([values[0], None], kind) for index, (kind, values, _) in enumerate(HELD)}
    rows = pa.table(columns)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, options={"file.format": form})

    table.write(rows)

    found = table.to_arrow()
    for name, column in columns.items():
        assert [_plain(value) for value in found[name].to_pylist()] == [
            _plain(value) for value in column.to_pylist()
        ], name


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@pytest.mark.parametrize(("kind", "values", "stored"), HELD, ids=[str(kind) for kind, _, _ in HELD])
def test_arrow_types_become_paimon_types(kind: pa.DataType, values: list[Any], stored: Any):
    found = from_arrow(kind)

    assert stored in (None, type_to_json(found))
    pa.array(values, to_arrow(found))
    assert from_arrow(to_arrow(found)).nullable


def test_run_end_encoded_columns_are_written(tmp_path: Path):
    rows = pa.table({"c": pc.run_end_encode(pa.array([1, 1, None], pa.int32()))})
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema)

    table.write(rows)

    assert table.to_arrow()["c"].to_pylist() == [1, 1, None]


VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (pa.null(), "null"),
        (pa.time64("us"), "time64.*time32"),
        (pa.time64("ns"), "time64.*time32"),
        (pa.duration("s"), "duration"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
        (pa.decimal256(39, 0), "decimal256.*38 digits"),
        (pa.decimal128(38, -1), "decimal128.*38 digits"),
        (pa.sparse_union([pa.field("x", pa.int32())]), "union"),
        (pa.binary(0), "fixed_size_binary"),
        (pa.struct([]), "struct"),
        (pa.uuid(), "uuid"),
        (pa.list_view(pa.int32()), "list_view"),
        (pa.struct([*VARIANT, pa.field("typed_value", pa.int64())]), "VARIANT"),
    ],
    ids=str,
)
def test_arrow_types_without_a_counterpart_are_refused_by_name(kind: pa.DataType, named: str):
    with pytest.raises(UnsupportedError, match=named):
        from_arrow(kind)


def test_variants_are_known_by_the_mark_of_spark():
    plain = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])

    assert type_to_json(from_arrow(pa.list_(pa.struct([("v", VARIANT)]))))["element"]["fields"][0]["type"] == "VARIANT"
    assert type_to_json(from_arrow(VARIANT, nullable=False)) == "VARIANT NOT NULL"
    assert from_arrow(to_arrow(parse_type("variant"))) == parse_type("VARIANT")
    assert type_to_json(from_arrow(plain))["type"] == "ROW"


def _variants(value: bytes, metadata: bytes) -> pa.Table:
    return pa.table({"c": pa.array([{"value": value, "metadata": metadata}, None], VARIANT)})


def test_variants_are_stored_in_parquet_only(tmp_path: Path):
    schema = {"k": "INT NOT NULL", "c": "ARRAY<VARIANT>"}
    for options in ({"file.format": "orc"}, {"file.format.per.level": "5:avro"}):
        with pytest.raises(UnsupportedError, match=r"column 'c': VARIANT is stored in Parquet only"):
            Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)


@pytest.mark.parametrize(("value", "metadata"), [(b"", b"\x01\x00\x00"), (b"\x0c", b""), (b"\x0c", b"\x02\x00\x00")])
def test_binaries_that_are_no_variant_are_refused(tmp_path: Path, value: bytes, metadata: bytes):
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"c": "VARIANT"})
    good = _variants(b"\x0c\x05", b"\x01\x00\x00")
    table.write(good)

    with pytest.raises(InvalidArgumentError, match=r"column 'c': a VARIANT is a struct of two binaries"):
        table.write(_variants(value, metadata))
    with pytest.raises(InvalidArgumentError, match=r"column 'c' .* nulls"):
        table.write(pa.table({"c": pa.array([{"value": b"\x0c", "metadata": None}], VARIANT)}))
    assert table.to_arrow().to_pylist() == good.to_pylist()


def test_a_variant_has_no_columns_and_becomes_nothing_else(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"k": "INT", "c": "VARIANT"})

    for change in (UpdateColumnType("c", "STRING"), AddColumn("c.x", "INT"), UpdateColumnType("c.value", "STRING")):
        with pytest.raises(InvalidArgumentError):
            table.alter([change])
    with pytest.raises(InvalidArgumentError, match=r"no column 'c\.value'"):
        table.to_arrow(columns=["c.value"])
    with pytest.raises(InvalidArgumentError, match="maps, variants and vectors have none"):
        Catalog(str(tmp_path)).create_table(
            "db.u", schema={"k": "INT NOT NULL", "c": "VARIANT"}, primary_keys=["k"], options={"sequence.field": "c"}
        )
    table.alter([RenameColumn("c", "d")])
    assert table.schema.row_type.names == ("k", "d")
    assert table.schema.highest_field_id == 1


@pytest.mark.parametrize(("element", "length"), [("STRING", 3), ("DECIMAL(3, 1)", 3), ("FLOAT", 0), ("FLOAT", 1 << 31)])
def test_vectors_are_of_numbers_and_of_a_fixed_length(element: str, length: int):
    with pytest.raises(InvalidArgumentError, match="VECTOR"):
        parse_type({"type": "VECTOR", "element": element, "length": length})


@pytest.mark.parametrize("name", ["GEOGRAPHY", "GEOMETRY NOT NULL"])
def test_types_of_later_releases_are_refused_by_name(name: str):
    with pytest.raises(UnsupportedError, match=name.split(maxsplit=1)[0]):
        parse_type(name)
    with pytest.raises(UnsupportedError, match=name.split(maxsplit=1)[0]):
        parse_type({"type": name, "element": "FLOAT", "length": 3})


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (pa.int8(), pa.array([128])),
        (pa.time32("ms"), pa.array([1], pa.time64("us"))),
        (pa.timestamp("ms"), pa.array([1], pa.timestamp("us"))),
        (pa.decimal128(4, 2), pa.array([Decimal("1.001")])),
        (pa.int32(), pa.array([1.5])),
        (pa.list_(pa.int32()), pa.array([[1]], pa.list_view(pa.int32()))),
    ],
    ids=str,
)
def test_values_that_would_lose_something_are_refused(tmp_path: Path, wanted: pa.DataType, given: pa.Array):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("c", wanted)]))

    with pytest.raises(InvalidArgumentError, match="column 'c'"):
        table.write(pa.table({"c": given}))
