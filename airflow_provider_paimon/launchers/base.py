"""What launchers have in common: their contract, and how they report progress and failures of a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from paimon_engine.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, UnsupportedError

HOPELESS: Final = (AlreadyExistsError, InvalidArgumentError, NotFoundError, UnsupportedError)
"""A second attempt would raise the same error, so it is useless."""

logger = logging.getLogger(__name__)


class Launcher(Protocol):
    """Runs jobs. `secrets` are the environment variables that the job's `StorageRef` names."""

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job.

        Raises: AirflowFailException if trying again is useless; AirflowException for all other failures.
        """

    def kill(self) -> None:
        """Stops the running job, if any; called from a signal handler during `launch`."""


@runtime_checkable
class Detaching(Protocol):
    """A launcher that can leave a job to itself: it continues when the task ends, and its record shows its state."""

    def detach(self, job: engine.Job, secrets: Mapping[str, str], record: engine.JobRecord) -> None:
        """Starts the job.

        Raises: AirflowFailException if it cannot be started.
        """


def exception_of(failure: engine.JobFailure) -> AirflowException:
    """The exception of a job that failed, with class and message of the error and those of its causes.

    Its cause is the engine's error, if it was one, as for jobs in the task's own process: retry policies look at it.
    """
    kind = failure.error_type
    is_hopeless = kind is not None and issubclass(kind, HOPELESS)
    found = AirflowFailException(str(failure)) if is_hopeless else AirflowException(str(failure))
    found.__cause__ = None if kind is None else kind(failure.message)
    return found


def log_progress(progress: engine.Progress) -> None:
    """Writes progress into the task's log, as a sentence."""
    logger.info("%s: %s of %s", progress.stage, progress.done, progress.total)
