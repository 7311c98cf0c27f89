"""Formats and codecs of data files: which one a table's options choose, switches, and thin files."""

from __future__ import annotations

import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.errors import UnsupportedError
from paimon_engine.format import avro_rows
from paimon_engine.format.layout import WriteOptions
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32())])


def rows(*keys: str, v: int = 0) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, SCHEMA)


def create(folder: Path, **options: str) -> Table:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return Catalog(str(folder)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **named}
    )


def files_of(table: Table) -> list[Path]:
    return sorted(Path(table.path).rglob("data-*.*"))


def codec_of(file: Path) -> str:
    match file.suffix:
        case ".parquet":
            return pq.ParquetFile(file).metadata.row_group(0).column(0).compression
        case ".orc":
            return po.ORCFile(file).compression
        case _:
            with file.open("rb") as stream:
                return fastavro.reader(stream).codec


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"file_compression": "snappy"}, "SNAPPY"),
        ({"file_compression": "LZ4_RAW"}, "LZ4"),
        ({"file_compression": "gzip"}, "GZIP"),
        ({"file_compression": "none"}, "UNCOMPRESSED"),
        ({"file_compression": "snappy", "parquet_compression": "GZIP"}, "GZIP"),
        ({"file_compression": "snappy", "file_compression_per_level": "0:zstd"}, "ZSTD"),
        ({"file_format": "orc", "file_compression": "lz4"}, "LZ4"),
        ({"file_format": "orc", "orc_compress": "ZLIB"}, "ZLIB"),
        ({"file_format": "avro"}, "zstandard"),
        ({"file_format": "avro", "avro_codec": "null"}, "null"),
        # Java uses snappy for a codec that it does not know.
        ({"file_format": "avro", "file_compression": "lz4"}, "snappy"),
    ],
)
def test_options_choose_the_codec_and_java_reads_it(
    tmp_path: Path, oracle: JavaPaimon, options: dict[str, str], codec: str
):
    table = create(tmp_path, **options)
    table.write(rows("a", "b"))

    assert [codec_of(file) for file in files_of(table)] == [codec]
    assert_same_rows(table.to_arrow(), oracle.read(table.path))


def test_append_tables_have_no_levels(tmp_path: Path):
    options = {"file.format.per.level": "0:avro", "file.compression.per.level": "0:lz4"}
    table = Catalog(str(tmp_path)).create_table("db.a", schema=SCHEMA, options=options)
    table.write(rows("a"))
    table.write(rows("b"))
    table.compact(full=True)

    assert [(file.suffix, codec_of(file)) for file in files_of(table)] == [(".parquet", "ZSTD")] * 3
    assert sorted(table.to_arrow()["k"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({}, "SNAPPY"),
        ({"file_compression": "zstd"}, "ZSTD"),
        ({"parquet_compression": "zstd"}, "ZSTD"),
        ({"file_compression_zstd__level": "3"}, "ZSTD"),
        ({"file_compression_per_level": "5:zstd"}, "ZSTD"),
    ],
)
def test_few_rows_have_the_codec_that_was_asked_for(
    tmp_path: Path, oracle: JavaPaimon, pypaimon: PyPaimon, options: dict[str, str], codec: str
):
    """Without a request it is one that begins quickly."""
    table = create(tmp_path, **options)
    table.write(rows("a", "b"))

    assert [codec_of(file) for file in files_of(table)] == [codec]
    assert_same_rows(table.to_arrow(), oracle.read(table.path))
    assert_same_rows(table.to_arrow(), pypaimon.read(table.path))


def test_the_zstd_level_makes_files_smaller(tmp_path: Path):
    data = pa.table({"k": [f"{n * 7919 % 50_000:x}" for n in range(50_000)], "v": pa.array(range(50_000), pa.int32())})
    sizes = []
    for level in ("1", "19"):
        table = create(tmp_path / level, file_compression="zstd", file_compression_zstd__level=level)
        table.write(data.cast(SCHEMA))
        sizes.append(sum(file.stat().st_size for file in files_of(table)))

    assert sizes[1] < sizes[0]


def test_thin_files_leave_out_the_keys(tmp_path: Path, pypaimon: PyPaimon):
    table = create(tmp_path, data__file_thin__mode="true", metadata_stats__mode="none")
    table.write(rows("a", "b" * 200))
    table.write(rows("a", "c", v=1))

    for file in files_of(table):
        assert pq.read_schema(file).names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    expected = [["a", 1], ["b" * 200, 0], ["c", 1]]
    assert_same_rows(table.to_arrow(), expected)
    assert_same_rows(pypaimon.read(table.path), expected)

    table.compact(full=True)
    assert_same_rows(table.to_arrow(), expected)
    assert_same_rows(pypaimon.read(table.path), expected)
    assert table.to_arrow(where="k = 'c'").num_rows == 1


def test_avro_refuses_what_java_cannot_write_there(tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int32()), pa.field("t", pa.time32("ms"))])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options={"file.format": "avro"})
    stored = Path(table.path) / "schema" / "schema-0"
    stored.write_text(stored.read_text().replace('"TIME(3)"', '"TIME(9)"'), encoding="utf-8")

    with pytest.raises(UnsupportedError, match=r"column 't': Avro"):
        open_table(table.path).write(pa.table({"k": pa.array([1], pa.int32()), "t": pa.nulls(1, pa.time32("ms"))}))


def java_multiset(name: str, element: Any) -> dict[str, Any]:
    """How the sources of Java say a MULTISET of what is not a text, since they can write it: with counts that may be null."""
    key, value = {"name": "key", "type": element}, {"name": "value", "type": ["null", "int"], "default": None}
    items = {"type": "record", "name": name, "fields": [key, value]}
    return {"type": "array", "items": items, "logicalType": "map"}


def test_multisets_of_anything_are_read_from_avro_and_not_written(tmp_path: Path):
    """No release of Java up to 2.0 writes or reads these; its sources do, as an array of entries."""
    fields = [pa.field("k", pa.int32()), pa.field("m", pa.string()), pa.field("l", pa.string())]
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema(fields), options={"file.format": "avro"})
    stored = Path(table.path) / "schema" / "schema-0"
    schema = json.loads(stored.read_text(encoding="utf-8"))
    schema["fields"][1]["type"] = {"type": "MULTISET", "element": "DECIMAL(20, 2)"}
    schema["fields"][2]["type"] = {"type": "ARRAY", "element": {"type": "MULTISET", "element": "DATE NOT NULL"}}
    stored.write_text(json.dumps(schema), encoding="utf-8")
    table = open_table(table.path)
    rows = table.to_arrow().schema.empty_table().schema
    values = [
        {
            "k": 1,
            "m": [(Decimal("-1.50"), 2), (Decimal("999999999999999999.99"), 1)],
            "l": [[(date(1, 1, 1), 3)], [], None],
        },
        {"k": 2, "m": [], "l": []},
        {"k": 3, "m": None, "l": None},
    ]
    data = pa.Table.from_pylist(values, schema=rows)
    with pytest.raises(UnsupportedError, match=r"column 'm': no released reader knows an Avro file with a MULTISET"):
        table.write(data)

    encoded = io.BytesIO()
    writer = avro_rows.AvroWriter(encoded, rows, WriteOptions())
    writer.write(data.to_batches()[0])
    writer.close()
    found = fastavro.reader(io.BytesIO(encoded.getvalue()))
    written, records = found.writer_schema, list(found)
    bytes_of = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    written["fields"][1]["type"] = ["null", java_multiset("m", bytes_of)]
    inner = java_multiset("l", {"type": "int", "logicalType": "date"})
    written["fields"][2]["type"] = ["null", {"type": "array", "items": ["null", inner]}]
    sink = io.BytesIO()
    fastavro.writer(sink, written, records)
    found = avro_rows.read_batches(io.BytesIO(sink.getvalue()), rows, path="a file")
    assert pa.Table.from_batches(found).to_pylist() == values


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_column_may_be_named_as_the_path_into_another_one(tmp_path: Path, file_format: str):
    schema = pa.schema(
        [("k", pa.int32()), ("a.b", pa.int32()), ("a", pa.struct([("b", pa.int32()), ("c", pa.string())]))]
    )
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options={"file.format": file_format})
    written = [{"k": k, "a.b": 2 * k, "a": {"b": -k, "c": str(k)}} for k in range(5)]
    table.write(pa.Table.from_pylist(written, schema))

    assert table.to_arrow().to_pylist() == written
    for names in (["a.b"], ["a"], ["k", "a.b"], ["a", "k"]):
        found = table.to_arrow(where="`a.b` = 4", columns=names).to_pylist()
        assert found == [{name: written[2][name] for name in names}]
