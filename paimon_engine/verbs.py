"""What the verbs of `Table` have in common: each is one call of an action, with what the caller gave as its spec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_engine.env import Env
from paimon_engine.executor import Executor
from paimon_engine.meta.names import checked_user
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.units import moment_ms

if TYPE_CHECKING:
    from paimon_engine.action import Context

S = TypeVar("S")
R = TypeVar("R")

MomentLike = int | datetime | timedelta | str
"""Epoch milliseconds, a datetime, or a text of one (without a zone it is local time); or an age, such as `7 d`."""

DurationLike = int | str | timedelta
"""A time span: a text such as `365 d`, a timedelta, or milliseconds."""

SizeLike = int | str
"""Bytes, or a text such as `50 gb`."""

_OF_THE_CALL: Final = frozenset({"self", "how", "name", "commit_user", "on_progress", "storage_options"})
"""Arguments of verbs that are not fields of a spec."""


class Verbs(ABC):
    """A table that actions can be carried out on."""

    _executor: Executor

    @property
    @abstractmethod
    def _handle(self) -> TableHandle:
        """The table itself."""

    def _act(
        self,
        action: Callable[[Context, S], R],
        spec: type[S],
        given: Mapping[str, Any],
        *,
        open_store: Callable[[str], Env] | None = None,
        **more: Any,
    ) -> R:
        """Carries out an action.

        `given` are the arguments of a verb, `locals()` at its begin: fields of the spec under their names, `how` with
        more fields, `commit_user` and `on_progress`. `more` are fields that the verb calls otherwise. `open_store` is
        that of the context.

        Raises: InvalidArgumentError naming the action, the field and its value; what the action raises.
        """
        # A process that only reads need not load what commits.
        from paimon_engine.action import Context

        fields = {name: value for name, value in given.items() if name not in _OF_THE_CALL}
        fields |= given.get("how", {}) | more
        table = self._handle
        from paimon_engine.specs import Edge, decode

        asked = decode(spec, fields, edge=Edge(now_ms=table.env.clock()))
        user, on_progress = checked_user(given.get("commit_user")), given.get("on_progress")
        return action(Context(table, self._executor, user, on_progress, open_store=open_store), asked)


def time_of(table: TableHandle, name: str, moment: MomentLike | None) -> int | None:
    """Epoch milliseconds of a moment that is given as the argument `name`; None if it is not given.

    Raises: InvalidArgumentError.
    """
    return None if moment is None else moment_ms(name, moment, now_ms=table.env.clock())
