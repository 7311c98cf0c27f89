"""Formats and codecs of data files: which one a table's options choose, switches, and thin files."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.errors import UnsupportedError
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
        # Java takes snappy for whatever it does not know.
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
    for wanted in ("TIME(9)", '{"type":"MULTISET","element":"INT"}'):
        text = f'"{wanted}"' if wanted.startswith("TIME") else wanted
        stored.write_text(stored.read_text().replace('"TIME(3)"', text), encoding="utf-8")
        column = pa.nulls(1, pa.time32("ms") if wanted.startswith("TIME") else pa.map_(pa.int32(), pa.int32()))
        with pytest.raises(UnsupportedError, match=r"column 't': Avro"):
            open_table(table.path).write(pa.table({"k": pa.array([1], pa.int32()), "t": column}))
        stored.write_text(stored.read_text().replace(text, '"TIME(3)"'), encoding="utf-8")
