"""Folders of jobs are deleted with their tasks, even with those that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_paimon.job_folder import job_folder

HOLDER = """
import sys
from airflow_provider_paimon.job_folder import job_folder
with job_folder() as folder:
    (folder / "job.json").write_text("{}")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def start() -> tuple[subprocess.Popen[bytes], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().decode().strip())


def age(folder: Path) -> None:
    """Lets the folder look as if it were made an hour ago."""
    os.utime(folder, (time.time() - 3600,) * 2)


def end(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    process.communicate(timeout=60)


def test_the_folder_of_a_killed_task_is_deleted_by_the_next_one():
    process, left = start()
    end(process, signal.SIGKILL)
    age(left)
    assert (left / "job.json").exists()

    with job_folder() as folder:
        assert folder.exists()
        assert not left.exists()
    assert not folder.exists()


def test_the_folder_of_a_task_that_works_stays():
    process, held = start()
    age(held)
    with job_folder():
        pass
    assert (held / "job.json").exists()
    end(process, signal.SIGTERM)


def test_what_is_no_folder_of_ours_stays(temporary: Path):
    outside = temporary / "outside"
    outside.mkdir()
    (outside / "keep").write_text("me")
    (temporary / "paimon-job-link").symlink_to(outside)
    (temporary / "paimon-job-file").write_text("a file")
    fresh = temporary / "paimon-job-fresh"
    fresh.mkdir()
    earlier = temporary / "paimon-job-of-an-earlier-release"
    earlier.mkdir()
    age(earlier)

    with job_folder():
        pass

    assert (outside / "keep").exists()
    assert (temporary / "paimon-job-file").exists()
    assert fresh.exists()
    assert earlier.exists()
