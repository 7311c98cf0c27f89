"""Metadata records: Avro container bytes ↔ dictionaries, read from ORC and Parquet too.

Manifests, manifest lists and index manifests are Avro object containers; releases up to 2.0 had an option to
write them as ORC or Parquet, so the reader looks at the first bytes of the file.
Fields are resolved by name only: writers differ in record names, namespaces and field order.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import PaimonError, damaged, unreadable
from paimon_engine.format.avro_blocks import (
    KNOWN_SCHEMA_BYTES_MAX,
    KNOWN_SCHEMAS,
    checked_schema,
    container,
    schema_text,
)
from paimon_engine.format.codecs import manifest_codec
from paimon_engine.format.orc_types import open_orc

_AVRO_MAGIC = b"Obj\x01"


def read_records(data: bytes, path: str) -> list[dict[str, Any]]:
    """Records of a metadata file, in order; `path` serves messages.

    Raises: CorruptTableError if the bytes are not a valid file.
    """
    try:
        if data.startswith(_AVRO_MAGIC):
            return _avro_records(data)
        if data.startswith(b"ORC"):
            return list(open_orc(io.BytesIO(data), path).read().to_pylist())
        if data.startswith(b"PAR1"):
            return list(pq.read_table(pa.BufferReader(data)).to_pylist())
    except PaimonError:
        raise
    except MemoryError as error:
        raise unreadable(path, "a metadata file", error) from error
    except Exception as error:
        raise damaged(path, f"cannot be read as a metadata file: {error!r}") from error
    raise damaged(path, f"expected an Avro, ORC or Parquet file, found {len(data)} bytes beginning {data[:8]!r}")


def _avro_records(data: bytes) -> list[dict[str, Any]]:
    found = container(data)
    schema = _parsed(found.schema)
    records: list[dict[str, Any]] = []
    for count, block in found.blocks:
        check_count(count, len(block))
        source = io.BytesIO(block)
        records += [fastavro.schemaless_reader(source, schema) for _ in range(count)]
    return records


def _parsed(text: bytes) -> Any:
    """The schema as fastavro takes it; parsing takes longer than reading a few records."""
    checked_schema(text)
    return (_known_parsed if len(text) <= KNOWN_SCHEMA_BYTES_MAX else _known_parsed.__wrapped__)(text)


@lru_cache(KNOWN_SCHEMAS)
def _known_parsed(text: bytes) -> Any:
    return fastavro.parse_schema(json.loads(text))


def check_count(count: int, size_bytes: int) -> None:
    """Raises ValueError if a block claims more records than it has bytes: the loop over them would not end."""
    if not 0 <= count <= size_bytes:
        raise ValueError(f"a block of {size_bytes} bytes claims to contain {count} records")


def record_fields(data: bytes, path: str) -> list[dict[str, Any]]:
    """Fields of the records of a metadata file with their Avro types, which ORC and Parquet files get as well.

    Raises: CorruptTableError if the bytes are not a valid file.
    """
    try:
        if data.startswith(_AVRO_MAGIC):
            text = schema_text(data)
            # What is JSON need not be a schema: parsing finds out, once for files with the same.
            _parsed(text)
            return list(_record_schema(checked_schema(text))["fields"])
        if data.startswith(b"ORC"):
            return _typed(open_orc(io.BytesIO(data), path).schema)
        return _typed(pq.read_schema(pa.BufferReader(data)))
    except PaimonError:
        raise
    except MemoryError as error:
        raise unreadable(path, "a metadata file", error) from error
    except Exception as error:
        raise damaged(path, f"cannot be read as a metadata file: {error!r}") from error


def _record_schema(schema: Any) -> Mapping[str, Any]:
    """The schema of the records; the Rust client writes them as a union with null, of which no record makes use."""
    if isinstance(schema, list):
        (schema,) = (kind for kind in schema if kind != "null")
    found: Mapping[str, Any] = schema
    return found


_AVRO_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}


def _typed(fields: Iterable[pa.Field]) -> list[dict[str, Any]]:
    return [{"name": field.name, "type": _avro_type(field.name, field)} for field in fields]


def _avro_type(name: str, field: pa.Field) -> Any:
    if pa.types.is_struct(field.type):
        # Not a union: ORC does not say what may be null.
        return {"type": "record", "name": name, "fields": _typed(field.type)}
    kind: Any
    if pa.types.is_list(field.type):
        kind = {"type": "array", "items": _avro_type(f"{name}_element", field.type.value_field)}
    else:
        kind = _AVRO_TYPES.get(field.type, "unknown")
    return ["null", kind] if field.nullable else kind


def write_records(
    schema: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    compression: str = "zstd",
    *,
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Bytes of an Avro object container file; `notes` go into its header, where readers pass over what they ignore.

    Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    buffer = io.BytesIO()
    fastavro.writer(buffer, dict(schema), records, codec=manifest_codec(compression), metadata=dict(notes or {}))
    return buffer.getvalue()


def read_notes(data: bytes) -> dict[str, str]:
    """The header of a metadata file without schema and codec; empty if it is not an Avro file."""
    if not data.startswith(_AVRO_MAGIC):
        return {}
    try:
        found = fastavro.reader(io.BytesIO(data)).metadata
    except Exception:  # noqa: BLE001 - all that a decoder raises for an incomplete file
        return {}
    return {key: text for key, text in found.items() if isinstance(text, str) and not key.startswith("avro.")}


def write_record_files(
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    compression: str,
    *,
    target_bytes: int,
    step: int,
) -> Iterator[tuple[bytes, int]]:
    """Bytes of as many files as the records need, each with its number of records; none without records.

    After each `step` records a file that has reached `target_bytes` ends.
    Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    parsed, codec = fastavro.parse_schema(dict(schema)), manifest_codec(compression)
    left = iter(records)
    while first := list(islice(left, step)):
        buffer, count = io.BytesIO(), 0
        writer = fastavro.write.Writer(buffer, parsed, codec=codec)
        chunk = first
        while chunk:
            for record in chunk:
                writer.write(record)
            count += len(chunk)
            chunk = list(islice(left, step)) if buffer.tell() < target_bytes else []
        writer.flush()
        yield buffer.getvalue(), count
