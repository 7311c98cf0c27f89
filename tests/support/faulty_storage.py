"""A store that fails at one chosen call, in a chosen way; all other calls are passed on to the store below."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

from paimon_engine.errors import OutcomeUnknownError, StorageError
from paimon_engine.storage import FileInfo

WAYS: dict[str, tuple[str, ...]] = {
    "read": ("error", "short"),
    "open": ("error", "short", "broken stream"),
    "exists": ("error",),
    "stat": ("error",),
    "list": ("error", "late"),
    "walk": ("error", "late"),
    "create": ("error", "no reply, not done", "no reply, done", "repeated"),
    "overwrite": ("error", "no reply, done"),
    "writer": ("error", "full", "fails at the end", "no reply, done"),
    "delete": ("error", "half done", "no reply, done"),
    "delete_dir": ("error",),
    "delete_tree": ("error", "no reply, done"),
    "make_dir": ("error",),
    "rename_dir": ("error", "no reply, done"),
}
"""How each call can fail. `late`: a listing without its newest file. `short`: half of the bytes, without an error."""

DOWN = "down from here on"
"""The call and all after it fail, as for a process that dies there."""


class FaultyStorage:
    """`fail_at` chooses the call, counted from 0; `calls` names all that were made."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []
        self.fail_at: int | None = None
        self.way = ""
        self.act: Callable[[str, str], None] | None = None
        """If given, called ahead of the chosen call instead of failing it."""
        self._lock = threading.Lock()
        self.is_object_store: bool = inner.is_object_store
        """Whether callers must take it for a store that shows the files of a directory one by one."""

    def arm(self, fail_at: int | None, way: str = "", act: Callable[[str, str], None] | None = None) -> None:
        """Counts again."""
        self.calls, self.fail_at, self.way, self.act = [], fail_at, way, act

    def _way(self, verb: str, path: str) -> str | None:
        """How this call is to fail; None if it is not."""
        with self._lock:
            number = len(self.calls)
            self.calls.append((verb, path))
        if self.fail_at is None or number < self.fail_at or (number > self.fail_at and self.way != DOWN):
            return None
        if self.act is not None:
            self.act(verb, path)
            return None
        if self.way in ("error", DOWN):
            raise StorageError(f"{path}: injected at call {number} ({verb})")
        return self.way

    def _lost(self, path: str, way: str | None) -> None:
        if way == "no reply, done":
            raise StorageError(f"{path}: the reply was lost (injected)")

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def read(self, path: str) -> bytes:
        way = self._way("read", path)
        data = self.inner.read(path)
        return data[: len(data) // 2] if way == "short" else data

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        way = self._way("open", path)
        if way is None:
            return self.inner.open(path, size_bytes=size_bytes)
        with self.inner.open(path) as stream:
            data = stream.read()
        return io.BytesIO(data[: len(data) // 2]) if way == "short" else _BrokenStream(data)

    def exists(self, path: str) -> bool:
        self._way("exists", path)
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        self._way("stat", path)
        return self.inner.stat(path)

    def list(self, prefix: str) -> list[FileInfo]:
        way = self._way("list", prefix)
        return _late(self.inner.list(prefix)) if way == "late" else self.inner.list(prefix)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        way = self._way("walk", prefix)
        return iter(_late(list(self.inner.walk(prefix)))) if way == "late" else self.inner.walk(prefix)

    # ── changing ────────────────────────────────────────────────────────────────────────────────

    def create(self, path: str, data: bytes) -> bool:
        match self._way("create", path):
            case "no reply, not done":
                raise OutcomeUnknownError(f"{path}: no reply (injected)")
            case "no reply, done":
                self.inner.create(path, data)
                raise OutcomeUnknownError(f"{path}: no reply (injected)")
            case "repeated":
                self.inner.create(path, data)
        return self.inner.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        way = self._way("overwrite", path)
        self.inner.overwrite(path, data)
        self._lost(path, way)

    def writer(self, path: str) -> Any:
        return _FaultyWriter(self.inner, path, self._way("writer", path))

    def delete(self, paths: Sequence[str]) -> None:
        way = self._way("delete", paths[0] if paths else "")
        if way == "half done":
            self.inner.delete(paths[: len(paths) // 2])
            raise StorageError("half of the files are deleted (injected)")
        self.inner.delete(paths)
        self._lost("delete", way)

    def delete_dir(self, path: str) -> None:
        self._way("delete_dir", path)
        self.inner.delete_dir(path)

    def make_dir(self, path: str) -> None:
        self._way("make_dir", path)
        self.inner.make_dir(path)

    def rename_dir(self, source: str, target: str) -> None:
        way = self._way("rename_dir", source)
        self.inner.rename_dir(source, target)
        self._lost(source, way)

    def delete_tree(self, path: str) -> None:
        way = self._way("delete_tree", path)
        self.inner.delete_tree(path)
        self._lost(path, way)


def _late(found: list[FileInfo]) -> list[FileInfo]:
    """Without the newest file; if all have one time, the last one in order of names."""
    files = [info for info in found if not info.is_dir]
    if not files:
        return found[:-1]
    newest = max(files, key=lambda info: (info.modified_ms, info.path))
    return [info for info in found if info is not newest]


class _BrokenStream(io.BytesIO):
    """Ends in an error in the middle."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > len(self.getvalue()) // 2:
            raise StorageError("connection reset (injected)")
        return data

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        if self.tell() > len(self.getvalue()) // 2:
            raise StorageError("connection reset (injected)")
        return count


class _FaultyWriter(io.BufferedIOBase):
    """A new file that fails while it is written or when it is completed."""

    def __init__(self, inner: Any, path: str, way: str | None) -> None:
        self._inner, self._path, self._way = inner, path, way
        self._sink = inner.writer(path)

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._way == "full":
            raise StorageError(f"{self._path}: no space left on device (injected)")
        return self._sink.write(data)

    def tell(self) -> int:
        return self._sink.tell()

    def flush(self) -> None:
        if not self._sink.closed:
            self._sink.flush()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._sink.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._way == "fails at the end":
            gone = StorageError(f"{self._path}: cannot be completed (injected)")
            self._sink.__exit__(StorageError, gone, None)
            raise gone
        self._sink.__exit__(kind, error, trace)
        if kind is None and self._way == "no reply, done":
            raise StorageError(f"{self._path}: the reply was lost (injected)")

    def __del__(self) -> None:
        """Nothing: a writer that was dropped leaves no file."""
