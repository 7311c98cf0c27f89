"""A storage that records its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from paimon_engine.storage import FileInfo, Storage


class CountingStorage:
    """Hands everything on, and keeps the calls as (verb, path) in order."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.calls: list[tuple[str, str]] = []

    def take(self) -> list[tuple[str, str]]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls

    def taken(self, verb: str, *parts: str) -> Counter[str]:
        """How often `verb` was called by path, for paths that contain one of `parts`; forgets all calls."""
        return Counter(path for called, path in self.take() if called == verb and any(part in path for part in parts))

    @property
    def is_object_store(self) -> bool:
        return self._inner.is_object_store

    def read(self, path: str) -> bytes:
        self.calls.append(("read", path))
        return self._inner.read(path)

    def open(self, path: str, **known: Any) -> BinaryIO:
        self.calls.append(("open", path))
        return self._inner.open(path, **known)

    def writer(self, path: str) -> BinaryIO:
        self.calls.append(("writer", path))
        return self._inner.writer(path)

    def create(self, path: str, data: bytes) -> bool:
        self.calls.append(("create", path))
        return self._inner.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self.calls.append(("overwrite", path))
        self._inner.overwrite(path, data)

    def exists(self, path: str) -> bool:
        self.calls.append(("exists", path))
        return self._inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        self.calls.append(("stat", path))
        return self._inner.stat(path)

    def list(self, prefix: str) -> list[FileInfo]:
        self.calls.append(("list", prefix))
        return self._inner.list(prefix)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        self.calls.append(("walk", prefix))
        return self._inner.walk(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        self._inner.delete(paths)

    def delete_dir(self, path: str) -> None:
        self._inner.delete_dir(path)

    def delete_tree(self, path: str) -> None:
        self._inner.delete_tree(path)
