"""A store whose files are created under a lock, for stores that cannot decide a race.

All other calls are passed on. One file is created per lock: snapshots, schemas and tags are decided by
that.

Source: `RenamingSnapshotCommit` of the Java library, which holds the same lock while it renames a snapshot.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

from paimon_engine.errors import OutcomeUnknownError, StorageError
from paimon_engine.storage.base import FileInfo, Storage

logger = logging.getLogger(__name__)


class Lock(Protocol):
    """A lock that every writer of a table acquires."""

    def acquire(self) -> None:
        """Waits for the lock. Raises: ConflictError if it takes too long; StorageError."""
        ...

    def release(self) -> bool:
        """Releases the lock; False if it had expired and was no longer ours. Raises: StorageError."""
        ...


class LockedStorage:
    """`Storage` over another one, with `create` under a lock."""

    def __init__(self, inner: Storage, make_lock: Callable[[], Lock]) -> None:
        """`make_lock` is called once, by the first `create`."""
        self._inner = inner
        self._make_lock = make_lock
        self._made = threading.Lock()
        self._lock: Lock | None = None

    def create(self, path: str, data: bytes) -> bool:
        with self._made:
            lock = self._lock = self._lock or self._make_lock()
        try:
            lock.acquire()
        except OutcomeUnknownError as error:
            # It is not known whether the lock is ours; that nothing was created is.
            raise StorageError(f"{path} was not created: {error}; if the lock was taken, it has to expire") from error
        was_ours = False
        try:
            created = not self._inner.exists(path) and self._inner.create(path, data)
        finally:
            was_ours = _released(lock)
        if created and not was_ours:
            # A process that got the lock meanwhile may have replaced the file: the caller has to check.
            raise OutcomeUnknownError(f"{path}: the lock was lost while the file was created")
        return created

    @property
    def is_object_store(self) -> bool:
        return self._inner.is_object_store

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        return self._inner.open(path, size_bytes=size_bytes)

    def writer(self, path: str) -> BinaryIO:
        return self._inner.writer(path)

    def overwrite(self, path: str, data: bytes) -> None:
        self._inner.overwrite(path, data)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        return self._inner.stat(path)

    def list(self, prefix: str) -> list[FileInfo]:
        return self._inner.list(prefix)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        return self._inner.walk(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        self._inner.delete(paths)

    def delete_dir(self, path: str) -> None:
        self._inner.delete_dir(path)

    def make_dir(self, path: str) -> None:
        self._inner.make_dir(path)

    def rename_dir(self, source: str, target: str) -> None:
        self._inner.rename_dir(source, target)

    def delete_tree(self, path: str) -> None:
        self._inner.delete_tree(path)


def _released(lock: Lock) -> bool:
    """Whether the lock was ours until the end, as far as its owner can still be determined."""
    try:
        return lock.release()
    except StorageError as error:
        # The lock expires; the result of the work is more important than an error of the release.
        logger.warning("a lock could not be released and has to expire: %s", error)
        return False
