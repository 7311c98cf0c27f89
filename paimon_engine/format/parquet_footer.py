"""Parquet footers: what the Arrow library cannot write, put in when it writes the footer, the last thing that it does.

Timestamps of several precisions in one file: Java writes timestamps of more than 6 digits as INT96 and all others as
INT64. Arrow takes one form for all columns. So the others are handed to Arrow as plain 64-bit integers, which they are,
and their meaning is added to the file's schema. For columns that are copies of others, see `parquet_copies`.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

from paimon_engine.format.parquet_fields import (
    ConvertedType,
    FileMetaData,
    LogicalType,
    SchemaElement,
    TimestampType,
    TimeUnit,
)
from paimon_engine.format.thrift_compact import (
    BOOLEANS,
    I32,
    STRUCT,
    Fields,
    changed,
    elements,
    fields_of,
    integer,
    listed,
    structure,
)

MAGIC: Final = b"PAR1"
"""First and last bytes of a file."""
_CONVERTED_UNITS: Final = {"ms": ConvertedType.TIMESTAMP_MILLIS, "us": ConvertedType.TIMESTAMP_MICROS}
_UNIT_FIELDS: Final = {"ms": TimeUnit.MILLIS, "us": TimeUnit.MICROS}


class FooterSink:
    """A sink that passes on what is written, can read it again, and can hold it back until `release`."""

    def __init__(self, sink: BinaryIO) -> None:
        """Passes everything on, until `hold` is called."""
        self._sink = sink
        self._buffer: bytearray | None = None
        self._recorded: list[bytes] = []
        self._to_record = 0
        self._is_given_up = False
        self.closed = False

    def give_up(self) -> None:
        """Discards everything that is written from now on."""
        self._is_given_up = True

    def write(self, data: bytes) -> int:
        """Takes in bytes."""
        if self._is_given_up:
            return len(data)
        if self._to_record > 0:
            self._recorded.append(data)
            self._to_record -= len(data)
        if self._buffer is None:
            return self._sink.write(data)
        self._buffer += data
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._sink.tell() + len(self._buffer or b"")

    def flush(self) -> None:
        """Nothing: the sink's owner flushes it."""

    def close(self) -> None:
        """Nothing: the sink's owner closes it."""

    def record(self, size_bytes: int) -> None:
        """Remembers the next so many bytes, or some more."""
        self._recorded, self._to_record = [], size_bytes

    def recorded(self) -> bytes:
        """The bytes recorded since `record`."""
        data = b"".join(self._recorded)
        self._recorded, self._to_record = [], 0
        return data

    def hold(self) -> None:
        """The footer comes next."""
        self._buffer = bytearray()

    def release(self, change: Callable[[bytes, int, bytes], tuple[bytes, bytes]]) -> None:
        """Writes the footer, and what is in front of it, as this function changes them.

        It takes the footer, and the bytes in front of it with their offset in the file, and gives these bytes and the
        footer.
        """
        assert self._buffer is not None
        data = bytes(self._buffer)
        if not data.endswith(MAGIC):
            raise ValueError(f"what Arrow wrote ends in {data[-8:]!r}, not in a footer")
        begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        front, footer = change(data[begin:-8], self._sink.tell(), data[:begin])
        self._sink.write(front + footer + len(footer).to_bytes(4, "little") + MAGIC)


def with_timestamps(footer: bytes, leaves: Sequence[pa.DataType]) -> bytes:
    """The footer with the marks of timestamps on the schema elements of the leaves, which are in order."""
    types = iter(leaves)

    def marked(schema: bytes) -> bytes:
        return listed(STRUCT, [_marked_element(fields_of(one), types) for one in elements(schema)])

    return changed(footer, {FileMetaData.SCHEMA: marked})


def is_leaf(element: Fields) -> bool:
    """Whether a schema element is a column, not a group of some."""
    numbers = {number for number, _, _ in element}
    return SchemaElement.TYPE in numbers and SchemaElement.NUM_CHILDREN not in numbers


def _marked_element(fields: Fields, leaves: Iterator[pa.DataType]) -> bytes:
    leaf = next(leaves) if is_leaf(fields) else None
    if leaf is not None and pa.types.is_timestamp(leaf) and leaf.unit in _UNIT_FIELDS:
        if leaf.tz is not None:
            fields.append((SchemaElement.CONVERTED_TYPE, I32, integer(_CONVERTED_UNITS[leaf.unit])))
        fields.append((SchemaElement.LOGICAL_TYPE, STRUCT, _timestamp(leaf)))
    return structure(fields)


def _timestamp(leaf: pa.DataType) -> bytes:
    """The logical type of a timestamp."""
    unit = structure([(_UNIT_FIELDS[leaf.unit], STRUCT, structure([]))])
    in_utc = BOOLEANS[0] if leaf.tz is not None else BOOLEANS[1]
    timestamp = structure([(TimestampType.IS_ADJUSTED_TO_UTC, in_utc, b""), (TimestampType.UNIT, STRUCT, unit)])
    return structure([(LogicalType.TIMESTAMP, STRUCT, timestamp)])
