"""Files that are read piece by piece, from clients that raise errors of their own."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

Mapped = Callable[[str], AbstractContextManager[None]]
"""Makes what a client raises, for a path, one of our errors."""


class MappedFile(io.RawIOBase):
    """A client's file whose errors are ours: one that escaped as an `OSError` would look like damaged bytes."""

    def __init__(self, file: BinaryIO, path: str, mapped: Mapped) -> None:
        self._file, self._path, self._mapped = file, path, mapped

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1) -> bytes:
        with self._mapped(self._path):
            return self._file.read(-1 if size is None else size)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, target: Any) -> int:
        with self._mapped(self._path):
            return cast("io.BufferedIOBase", self._file).readinto(target)

    def close(self) -> None:
        self._file.close()
        super().close()


class RangeFile(io.RawIOBase):
    """Random access to a file whose client reads ranges: `read_range` gives bytes from a position on, or fewer."""

    def __init__(self, path: str, size_bytes: int, read_range: Callable[[int, int], bytes]) -> None:
        self._path, self._size, self._read_range = path, size_bytes, read_range
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._path}: negative position {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """The rest, in one request if the client gives it; Python's own way takes 8 KiB at a time."""
        parts = []
        while self._at < self._size and (data := self._read_range(self._at, self._size - self._at)):
            parts.append(data)
            self._at += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        if count:
            data = self._read_range(self._at, count)
            count = len(data)
            view[:count] = data
            self._at += count
        return count
