"""An executor during whose work somebody else changes the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paimon_engine.env import Env
from paimon_engine.executor import LocalExecutor


class Meddling(LocalExecutor):
    """Runs the tasks, then lets somebody else change the table before the results are committed; `times` times."""

    def __init__(self, meddle: Callable[[], Any], times: int = 1, *, env: Env | None = None) -> None:
        super().__init__(env=env)
        self._meddle = meddle
        self._times = times

    def map(self, *arguments: Any, **options: Any) -> Any:
        """As `Executor.map`."""
        return self._then_meddle(super().map(*arguments, **options))

    def shuffle(self, *arguments: Any, **options: Any) -> Any:
        """As `Executor.shuffle`."""
        return self._then_meddle(super().shuffle(*arguments, **options))

    def _then_meddle(self, outcomes: Any) -> Any:
        if self._times:
            self._times -= 1
            self._meddle()
        return outcomes
