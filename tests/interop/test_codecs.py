"""Every file format with every codec: what creation takes, a write can do and Java 0.9 reads; all else is refused at once."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption
from paimon_engine.format import avro
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table({"k": [1, 2, 3], "v": ["a", None, "c" * 100]}, schema=SCHEMA)
NAMES = [
    "zstd", "zstandard", "snappy", "gzip", "deflate", "zlib", "lz4", "lz4_raw", "lzo", "brotli", "bzip2", "xz", "none", "null",
    "uncompressed", "ZSTD", "lzma", "",
]  # fmt: skip
TAKEN = {
    "parquet": {"zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "none", "uncompressed", "ZSTD"},
    "orc": {"zstd", "snappy", "gzip", "zlib", "lz4", "none", "uncompressed", "ZSTD"},
    "avro": {*NAMES} - {"xz", "lzma", ""},
}
NOT_IN_JAVA = {("parquet", "brotli"), ("parquet", "lz4"), ("parquet", "lz4_raw")}
"""Codecs for which Java needs another library in addition to Paimon."""


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("file_format", TAKEN)
def test_creation_and_writing_agree(tmp_path: Path, oracle: JavaPaimon, file_format: str, codec: str) -> None:
    options = {"bucket": "1", "file.format": file_format, "file.compression": codec}
    catalog = Catalog(str(tmp_path))
    if codec not in TAKEN[file_format]:
        with pytest.raises(InvalidArgumentError, match=f"{file_format} files take one of .*snappy"):
            catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
        return
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)

    table.write(ROWS)

    assert table.to_arrow().equals(ROWS)
    if (file_format, codec) not in NOT_IN_JAVA:
        assert_same_rows(rows_of(ROWS), oracle.read(table.path))


@pytest.mark.parametrize(
    "options",
    [
        {"file.format.per.level": "0:avro,5:orc", "file.compression.per.level": "5:brotli"},
        {"file.format": "orc", "changelog-file.format": "parquet", "changelog-file.compression": "zlib"},
        {"file.format": "avro", "avro.codec": "xz"},
        {"file.format": "orc", "orc.compress": "bzip2"},
        {"manifest.compression": "brotli"},
    ],
)
def test_codecs_of_levels_changelogs_and_manifests_are_checked(tmp_path: Path, options: dict[str, str]) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})

    with pytest.raises(InvalidArgumentError, match=r"one of .*snappy"):
        Catalog(str(tmp_path)).create_table(
            "db.u", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **options}
        )
    with pytest.raises(InvalidArgumentError, match=r"one of .*snappy"):
        table.alter([SetOption(key, value) for key, value in options.items()])


@pytest.mark.parametrize("codec", ["zstandard", "bzip2", "xz", "snappy", "deflate", "null"])
def test_manifests_of_every_avro_codec_are_read(codec: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"a": number} for number in range(100)], codec=codec)

    assert avro.read_records(sink.getvalue(), "manifest") == [{"a": number} for number in range(100)]
