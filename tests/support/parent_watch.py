"""Lets a process of the tests end with the one that started it.

`make test` that is killed would leave pytest, its workers, and the servers that these have started.
"""

from __future__ import annotations

import os
import signal
import threading
import time

_LOOK_EVERY_S = 1.0
_TEARDOWN_MAX_S = 30.0


def end_with_parent() -> None:
    """From now on this process ends as by Ctrl-C, fixtures torn down, once its parent has ended or it gets SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):  # what a shell has started in the background ignores the first
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TEARDOWN_MAX_S)
    os._exit(1)
