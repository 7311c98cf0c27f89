"""A storage that counts its requests."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from paimon_engine.storage import FileInfo, MemoryStorage


@dataclass
class Metered(MemoryStorage):
    """Files in memory; `calls` by verb, `bytes_read`, and `listed` entries since the last `reset`."""

    calls: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0
    listed: int = 0

    def __post_init__(self) -> None:
        MemoryStorage.__init__(self)

    def reset(self) -> None:
        """Begins to count again."""
        self.calls.clear()
        self.bytes_read = self.listed = 0

    def read(self, path: str) -> bytes:
        data = self._noted("read", super().read(path))
        self.bytes_read += len(data)
        return data

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        # Readers of columns fetch less than that; it is the most that they can.
        data = self._noted("open", MemoryStorage.read(self, path))
        self.bytes_read += len(data)
        return io.BytesIO(data)

    def writer(self, path: str) -> BinaryIO:
        return self._noted("writer", super().writer(path))

    def create(self, path: str, data: bytes) -> bool:
        return self._noted("create", super().create(path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._noted("overwrite", super().overwrite(path, data))

    def exists(self, path: str) -> bool:
        return self._noted("exists", super().exists(path))

    def list(self, prefix: str) -> list[FileInfo]:
        found = self._noted("list", super().list(prefix))
        self.listed += len(found)
        return found

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        return super().walk(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        self._noted("delete", super().delete(paths))

    def _noted(self, verb: str, result: Any) -> Any:
        self.calls[verb] += 1
        return result
