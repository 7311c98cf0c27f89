"""The container of a data file's indexes. All numbers are big-endian.

    magic    int64 = 1493475289347502
    version  int32 = 1
    head     int32   bytes from the magic number to the body
    columns  int32
      name     uint16 length and bytes     a column, or `column[key]` for the values of one key of a map
      indexes  int32
        type     uint16 length and bytes
        start    int32   from the container's begin; −1 for an index of no value
        length   int32
    unused   int32 length and bytes        for later releases
    body

Source: `FileIndexFormat` of the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import BinaryIO, Final

from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.file_index.cursor import Cursor
from paimon_engine.format.file_index.hashing import java_map_order

MAGIC: Final = 1493475289347502
VERSION: Final = 1
_FIXED_BYTES: Final = 16
_NAME_BYTES_MAX: Final = 65_535
_NO_VALUE: Final = -1

ByteRange = tuple[int, int]
"""Offset from the container's begin, and length, of an index."""

Indexes = Mapping[str, Mapping[str, bytes | None]]
"""Column → index type → bytes; None for an index without values."""


def encode_container(indexes: Indexes) -> bytes:
    """Bytes of a container, in the order in which Java writes its maps.

    Raises: InvalidArgumentError for a column name that is too long.
    """
    ordered = [
        (column, kind, indexes[column][kind])
        for column in java_map_order(list(indexes))
        for kind in java_map_order(list(indexes[column]))
    ]
    names = {name: _encoded_name(name) for column, kind, _ in ordered for name in (column, kind)}
    head_bytes = _FIXED_BYTES + 8 + sum(len(names[column]) + 4 for column in indexes)
    head_bytes += sum(len(names[kind]) + 8 for _, kind, _ in ordered)
    head = bytearray(struct.pack(">qiii", MAGIC, VERSION, head_bytes, len(indexes)))
    body = bytearray()
    before = None
    for column, kind, data in ordered:
        if column != before:
            head += names[column] + struct.pack(">i", len(indexes[column]))
            before = column
        start = _NO_VALUE if data is None else head_bytes + len(body)
        head += names[kind] + struct.pack(">ii", start, len(data or b""))
        body += data or b""
    head += struct.pack(">i", 0)
    assert len(head) == head_bytes
    return bytes(head + body)


def read_head(stream: BinaryIO, path: str) -> dict[str, dict[str, ByteRange | None]]:
    """Where the indexes are in the container that `stream` begins with: column → index type → offset and length.

    Raises: CorruptTableError naming file and offset.
    """
    fixed = stream.read(_FIXED_BYTES)
    cursor = Cursor(fixed, f"{path}: file index")
    magic = cursor.int64()
    if magic != MAGIC:
        raise cursor.corrupt(f"the magic number is {magic}, not {MAGIC}", at=0)
    version = cursor.int32()
    if version != VERSION:
        raise cursor.corrupt(f"version {VERSION} expected, found {version}", at=8)
    head_bytes = cursor.int32()
    if head_bytes < _FIXED_BYTES:
        raise cursor.corrupt(f"a head of {head_bytes} bytes is too short", at=12)
    cursor = Cursor(fixed + stream.read(head_bytes - _FIXED_BYTES), f"{path}: file index", _FIXED_BYTES)
    found: dict[str, dict[str, ByteRange | None]] = {}
    for _ in range(cursor.count()):
        column = _name(cursor)
        ranges = found.setdefault(column, {})
        for _ in range(cursor.count()):
            kind = _name(cursor)
            ranges[kind] = _byte_range(cursor, head_bytes)
    cursor.skip(cursor.count())
    if cursor.offset != head_bytes:
        raise cursor.corrupt(f"the head ends here, it should end at {head_bytes}")
    return found


def _byte_range(cursor: Cursor, head_bytes: int) -> ByteRange | None:
    start, length = cursor.int32(), cursor.int32()
    if start == _NO_VALUE:
        return None
    if start < head_bytes or length < 0:
        raise cursor.corrupt(f"an index of {length} bytes at {start} is not after the head", at=cursor.offset - 8)
    return start, length


def read_index(stream: BinaryIO, byte_range: ByteRange, path: str) -> bytes:
    """Bytes of one index. Raises: CorruptTableError if the container ends before it does."""
    start, length = byte_range
    stream.seek(start)
    data = stream.read(length)
    if len(data) < length:
        raise CorruptTableError(f"{path}: file index, offset {start}: {length} bytes expected, {len(data)} are left")
    return data


def _encoded_name(name: str) -> bytes:
    """Java's modified UTF-8: zero as two bytes, characters beyond the first 65,536 as two surrogates."""
    units = name.encode("utf-16-be", "surrogatepass")
    text = "".join(chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    encoded = text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(encoded) > _NAME_BYTES_MAX:
        raise InvalidArgumentError(f"column {name[:40]!r}… cannot be indexed: its name has {len(encoded)} bytes")
    return struct.pack(">H", len(encoded)) + encoded


def _name(cursor: Cursor) -> str:
    encoded = cursor.take(cursor.uint16())
    try:
        text = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise cursor.corrupt(f"{encoded!r} is not a name") from error
