"""Metadata records: Avro container bytes ↔ dictionaries, read from ORC and Parquet too.

Manifests, manifest lists and index manifests are Avro object containers; releases up to 2.0 could be told to
write them as ORC or Parquet, so the reader goes by the first bytes of the file.
Fields are resolved by name only: writers differ in record names, namespaces and field order.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from paimon_engine.errors import InvalidArgumentError, damaged

_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "none": "null",
    "null": "null",
}


def read_records(data: bytes, path: str) -> list[dict[str, Any]]:
    """Records of a metadata file, in order; `path` serves messages.

    Raises: CorruptTableError if the bytes are no such file.
    """
    try:
        if data.startswith(b"Obj\x01"):
            return _avro_records(data)
        if data.startswith(b"ORC"):
            return list(po.ORCFile(pa.BufferReader(data)).read().to_pylist())
        if data.startswith(b"PAR1"):
            return list(pq.read_table(pa.BufferReader(data)).to_pylist())
    except Exception as error:
        raise damaged(path, f"cannot be read as a metadata file: {error!r}") from error
    raise damaged(path, f"expected an Avro, ORC or Parquet file, found {len(data)} bytes beginning {data[:8]!r}")


def _avro_records(data: bytes) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for block in fastavro.block_reader(io.BytesIO(data)):
        check_block(block)
        records += block
    return records


def check_block(block: Any) -> None:
    """Raises ValueError if the block says that it has more records than bytes: no loop should believe that."""
    size_bytes = block.bytes_.getbuffer().nbytes
    if not 0 <= block.num_records <= size_bytes:
        raise ValueError(f"a block of {size_bytes} bytes says that it holds {block.num_records} records")


def write_records(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]], compression: str = "zstd") -> bytes:
    """Bytes of an Avro object container file.

    Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    codec = _CODECS.get(compression.lower())
    if codec is None:
        raise InvalidArgumentError(
            f"'manifest.compression' = {compression!r}; choose one of {', '.join(sorted(_CODECS))}"
        )
    buffer = io.BytesIO()
    fastavro.writer(buffer, dict(schema), records, codec=codec)
    return buffer.getvalue()
