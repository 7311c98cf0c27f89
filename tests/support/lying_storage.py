"""A store that lies: what it says of files is not true; all other calls are passed on to the store below.

    LyingStorage(inner, lists="empty", where=r"/tag$")        the listing of a directory answers "not there"
    LyingStorage(inner, lists="stale", hidden=7)              listings without the 7 newest files
    LyingStorage(inner, lists="partial", seed=3)              listings without some of the files
    LyingStorage(inner, time_offset_ms=-3_600_000)            modification times of an hour earlier
    LyingStorage(inner, ignores_absence=True)                 `create` replaces what is there, and says that it made it
    LyingStorage(inner, denies="unknown")                     `create` succeeds and says that it may have failed
    LyingStorage(inner, denies_changes=True)                  other puts and deletions succeed and say that they failed

Only listings lie, and what a store answers by listing: whether a *directory* is there. A file that is requested by its
name is found. `lies_left` bounds how many calls are answered with a lie; `lie_count` counts the lies.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Literal

from paimon_engine.errors import OutcomeUnknownError, StorageError
from paimon_engine.storage import FileInfo

Lists = Literal["", "empty", "stale", "partial"]
Denies = Literal["", "taken", "unknown", "error"]


class LyingStorage:
    """`lists` and `where` choose the listings that are wrong, `where` by a pattern that is searched in the directory's
    path.

    `denies` chooses how a `create` that has made the file says that it has not: `taken` answers False, as when an
    object store's client repeats its own request; `unknown` and `error` raise. `denied` chooses its paths, and those
    of `denies_changes`.
    """

    def __init__(
        self,
        inner: Any,
        *,
        lists: Lists = "",
        where: str = "",
        hidden: int = 1,
        seed: int = 0,
        time_offset_ms: int = 0,
        ignores_absence: bool = False,
        denies: Denies = "",
        denied: str = "",
        denies_changes: bool = False,
        lies_left: int | None = None,
    ) -> None:
        self.inner = inner
        self.lists, self.where, self.hidden = lists, where, hidden
        self.time_offset_ms, self.ignores_absence = time_offset_ms, ignores_absence
        self.denies, self.denied, self.denies_changes = denies, denied, denies_changes
        self.lies_left = lies_left
        self.lie_count = 0
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    @property
    def is_object_store(self) -> bool:
        return self.inner.is_object_store

    def be_honest(self) -> None:
        """From now on everything is as it is."""
        self.lists, self.denies, self.time_offset_ms = "", "", 0
        self.ignores_absence = self.denies_changes = False

    def _lies(self) -> bool:
        with self._lock:
            if self.lies_left is not None:
                if self.lies_left <= 0:
                    return False
                self.lies_left -= 1
            self.lie_count += 1
            return True

    def _lies_about(self, directory: str) -> bool:
        return bool(self.lists) and re.search(self.where, directory.rstrip("/")) is not None and self._lies()

    # ── what there is ───────────────────────────────────────────────────────────────────────────

    def list(self, prefix: str) -> Sequence[FileInfo]:
        found = [self._timed(info) for info in self.inner.list(prefix)]
        return self._without(found) if self._lies_about(prefix) else found

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        found = [self._timed(info) for info in self.inner.walk(prefix)]
        return iter(self._without(found) if self._lies_about(prefix) else found)

    def _without(self, found: Sequence[FileInfo]) -> Sequence[FileInfo]:
        if self.lists == "empty":
            return []
        if self.lists == "stale":
            newest = sorted(found, key=lambda info: (info.modified_ms, info.path))[-self.hidden :]
            return [info for info in found if info not in newest]
        with self._lock:
            return [info for info in found if self._chance.random() < 0.5]

    def stat(self, path: str) -> FileInfo:
        return self._timed(self.inner.stat(path))

    def exists(self, path: str) -> bool:
        there: bool = self.inner.exists(path)
        if there and self.lists == "empty" and self.inner.stat(path).is_dir and self._lies_about(path):
            return False
        return there

    def _timed(self, info: FileInfo) -> FileInfo:
        if not info.modified_ms or not self.time_offset_ms:
            return info
        return replace(info, modified_ms=max(1, info.modified_ms + self.time_offset_ms))

    # ── puts ────────────────────────────────────────────────────────────────────────────────────

    def create(self, path: str, data: bytes) -> bool:
        if self.ignores_absence:
            with self._lock:
                self.lie_count += int(self.inner.exists(path))
            self.inner.overwrite(path, data)
            return True
        created: bool = self.inner.create(path, data)
        if created and self.denies and re.search(self.denied, path) is not None and self._lies():
            if self.denies == "unknown":
                raise OutcomeUnknownError(f"{path}: no reply, and it was done (injected)")
            if self.denies == "error":
                raise StorageError(f"{path}: refused, and it was done (injected)")
            return False
        return created

    # ── the truth ───────────────────────────────────────────────────────────────────────────────

    def read(self, path: str) -> bytes:
        data: bytes = self.inner.read(path)
        return data

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        stream: BinaryIO = self.inner.open(path, size_bytes=size_bytes)
        return stream

    def writer(self, path: str) -> BinaryIO:
        stream: BinaryIO = self.inner.writer(path)
        return stream

    def make_dir(self, path: str) -> None:
        self.inner.make_dir(path)

    # ── changes that are made ───────────────────────────────────────────────────────────────────

    def _done(self, path: str) -> None:
        if self.denies_changes and re.search(self.denied, path) is not None and self._lies():
            raise StorageError(f"{path}: refused, and it was done (injected)")

    def overwrite(self, path: str, data: bytes) -> None:
        self.inner.overwrite(path, data)
        self._done(path)

    def delete(self, paths: Sequence[str]) -> None:
        self.inner.delete(paths)
        for path in paths[:1]:
            self._done(path)

    def delete_dir(self, path: str) -> None:
        self.inner.delete_dir(path)
        self._done(path)

    def rename_dir(self, source: str, target: str) -> None:
        self.inner.rename_dir(source, target)
        self._done(source)

    def delete_tree(self, path: str) -> None:
        self.inner.delete_tree(path)
        self._done(path)
