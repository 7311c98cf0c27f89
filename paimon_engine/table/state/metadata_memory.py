"""Manifests and manifest lists that this process has read or written, so that its next commit need not fetch them.

These files never change, and their names are used once. A writer of many small commits would otherwise read
the same manifests again before each. Only writes and compactions remember: what looks whether files are there, or are
whole, and what deletes, reads the store.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

_BYTES_MAX: Final = 16 << 20


class MetadataMemory:
    """Bytes of files by path, at most 16 MiB of them, those used last; safe to use from many threads."""

    def __init__(self) -> None:
        """Knows nothing yet."""
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes | None:
        """The bytes of that file, if they are known."""
        with self._lock:
            data = self._files.get(path)
            if data is not None:
                self._files.move_to_end(path)
            return data

    def put(self, path: str, data: bytes) -> None:
        """Remembers a file."""
        with self._lock:
            self._bytes += len(data) - len(self._files.pop(path, b""))
            self._files[path] = data
            while self._bytes > _BYTES_MAX:
                _, forgotten = self._files.popitem(last=False)
                self._bytes -= len(forgotten)
