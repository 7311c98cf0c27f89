"""A process that starts a job's process and waits for it; no other process waits: `python -m …job_starter`.

The task that submitted the job ends before it does, and its record is read from another machine. What the job's
process cannot write there itself (that it did not begin, or was killed), this one writes.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from paimon_engine.errors import PaimonError
from paimon_engine.job_process import STOPPED, Beating, job_text
from paimon_engine.job_record import JobFailure, JobRecord
from paimon_engine.jobs import Job

GRACE_S: Final = 20.0
"""Time for the job's process to stop by itself, before it is killed with all that it started."""
_LINES: Final = 300
_LOOK_S: Final = 1.0
PROCESS_FAILED: Final = "ProcessFailed"
"""The kind of failure of a process that ended without an outcome."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="job_starter", description=__doc__)
    parser.add_argument("--job", required=True, help="the job, whose store has the record")
    parser.add_argument("--record", required=True, help="folder of the record")
    parser.add_argument("--folder", help="folder with files of the command, which is deleted when that has ended")
    parser.add_argument("command", nargs="+", help="the command that carries it out")
    given = parser.parse_args(arguments)
    job = Job.from_json(job_text(given.job))
    record = JobRecord(given.record, job.store_at(given.record))
    with _locked(given.folder), Beating(record, of_starter=True):
        return _run(record, given.command)


@contextlib.contextmanager
def _locked(folder: str | None) -> Iterator[None]:
    """Keeps a lock on a folder, which shows others that it is in use; removes the folder afterwards."""
    if folder is None:
        yield
        return
    with Path(folder, "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _run(record: JobRecord, command: Sequence[str]) -> int:
    """Runs the command, and sees that the record has an outcome afterwards; gives the exit code."""
    lines: deque[str] = deque(maxlen=_LINES)
    with subprocess.Popen(  # noqa: S603 - the command of our starter
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        is_stopped = _wait(record, process)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        reader.join(timeout=_LOOK_S)
        code = process.wait()
    output = "\n".join(lines)
    if code or is_stopped:
        kind = STOPPED if is_stopped else PROCESS_FAILED
        how = "was stopped on request" if is_stopped else how_it_ended(code)
        # There is an outcome already, unless the process could not write one.
        record.end(JobFailure(kind, f"the engine's process {how}\n{output[-4000:]}"))
    else:
        record.end(JobFailure(PROCESS_FAILED, f"the engine's process ended without an outcome\n{output[-4000:]}"))
    # Last of all: it shows that nothing more will be written.
    with contextlib.suppress(PaimonError):
        record.keep_output(output)
    return code


def how_it_ended(code: int) -> str:
    """The exit code of a process in words."""
    if code >= 0:
        return f"failed with exit code {code}"
    hint = "; the machine may have run out of memory" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


def _read(stream: IO[bytes], lines: deque[str]) -> None:
    for line in stream:
        lines.append(line.decode(errors="replace").rstrip())


def _wait(record: JobRecord, process: subprocess.Popen[bytes]) -> bool:
    """Waits for the process, which sees requests to stop itself; True if there was one. Kills it if it stays."""
    stop_at: float | None = None
    while process.poll() is None:
        time.sleep(_LOOK_S)
        if stop_at is None:
            with contextlib.suppress(PaimonError):
                stop_at = time.monotonic() + GRACE_S if record.is_asked_to_stop() else None
        elif time.monotonic() > stop_at:
            os.killpg(process.pid, signal.SIGKILL)
    return stop_at is not None


if __name__ == "__main__":
    sys.exit(main())
