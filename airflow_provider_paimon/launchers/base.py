"""What launchers have in common: their contract, and the errors after which another attempt is useless."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from airflow_provider_paimon import engine
from paimon_engine.errors import InvalidArgumentError, NotFoundError, UnsupportedError

HOPELESS: Final = (InvalidArgumentError, NotFoundError, UnsupportedError)
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


def log_progress(progress: engine.Progress) -> None:
    """Writes progress into the task's log, as a sentence."""
    logger.info("%s: %s of %s", progress.stage, progress.done, progress.total)
