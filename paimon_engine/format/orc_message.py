"""The protocol buffers of an ORC file: what footers are made of, in chunks of the file's codec.

A chunk has three bytes in front: its length times two, plus one where it is stored plain.

Source: the ORC specification, version 1, "File Tail" and "Compression".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_CHUNK_HEAD_BYTES: Final = 3
_CHUNK_BYTES_MAX: Final = 1 << 24
"""More than any writer puts into a chunk, whose length has 23 bits."""

# Field numbers of the messages.
FOOTER_STRIPE_BYTES, FOOTER_STRIPES, FOOTER_ROWS, FOOTER_STATISTICS, FOOTER_INDEX_STRIDE = 2, 3, 6, 7, 8
STRIPE_OFFSET, STRIPE_INDEX_BYTES, STRIPE_DATA_BYTES, STRIPE_FOOTER_BYTES, STRIPE_ROWS = 1, 2, 3, 4, 5
METADATA_STRIPES, STRIPE_COLUMNS = 1, 1
VALUE_COUNT = 1
INTEGERS, DOUBLES, STRINGS, DECIMALS, DATES, TIMESTAMPS = 2, 3, 4, 6, 7, 9
MIN, MAX, MIN_UTC, MAX_UTC = 1, 2, 3, 4
STREAMS, STREAM_KIND, STREAM_COLUMN, STREAM_BYTES = 1, 1, 2, 3
TAIL_FOOTER_BYTES, TAIL_BLOCK_BYTES, TAIL_METADATA_BYTES = 1, 3, 5


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: varints as numbers, all else as bytes.

    Raises: ValueError, IndexError where the bytes are damaged.
    """
    offset = 0
    while offset < len(message):
        key, offset = varint(message, offset)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, offset = varint(message, offset)
            yield number, value
            continue
        if kind == _BYTES:
            length, offset = varint(message, offset)
        elif kind in (_FIXED_64, _FIXED_32):
            length = 8 if kind == _FIXED_64 else 4
        else:
            raise ValueError(f"field {number} is of the unknown kind {kind}")
        if offset + length > len(message):
            raise ValueError(f"field {number} ends behind its message")
        yield number, message[offset : offset + length]
        offset += length


def varint(message: bytes, offset: int) -> tuple[int, int]:
    """The number that begins at an offset, and where it ends. Raises: IndexError."""
    value, shift = 0, 0
    while True:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def signed(number: int) -> int:
    """A number from its zigzag form."""
    return (number >> 1) ^ -(number & 1)


def zigzag(number: int) -> int:
    """The form that `signed` decodes."""
    return number << 1 if number >= 0 else ~(number << 1)


def messages(message: bytes, number: int) -> Iterator[bytes]:
    """The parts of a message that are messages of that number."""
    return (value for found, value in fields(message) if found == number)


def number_of(message: bytes, number: int) -> int:
    """The number in a field of a message. Raises: ValueError if it is not there."""
    for found, value in fields(message):
        if found == number:
            return int(value)
    raise ValueError(f"a message lacks its field {number}")


def message_of(parts: Iterable[tuple[int, int | bytes]]) -> bytes:
    """The message with these fields, which are numbers or bytes."""
    out = bytearray()
    for number, value in parts:
        if isinstance(value, int):
            out += _varint_of(number << 3 | _VARINT) + _varint_of(value)
        else:
            out += _varint_of(number << 3 | _BYTES) + _varint_of(len(value)) + value
    return bytes(out)


def _varint_of(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


WRONG: Final = (
    ValueError,
    IndexError,
    TypeError,
    ArithmeticError,
    struct.error,
    zlib.error,
    pa.ArrowException,
    MemoryError,
)
"""What taking apart damaged messages raises."""


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────


def plain(data: bytes, codec: str) -> bytes:
    """What is in some chunks. Raises: KeyError for an unknown codec; zlib.error, pyarrow.ArrowException, ValueError."""
    if codec == _NO_CODEC:
        return data
    try:
        return b"".join(_chunks(data, codec))
    except OSError as error:
        # How Arrow calls what is wrong with the bytes, not with reading them.
        raise ValueError(str(error)) from error


def _chunks(data: bytes, codec: str) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        head = int.from_bytes(data[offset : offset + _CHUNK_HEAD_BYTES], "little")
        offset += _CHUNK_HEAD_BYTES
        chunk = data[offset : offset + (head >> 1)]
        offset += head >> 1
        yield chunk if head & 1 else _DECODERS[codec](chunk)


def chunked(data: bytes, codec: str, block_bytes: int) -> bytes:
    """Bytes in chunks of at most `block_bytes` each; what the codec makes no smaller is stored plain."""
    if codec == _NO_CODEC:
        return data
    out = bytearray()
    for begin in range(0, len(data), block_bytes):
        block = data[begin : begin + block_bytes]
        chunk = _ENCODERS[codec](block)
        is_plain = len(chunk) >= len(block)
        chunk = block if is_plain else chunk
        out += (len(chunk) << 1 | is_plain).to_bytes(_CHUNK_HEAD_BYTES, "little") + chunk
    return bytes(out)


def _inflate(chunk: bytes) -> bytes:
    return zlib.decompress(chunk, wbits=-zlib.MAX_WBITS)


def _deflate(block: bytes) -> bytes:
    return zlib.compress(block, wbits=-zlib.MAX_WBITS)


def _unsnap(chunk: bytes) -> bytes:
    size, _ = varint(chunk, 0)
    if size > _CHUNK_BYTES_MAX:
        raise ValueError(f"a chunk claims {size} bytes")
    return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=size))


def _unzstd(chunk: bytes) -> bytes:
    return _streamed(chunk, "zstd")


_LZ4_FRAME_HEAD: Final = bytes.fromhex("04224d18 6070 73")
"""Of a frame without checksums, whose blocks of at most 4 MB are independent."""


def _unlz4(chunk: bytes) -> bytes:
    # A block does not say how much is in it; as the only one of a frame it need not.
    frame = _LZ4_FRAME_HEAD + len(chunk).to_bytes(4, "little") + chunk + bytes(4)
    return _streamed(frame, "lz4")


def _streamed(data: bytes, codec: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        return bytes(stream.read())


def _encoder(name: str) -> Callable[[bytes], bytes]:
    return lambda block: bytes(pa.Codec(name).compress(block))


_NO_CODEC: Final = "UNCOMPRESSED"
_DECODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "ZLIB": _inflate,
    "SNAPPY": _unsnap,
    "ZSTD": _unzstd,
    "LZ4": _unlz4,
}
_ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "ZLIB": _deflate,
    "SNAPPY": _encoder("snappy"),
    "ZSTD": _encoder("zstd"),
    "LZ4": _encoder("lz4_raw"),
}
CODECS: Final = frozenset({_NO_CODEC, *_DECODERS})
