"""Metadata files of ORC and Parquet, for tables whose `manifest.format` says so; those of Avro are in `format.avro`.

The records, and their schema, are those of the Avro files; readers find columns by name.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.avro import write_record_files, write_records

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_CODECS: Final[Mapping[str, tuple[str, str]]] = {
    "none": ("uncompressed", "none"),
    "null": ("uncompressed", "none"),
    "snappy": ("snappy", "snappy"),
    "zstd": ("zstd", "zstd"),
    "zstandard": ("zstd", "zstd"),
    "lz4": ("lz4", "lz4"),
    "deflate": ("zlib", "gzip"),
    "gzip": ("zlib", "gzip"),
}
"""Names of codecs in ORC and in Parquet, by those of `manifest.compression`."""


def metadata_file(
    file_format: str,
    schema: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    compression: str,
    *,
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Bytes of a metadata file with those records; `notes` go into the header of Avro files only.

    Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    if file_format == "avro":
        return write_records(schema, records, compression, notes=notes)
    rows = pa.Table.from_pylist(list(records), schema=_arrow_schema(schema))
    buffer = io.BytesIO()
    if compression.lower() not in _CODECS:
        raise InvalidArgumentError(
            f"'manifest.compression' = '{compression}' is unknown; choose one of {', '.join(sorted(_CODECS))}"
        )
    orc, parquet = _CODECS[compression.lower()]
    if file_format == "orc":
        po.write_table(rows, buffer, compression=orc)
    else:
        pq.write_table(rows, buffer, compression=parquet)
    return buffer.getvalue()


def metadata_files(
    file_format: str,
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    compression: str,
    *,
    target_bytes: int,
    step: int,
) -> Iterator[tuple[bytes, int]]:
    """Bytes of as many files as the records need, each with its number of records; none without records.

    Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    if file_format == "avro":
        yield from write_record_files(schema, records, compression, target_bytes=target_bytes, step=step)
        return
    left = iter(records)
    count = step
    while chunk := list(islice(left, count)):
        data = metadata_file(file_format, schema, chunk, compression)
        # The next file has as many records as would have filled this one.
        count = max(step, len(chunk) * target_bytes // max(1, len(data)))
        yield data, len(chunk)


def _arrow_schema(record: Mapping[str, Any]) -> pa.Schema:
    return pa.schema([_arrow_field(field["name"], field["type"]) for field in record["fields"]])


def _arrow_field(name: str, kind: Any) -> pa.Field:
    nullable = isinstance(kind, list)
    if nullable:
        (kind,) = (one for one in kind if one != "null")
    return pa.field(name, _arrow_type(kind), nullable)


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _PLAIN[kind]
    if kind["type"] == "array":
        return pa.list_(_arrow_field("element", kind["items"]))
    if kind["type"] == "record":
        return pa.struct([_arrow_field(field["name"], field["type"]) for field in kind["fields"]])
    if str(kind.get("logicalType", "")).endswith("timestamp-millis"):
        return pa.timestamp("ms")
    return _arrow_type(kind["type"])
