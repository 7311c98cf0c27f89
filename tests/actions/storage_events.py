"""A store that lets others act, or crashes, at a chosen change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paimon_engine.errors import StorageError
from paimon_engine.storage import MemoryStorage

Event = tuple[str, str]
"""A change about to happen: `create`, `overwrite` or `delete`, and a path."""


class EventStorage:
    """Calls `before` ahead of every change, once per path; what it raises keeps the change from happening."""

    def __init__(self, inner: MemoryStorage | None = None) -> None:
        self._inner = inner or MemoryStorage()
        self.before: Callable[[Event], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _tell(self, event: Event) -> None:
        # An action that runs in between is not interrupted itself.
        before, self.before = self.before, None
        try:
            if before is not None:
                before(event)
        finally:
            self.before = self.before or before

    def create(self, path: str, data: bytes) -> bool:
        self._tell(("create", path))
        return self._inner.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._tell(("overwrite", path))
        self._inner.overwrite(path, data)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._tell(("delete", path))
            self._inner.delete([path])

    def once(self, kind: str, part: str, act: Callable[[], Any]) -> None:
        """Before the first such change of a path with `part` in it, `act`."""

        def before(event: Event) -> None:
            nonlocal done
            if not done and event[0] == kind and part in event[1]:
                done = True
                act()

        done = False
        self.before = before

    def crash_at(self, number: int) -> None:
        """The change of that number (from 0) and all after it fail."""
        count = 0

        def before(_event: Event) -> None:
            nonlocal count
            count += 1
            if count > number:
                raise StorageError("the process has died")

        self.before = before


class TroubledStorage(MemoryStorage):
    """Does not answer requests for one of its files, as long as `trouble` names it."""

    trouble: str | None = None

    def read(self, path: str) -> bytes:
        if path == self.trouble:
            raise StorageError(f"{path}: the store is busy")
        return super().read(path)
