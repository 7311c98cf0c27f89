"""Small files that claim to be large are refused before anything believes them."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from backports import zstd

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.avro import read_records, write_records
from paimon_engine.format.avro_rows import read_batches
from paimon_engine.format.stored import parse_object
from paimon_engine.meta.schema import parse_schema
from paimon_engine.meta.snapshot import parse_snapshot
from tests.hostile.sandbox import SCHEMA

HUGE = 1 << 40


def number(value: int) -> bytes:
    value <<= 1
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def container(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    header = b"".join(number(len(part)) + part for pair in meta.items() for part in pair)
    sync = b"s" * 16
    return b"Obj\x01" + number(2) + header + b"\0" + sync + number(count) + number(len(block)) + block + sync


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def deflated(size: int) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(bytes(size)) + packer.flush()


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "zeros in zstd": (
        lambda: container(record(("a", "bytes")), 1, zstd.compress(bytes(65 << 20)), "zstandard"),
        "unpacks to more than",
    ),
    "frames of zeros in zstd": (
        lambda: container(record(("a", "bytes")), 1, zstd.compress(bytes(16 << 20)) * 256, "zstandard"),
        "unpacks to more than",
    ),
    "zeros in deflate": (
        lambda: container(record(("a", "bytes")), 1, deflated(65 << 20), "deflate"),
        "unpacks to more than",
    ),
    "a length in snappy": (
        lambda: container(record(("a", "bytes")), 1, b"\xff\xff\xff\xff\x0f" + b"x" * 10, "snappy"),
        "unpacks to more than",
    ),
    "a list of nulls": (
        lambda: container(record(("a", {"type": "array", "items": "null"})), 1, number(HUGE) + b"\0"),
        "lists whose items take no bytes",
    ),
    "a list of empty records": (
        lambda: container(
            record(("a", {"type": "array", "items": {"type": "record", "name": "e", "fields": []}})), 1, number(HUGE)
        ),
        "lists whose items take no bytes",
    ),
    "empty records": (lambda: container(record(), HUGE, b""), "records take no bytes"),
    "empty records in bytes": (
        lambda: container(record(), 60 << 20, zstd.compress(bytes(60 << 20)), "zstandard"),
        "records take no bytes",
    ),
    "more records than bytes": (lambda: container(record(("a", "int")), HUGE, b"\0"), "records"),
    "a record in itself": (
        lambda: container(record(("a", ["null", "r"])), 1, b"\x02" * 1_000_000),
        "part of itself",
    ),
    "a text longer than the file": (
        lambda: container(record(("a", "string")), 1, number(HUGE) + b"x"),
        "Expected|read",
    ),
    "a header of entries": (lambda: b"Obj\x01" + number(HUGE), "entries|ends"),
    "a block longer than the file": (
        lambda: container(record(("a", "int")), 1, b"\0")[:-17] + number(HUGE),
        "should follow|ends|end",
    ),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_metadata_file_that_claims_too_much_is_refused(what: str):
    make, message = BOMBS[what]

    with pytest.raises(CorruptTableError, match=message):
        read_records(make(), "manifest-1")


@pytest.mark.parametrize("what", ["a list of nulls", "empty records", "a record in itself", "more records than bytes"])
def test_a_data_file_that_claims_too_much_is_refused(what: str):
    with pytest.raises(CorruptTableError):
        list(read_batches(io.BytesIO(BOMBS[what][0]()), SCHEMA, path="data-1.avro"))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "null"])
def test_valid_containers_are_read_with_every_codec(codec: str):
    schema = record(("a", "string"), ("b", {"type": "array", "items": ["null", "long"]}))
    records = [{"a": "x" * size, "b": [None, size]} for size in range(3_000)]
    data = write_records(schema, records, codec)

    assert read_records(data, "p") == records


@pytest.mark.parametrize("text", [b"[" * 10_000_000, b'{"a":' * 5_000_000, b'{"id":' + b"9" * 1_000_000 + b"}"])
def test_json_without_end_is_refused(text: bytes):
    for decode in (parse_object, parse_snapshot, parse_schema):
        with pytest.raises(CorruptTableError):
            decode(text, "snapshot-1")


def test_types_nested_without_end_are_refused():
    text = '{"type":"ARRAY","element":' * 5_000 + '"INT"' + "}" * 5_000
    schema = '{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":' + text + '}],"highestFieldId":0,"options":{}}'

    with pytest.raises(CorruptTableError):
        parse_schema(schema, "schema-0")
