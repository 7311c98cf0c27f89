"""Work in the task's own process that can be stopped."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow.sdk.exceptions import AirflowException

logger = logging.getLogger(__name__)


@dataclass
class StoppableWork:
    """Work of one thread of this process, which must be the main one to be stopped, as it is in tasks of Airflow.

    It ends as by Ctrl-C: the engine's tasks at their next step in Python, and what they have written and was not
    committed is deleted. Airflow waits five seconds for that before it kills the process; whatever has been done by
    then, the table is unchanged, or has the complete commit.
    """

    _thread: int | None = field(default=None, init=False, repr=False)
    _is_stopped: bool = field(default=False, init=False, repr=False)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Where the work may be stopped. Raises: AirflowException if it was."""
        self._thread = threading.get_ident()
        try:
            yield
        except KeyboardInterrupt as interrupt:
            if not self._is_stopped:
                raise
            raise AirflowException("The job was stopped") from interrupt
        finally:
            self._thread = None

    def stop(self) -> None:
        """Stops the work, if there is any; a second call does not disturb the cleaning up that the first one began."""
        thread = self._thread
        if thread is None or self._is_stopped:
            return
        self._is_stopped = True
        logger.warning("Stopping the job")
        if thread == threading.get_ident():
            # From a signal's handler.
            signal.default_int_handler(signal.SIGTERM, None)
        signal.pthread_kill(thread, signal.SIGINT)
