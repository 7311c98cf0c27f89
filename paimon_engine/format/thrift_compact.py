"""The compact protocol of Thrift, in which Parquet keeps footers and the heads of pages.

A structure is a list of fields, each with the distance to the number of the one before, a type, and a value. Only what
is needed is decoded; values are copied as bytes.

Why no library does it (measured with pyarrow 26, on a footer of 52 kB with 20 row groups of 22 columns):

- pyarrow shows what a footer says. It can set a path in it and add row groups of other footers, for `_metadata` files.
  It writes a row group from values only, and gives no header of a page.
- Apache thrift and thriftpy2 know the fields of a definition and skip all others, which a footer that was only to be
  changed would lose: thriftpy2 made 46 kB of 52 kB, with the definition that fastparquet has. It took 13 ms
  to read and 17 ms to write them, and 7.6 µs for the header of a page. Here unknown fields stay the bytes that they
  are; moving all 440 column chunks takes 20 ms, the header of a page 4.8 µs.
- fastparquet's parser is faster (0.6 ms, 0.5 µs a header), but what it writes lacks fields of what it read (47 kB; the
  size statistics of columns), and it comes with pandas, in 0.28 s and 116 MB.
- parquet-tools shows files (`csv`, `inspect`, `show`), and changes none.

The numbers of fields are named in `parquet_fields`.

Source: the Thrift compact protocol specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

BOOLEANS: Final = (1, 2)
BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12
_VARINTS: Final = frozenset({I16, I32, I64})
_SIZES: Final = {BYTE: 1, DOUBLE: 8}
_LONG_LIST: Final = 15
_VARINT_BITS: Final = 0x7F
"""Of a byte in a number; the highest bit says that more follow."""


class NotAStructureError(ValueError):
    """Stored bytes that are not a structure of the compact protocol, or lack a required field."""


DECODE_ERRORS: Final = (LookupError, NotAStructureError, RecursionError)
"""Errors that decoding of invalid bytes raises; bytes are not checked one by one, since every page has a header."""

WantedFields = Mapping[int, "WantedFields"]
"""Numbers of fields that are structures, lists or bytes, each with what is wanted within it."""
NOTHING_WITHIN: Final[WantedFields] = MappingProxyType({})

Fields = list[tuple[int, int, bytes]]
"""Number, type and bytes of the fields of a structure."""

FieldChanges = Mapping[int, Callable[[bytes], bytes]]
"""What becomes of the values of some fields, by their numbers."""


def structure(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Bytes of a structure of these fields."""
    out, before = bytearray(), 0
    for number, kind, value in sorted(fields):
        if not 0 < number - before <= 15:
            raise NotAStructureError(f"field {number} after field {before}")
        out += bytes([(number - before) << 4 | kind]) + value
        before = number
    return bytes(out) + b"\0"


def changed(data: bytes, changes: FieldChanges) -> bytes:
    """A structure with the values of these fields changed, as far as it has them."""
    return structure(changed_fields(data, changes))


def changed_fields(data: bytes, changes: FieldChanges) -> Fields:
    """The fields of a structure, with the values of some of them changed."""
    return [(number, kind, changes.get(number, bytes)(value)) for number, kind, value in fields_of(data)]


def listed(kind: int, elements: Sequence[bytes]) -> bytes:
    """Bytes of a list of elements of one type."""
    count = len(elements)
    is_long = count >= _LONG_LIST
    head = bytes([min(count, _LONG_LIST) << 4 | kind]) + (varint(count) if is_long else b"")
    return head + b"".join(elements)


def text(value: str) -> bytes:
    """Bytes of a text."""
    data = value.encode()
    return varint(len(data)) + data


def varint(value: int) -> bytes:
    """Bytes of a number that is not negative, in a list or in front of a text."""
    out = bytearray()
    while value > _VARINT_BITS:
        out.append(value & _VARINT_BITS | _VARINT_BITS + 1)
        value >>= 7
    return bytes(out) + bytes([value])


def integer(value: int) -> bytes:
    """Bytes of an integer that is not negative. Raises: NotAStructureError for others: stored ones may be damaged."""
    if value < 0:
        raise NotAStructureError(f"{value} is negative")
    return varint(value << 1)


def number_of(data: bytes) -> int:
    """The integer of these bytes."""
    return Reader(data).integer()


def content_of(data: bytes) -> bytes:
    """The bytes in a field of bytes or text, behind their length."""
    return data[_varint(data, 0)[1] :]


def elements(data: bytes) -> list[bytes]:
    """Bytes of each element of a list."""
    return Reader(data).elements()


def fields_of(data: bytes) -> Fields:
    """The fields of the structure at the begin of the bytes."""
    return Reader(data).structure()


def value_of(data: bytes, number: int) -> bytes:
    """Bytes of a field of a structure, which has it; the fields after it are not read."""
    for found, _, value in Reader(data).fields():
        if found == number:
            return value
    raise NotAStructureError(f"field {number} is missing")


def number_in(data: bytes, number: int, default: int | None = None) -> int:
    """Integer in a field of a structure; `default` if the field is missing."""
    found = [number_of(value) for field, _, value in fields_of(data) if field == number]
    if found:
        return found[0]
    if default is None:
        raise NotAStructureError(f"field {number} is missing")
    return default


def integers_of(data: bytes, at: int, wanted: WantedFields = NOTHING_WITHIN) -> tuple[dict[int, Any], int]:
    """Each field of the structure at that offset that is an integer, by number, and the offset behind the structure.

    The fields `wanted` come too: of a structure the integers and what is wanted within it, of a list how many elements
    it has, of bytes how many there are. What is neither is passed over: one pass for the header of a page, of which a
    file has one for about each MiB of a column.
    """
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at, kind = at + 1, head & 15
        if head >> 4:
            number += head >> 4
        else:
            value, at = _varint(data, at)
            number = value >> 1 ^ -(value & 1)
        if kind in _VARINTS:
            # As `_varint`, without a call for each number.
            value = data[at]
            at += 1
            if value > _VARINT_BITS:
                value &= _VARINT_BITS
                shift = 7
                while (byte := data[at]) > _VARINT_BITS:
                    value |= (byte & _VARINT_BITS) << shift
                    shift += 7
                    at += 1
                value |= byte << shift
                at += 1
            found[number] = value >> 1 ^ -(value & 1)
        elif kind == STRUCT and number in wanted:
            found[number], at = integers_of(data, at, wanted[number])
        else:
            if number in wanted and kind in (LIST, BINARY):
                found[number] = _list_head(data, at)[0] if kind == LIST else _varint(data, at)[0]
            at = _behind(data, at, kind)
    return found, at + 1


class Reader:
    """Reads structures of the compact protocol; `at` is the offset of the next byte."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def structure(self) -> Fields:
        """Number, type and bytes of the fields of a structure."""
        return list(self.fields())

    def elements(self) -> list[bytes]:
        """Bytes of each element of a list."""
        count, kind = self.list_head()
        found = []
        for _ in range(count):
            begin = self.at
            self.skip(kind)
            found.append(self._data[begin : self.at])
        return found

    def fields(
        self, changes: Mapping[int, Callable[[Reader], bytes]] = MappingProxyType({})
    ) -> Iterator[tuple[int, int, bytes]]:
        """The fields of a structure one by one, each read when it is needed.

        Values of the fields `changes` are read by these functions, which say what they become: so that bytes which lie
        deep in structures are gone through once, not once for each level.
        """
        data, number = self._data, 0
        while head := data[self.at]:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self.integer()
            begin = self.at
            if number in changes:
                yield number, head & 15, changes[number](self)
                continue
            self.at = _behind(data, begin, head & 15)
            yield number, head & 15, data[begin : self.at]
        self.at += 1

    def list_head(self) -> tuple[int, int]:
        """Number of elements and their type."""
        count, kind, self.at = _list_head(self._data, self.at)
        return count, kind

    def skip(self, kind: int) -> None:
        """Goes behind a value."""
        self.at = _behind(self._data, self.at, kind)

    def integer(self) -> int:
        """An integer."""
        value, self.at = _varint(self._data, self.at)
        return value >> 1 ^ -(value & 1)


def _behind(data: bytes, at: int, kind: int) -> int:
    """The offset after a value. Every page has a header to be skipped, so this avoids calls."""
    if kind in _VARINTS:
        while data[at] > _VARINT_BITS:
            at += 1
        return at + 1
    if kind == STRUCT:
        while head := data[at]:
            at = _behind(data, at + 1 if head >> 4 else _behind(data, at + 1, I16), head & 15)
        return at + 1
    if kind == BINARY:
        length, at = _varint(data, at)
        at += length
    elif kind in (LIST, SET):
        count, element, at = _list_head(data, at)
        for _ in range(count):
            at = _behind(data, at, BYTE if element in BOOLEANS else element)
    elif kind in _SIZES:
        at += _SIZES[kind]
    elif kind not in BOOLEANS:
        raise NotAStructureError(f"unknown type {kind}")
    if at > len(data):
        raise IndexError("the bytes end before the structure does")
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Number of elements, their type, and the offset behind that."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 != _LONG_LIST else _varint(data, at + 1)
    return count, head & 15, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number that is not negative, and the offset behind it."""
    value = shift = 0
    while (byte := data[at]) > _VARINT_BITS:
        value |= (byte & _VARINT_BITS) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
