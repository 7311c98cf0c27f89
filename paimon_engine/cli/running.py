"""Carrying out jobs from the command line: where tasks run, and how progress is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from paimon_engine.cli.terminal import ProgressStyle, progress_listener, tell_json, working
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.progress import Progress

if TYPE_CHECKING:
    from paimon_engine.executor import Executor
    from paimon_engine.jobs import Job, JobResult


def run_job(job: Job, *, spark: str | None, progress: ProgressStyle) -> JobResult:
    """Runs a job on threads or on Spark, with its steps as bars or lines.

    Raises: PaimonError of all kinds.
    """
    from paimon_engine.jobs import run

    with _executor(spark, progress) as executor, progress_listener(progress) as listener:
        return run(job, executor, listener)


def run_quick(job: Job, what: str) -> Mapping[str, Any]:
    """Runs a job that has no tasks to count; gives the action's own result.

    Raises: PaimonError of all kinds.
    """
    from paimon_engine.jobs import run

    with working(what):
        return run(job).details


@contextmanager
def _executor(spark: str | None, progress: ProgressStyle) -> Iterator[Executor]:
    """Threads of this process, or a Spark session that lives as long as the command."""
    from paimon_engine.executor import LocalExecutor

    if spark is None:
        yield LocalExecutor()
        return
    cores = None if spark.startswith("sc://") else _cores(spark)
    from paimon_engine.spark.executor import SparkExecutor
    from paimon_engine.spark.session import connect_session, local_session

    with ExitStack() as stack:
        with working("starting Spark", progress):
            _tell_start(0, progress)
            if spark.startswith("sc://"):
                session = connect_session(spark)
                stack.callback(session.stop)
            else:
                session = stack.enter_context(local_session(cores=cores, quick_start=True))
            _tell_start(1, progress)
        yield SparkExecutor(session)


def _tell_start(done: int, progress: ProgressStyle) -> None:
    if progress is ProgressStyle.JSON:
        tell_json(Progress("start Spark", done, 1))


def _cores(master: str) -> int | None:
    """Cores of `local[4]`; None for `local[*]`.

    Raises: InvalidArgumentError.
    """
    inside = master.removeprefix("local").removeprefix("[").removesuffix("]")
    if not master.startswith("local") or not (inside in ("", "*") or (inside.isdigit() and int(inside) > 0)):
        raise InvalidArgumentError(f"--spark {master!r}: use local[*], local[N], or sc://host:port for Spark Connect")
    return 1 if inside == "" else None if inside == "*" else int(inside)
