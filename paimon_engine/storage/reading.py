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
