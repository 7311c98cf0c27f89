"""The types of an ORC file, checked before Arrow makes its schema of them.

The C++ reader believes what the footer says of types: for some of what cannot be, such as a decimal of 200 digits, it
ends the process. So the tree of types is looked at first, and the size of chunks, for which it allots memory.

Source: the ORC specification, version 1, "File Tail" and "Type Information".
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

import pyarrow.orc as po

from paimon_engine.errors import unreadable
from paimon_engine.format.orc_message import (
    TAIL_BLOCK_BYTES,
    TAIL_FOOTER_BYTES,
    WRONG,
    fields,
    messages,
    number_of,
    plain,
    varint,
)

_TAIL_BYTES: Final = 16 << 10
"""To be read first: most footers are in it, and every postscript, whose length is in a byte."""
_COMPRESSION = 2
_BLOCK_BYTES_MAX: Final = 1 << 26
"""Of a chunk, whose stored length has 23 bits; the reader allots as many bytes as are said."""
_CODECS: Final = {0: "UNCOMPRESSED", 1: "ZLIB", 2: "SNAPPY", 4: "LZ4", 5: "ZSTD"}
_TYPES: Final = 4
_KIND, _SUBTYPES, _NAMES, _PRECISION, _SCALE = 1, 2, 3, 5, 6
_LIST, _MAP, _STRUCT, _UNION, _DECIMAL = 10, 11, 12, 13, 14
_KIND_MAX: Final = 18
_PARTS: Final[Mapping[int, int]] = {_LIST: 1, _MAP: 2}
_PRECISION_MAX: Final = 38
_DEPTH_MAX: Final = 500
"""Of types within each other: the reader calls itself for each."""


class _StoredType(NamedTuple):
    """A type: numbers of those within it, how many of these have names, and digits of a decimal."""

    kind: int
    parts: Sequence[int]
    names: int
    precision: int
    scale: int


def open_orc(source: BinaryIO, path: str) -> po.ORCFile:
    """The file, of which the types are checked. Raises: CorruptTableError; one of `orc_message.WRONG`; OSError."""
    check_types(source, path)
    source.seek(0)
    return po.ORCFile(source)


def check_types(source: BinaryIO, path: str) -> None:
    """Checks the types in a file's footer, unless they are in a codec that is not known here.

    Raises: CorruptTableError.
    """
    try:
        types = _types(source)
        if types is not None:
            _check(types)
    except (KeyError, *WRONG) as error:
        raise unreadable(path, "an ORC file", error) from error


def _types(source: BinaryIO) -> list[_StoredType] | None:
    """The types in the footer, in its order; None if its codec is not known here."""
    end = source.seek(0, io.SEEK_END)
    source.seek(max(0, end - _TAIL_BYTES))
    tail = source.read(_TAIL_BYTES)
    if not tail or len(tail) <= tail[-1]:
        raise ValueError("it ends before its postscript")
    postscript = tail[len(tail) - 1 - tail[-1] : -1]
    size = number_of(postscript, TAIL_FOOTER_BYTES)
    said = dict(fields(postscript))
    codec = _CODECS.get(said.get(_COMPRESSION, 0))
    if said.get(TAIL_BLOCK_BYTES, 0) > _BLOCK_BYTES_MAX:
        raise ValueError(f"its chunks unpack to {said[TAIL_BLOCK_BYTES]} bytes each")
    if codec is None:
        return None
    behind = 1 + len(postscript)
    if size + behind > end:
        raise ValueError("its footer begins in front of it")
    if size + behind > len(tail):
        source.seek(end - behind - size)
        tail = source.read(size + behind)
    footer = tail[len(tail) - behind - size : len(tail) - behind]
    return [_type(message) for message in messages(plain(footer, codec), _TYPES)]


def _type(message: bytes) -> _StoredType:
    found: dict[int, int] = {}
    parts: list[int] = []
    names = 0
    for number, value in fields(message):
        if number == _SUBTYPES:
            parts += [value] if isinstance(value, int) else _packed(value)
        elif number == _NAMES:
            names += 1
        elif isinstance(value, int):
            found[number] = value
    return _StoredType(found.get(_KIND, 0), parts, names, found.get(_PRECISION, 0), found.get(_SCALE, 0))


def _packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def _check(types: Sequence[_StoredType]) -> None:
    """Checks that they are one tree, a type before those within it. Raises: ValueError."""
    expected = 0
    # Types that are to come, the next one last, each with its depth.
    waiting = [(0, 0)]
    while waiting:
        number, depth = waiting.pop()
        if number != expected or number >= len(types) or depth > _DEPTH_MAX:
            raise ValueError(f"type {number} is where type {expected} of {len(types)} should be, {depth} levels deep")
        expected += 1
        one = types[number]
        if one.kind > _KIND_MAX:
            raise ValueError(f"type {number} is of the unknown kind {one.kind}")
        wanted = _PARTS.get(one.kind, len(one.parts) if one.kind in (_STRUCT, _UNION) else 0)
        is_short = (one.kind == _STRUCT and one.names != wanted) or (one.kind == _UNION and not one.parts)
        if len(one.parts) != wanted or is_short:
            raise ValueError(f"type {number} of kind {one.kind} has {len(one.parts)} parts and {one.names} names")
        # Files of old Hive have decimals without a precision.
        if one.kind == _DECIMAL and one.precision and not one.scale <= one.precision <= _PRECISION_MAX:
            raise ValueError(f"type {number} is a decimal of {one.precision} digits, {one.scale} after the point")
        waiting += [(part, depth + 1) for part in reversed(one.parts)]
    if types[0].kind != _STRUCT:
        raise ValueError("its rows are no structures")
