"""Carrying out jobs from the command line: where tasks run, and how progress is shown."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from paimon_engine.cli.terminal import ProgressStyle, print_progress_json, progress_listener, working
from paimon_engine.progress import Progress

if TYPE_CHECKING:
    from paimon_engine.jobs import Job, JobResult, Resources


def run_job(
    job: Job,
    *,
    spark: str | None,
    progress: ProgressStyle,
    is_kept: bool = False,
    resources: Resources | None = None,
) -> JobResult:
    """Runs a job on threads or on Spark, with its steps as bars or lines; `is_kept` says that it may be repeated.

    Raises: PaimonError of all kinds.
    """
    from paimon_engine.jobs import open_executor, run

    begun = time.monotonic()
    with ExitStack() as stack:
        with working("starting Spark" if spark else "opening", progress):
            if spark and progress is ProgressStyle.JSON:
                print_progress_json(Progress("start Spark", 0, 1))
            executor = stack.enter_context(open_executor(spark, resources))
            if spark and progress is ProgressStyle.JSON:
                print_progress_json(Progress("start Spark", 1, 1))
        startup_seconds = time.monotonic() - begun
        listener = stack.enter_context(progress_listener(progress))
        result = run(job, executor, listener, is_kept=is_kept)
        return replace(result, startup_seconds=startup_seconds)


def confirm(job: Job, what: str, question: str) -> None:
    """Asks before something is lost, once a dry run has found that the job can be done.

    Raises: PaimonError of all kinds, where it cannot; Abort if the answer is no.
    """
    action: Any = job.action
    run_quick(replace(job, action=replace(action, dry_run=True)), what)
    typer.confirm(question, abort=True, err=True)


def run_quick(job: Job, what: str, *, spark: str | None = None) -> Mapping[str, Any]:
    """Runs a job that has no tasks to count; gives the action's own result.

    Raises: PaimonError of all kinds.
    """
    from paimon_engine.jobs import open_executor, run

    with working(what), open_executor(spark) as executor:
        return run(job, executor, is_kept=False).details
