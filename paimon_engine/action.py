"""What every action works with: a table, a place to run tasks, a name to commit under, and somebody to tell.

An action is a function `(Context, spec) -> result` in a file of its own in `actions/`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.progress import OnProgress
from paimon_engine.result_text import as_html, as_text
from paimon_engine.table.state.handle import TableHandle


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


class Result:
    """What the results of actions have in common: frozen dataclasses of plain values, with a `status`.

    At a prompt and in a notebook they read as tables (`result_text`); everything is in their attributes and in
    `to_dict`.
    """

    __slots__ = ()

    status: str

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
