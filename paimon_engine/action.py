"""What every action works with: a table, a place to run tasks, a name to commit under, and somebody to tell.

An action is a function `(Context, spec) -> result` in a file of its own in `actions/`.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.progress import OnProgress
from paimon_engine.result_text import as_html, as_text
from paimon_engine.table.state.handle import TableHandle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Context:
    """What an action works with, beside its spec.

    `commit_user` is the name under which it commits: with one the action is done once, however often it is called;
    without, each call is an action of its own. `earlier_user` is the name of a job whose work it does again on purpose.
    """

    table: TableHandle
    executor: Executor = field(default_factory=LocalExecutor)
    commit_user: str | None = None
    on_progress: OnProgress | None = None
    earlier_user: str | None = None


S = TypeVar("S")
R = TypeVar("R", bound="Result")


def action(run: Callable[[Context, S], R]) -> Callable[[Context, S], R]:
    """What all actions have around them: their time is taken, and how they ended is logged."""

    @functools.wraps(run)
    def timed(context: Context, spec: S) -> R:
        begun = time.monotonic()
        result = run(context, spec)
        result = replace(result, seconds=time.monotonic() - begun)  # type: ignore[type-var]
        logger.debug("%s of %s: %s", run.__name__, context.table.paths.root, result.status)
        return result

    return timed


class Result:
    """What the results of actions have in common: frozen dataclasses of plain values, with a `status`.

    `seconds` is the time that the action took; `action` sets it.

    At a prompt and in a notebook they read as tables (`result_text`); everything is in their attributes and in
    `to_dict`.
    """

    __slots__ = ()

    status: str
    seconds: float

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Else the dataclass makes one of its own, which prints every file.
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def __repr__(self) -> str:
        return as_text(type(self).__name__, self.to_dict())

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, self.to_dict())
