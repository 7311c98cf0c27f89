"""Jobs in threads of the task's own process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_paimon import engine
from airflow_provider_paimon.environment import environment
from airflow_provider_paimon.launchers.base import exception_of, log_progress
from airflow_provider_paimon.launchers.stoppable_work import StoppableWork
from paimon_engine.errors import PaimonError


@dataclass
class InProcess:
    """Runs jobs in threads of this process, of which there are `local_cores`; by default as many as cores."""

    local_cores: int | None = None
    _work: StoppableWork = field(default_factory=StoppableWork, init=False, repr=False)

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job."""
        resources: Any = engine.Resources(local_cores=self.local_cores)
        try:
            with (
                environment(secrets),
                engine.open_executor(None, resources) as executor,
                self._work.working(),
                # The operator's own line at the end says the same, for people.
                engine.without_last_line(),
            ):
                return engine.run(job, executor, on_progress=log_progress)
        except PaimonError as error:
            raise exception_of(engine.JobFailure.of(error)) from error

    def kill(self) -> None:
        """Stops the job, if one runs."""
        self._work.stop()
