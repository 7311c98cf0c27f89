"""Carrying out a job in a process that others started; a record shows them its progress and outcome."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from paimon_engine import guard
from paimon_engine.errors import InvalidArgumentError, PaimonError
from paimon_engine.job_record import Beat, JobFailure, JobRecord, is_local
from paimon_engine.jobs import Job, JobResult, Resources, open_executor, run
from paimon_engine.progress import Progress

BEAT_S: Final = 5.0
"""Between two heartbeats in a store; each costs a request."""
_LOCAL_BEAT_S: Final = 0.5
STARTER: Final = "paimon_engine.job_starter"
"""The module that starts a job's process and waits for it, for `python -m`."""
_CODED: Final = "base64:"
STOPPED: Final = "Stopped"
"""The kind of failure of a job that was stopped on request."""

logger = logging.getLogger(__name__)


class Beating:
    """Heartbeats from a thread, for the length of a `with` block; stops the process if the record requests it."""

    def __init__(self, record: JobRecord, *, of_starter: bool = False) -> None:
        self._record, self._of_starter = record, of_starter
        self._ended = threading.Event()
        self._beat = Beat(0, socket.gethostname(), os.getpid())
        self._period_s = _LOCAL_BEAT_S if is_local(record.folder) else BEAT_S
        self._thread = threading.Thread(target=self._run, name="paimon-beat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # A store that hangs must not delay the end.
        self._thread.join(timeout=BEAT_S)

    def tell(self, progress: Progress) -> None:
        """The progress of the job; the newest state is written with the next heartbeat."""
        self._beat = replace(self._beat, stage=progress.stage, done=progress.done, total=progress.total)

    def _run(self) -> None:
        """Writes a heartbeat at once, one per period, and a last one at the end, from a thread of its own.

        With each one it passes a request to stop on to the job. A starter writes no last one: the record may be gone.
        """
        number, is_last = 0, False
        while not is_last:
            is_last = self._ended.wait(self._period_s if number else 0)
            if is_last and self._of_starter:
                # The record may have been deleted since.
                return
            number += 1
            try:
                self._record.beat(replace(self._beat, number=number), of_starter=self._of_starter)
                if not is_last and not self._of_starter and self._record.is_asked_to_stop():
                    logger.warning("Asked to stop")
                    guard.stop()
            except PaimonError as error:
                # A store that fails for a moment; waiting processes treat this one as lost only after many missing
                # beats.
                logger.warning("No heartbeat could be written: %s", error)


@contextmanager
def recorded_end(record: JobRecord) -> Iterator[None]:
    """Writes into the record why the block failed, or that it was stopped; the error is raised again."""
    try:
        yield
    except KeyboardInterrupt:
        _end(record, JobFailure(STOPPED, "it was stopped on request before its commit"))
        raise
    except BaseException as error:
        _end(record, JobFailure.of(error))
        raise


def _end(record: JobRecord, failure: JobFailure) -> None:
    # The error itself is what counts; waiting processes see that the process ended, or treat it as lost.
    with contextlib.suppress(PaimonError):
        record.end(failure)


def run_recorded(job: Job, record: JobRecord, spark: str | None, resources: Resources | None = None) -> JobResult:
    """Carries out a job, with heartbeats, and writes its outcome into the record.

    Raises: PaimonError of all kinds.
    """
    begun = time.monotonic()
    with Beating(record) as beating, recorded_end(record):
        if spark:
            beating.tell(Progress("start Spark", 0, 1))
        with open_executor(spark, resources, environment=job.secret_variables()) as executor:
            startup_seconds = time.monotonic() - begun
            if spark:
                beating.tell(Progress("start Spark", 1, 1))
            result = replace(run(job, executor, beating.tell), startup_seconds=startup_seconds)
            # Before Spark ends, which may hang: what was committed must be known.
            record.end(result)
            return result


def as_argument(text: str) -> str:
    """A job's JSON as an argument, for processes that see none of our files; without characters special to shells."""
    return _CODED + base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def job_text(given: str) -> str:
    """The job's JSON, from a file or from what `as_argument` gave.

    Raises: InvalidArgumentError.
    """
    if not given.startswith(_CODED):
        return Path(given).read_text(encoding="utf-8")
    try:
        return zlib.decompress(base64.urlsafe_b64decode(given.removeprefix(_CODED))).decode()
    except (ValueError, zlib.error) as error:
        raise InvalidArgumentError(f"the argument contains no job: {error}") from error
