"""Avro containers made of blocks of others: records whose schema stays the same are copied as bytes.

A block has its number of records, its size, its bytes as the codec has packed them, and the marker of its file; only
the marker differs from file to file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import fastavro

from paimon_engine.format.codecs import manifest_codec

BLOCK_BYTES: Final = 16_000
"""Unpacked bytes after which a block ends, as in the files that the Avro library writes."""
_SYNC_BYTES: Final = 16


class Piece(NamedTuple):
    """Records to be written: a block as another file has it, packed by the codec of the new file, or only records.

    `data` are bytes of records without compression, which become a block together with those before and behind.
    """

    record_count: int
    data: bytes
    is_packed: bool = False


def encoded(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
    """Records as pieces of some kilobytes."""
    parsed = fastavro.parse_schema(dict(schema))
    buffer, count = io.BytesIO(), 0
    for record in records:
        fastavro.schemaless_writer(buffer, parsed, record)
        count += 1
        if buffer.tell() >= BLOCK_BYTES:
            yield Piece(count, buffer.getvalue())
            buffer, count = io.BytesIO(), 0
    if count:
        yield Piece(count, buffer.getvalue())


def write_pieces(
    schema: Mapping[str, Any], pieces: Iterable[Piece], compression: str, *, target_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Bytes of as many files as the pieces need, each with its number of records; none without pieces.

    A file that has reached `target_bytes` ends. Raises: InvalidArgumentError for a codec that manifests cannot use.
    """
    parsed, codec = fastavro.parse_schema(dict(schema)), manifest_codec(compression)
    file: _NewContainer | None = None
    for piece in pieces:
        if file is None:
            file = _NewContainer(parsed, codec)
        file.add(piece)
        if file.size_bytes >= target_bytes:
            yield file.finished()
            file = None
    if file is not None:
        yield file.finished()


class _NewContainer:
    """One new file."""

    def __init__(self, schema: Any, codec: str) -> None:
        self._buffer, self._sync = io.BytesIO(), os.urandom(_SYNC_BYTES)
        self._writer = fastavro.write.Writer(self._buffer, schema, codec=codec, sync_marker=self._sync)
        self._count = 0
        self._waiting: list[Piece] = []
        """Records that are no block yet."""
        self._waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._buffer.tell()

    def add(self, piece: Piece) -> None:
        self._count += piece.record_count
        if piece.is_packed:
            self._end_block()
            self._buffer.write(b"".join([_long(piece.record_count), _long(len(piece.data)), piece.data, self._sync]))
            return
        self._waiting.append(piece)
        self._waiting_bytes += len(piece.data)
        if self._waiting_bytes >= BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if self._waiting:
            data = io.BytesIO(b"".join(piece.data for piece in self._waiting))
            count = sum(piece.record_count for piece in self._waiting)
            self._writer.write_block(SimpleNamespace(num_records=count, bytes_=data))
        self._waiting, self._waiting_bytes = [], 0

    def finished(self) -> tuple[bytes, int]:
        self._end_block()
        return self._buffer.getvalue(), self._count


def _long(value: int) -> bytes:
    """A number that is not negative, as Avro has it."""
    value <<= 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
