"""A store with credentials from a server: they are renewed in time, and used to their end while the server fails.

Files that the server keeps are not made here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from paimon_engine.errors import StorageError, UnsupportedError
from paimon_engine.storage.base import FileInfo, Storage

logger = logging.getLogger(__name__)

_SAFE_TIME_MS: Final = 3_600_000
"""How long before its end a lease is renewed, or half of the time that it has left, whichever is less."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A storage that works until `expires_ms`, epoch milliseconds; without an end if that is None."""

    storage: Storage
    expires_ms: int | None = None


class LeasedStorage:
    """`Storage` that gets itself a new lease before the old one ends. Files opened before keep the old one."""

    def __init__(
        self, renew: Callable[[], Lease], clock: Callable[[], int], is_kept: Callable[[str], bool] = lambda _path: False
    ) -> None:
        """`is_kept` says of a path whether the server alone may create it."""
        self._is_kept = is_kept
        self._renew = renew
        self._clock = clock
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._renew_at_ms: float = 0

    @property
    def _now(self) -> Storage:
        with self._lock:
            now_ms = self._clock()
            if self._lease is None or now_ms >= self._renew_at_ms:
                self._lease = self._next(self._lease, now_ms)
                expires_ms = self._lease.expires_ms
                self._renew_at_ms = (
                    float("inf") if expires_ms is None else max(expires_ms - _SAFE_TIME_MS, (now_ms + expires_ms) / 2)
                )
            return self._lease.storage

    def _next(self, held: Lease | None, now_ms: int) -> Lease:
        """A new lease, or the held one while it lasts and no new one is to be had. Raises: StorageError."""
        try:
            return self._renew()
        except StorageError as error:
            if held is None or held.expires_ms is None or now_ms >= held.expires_ms:
                raise
            logger.warning("credentials could not be renewed, and are used until they expire: %s", error)
            return held

    def read(self, path: str) -> bytes:
        return self._now.read(path)

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        return self._now.open(path, size_bytes=size_bytes)

    def writer(self, path: str) -> BinaryIO:
        return self._now.writer(path)

    def create(self, path: str, data: bytes) -> bool:
        if self._is_kept(path):
            raise UnsupportedError(
                f"{path}: the REST catalog creates this file, and this change cannot be requested yet"
            )
        return self._now.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._now.overwrite(path, data)

    @property
    def is_object_store(self) -> bool:
        return self._now.is_object_store

    def exists(self, path: str) -> bool:
        return self._now.exists(path)

    def stat(self, path: str) -> FileInfo:
        return self._now.stat(path)

    def list(self, prefix: str) -> list[FileInfo]:
        return self._now.list(prefix)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        return self._now.walk(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        self._now.delete(paths)

    def delete_dir(self, path: str) -> None:
        self._now.delete_dir(path)

    def make_dir(self, path: str) -> None:
        self._now.make_dir(path)

    def rename_dir(self, source: str, target: str) -> None:
        self._now.rename_dir(source, target)

    def delete_tree(self, path: str) -> None:
        self._now.delete_tree(path)
