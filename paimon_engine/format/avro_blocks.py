"""Avro containers from untrusted sources: unpacked within limits, before a decoder loops over what they claim.

A few hundred bytes can say that they are petabytes: packed data that unpacks to nothing but zeros, arrays of items that
take no bytes at all, records inside of records without end. Metadata is read by every action, in processes that other
work depends on, so that such files must be refused at small cost.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import cramjam

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES_MAX: Final = 64 << 20
"""Of a block unpacked. Writers begin a new one after some 64 KiB, and one record hardly has a megabyte."""
FILE_BYTES_MAX: Final = 1 << 30
"""Of a metadata file unpacked; manifests have some 8 MiB unless a table's options set more."""

_XZ_MEMORY_MAX: Final = 128 << 20
"""For the window of a compressed block; the largest of the usual ones takes 65 MiB to read."""

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_CHECKSUM_BYTES: Final = 4
_VARINT_BYTES_MAX: Final = 10
KNOWN_SCHEMAS: Final = 64
KNOWN_SCHEMA_BYTES_MAX: Final = 1 << 16
"""Schemas that are kept once they were checked, and how long their texts may be."""
_SIZES: Final[Mapping[str, int]] = {"null": 0, "float": 4, "double": 8}


class Container(NamedTuple):
    """An Avro container taken apart: the text of its schema, its header, and blocks without compression.

    A block is the number of records that it claims, and its bytes; `packed` are the bytes of each as the file has them.
    """

    schema: bytes
    header: Mapping[str, bytes]
    sync: bytes
    blocks: Sequence[tuple[int, bytes]]
    packed: Sequence[bytes]

    @property
    def codec(self) -> str:
        """The name of the codec of its blocks, as Avro has it."""
        return self.header.get("avro.codec", b"null").decode()


def container(data: bytes) -> Container:
    """The container in these bytes.

    Raises: ValueError, among others, if it is none, claims too much, or has a schema whose values take no bytes.
    """
    source = io.BytesIO(data)
    meta = _meta(source)
    checked_schema(meta["avro.schema"])
    unpack = _UNPACK[meta.get("avro.codec", b"null").decode()]
    sync = _take(source, _SYNC_BYTES)
    blocks: list[tuple[int, bytes]] = []
    all_packed: list[bytes] = []
    size_bytes = 0
    at = source.tell()
    while at < len(data):
        count, at = _number(data, at)
        packed_bytes, at = _number(data, at)
        end = at + packed_bytes
        if not at <= end <= len(data) - _SYNC_BYTES:
            raise ValueError(f"it ends {len(data) - at} bytes on, where {packed_bytes} and a marker should follow")
        packed = data[at:end]
        block = unpack(packed)
        size_bytes += len(block)
        if size_bytes > FILE_BYTES_MAX:
            raise ValueError(f"it unpacks to more than {FILE_BYTES_MAX} bytes")
        at = end + _SYNC_BYTES
        if data[end:at] != sync:
            raise ValueError("a block does not end where it should")
        blocks.append((count, block))
        all_packed.append(packed)
    return Container(meta["avro.schema"], meta, sync, blocks, all_packed)


def unpacked(codec: str, packed: bytes) -> bytes:
    """The bytes of a block that a codec has packed. Raises: ValueError, among others; KeyError for unknown codecs."""
    return _UNPACK[codec](packed)


def schema_text(data: bytes) -> bytes:
    """The text of the schema of a container, of which no more is looked at. Raises: ValueError, KeyError."""
    return _meta(io.BytesIO(data))["avro.schema"]


def checked_schema(text: bytes) -> Any:
    """The schema of that text, not to be changed. Raises: as `check_schema`, and ValueError for what is no JSON.

    Files of one writer have the same, and of most the schema takes longer than the records.
    """
    return (_known_schema if len(text) <= KNOWN_SCHEMA_BYTES_MAX else _known_schema.__wrapped__)(text)


@lru_cache(KNOWN_SCHEMAS)
def _known_schema(text: bytes) -> Any:
    schema = json.loads(text)
    check_schema(schema)
    return schema


def check_schema(schema: Any) -> None:
    """Raises ValueError if values of the schema can be endless: items or records without bytes, or types in themselves.

    A decoder would loop as often as the file says.
    """
    if _least_bytes(schema, {}, "") == 0:
        raise ValueError("its records take no bytes")


def _least_bytes(schema: Any, known: dict[str, int | None], namespace: str) -> int:
    """Bytes that a value takes at least; `known` are the named types so far, None while inside of them."""
    if isinstance(schema, list):
        for branch in schema:
            _least_bytes(branch, known, namespace)
        return 1
    if isinstance(schema, str):
        found = known.get(schema, known.get(f"{namespace}.{schema}", _SIZES.get(schema, 1)))
        if found is None:
            raise ValueError(f"type {schema!r} is part of itself")
        return found
    kind = schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        space = schema.get("namespace", namespace)
        name = schema["name"] if "." in schema["name"] else f"{space}.{schema['name']}"
        known[name] = known[schema["name"]] = None
        if kind == "fixed":
            size = int(schema["size"])
        elif kind == "enum":
            size = 1
        else:
            size = sum(_least_bytes(field["type"], known, space) for field in schema["fields"])
        known[name] = known[schema["name"]] = size
        return size
    if kind in ("array", "map"):
        if _least_bytes(schema["items" if kind == "array" else "values"], known, namespace) == 0 and kind == "array":
            raise ValueError("it has lists whose items take no bytes")
        return 1
    return _least_bytes(kind, known, namespace)


# ── the container ───────────────────────────────────────────────────────────────────────────────


def _meta(source: io.BytesIO) -> dict[str, bytes]:
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("no Avro container")
    return _header(source)


def _header(source: io.BytesIO) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    for _ in _items(source):
        key = _take(source, _long(source)).decode()
        meta[key] = _take(source, _long(source))
    return meta


def _items(source: io.BytesIO) -> Iterator[None]:
    """As often as a map has entries; it comes in blocks, the last of which is empty."""
    while count := _long(source):
        if count < 0:
            # Then the bytes of the block follow, for those who want to skip it.
            count = -count
            _long(source)
        if count > len(source.getbuffer()):
            raise ValueError(f"its header claims {count} entries")
        for _ in range(count):
            yield


def _take(source: io.BytesIO, size_bytes: int) -> bytes:
    left = len(source.getbuffer()) - source.tell()
    if not 0 <= size_bytes <= left:
        raise ValueError(f"it ends {left} bytes on, where {size_bytes} should follow")
    return source.read(size_bytes)


def _long(source: io.BytesIO) -> int:
    value, end = _number(source.getbuffer(), source.tell())
    source.seek(end)
    return value


def _number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at this position, and the position behind it."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + index + 1
    left = len(data) - at
    raise ValueError("a number has too many bytes" if left >= _VARINT_BYTES_MAX else "it ends within a number")


# ── codecs ──────────────────────────────────────────────────────────────────────────────────────


def _too_large(packed: bytes) -> ValueError:
    return ValueError(f"a block of {len(packed)} bytes unpacks to more than {BLOCK_BYTES_MAX}")


def _from_zstd(packed: bytes) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    while packed:
        unpacker = zstd.ZstdDecompressor()
        part = unpacker.decompress(packed, BLOCK_BYTES_MAX - size_bytes + 1)
        size_bytes += len(part)
        if size_bytes > BLOCK_BYTES_MAX:
            raise _too_large(packed)
        if not unpacker.eof:
            raise ValueError("a block ends too early")
        parts.append(part)
        packed = unpacker.unused_data
    return b"".join(parts)


def _from_snappy(packed: bytes) -> bytes:
    body = packed[:-_CHECKSUM_BYTES]
    size_bytes = 0
    for index, byte in enumerate(body[:5]):
        size_bytes |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if size_bytes > BLOCK_BYTES_MAX:
        raise _too_large(packed)
    data = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(data) != int.from_bytes(packed[-_CHECKSUM_BYTES:], "big"):
        raise ValueError("the checksum of a block is wrong")
    return data


def _plain(packed: bytes) -> bytes:
    if len(packed) > BLOCK_BYTES_MAX:
        raise _too_large(packed)
    return packed


def _from_stream(unpacker: bz2.BZ2Decompressor | lzma.LZMADecompressor | zlib._Decompress, packed: bytes) -> bytes:
    data = unpacker.decompress(packed, BLOCK_BYTES_MAX + 1)
    if len(data) > BLOCK_BYTES_MAX:
        raise _too_large(packed)
    if not unpacker.eof:
        raise ValueError("a block ends too early")
    return data


_UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": _plain,
    "zstandard": _from_zstd,
    "deflate": lambda packed: _from_stream(zlib.decompressobj(-zlib.MAX_WBITS), packed),
    "snappy": _from_snappy,
    "bzip2": lambda packed: _from_stream(bz2.BZ2Decompressor(), packed),
    "xz": lambda packed: _from_stream(lzma.LZMADecompressor(memlimit=_XZ_MEMORY_MAX), packed),
}
