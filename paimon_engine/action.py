"""What every action works with: a table, an executor, a name to commit under, and a listener for progress.

An action is a function `(Context, spec) -> result` in a file of its own in `actions/`.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import CorruptTableError, NotFoundError, UnsupportedError
from paimon_engine.executor import Done, Executor, Failed, LocalExecutor
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.progress import OnProgress, counting
from paimon_engine.result_text import as_html, as_line, as_text
from paimon_engine.table.commit.commit_callbacks import waiting_failures
from paimon_engine.table.commit.job_commit import JobCommit, look_up_commit
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.vanished import check_is_there

logger = logging.getLogger(__name__)

_logs_end: ContextVar[bool] = ContextVar("logs_end", default=True)
"""Whether actions log how they ended. Not the logger's level, which all threads share."""

S = TypeVar("S")
R = TypeVar("R", bound="Result")
T = TypeVar("T")
V = TypeVar("V")


@dataclass(slots=True)
class Phases:
    """Seconds on the clock by phase of an action, such as `plan`, `merge` and `commit`, in the order they began."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Adds the time of the block to a phase."""
        begun = time.monotonic()
        self.seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self.seconds[name] += time.monotonic() - begun


@dataclass(frozen=True, slots=True)
class Context:
    """What an action works with, in addition to its spec.

    `commit_user` is the name under which it commits: with one the action is done once, however often it is called;
    without, each call is a separate action. `earlier_user` is the name of a job whose work it does again on purpose.
    `looked_up` is set by `action_once`. `is_new` says that the job has just created the table. `phases` records
    how long each phase takes. `open_other` opens other tables; `open_store` is the store of an address outside of the
    table, by default by the options of the table's own.
    """

    table: TableHandle
    executor: Executor = field(default_factory=LocalExecutor)
    commit_user: str | None = None
    on_progress: OnProgress | None = None
    earlier_user: str | None = None
    looked_up: JobCommit | None = None
    is_new: bool = False
    phases: Phases = field(default_factory=Phases)
    open_other: Callable[[str], TableHandle] | None = None
    open_store: Callable[[str], Env] | None = None

    def other_table(self, name: str) -> TableHandle:
        """Another table that the action reads, by its name or path.

        Raises: UnsupportedError outside of jobs, which know where names are; NotFoundError and so on.
        """
        if self.open_other is None:
            raise UnsupportedError(f"only a job knows where the table {name!r} is: run this action as a job")
        return self.open_other(name)

    def target(self, address: str) -> Env:
        """The store of files that the action writes for others. Raises: InvalidArgumentError."""
        if self.open_store is not None:
            return self.open_store(address)
        own = self.table.config
        return EnvConfig(address, own.options, own.secrets).build()

    @property
    def job(self) -> JobCommit:
        """The commit of an action that is declared by `action_once`."""
        assert self.looked_up is not None, "declare the action by action_once"
        return self.looked_up

    def run_tasks(self, stage: str, run: Callable[[Env, T], V], tasks: Sequence[T]) -> list[Done[V] | Failed]:
        """Runs tasks on the executor and reports the progress of the stage; the outcomes, in the order of the tasks."""
        listener = counting(self.on_progress, stage, len(tasks))
        with self.phases(stage):
            return self.executor.map(run, tasks, config=self.table.config, on_done=listener) if tasks else []


@contextmanager
def without_last_line() -> Iterator[None]:
    """Within it actions of this thread log no line of how they ended, which the caller does instead."""
    token = _logs_end.set(False)
    try:
        yield
    finally:
        _logs_end.reset(token)


def action(run: Callable[[Context, S], R]) -> Callable[[Context, S], R]:
    """What all actions have around them: their time is taken, and how they ended is logged in one line."""

    @functools.wraps(run)
    def timed(context: Context, spec: S) -> R:
        begun = time.monotonic()
        with waiting_failures():
            try:
                result = run(context, spec)
            except (NotFoundError, CorruptTableError):
                # What is missing may be the whole table: then that is what is said.
                check_is_there(context.table)
                raise
            if getattr(result, "status", None) in ("noop", "already_done"):
                # Of a table that others have dropped meanwhile there is nothing to do either, and no tag to delete.
                check_is_there(context.table)
        result = replace(result, seconds=time.monotonic() - begun)  # type: ignore[type-var]
        if _logs_end.get() and logger.isEnabledFor(logging.INFO):
            logger.info("%s of %s: %s", run.__name__, context.table.paths.root, as_line(result.to_dict()))
        return result

    return timed


def action_once(
    kind: CommitKind, maker: Maker, result: Callable[[str, int], R]
) -> Callable[[Callable[[Context, S], R]], Callable[[Context, S], R]]:
    """An `action` that ends with one commit, and that a `commit_user` has done once, however often it is called.

    Before it runs, the commit of an earlier attempt is searched for, but not for a dry run (`spec.dry_run`). If there
    is one, the action is not run, and the result is `result("already_done", snapshot_id)`. Else it finds in
    `Context.job` the name to commit under.
    """

    def decorate(run: Callable[[Context, S], R]) -> Callable[[Context, S], R]:
        @functools.wraps(run)
        def once(context: Context, spec: S) -> R:
            search = not getattr(spec, "dry_run", False)
            job = look_up_commit(context.table, context.commit_user, kind, identifier_of(maker), search=search)
            if job.done is not None:
                return result("already_done", job.done.id)
            return run(replace(context, looked_up=job), spec)

        return action(once)

    return decorate


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
        # Otherwise the dataclass generates one, which prints every file.
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, as they are read from JSON: with lists, where attributes are tuples."""
        found: dict[str, Any] = _plain(asdict(self))  # type: ignore[call-overload]
        return found

    def __repr__(self) -> str:
        return as_text(type(self).__name__, self.to_dict())

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, self.to_dict())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
