"""A process that must not outlive the one that started it.

The starter keeps the write end of our standard input open and never writes. When it dies, in whatever way, the
operating system closes that end, reading gives end of file, and this process ends with all that it started.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Final, NoReturn

EXIT_CODE: Final = 70
_GRACE_S: Final = 5.0
"""Time to delete files that were not committed, before the process is killed."""


def exit_when_stdin_closes() -> None:
    """Watches standard input from a thread; returns at once. Also makes SIGTERM end the process as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_watch, name="stdin-guard", daemon=True).start()


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _watch() -> None:
    while _has_input():
        pass
    sys.stderr.write("error: the process that started this one is gone; stopping\n")
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(_GRACE_S)
    # The leader of a group also owns the JVM and the Spark workers in it.
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(EXIT_CODE)


def _has_input() -> bool:
    try:
        return bool(os.read(0, 4096))
    except OSError:
        return False
