"""A store from which one table deletes its own files only.

Tables are written by others, symbolic links included: a bucket's directory may be a link to a user's home. Reading
through a link is allowed, since links are made for that; deleting through one is always refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from paimon_engine.errors import StorageError
from paimon_engine.storage.base import FileInfo, Storage
from paimon_engine.storage.locations import is_local, leads_out


@dataclass(frozen=True)
class FencedStorage:
    """`Storage` over another one that deletes below `root` only: not next to it, and not through links out of it."""

    inner: Storage
    root: str

    def delete(self, paths: Sequence[str]) -> None:
        self._check(paths)
        self.inner.delete(paths)

    def delete_dir(self, path: str) -> None:
        self._check([path])
        self.inner.delete_dir(path)

    def delete_tree(self, path: str) -> None:
        self._check([path])
        self.inner.delete_tree(path)

    def rename_dir(self, source: str, target: str) -> None:
        self._check([source, target])
        self.inner.rename_dir(source, target)

    def _check(self, paths: Sequence[str]) -> None:
        begin = f"{self.root}/"
        for path in paths:
            if not path.startswith(begin) or any(part in (".", "..") for part in path[len(begin) :].split("/")):
                raise StorageError(f"{path[:200]!r} is not deleted: it is outside the table {self.root}")
        # All files of one directory give the same answer.
        for directory in {path.rpartition("/")[0] for path in paths}:
            if leads_out(f"{directory}/.", self.root):
                raise StorageError(
                    f"{directory} is a symbolic link, or below one, that leads out of the table {self.root}: "
                    "nothing is deleted there; replace the link by the directory itself, or delete by hand"
                )

    @property
    def is_object_store(self) -> bool:
        return self.inner.is_object_store

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        return self.inner.open(path, size_bytes=size_bytes)

    def writer(self, path: str) -> BinaryIO:
        return self.inner.writer(path)

    def create(self, path: str, data: bytes) -> bool:
        return self.inner.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self.inner.overwrite(path, data)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        return self.inner.stat(path)

    def list(self, prefix: str) -> list[FileInfo]:
        return self.inner.list(prefix)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        return self.inner.walk(prefix)

    def make_dir(self, path: str) -> None:
        self.inner.make_dir(path)


def fenced(storage: Storage, root: str) -> Storage:
    """The storage of a local table with a fence around its directory; other stores have no links to follow."""
    return FencedStorage(storage, root) if is_local(root) and not isinstance(storage, FencedStorage) else storage


def unfenced(storage: Storage) -> Storage:
    """The storage without its fence, for files whose location was checked in another way."""
    return storage.inner if isinstance(storage, FencedStorage) else storage
