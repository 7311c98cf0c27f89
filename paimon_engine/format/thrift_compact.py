"""The compact protocol of Thrift, in which Parquet keeps footers and the heads of pages.

A structure is a list of fields, each with the distance to the number of the one before, a type, and a value. Only what
is asked for is taken apart; values travel as the bytes that they are.

Source: the Thrift compact protocol specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

BOOLEANS: Final = (1, 2)
BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12
_VARINTS: Final = frozenset({I16, I32, I64})
_LONG_LIST: Final = 15
_VARINT_BITS: Final = 0x7F
"""Of a byte in a number; the bit above says that more follow."""

Fields = list[tuple[int, int, bytes]]
"""Number, type and bytes of the fields of a structure."""


def structure(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Bytes of a structure of these fields."""
    out, before = bytearray(), 0
    for number, kind, value in sorted(fields):
        assert 0 < number - before <= 15, number
        out += bytes([(number - before) << 4 | kind]) + value
        before = number
    return bytes(out) + b"\0"


def changed(data: bytes, changes: Mapping[int, Callable[[bytes], bytes]]) -> bytes:
    """A structure with the values of these fields changed, as far as it has them."""
    return structure((number, kind, changes.get(number, bytes)(value)) for number, kind, value in fields_of(data))


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
    """Bytes of a whole number that is not negative."""
    return varint(value << 1)


def number_of(data: bytes) -> int:
    """The whole number of these bytes."""
    return Reader(data).integer()


def elements(data: bytes) -> list[bytes]:
    """Bytes of each element of a list."""
    reader = Reader(data)
    count, kind = reader.list_head()
    found = []
    for _ in range(count):
        begin = reader.at
        reader.skip(kind)
        found.append(data[begin : reader.at])
    return found


def fields_of(data: bytes) -> Fields:
    """The fields of the structure at the begin of the bytes."""
    return Reader(data).structure()


def value_of(data: bytes, number: int) -> bytes:
    """Bytes of a field of a structure, which has it."""
    return next(value for found, _, value in fields_of(data) if found == number)


def number_in(data: bytes, number: int, default: int | None = None) -> int:
    """Whole number in a field of a structure, which has it unless there is a default."""
    found = [number_of(value) for place, _, value in fields_of(data) if place == number]
    assert found or default is not None, number
    return found[0] if found else int(default or 0)


class Reader:
    """Reads structures of the compact protocol; `at` is the place of the next byte."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; the value is to be read before the next one."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def structure(self) -> Fields:
        """Number, type and bytes of the fields of a structure."""
        found = []
        for number, kind in self.fields():
            begin = self.at
            self.skip(kind)
            found.append((number, kind, self._data[begin : self.at]))
        return found

    def list_head(self) -> tuple[int, int]:
        """Number of elements and their type."""
        head = self._byte()
        return (head >> 4 if head >> 4 != _LONG_LIST else self._varint()), head & 15

    def skip(self, kind: int) -> None:
        """Goes behind a value. Every page has a head to be skipped, so that calls are spared here."""
        data = self._data
        if self.at >= len(data):
            raise IndexError("the bytes end before the structure does")
        if kind in _VARINTS:
            while data[self.at] > _VARINT_BITS:
                self.at += 1
            self.at += 1
        elif kind == BINARY:
            length = self._varint()
            self.at += length
        elif kind == STRUCT:
            while head := data[self.at]:
                self.at += 1
                if not head >> 4:
                    self.skip(I16)
                self.skip(head & 15)
            self.at += 1
        elif kind in (LIST, SET):
            count, element = self.list_head()
            for _ in range(count):
                self.skip(BYTE if element in BOOLEANS else element)
        elif kind == BYTE:
            self.at += 1
        elif kind == DOUBLE:
            self.at += 8
        else:
            assert kind in BOOLEANS, kind

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > _VARINT_BITS:
            value |= (byte & _VARINT_BITS) << shift
            shift += 7
        return value | byte << shift

    def integer(self) -> int:
        """A whole number."""
        value = self._varint()
        return value >> 1 ^ -(value & 1)
