"""A store whose replies get lost, while other committers are faster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from paimon_engine.errors import OutcomeUnknownError
from paimon_engine.storage import MemoryStorage


class UnreliableStorage:
    """A store whose `create` loses replies, repeats requests and lets other writers commit first; all else is delegated."""

    def __init__(self, inner: MemoryStorage, chance: random.Random) -> None:
        self._inner = inner
        self._chance = chance
        self.rival: Callable[[], None] | None = None
        self.fault_share = 0.5

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes) -> bool:
        if self.rival is not None and self._chance.random() < self.fault_share:
            rival, self.rival = self.rival, None
            rival()
            self.rival = rival
        if self._chance.random() >= self.fault_share:
            return self._inner.create(path, data)
        match self._chance.choice(["lost before", "lost after", "repeated"]):
            case "lost before":
                raise OutcomeUnknownError(f"{path}: no reply")
            case "lost after":
                self._inner.create(path, data)
                raise OutcomeUnknownError(f"{path}: no reply")
            case _:
                # The client library repeats a request whose first reply was lost: its own file is in the way.
                self._inner.create(path, data)
                return self._inner.create(path, data)
