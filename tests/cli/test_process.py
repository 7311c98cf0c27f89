"""The command line as a separate process, and jobs that end with their starter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_engine import Table
from paimon_engine.actions.write import Write
from paimon_engine.guard import GRACE_S
from paimon_engine.jobs import Job, TableRef

COMMAND = [sys.executable, "-m", "paimon_engine"]


def test_it_runs_as_a_module(table: Table):
    done = subprocess.run(
        [*COMMAND, "read", table.path, "-c", "k"], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.split() == ["k", "1", "2", "3"]


def test_a_failed_task_shows_its_trace_only_on_request(table: Table):
    for data_file in Path(table.path).rglob("*.parquet"):
        data_file.write_bytes(b"broken")

    plain = subprocess.run([*COMMAND, "read", table.path], capture_output=True, text=True, timeout=120, check=False)
    verbose = subprocess.run(
        [*COMMAND, "--verbose", "read", table.path], capture_output=True, text=True, timeout=120, check=False
    )

    assert (plain.returncode, verbose.returncode) == (1, 1)
    assert "Traceback" not in plain.stderr
    assert "Traceback" in verbose.stderr


INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
runpy.run_module("paimon_engine", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["paimon_engine.cli", "typer", "rich", "paimon_engine.catalog", "pyarrow"])
def test_an_interruption_while_modules_are_loaded_leaves_no_trace(module: str, table: Table):
    """Ctrl-C just before a module is loaded: the first ones come before the command line can handle it itself."""
    code = f"MODULE = {module!r}\n{INTERRUPTED}"
    done = subprocess.run([sys.executable, "-c", code, "read", table.path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.fixture
def guarded(table: Table, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A guarded job that waits without end for its source, a named pipe."""
    source = tmp_path / "never.csv"
    os.mkfifo(source)
    job = tmp_path / "job.json"
    job.write_text(Job(TableRef(path=table.path), Write(str(source), format="csv"), "me").to_json())
    command = [*COMMAND, "run", "--job", str(job), "--guard", "--progress", "json"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("@paimon ")
        yield process
        if process.poll() is None:
            process.kill()


def ends_within(process: subprocess.Popen[str], seconds: float) -> int:
    begun = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() - begun < seconds, "still running"
        time.sleep(0.02)
    assert process.returncode is not None
    return process.returncode


# Mostly the job hangs in a library's call by then, which no signal interrupts: after the grace time it is killed.
ENDED = (130, -signal.SIGKILL)


def test_a_guarded_job_ends_with_its_starter(guarded: subprocess.Popen[str]):
    assert guarded.poll() is None
    assert guarded.stdin is not None
    assert guarded.stderr is not None

    guarded.stdin.close()

    assert ends_within(guarded, GRACE_S + 60) in ENDED
    assert "the process that started this one has died" in guarded.stderr.read()


def test_a_guarded_job_ends_on_request(guarded: subprocess.Popen[str]):
    guarded.send_signal(signal.SIGTERM)

    assert ends_within(guarded, GRACE_S + 60) in ENDED


def test_a_misspelt_option_is_reported_in_a_line(tmp_path: Path):
    """In a separate process: within a test run, warnings are errors."""
    statement = "CREATE TABLE db.t (k INT) WITH ('buckt' = '2')"
    done = subprocess.run(
        [*COMMAND, "create", statement, "-w", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0
    assert done.stderr == "option 'buckt' is unknown, so it has no effect; did you mean 'bucket'?\n"
