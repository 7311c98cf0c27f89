"""A store that lets others act, or crashes, at a chosen change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from paimon_engine.errors import StorageError
from paimon_engine.storage import MemoryStorage

Event = tuple[str, str]
"""A change about to happen: `create`, `overwrite` or `delete`, and a path."""


class EventStorage:
    """Calls `before` ahead of every change, once per path; what it raises keeps the change from happening.

    `after` is called after the next change, once.
    """

    def __init__(self, inner: MemoryStorage | None = None) -> None:
        self._inner = inner or MemoryStorage()
        self.before: Callable[[Event], None] | None = None
        self.after: Callable[[], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _change(self, kind: str, path: str, change: Callable[[], Any]) -> Any:
        # An actor in between is not interrupted in turn.
        before, self.before = self.before, None
        try:
            if before is not None:
                before((kind, path))
        finally:
            self.before = self.before or before
        result = change()
        after, self.after = self.after, None
        if after is not None:
            after()
        return result

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._change("create", path, lambda: self._inner.create(path, data)))

    def overwrite(self, path: str, data: bytes) -> None:
        self._change("overwrite", path, lambda: self._inner.overwrite(path, data))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._change("delete", path, lambda path=path: self._inner.delete([path]))

    def at(self, number: int, act: Callable[[], Any], *, after: bool = False) -> None:
        """`act` before, or after, the change of that number, from 0."""
        numbers = itertools.count()

        def before(_event: Event) -> None:
            if next(numbers) != number:
                return
            if after:
                self.after = act
            else:
                act()

        self.before = before

    def disarm(self) -> None:
        """Nobody acts any more."""
        self.before = self.after = None

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
