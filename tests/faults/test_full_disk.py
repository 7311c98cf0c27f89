"""A real file system that is full, in a mount of its own; see `full_disk`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SIZE = "3m"


def test_a_full_disk_loses_nothing_and_leaves_nothing(tmp_path: Path):
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare here, to mount a small file system with")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(tmp_path)]
    begin = [unshare, "--mount", "--map-root-user"]
    tried = subprocess.run([*begin, *mount], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {tried.stderr.strip()}")

    script = f'{shlex.join(mount)} && exec "$0" -m tests.faults.full_disk "$1"'
    command = [*begin, "sh", "-c", script, sys.executable, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["succeeded"] > 0
    assert outcomes["StorageError"] > 0
