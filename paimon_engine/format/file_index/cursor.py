"""Reading big-endian bytes from front to back; what does not fit is a CorruptTableError naming offset and reason."""

from __future__ import annotations

import struct

from pyroaring import BitMap

from paimon_engine.errors import CorruptTableError


class Cursor:
    """A cursor over bytes. `where` begins every message."""

    def __init__(self, data: bytes, where: str, offset: int = 0) -> None:
        """Begins at `offset`."""
        self.data = data
        self.offset = offset
        self.where = where

    def corrupt(self, what: str, *, at: int | None = None) -> CorruptTableError:
        """The error to raise."""
        return CorruptTableError(f"{self.where}, offset {self.offset if at is None else at}: {what}")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or self.offset + size > len(self.data):
            raise self.corrupt(f"{size} bytes expected, {len(self.data) - self.offset} are left")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def skip(self, size: int) -> None:
        """Leaves out the next bytes."""
        self.take(size)

    def int8(self) -> int:
        """One byte with sign."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def uint16(self) -> int:
        """Two bytes without sign."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        """Four bytes with sign."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        """Eight bytes with sign."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def count(self) -> int:
        """A number of things of at least a byte each: no more than there are bytes left."""
        number = self.int32()
        if not 0 <= number <= len(self.data) - self.offset:
            raise self.corrupt(f"{number} is not a possible count", at=self.offset - 4)
        return number

    def flag(self) -> bool:
        """A byte that is 0 or 1."""
        value = self.int8()
        if value not in (0, 1):
            raise self.corrupt(f"0 or 1 expected, found {value}", at=self.offset - 1)
        return value == 1

    def version(self, known: int) -> None:
        """A version byte; raises for any other than `known`."""
        found = self.int8()
        if found != known:
            raise self.corrupt(f"version {known} expected, found {found}", at=self.offset - 1)

    def bitmap(self, row_count: int, size: int | None = None) -> BitMap:
        """A Roaring bitmap of rows, in `size` bytes if that is known."""
        begin = self.offset
        data = self.data[begin:] if size is None else self.take(size)
        try:
            rows = BitMap.deserialize(data)
        except (ValueError, IndexError, struct.error) as error:
            raise self.corrupt(f"no bitmap: {error}", at=begin) from error
        if rows and rows.max() >= row_count:
            raise self.corrupt(f"a bitmap names row {rows.max()} of {row_count}", at=begin)
        self.offset = begin + (len(rows.serialize()) if size is None else size)
        return rows
