"""A store whose user is killed at a chosen change: nothing after it happens, not even what was to clean up."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from paimon_engine.storage import Storage


class Killed(BaseException):
    """The process has died; no code catches this."""


class KilledStorage:
    """Passes all calls to `inner`, and counts `changes`. At the change `kill_at`, from 0, the user is killed.

    With `torn` that change has begun: what was to be written is there in part, under its name, or next to it where
    only complete files get their names: `torn_changes` are those of files. Each path that is deleted is a change of its
    own.
    """

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.changes = 0
        self.torn_changes: list[int] = []
        self.kill_at: int | None = None
        self.torn = False
        self._dead = False

    def arm(self, kill_at: int | None, *, torn: bool = False) -> None:
        """Counts from 0 again; None lets the user live."""
        self.changes, self.torn_changes = 0, []
        self.kill_at, self.torn, self._dead = kill_at, torn, False

    def __getattr__(self, name: str) -> Any:
        if self._dead:
            raise Killed
        return getattr(self.inner, name)

    def _change(self, tear: Callable[[], Any] | None = None) -> None:
        if not self._dead and self.changes == self.kill_at:
            self._dead = True
            if self.torn and tear is not None:
                tear()
        self.torn_changes += [] if tear is None else [self.changes]
        self.changes += 1
        if self._dead:
            raise Killed

    def create(self, path: str, data: bytes) -> bool:
        self._change(lambda: self._beside(path, data))
        return self.inner.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._change(lambda: self._beside(path, data))
        self.inner.overwrite(path, data)

    def _beside(self, path: str, data: bytes) -> None:
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.00000000-0000-4000-8000-000000000000.tmp"
        self.inner.overwrite(temporary, data[: len(data) // 2])

    def writer(self, path: str) -> Any:
        return _Writer(self, path)

    def finish(self, path: str, data: bytes) -> None:
        """Completes a file of `writer`."""
        self._change(lambda: self.inner.overwrite(path, data[: len(data) // 2]))
        with self.inner.writer(path) as sink:
            sink.write(data)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._change()
            self.inner.delete([path])

    def delete_dir(self, path: str) -> None:
        self._change()
        self.inner.delete_dir(path)

    def delete_tree(self, path: str) -> None:
        for info in list(self.inner.walk(path)):
            self._change()
            self.inner.delete([info.path])
        self._change()
        self.inner.delete_tree(path)


class _Writer(io.BytesIO):
    def __init__(self, storage: KilledStorage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._storage.finish(self._path, self.getvalue())
        super().close()
