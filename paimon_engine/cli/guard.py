"""A process that must not outlive the one that started it.

The starter keeps the write end of our standard input open and never writes. When it dies, in whatever way, the
operating system closes that end, and reading here gives end of file.

1. The main thread is interrupted, so that sessions stop and temporary files go.
2. What is left after `GRACE_S` is killed, together with the process group where this process leads one: the JVM and
   the workers of an embedded Spark are in it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Final

GRACE_S: Final = 10.0
_EXIT_CODE: Final = 70


def exit_when_stdin_closes() -> None:
    """Watches standard input from a thread; returns at once."""
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="stdin-guard", daemon=True).start()


def _watch(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, 4096):
            pass
    with contextlib.suppress(OSError):
        os.write(2, b"error: the process that started this one is gone; stopping\n")
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)
    time.sleep(GRACE_S)
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(_EXIT_CODE)
