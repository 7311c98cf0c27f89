"""Following a job by its record: how far it is, how it ended, and whether it is still there.

A process that has ended cannot report it. It counts as lost when its heartbeats stop changing; times of different
machines are not compared. Time in which nobody could look does not count: a store that gives no answer takes no
heartbeats either, and a process that was paused saw none. A job that was taken for lost and is not, commits once
nevertheless: its next attempt commits under the same name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import exception_of, log_progress
from paimon_engine.errors import PaimonError

LOST_S: Final = 60.0
"""Without a heartbeat; one is sent every 5 s."""
_CLOSE_S: Final = 30.0
"""Time for the process that started a job to see that it has ended."""
_POLL_S: Final = 1.0
_LOCAL_POLL_S: Final = 0.5

logger = logging.getLogger(__name__)


class JobLostError(AirflowException):
    """The heartbeats of a job have stopped."""


@dataclass
class Watch:
    """Follows one job. Safe to begin at any time, by any number of waiters."""

    record: engine.JobRecord
    lost_s: float = LOST_S
    clock: Callable[[], float] = time.monotonic
    _signs: Any = field(default=None, init=False)
    _changed_at: float = field(default=0.0, init=False)
    _looked_at: float = field(default=0.0, init=False)
    _reported: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        """The time without a heartbeat begins now."""
        self._changed_at = self._looked_at = self.clock()

    def tell(self) -> None:
        """Logs the progress of the job, if it has changed. A store that fails for a moment does not matter."""
        try:
            beat = self.record.beats()[0]
        except PaimonError as error:
            logger.warning("How far the job is cannot be read: %s", error)
            return
        progress = None if beat is None else (beat.stage, beat.done, beat.total)
        if progress is not None and progress[2] and progress != self._reported:
            self._reported = progress
            log_progress(engine.Progress(*progress))

    def outcome(self) -> engine.JobResult | engine.JobFailure | None:
        """How the job ended; None while it runs.

        Raises: JobLostError if its heartbeats have stopped; PaimonError if the store fails.
        """
        found = self.record.outcome()
        if found is not None:
            return found
        signs, now = self.record.beats(), self.clock()
        # Of a longer time since the last look, only a part counts, so that at least two looks find no heartbeat.
        self._changed_at += max(0.0, now - self._looked_at - self.lost_s / 2)
        self._looked_at = now
        if signs != self._signs:
            self._signs, self._changed_at = signs, now
        elif now - self._changed_at > self.lost_s:
            where = next((f" on {beat.host}, process {beat.pid}," for beat in signs if beat is not None), "")
            raise JobLostError(
                f"The job{where} has sent no heartbeat for {self.lost_s:.0f} s: its machine or its driver is lost"
            )
        return None

    def wait(self) -> engine.JobResult:
        """The result, once the job has ended.

        Raises: AirflowFailException if trying again is useless; AirflowException for all other failures.
        """
        while True:
            self.tell()
            try:
                found = self.outcome()
            except PaimonError as error:
                logger.warning("Whether the job has ended cannot be read, asking again: %s", error)
                found = None
            if isinstance(found, engine.JobFailure):
                raise exception_of(found)
            if found is not None:
                return found
            time.sleep(_POLL_S)


def running_of(record: engine.JobRecord) -> engine.JobRecord | None:
    """An earlier record of the same work whose job runs still, or has its result; others are stopped and deleted.

    Waits for a heartbeat if the state is not known. Raises: PaimonError.
    """
    for other in record.siblings():
        if other.folder == record.folder:
            continue
        is_stopping = other.is_asked_to_stop()
        try:
            if _runs(other, is_stopping=is_stopping):
                return other
        except JobLostError:
            if not is_stopping:
                # If it nevertheless exists, it stops at its next check.
                other.ask_to_stop()
                continue
        forget(other)
    return None


def _runs(record: engine.JobRecord, *, is_stopping: bool) -> bool:
    """Whether the job sends heartbeats or has a result; False if it failed. Waits for one that is stopping."""
    watch, first = Watch(record), record.beats()
    while True:
        found = watch.outcome()
        if isinstance(found, engine.JobResult):
            return True
        if found is not None:
            return False
        if not is_stopping and record.beats() != first:
            return True
        time.sleep(_LOCAL_POLL_S)


def forget(record: engine.JobRecord) -> str:
    """Deletes the record of a job that has ended, once its processes write no more; gives what they printed.

    Raises: PaimonError.
    """
    deadline = time.monotonic() + _CLOSE_S
    while not record.is_closed() and time.monotonic() < deadline:
        time.sleep(_LOCAL_POLL_S)
    output = record.output()
    record.delete()
    return output
