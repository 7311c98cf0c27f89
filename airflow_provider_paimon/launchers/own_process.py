"""Jobs in a separate process, with a Spark session there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.job_folder import job_folder, kept_folder
from airflow_provider_paimon.launchers.base import exception_of
from airflow_provider_paimon.launchers.watching import Watch

EMBEDDED: Final = "local[*]"
GRACE_S: Final = 20.0
"""Time for a process to delete the files that it has not committed, before it is killed."""

_POLL_S: Final = 0.5
_NOISE: Final = frozenset({"WARNING: Using incubator modules: jdk.incubator.vector"})
"""Spark's launcher asks each JVM for this module, and a JVM has no option that keeps it from saying so."""
_TAIL_LINES: Final = 20
_ERROR: Final = "error: "
_CALLED_WRONGLY: Final = 2
_SPARK_CONF: Final = "PAIMON_ENGINE_SPARK_CONF"

logger = logging.getLogger(__name__)


@dataclass
class Subprocess:
    """Runs jobs in a process with a Spark session: an embedded one, or one on the server `spark`.

    1. It ends with us. It reads its standard input, which we keep open and never write to; when we die, even
       by SIGKILL, that ends, and it stops itself and its JVM.
    2. It inherits no open file of ours: Airflow waits until every process has closed the task's output, so a
       process that inherited it would hide the death of the task.
    3. When it is requested to stop it deletes what it has not committed, for which `kill` gives it some time.
    """

    spark: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    memory_bytes: int | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    python: str | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job."""
        with job_folder() as directory:
            job_file = directory / "job.json"
            job_file.write_text(job.to_json(), encoding="utf-8")
            record = engine.JobRecord.at(str(directory / "record"))
            process = self._start(job_file, record, {**self._engine_path(directory), **self.environment, **secrets})
            logger.info("Running %s in process %s with Spark %s", engine.name_of(job.action), process.pid, self.spark)
            try:
                tail = _follow(process, Watch(record))
            finally:
                self.kill()
                _close(process)
            outcome = record.outcome()
        if outcome is None:
            raise _failure(process.returncode, tail)
        if isinstance(outcome, engine.JobFailure):
            raise exception_of(outcome)
        return outcome

    def detach(self, job: engine.Job, secrets: Mapping[str, str], record: engine.JobRecord) -> None:
        """Starts the job in a process that continues when the task ends.

        Raises: AirflowFailException if that Python does not exist.
        """
        text, folder = engine.as_argument(job.to_json()), kept_folder()
        command, own = self._command(text, record)
        environment = {**self._engine_path(folder), **own, **self.environment, **secrets}
        start_detached(command[0], text, record, command, environment, folder=folder)

    def _command(self, job: str, record: engine.JobRecord) -> tuple[list[str], dict[str, str]]:
        """The command that carries out a job, and what its environment must have."""
        command = [self.python or sys.executable, "-m", "paimon_engine", "run"]
        command += ["--job", job, "--record", record.folder, "--spark", self.spark]
        if self.memory_bytes is not None:
            command += ["--memory", str(self.memory_bytes)]
        # An error is one line only if the terminal, as rich sees it, is wide enough.
        own = {"PYTHONUNBUFFERED": "1", "COLUMNS": "100000"}
        if self.spark_conf:
            # Settings may contain secrets, and all users can see arguments.
            own[_SPARK_CONF] = json.dumps(dict(self.spark_conf))
        return command, own

    def _engine_path(self, folder: Path) -> dict[str, str]:
        """Lets another interpreter, with or without its own engine, import this one."""
        if self.python in (None, sys.executable):
            return {}
        paths = [str(engine.engine_archive(folder)), os.environ.get("PYTHONPATH", "")]
        return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}

    def _start(self, job: Path, record: engine.JobRecord, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Starts the process of a job whose output this process reads.

        It is in a session of its own, so that all of it can be ended. It ends itself when its standard input is closed,
        as it is when this process is killed.

        Raises: AirflowException if the interpreter cannot be started.
        """
        command, own = self._command(str(job), record)
        command.append("--guard")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an interpreter that the DAG names, and our module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **own, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise no_python(command[0], error) from error
        return self._process

    def kill(self) -> None:
        """Ends the process and its group: first a request, then a wait, then a kill."""
        process = self._process
        if process is None:
            return
        self._process = None
        if not _has_ended(process):
            logger.warning("Stopping process %s", process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            while not _has_ended(process) and time.monotonic() < deadline:
                time.sleep(0.1)
        # What the process started, such as its JVM, is in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended, without reaping it.

    `Popen.poll` takes a lock that the interrupted code may have; and as long as a process is not reaped, no other
    process can get its group's number.
    """
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _follow(process: subprocess.Popen[bytes], watch: Watch) -> list[str]:
    """Logs what the process says until it ends; gives the last lines.

    Does not wait for the end of the pipe: the JVM has it open too, and may be what hangs.
    """
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    tail: list[str] = []
    rest = b""
    while True:
        ended = _has_ended(process)
        watch.tell()
        ready, _, _ = select.select([descriptor], [], [], 0 if ended else _POLL_S)
        chunk = os.read(descriptor, 1 << 16) if ready else b""
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            _log_line(line.decode(errors="replace").rstrip(), tail)
        if ended and not chunk:
            _log_line(rest.decode(errors="replace").rstrip(), tail)
            return tail
        if ready and not chunk:
            # The pipe is closed but the process still ends.
            time.sleep(_POLL_S)


def _log_line(line: str, tail: list[str]) -> None:
    """Logs one line and keeps it among the last, unless it is useless for users."""
    if line and line not in _NOISE:
        logger.info("%s", line)
        tail.append(line)
        del tail[:-_TAIL_LINES]


def _close(process: subprocess.Popen[bytes]) -> None:
    """Reaps the process and closes its pipes."""
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _failure(code: int, tail: list[str]) -> AirflowException:
    """The exception for a process that ended without an outcome, with what it said last."""
    message = next((line.removeprefix(_ERROR) for line in reversed(tail) if line.startswith(_ERROR)), None)
    if code == _CALLED_WRONGLY:
        return AirflowFailException(message or "\n".join(tail))
    if message is not None:
        return AirflowException(message)
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    hint = "; the machine may have run out of memory" if code == -signal.SIGKILL else ""
    return AirflowException("\n".join([f"The engine's process {ended}{hint}", *tail]))


def start_detached(
    python: str,
    job: str,
    record: engine.JobRecord,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
) -> None:
    """Starts a command and a process that waits for it, which both continue when the task ends.

    `job` is an argument with the job; `folder` has files of the command, and is deleted when it has ended.
    Raises: AirflowFailException if that Python does not exist.
    """
    starter = [python, "-m", engine.STARTER, "--job", job, "--record", record.folder]
    starter += ["--folder", str(folder)] if folder is not None else []
    # Nothing of ours stays open in it: Airflow waits for all processes that have a task's output open.
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(  # noqa: S603 - an interpreter that the DAG names, and our module
            [*starter, "--", *command],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )
    except OSError as error:
        raise no_python(python, error) from error


def no_python(python: str, error: OSError) -> AirflowFailException:
    """The exception for an interpreter that cannot be started."""
    return AirflowFailException(f"engine_python={python!r} cannot be started: {error.strerror}")
