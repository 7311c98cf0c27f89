"""Jobs in threads of the task's own process."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_paimon import engine
from airflow_provider_paimon.environment import environment
from airflow_provider_paimon.launchers.base import exception_of, log_progress
from paimon_engine.errors import PaimonError

logger = logging.getLogger(__name__)


@dataclass
class InProcess:
    """Runs jobs in threads of this process, of which there are `local_cores`; by default as many as cores.

    A job that is stopped ends as by Ctrl-C: its tasks at their next step in Python, and what they have written and
    was not committed is deleted. Airflow waits five seconds for that before it kills the process; whatever has been
    done by then, the table is unchanged, or has the complete commit.
    """

    local_cores: int | None = None
    _thread: int | None = field(default=None, init=False, repr=False)
    _is_stopped: bool = field(default=False, init=False, repr=False)

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job."""
        resources: Any = engine.Resources(local_cores=self.local_cores)
        try:
            with environment(secrets), engine.open_executor(None, resources) as executor:
                return self._run(job, executor)
        except KeyboardInterrupt as interrupt:
            if not self._is_stopped:
                raise
            raise AirflowException("The job was stopped") from interrupt
        except PaimonError as error:
            raise exception_of(engine.JobFailure.of(error)) from error

    def _run(self, job: engine.Job, executor: Any) -> engine.JobResult:
        self._thread = threading.get_ident()
        try:
            # The operator's own line at the end says the same, for people.
            with engine.without_last_line():
                return engine.run(job, executor, on_progress=log_progress)
        finally:
            self._thread = None

    def kill(self) -> None:
        """Stops the job, if one runs; a second call does not disturb the cleaning up that the first one began.

        It hands over to Python's own handler of Ctrl-C, so the job must run in the main thread, as tasks of Airflow do.
        """
        thread = self._thread
        if thread is None or self._is_stopped:
            return
        self._is_stopped = True
        logger.warning("Stopping the job")
        if thread == threading.get_ident():
            # From a signal's handler.
            signal.default_int_handler(signal.SIGTERM, None)
        signal.pthread_kill(thread, signal.SIGINT)
