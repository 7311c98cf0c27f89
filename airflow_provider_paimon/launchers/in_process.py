"""Jobs in threads of the task's own process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import HOPELESS, log_progress
from paimon_engine.errors import PaimonError


class InProcess:
    """Runs jobs in threads of this process."""

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job."""
        with _environment(secrets):
            try:
                return engine.run(job, on_progress=log_progress)
            except HOPELESS as error:
                raise AirflowFailException(str(error)) from error
            except PaimonError as error:
                raise AirflowException(str(error)) from error

    def kill(self) -> None:
        """Nothing: the job ends with this process."""


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
