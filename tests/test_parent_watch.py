"""A test run that is killed leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

_ENDS_MAX_S = 30
_CHILD = """
import time
from tests.support.parent_watch import end_with_parent
end_with_parent()
print("ready", flush=True)
try:
    time.sleep(600)
finally:
    print("torn down", flush=True)
"""
_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_whose_parent_is_killed_tears_down_and_ends(how: signal.Signals) -> None:
    command = [sys.executable, "-c", _PARENT, _CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == "ready\n"
            parent.send_signal(how)

            # The pipe ends with the last process that could write to it.
            assert select.select([parent.stdout], [], [], _ENDS_MAX_S)[0]
            assert parent.stdout.read() == "torn down\n"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
