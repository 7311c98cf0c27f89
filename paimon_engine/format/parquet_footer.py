"""Timestamps of several precisions in one Parquet file: what the Arrow library cannot write, put into the footer.

Java writes timestamps of more than 6 digits as INT96 and all others as INT64. Arrow takes one form for all columns.
So the others are handed to Arrow as plain 64-bit integers, which they are, and their meaning is added to the file's
schema when Arrow writes the footer, the last thing that it does.

A footer is a Thrift structure in the compact protocol: each field has the distance to the number of the one before,
a type, and a value. Only the list of schema elements is taken apart; all else is carried over.

Source: `parquet.thrift` of the Parquet format, and the Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

_MAGIC: Final = b"PAR1"
_SCHEMA_FIELD: Final = 2
_TYPE, _CHILDREN, _CONVERTED, _LOGICAL = 1, 5, 6, 10
"""Numbers of fields of a schema element."""

_BOOLEANS: Final = (1, 2)
_BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12
_LONG_LIST: Final = 15
_CONVERTED_UNITS: Final = {"ms": 9, "us": 10}
_UNIT_FIELDS: Final = {"ms": 1, "us": 2}


class FooterSink:
    """A sink that holds back what is written once `hold` was called; `release` lets it go with timestamps marked."""

    def __init__(self, sink: BinaryIO) -> None:
        """Passes everything on, as long as it is not told otherwise."""
        self._sink = sink
        self._held: bytearray | None = None
        self._is_given_up = False
        self.closed = False

    def give_up(self) -> None:
        """From now on what is written goes nowhere."""
        self._is_given_up = True

    def write(self, data: bytes) -> int:
        """Takes in bytes."""
        if self._is_given_up:
            return len(data)
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._sink.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Nothing: the sink's owner flushes it."""

    def close(self) -> None:
        """Nothing: the sink's owner closes it."""

    def hold(self) -> None:
        """The footer comes next."""
        self._held = bytearray()

    def release(self, leaves: Sequence[pa.DataType]) -> None:
        """Writes the footer; those of the file's leaves that are timestamps in `ms` or `us` are marked as such."""
        assert self._held is not None
        data = bytes(self._held)
        assert data.endswith(_MAGIC), data[-8:]
        begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = marked(data[begin:-8], leaves)
        self._sink.write(data[:begin] + footer + len(footer).to_bytes(4, "little") + _MAGIC)


def marked(footer: bytes, leaves: Sequence[pa.DataType]) -> bytes:
    """The footer with the marks of timestamps on the schema elements of the leaves, which are in order."""
    reader = _Reader(footer)
    out = bytearray()
    for number, kind in reader.fields():
        if number != _SCHEMA_FIELD:
            reader.skip(kind)
            continue
        count = reader.list_head()[0]
        out += footer[: reader.at]
        types = iter(leaves)
        for _ in range(count):
            out += _marked_element(reader.structure(), types)
        return bytes(out) + footer[reader.at :]
    raise AssertionError("a footer without a schema")


def _marked_element(fields: list[tuple[int, int, bytes]], leaves: Iterator[pa.DataType]) -> bytes:
    numbers = {number for number, _, _ in fields}
    leaf = next(leaves) if _TYPE in numbers and _CHILDREN not in numbers else None
    if leaf is not None and pa.types.is_timestamp(leaf) and leaf.unit in _UNIT_FIELDS:
        if leaf.tz is not None:
            fields.append((_CONVERTED, _I32, bytes([2 * _CONVERTED_UNITS[leaf.unit]])))
        fields.append((_LOGICAL, _STRUCT, _timestamp(leaf)))
    out, before = bytearray(), 0
    for number, kind, value in sorted(fields):
        assert 0 < number - before <= 15, fields
        out += bytes([(number - before) << 4 | kind]) + value
        before = number
    return bytes(out) + b"\0"


def _timestamp(leaf: pa.DataType) -> bytes:
    """The logical type: member 8 is a timestamp, of which 1 says whether it is in UTC and 2 is the unit."""
    in_utc = _BOOLEANS[0] if leaf.tz is not None else _BOOLEANS[1]
    unit = bytes([_UNIT_FIELDS[leaf.unit] << 4 | _STRUCT, 0, 0])
    return bytes([8 << 4 | _STRUCT, 1 << 4 | in_utc, 1 << 4 | _STRUCT]) + unit + b"\0\0"


class _Reader:
    """Reads structures of the compact protocol; `at` is the place of the next byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; the value is to be read before the next one."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            yield number, head & 15

    def structure(self) -> list[tuple[int, int, bytes]]:
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
        """Goes behind a value."""
        if kind == _BYTE:
            self.at += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()
            self.at += length
        elif kind in (_LIST, _SET):
            count, element = self.list_head()
            for _ in range(count):
                self.skip(_BYTE if element in _BOOLEANS else element)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        else:
            assert kind in _BOOLEANS, kind

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
