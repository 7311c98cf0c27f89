"""Files in memory: for tests of whole tables without a disk, and for experiments.

Every `MemoryStorage()` is separate from all others. `MemoryStorage.named(name)` gives the one of that name in this
process, which is also what the address `memory://name/…` means. Other processes cannot see it.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import BinaryIO, cast

from paimon_engine.errors import NotFoundError, StorageError
from paimon_engine.storage.base import FileInfo


class MemoryStorage:
    """`Storage` in a dictionary; `clock` gives the modification times in epoch milliseconds."""

    is_object_store = False

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, int]] = {}

    @staticmethod
    def named(name: str) -> MemoryStorage:
        """The storage of that name in this process, made at first use."""
        return _named(name)

    def dump(self) -> dict[str, tuple[bytes, int]]:
        """All files by path: bytes, and modification time in epoch milliseconds."""
        with self._lock:
            return dict(self._files)

    def load(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        """Replaces all files by those of a `dump`."""
        with self._lock:
            self._files = dict(files)

    def read(self, path: str) -> bytes:
        try:
            return self._files[path][0]
        except KeyError as error:
            raise NotFoundError(f"No such file: {path}") from error

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:  # noqa: ARG002 - costs nothing here
        return io.BytesIO(self.read(path))

    def writer(self, path: str) -> BinaryIO:
        return cast("BinaryIO", _MemoryFile(self, path))

    def create(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = (bytes(data), self._clock())
            return True

    def overwrite(self, path: str, data: bytes) -> None:
        with self._lock:
            self._files[path] = (bytes(data), self._clock())

    def exists(self, path: str) -> bool:
        path = path.rstrip("/")
        return path in self._files or any(True for _ in self.walk(path))

    def stat(self, path: str) -> FileInfo:
        path = path.rstrip("/")
        found = self._files.get(path)
        if found is not None:
            return FileInfo(path, len(found[0]), found[1], is_dir=False)
        if self.exists(path):
            return FileInfo(path, 0, 0, is_dir=True)
        raise NotFoundError(f"No such file: {path}")

    def list(self, prefix: str) -> list[FileInfo]:
        prefix = prefix.rstrip("/")
        children: dict[str, FileInfo] = {}
        for info in self.walk(prefix):
            name, inner, _ = info.path[len(prefix) + 1 :].partition("/")
            child = f"{prefix}/{name}"
            children[child] = FileInfo(child, 0, 0, is_dir=True) if inner else info
        return [children[path] for path in sorted(children)]

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        prefix = prefix.rstrip("/") + "/"
        with self._lock:
            found = [(path, file) for path, file in self._files.items() if path.startswith(prefix)]
        return (FileInfo(path, len(data), modified_ms, is_dir=False) for path, (data, modified_ms) in found)

    def delete(self, paths: Sequence[str]) -> None:
        with self._lock:
            for path in paths:
                self._files.pop(path, None)

    def delete_dir(self, path: str) -> None:
        """Nothing: a directory exists exactly as long as files are in it."""

    def make_dir(self, path: str) -> None:
        """Nothing: a directory exists exactly as long as files are in it."""

    def rename_dir(self, source: str, target: str) -> None:
        source, target = source.rstrip("/"), target.rstrip("/")
        with self._lock:
            moved = [path for path in self._files if path == source or path.startswith(f"{source}/")]
            if not moved:
                raise NotFoundError(f"No such directory: {source}")
            if any(path == target or path.startswith(f"{target}/") for path in self._files):
                raise StorageError(f"{target}: the name is taken")
            for path in moved:
                self._files[target + path[len(source) :]] = self._files.pop(path)

    def delete_tree(self, path: str) -> None:
        self.delete([info.path for info in self.walk(path)])


class _MemoryFile(io.BytesIO):
    """Bytes being written, which become a file when closed, unless the `with` block fails."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._kept = False

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._kept = self._storage.create(self._path, data)
            if not self._kept:
                raise StorageError(f"{self._path}: the file exists")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        super().close()
        if self._kept:
            self._storage.delete([self._path])

    def __del__(self) -> None:
        """Nothing: a writer that was dropped without being closed leaves no file."""


@cache
def _named(_name: str) -> MemoryStorage:
    return MemoryStorage()
