"""Data files of each format: what is written is read back, and bytes that are no such file give a typed error."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, UnsupportedError
from paimon_engine.format import orc
from paimon_engine.format.layout import BatchLimit, WriteOptions
from paimon_engine.predicate import col
from paimon_engine.table.files.formats import READERS, WRITERS

FORMATS = sorted(READERS)

ROW = pa.struct([pa.field("x", pa.int64()), pa.field("y.z", pa.list_(pa.timestamp("us")))])
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, 127]),
    "i16": (pa.int16(), [-(2**15), 2**15 - 1]),
    "i32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "f32": (pa.float32(), [1.5, float("inf")]),
    "f64": (pa.float64(), [-0.0, 1e308]),
    "text.with.dots": (pa.string(), ["", "ü\0"]),
    "bytes": (pa.binary(), [b"", b"\0\xff"]),
    "dec5": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00")]),
    "dec38": (pa.decimal128(38, 10), [Decimal(f"{'9' * 28}.{'9' * 10}"), Decimal("-0.0000000001")]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "time": (pa.time32("ms"), [time(0), time(23, 59, 59, 999000)]),
    "t0": (pa.timestamp("s"), [datetime(1969, 12, 31, 23, 59, 59), datetime(2262, 1, 1)]),
    "t3": (pa.timestamp("ms"), [datetime(1700, 1, 1, 0, 0, 0, 1000), datetime(2038, 1, 19)]),
    "t6": (pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(2000, 2, 29, 0, 0, 0, 1)]),
    "ltz": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)]),
    "list": (pa.list_(pa.decimal128(4, 1)), [[], [Decimal("1.5"), None]]),
    "map": (pa.map_(pa.string(), pa.time32("ms")), [[], [("a", time(1)), ("b", None)]]),
    "map by number": (pa.map_(pa.int32(), pa.string()), [[(1, "a")], [(2, None), (3, "c")]]),
    "row": (ROW, [{"x": 1, "y.z": [datetime(1999, 1, 1)]}, {"x": None, "y.z": None}]),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in COLUMNS.items()])
TABLE = pa.table([pa.array([*values, None], kind) for kind, values in COLUMNS.values()], schema=SCHEMA)


def written(form: str, table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    writer = WRITERS[form](sink, table.schema, WriteOptions(**options))
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def read(form: str, data: bytes, schema: pa.Schema, **options: Any) -> pa.Table:
    batches = list(READERS[form](io.BytesIO(data), schema, path="a file", **options))
    return pa.Table.from_batches(batches, schema if not batches else None)


def values_of(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(sorted(table.schema.names)).to_pylist()


@pytest.mark.parametrize("form", FORMATS)
def test_values_of_every_type_are_read_back(form: str):
    assert values_of(read(form, written(form, TABLE), SCHEMA)) == values_of(TABLE)


NESTED = pa.schema(
    [
        ("row", pa.struct([("text", pa.string()), ("n", pa.int32())])),
        ("rows in a row", pa.struct([("row", pa.struct([("text", pa.string())])), ("list", pa.list_(pa.int8()))])),
        ("rows in a list", pa.list_(pa.struct([("row", pa.struct([("n", pa.int64())])), ("bytes", pa.binary())]))),
        ("rows in a map", pa.map_(pa.string(), pa.struct([("text", pa.string())]))),
    ]
)


def nested_rows(count: int) -> pa.Table:
    """Rows in which each part of a nested column is null now and then."""
    random = Random(5)

    def drawn(kind: pa.DataType) -> Any:
        if random.random() < 0.3:
            return None
        if pa.types.is_struct(kind):
            return {field.name: drawn(field.type) for field in kind}
        if pa.types.is_map(kind):
            return [(key, drawn(kind.item_type)) for key in "abc"[: random.randrange(4)]]
        if pa.types.is_list(kind):
            return [drawn(kind.value_type) for _ in range(random.randrange(4))]
        number = random.randrange(100)
        return number if pa.types.is_integer(kind) else "x" * number if pa.types.is_string(kind) else b"x" * number

    columns = [pa.array([drawn(field.type) for _ in range(count)], field.type) for field in NESTED]
    return pa.table(columns, schema=NESTED)


@pytest.mark.parametrize("form", FORMATS)
def test_parts_of_batches_are_read_back_unchanged(form: str):
    rows = nested_rows(60)
    parts = [
        rows.slice(7, 30),
        rows.take(pa.array([3, 59, 8, 8, 20, 0, 41])),
        rows.take(pa.array(range(59, 0, -2))).slice(3),
    ]

    for part in parts:
        assert values_of(read(form, written(form, part), NESTED)) == values_of(part)


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_columns_have_the_requested_types_and_order(form: str):
    schema = pa.schema([SCHEMA.field(name) for name in ("time", "t0", "row", "text.with.dots")])

    assert read(form, written(form, TABLE), schema).equals(TABLE.select(schema.names))


REQUIRED = pa.struct(
    [
        pa.field("x", pa.int32(), nullable=False),
        pa.field("y", pa.list_(pa.field("element", pa.timestamp("s"), nullable=False)), nullable=False),
        pa.field("z", pa.struct([pa.field("q", pa.string(), nullable=False)]), nullable=False),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.time32("ms"), nullable=False)), nullable=False),
    ]
)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_required_fields_may_be_null(form: str):
    row = {"x": 1, "y": [datetime(2000, 1, 1)], "z": {"q": "a"}, "m": [("k", time(1))]}
    table = pa.table({"r": pa.array([None, row, None, {**row, "y": []}], REQUIRED)})

    for part in (table, table.slice(1, 2)):
        found = read(form, written(form, part), part.schema)
        assert found.to_pylist() == part.to_pylist()
        found.validate(full=True)
        if form != "parquet":
            assert found.schema == part.schema


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_that_the_file_lacks_is_left_out(form: str):
    schema = pa.schema([SCHEMA.field("i8"), pa.field("later", pa.int32())])

    assert read(form, written(form, TABLE), schema).schema.names == ["i8"]


@pytest.mark.parametrize("form", FORMATS)
def test_batches_have_the_requested_size(form: str):
    table = pa.table({"k": pa.array(range(25_000), pa.int64())})

    batches = list(
        READERS[form](io.BytesIO(written(form, table)), table.schema, path="a file", limit=BatchLimit(10_000))
    )

    assert max(batch.num_rows for batch in batches) <= 10_000
    assert pa.Table.from_batches(batches).equals(table)


CODECS = {
    "parquet": ("zstd", "snappy", "lz4", "gzip", "none"),
    "orc": ("zstd", "snappy", "lz4", "zlib", "none"),
    "avro": ("zstd", "snappy", "deflate", "none", "lz4"),
}


@pytest.mark.parametrize(("form", "codec"), [(form, codec) for form, codecs in CODECS.items() for codec in codecs])
def test_every_codec(form: str, codec: str):
    table = pa.table({"k": [7] * 5000})

    data = written(form, table, compression=codec)

    assert read(form, data, table.schema).equals(table)


@pytest.mark.parametrize("form", FORMATS)
def test_a_codec_that_is_none_is_refused_with_those_that_are(form: str):
    with pytest.raises(InvalidArgumentError, match=r"'nope'.*zstd"):
        written(form, TABLE, compression="nope")


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_orc_stores_timestamps_of_which_arrow_cannot_count_the_nanoseconds(unit: str, codec: str):
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    years = [datetime(year, 1, 1) for year in (1, 1582, 1676, 1969, 2263, 9999)]
    counts = [int((year - datetime(1970, 1, 1)).total_seconds()) * per_second for year in years]
    column = pa.array([count + part for count in counts for part in (0, per_second // 2)] * 99, pa.timestamp(unit))
    table = pa.table({"t": column, "l": pa.array([[one] for one in column.to_pylist()], pa.list_(column.type))})

    assert read("orc", written("orc", table, compression=codec), table.schema).equals(table)


EARLY = pa.array([[{"t": datetime(1969, 12, 31, 23, 59, 59, 999999)}], None])


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_parts_of_a_millisecond_in_the_last_second_before_1970_are_read_back(form: str):
    table = pa.table({"early": EARLY})

    assert read(form, written(form, table), table.schema).to_pylist() == table.to_pylist()


def test_parts_of_a_millisecond_in_the_last_second_before_1970_are_refused_in_orc():
    with pytest.raises(UnsupportedError, match=r"'early'.*last second before 1970"):
        written("orc", pa.table({"early": EARLY}))


LATE_NS = [-1, -999_999, -1_000_000, -999_000_000, -999_000_001, -1_000_000_000, -1_000_000_001, 0, 1]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "lz4", "zlib", "none"])
def test_fractions_of_a_second_before_1970_are_read_back_from_each_stripe(monkeypatch: pytest.MonkeyPatch, codec: str):
    monkeypatch.setattr(orc, "STRIPE_BYTES", 64 << 10)
    values = np.random.default_rng(1).integers(-(2**62), 2**61, 80_000)
    values[::7] = values[::7] // 10**9 * 10**9 + 250_000_000
    some = pa.array(values, pa.timestamp("ns"), mask=values % 5 == 0)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 80_001, 2), pa.int32()), some)
    rows = pa.StructArray.from_arrays([some[:40_000], lists], ["t", "l"], mask=pa.array(values[:40_000] % 3 == 0))
    table = pa.table({"i": range(40_000), "t": some[40_000:], "r": rows, "none": pa.nulls(40_000, pa.timestamp("ns"))})

    data = written("orc", table, compression=codec)

    assert po.ORCFile(io.BytesIO(data)).nstripes > 1
    assert read("orc", data, table.schema).equals(table)
    found = [batch for _, batch in orc.read_matching(io.BytesIO(data), table.schema, col("i") >= 39_990, path="a file")]
    assert sum(batch.num_rows for batch in found) < 40_000
    assert found[-1].slice(found[-1].num_rows - 9).to_pylist() == table.slice(39_991).to_pylist()


def test_the_last_second_before_1970_as_far_as_orc_stores_it():
    for nanos in LATE_NS:
        table = pa.table({"t": pa.array([nanos, -(10**18) + 1], pa.timestamp("ns"))})
        if nanos in (-1, -999_999):
            with pytest.raises(UnsupportedError):
                written("orc", table)
        else:
            assert read("orc", written("orc", table), table.schema).equals(table)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_are_int96_in_parquet(zone: str | None):
    values = [0, -1, 1, 2**63 - 1, -(2**63) + 1, None]
    column = pa.array([[value] for value in values], pa.list_(pa.timestamp("ns", zone)))
    table = pa.table({"t": column.flatten(), "l": column})

    data = written("parquet", table)

    leaves = pq.ParquetFile(io.BytesIO(data)).schema
    assert {leaves.column(position).physical_type for position in range(2)} == {"INT96"}
    found = read("parquet", data, table.schema).cast(table.schema)
    assert found["t"].cast(pa.int64()).to_pylist() == values
    assert found.equals(table)


MIXED = pa.schema(
    [
        pa.field("fine", pa.timestamp("ns"), metadata={"PARQUET:field_id": "7"}),
        pa.field("n", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "8"}),
        pa.field("s", pa.timestamp("s"), metadata={"PARQUET:field_id": "300"}),
        pa.field("ms", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("l", pa.list_(pa.timestamp("us", "UTC")), metadata={"PARQUET:field_id": "-1"}),
        pa.field("m", pa.map_(pa.timestamp("ms"), pa.struct([("x", pa.decimal128(30, 2)), ("y", pa.timestamp("us"))]))),
        *(pa.field(f"more{position}", pa.time32("ms")) for position in range(20)),
    ]
)


def test_nanoseconds_are_stored_next_to_coarser_timestamps_in_parquet():
    row = {"fine": 1, "n": 2, "s": -3, "ms": 4, "l": [-5, None], "m": [(6, {"x": Decimal("7.00"), "y": 8})]}
    table = pa.Table.from_pylist([row, {"n": 0, "ms": 0}] * 500, MIXED)
    coarse = pa.schema([field for field in MIXED if field.name != "fine"])

    data = written("parquet", table)

    file = pq.ParquetFile(io.BytesIO(data))
    assert read("parquet", data, MIXED).cast(MIXED).equals(table)
    without = pq.ParquetFile(io.BytesIO(written("parquet", table.select(coarse.names)))).schema
    # But for the INT96 column the schema is the one that Arrow itself writes.
    assert str(without).splitlines()[2:] == str(file.schema).splitlines()[3:]
    assert file.metadata.row_group(0).column(2).statistics.min == datetime(1969, 12, 31, 23, 59, 57)


def test_int96_timestamps_that_arrow_cannot_represent_are_no_wrong_rows():
    far = pa.table({"t": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))})
    sink = io.BytesIO()
    pq.write_table(far, sink, use_deprecated_int96_timestamps=True)

    with pytest.raises(UnsupportedError, match=r"'t'.*1677 to 2262"):
        read("parquet", sink.getvalue(), far.schema)


def test_nanoseconds_cannot_be_written_to_avro():
    nanos = pa.table({"t": pa.array([1], pa.timestamp("ns"))})

    with pytest.raises(UnsupportedError, match=r"'t'.*TIMESTAMP\(6\)"):
        written("avro", nanos)


BYTES = {form: written(form, TABLE) for form in FORMATS}


@pytest.mark.parametrize("form", FORMATS)
# The same damage each time: with other bytes the C++ library may abort the process or take all memory, which no
# caller can prevent. A wrong length may make it work long for nothing.
@settings(deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_damaged_files_give_rows_or_a_typed_error(form: str, data: st.DataObject):
    whole = bytearray(BYTES[form])
    position = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[position:]
    else:
        whole[position] ^= 1 << data.draw(st.integers(0, 7))

    try:
        read(form, bytes(whole), SCHEMA)
    except CorruptTableError as error:
        assert "a file" in str(error)
    except UnsupportedError as error:
        assert form == "orc" and "timestamps" in str(error)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("data", [b"", b"PAR1", b"ORC", b"Obj\x01", b"no such file at all" * 100])
def test_bytes_that_are_no_file(form: str, data: bytes):
    with pytest.raises(CorruptTableError, match="a file: cannot be read as an? "):
        read(form, data, SCHEMA)


def test_any_bit_of_a_parquet_page_that_flips_is_reported():
    table = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", "yy", "zzz"]})
    data = written("parquet", table, compression="none")
    # Behind its length, as values are stored: heads of pages and the footer have it as the largest value.
    text = data.index(b"\3\0\0\0zzz") + 4
    for position in range(text, text + 3):
        flipped = bytearray(data)
        flipped[position] ^= 1

        with pytest.raises(CorruptTableError, match="CRC checksum"):
            read("parquet", bytes(flipped), table.schema)


def test_an_orc_file_that_is_given_up_does_not_end_the_process(tmp_path: Path):
    program = f"""
import pyarrow as pa
from paimon_engine.format.layout import BatchLimit, WriteOptions
from paimon_engine.table.files.formats import WRITERS
rows = pa.table({{"a": [1, 2]}})
with open({str(tmp_path / "given-up.orc")!r}, "wb") as sink:
    writer = WRITERS["orc"](sink, rows.schema, WriteOptions("zstd"))
    writer.write(rows.to_batches()[0])
del writer
print("still here")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)

    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["of a few texts", "of different texts", "of lists"])
def test_batches_of_long_values_are_small(form: str, kind: str):
    texts = ["b" * 50_000, "a", "c", "m" * 80_000] if kind == "of a few texts" else [f"{n:050000d}" for n in range(300)]
    values = [texts[number % len(texts)] for number in range(300)]
    column = pa.array([[value[:100]] * 400 for value in values] if kind == "of lists" else values)
    table = pa.table({"k": pa.array(range(300), pa.int64()), "v": column})

    batches = list(
        READERS[form](
            io.BytesIO(written(form, table)), table.schema, path="a file", limit=BatchLimit(size_bytes=1 << 20)
        )
    )

    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.nbytes for batch in batches) <= 2 << 20
    assert len(batches) < 100
