"""A process that must not outlive the one that started it, and that stops on request.

The starter keeps the write end of our standard input open and never writes. When it dies, in any way, the
operating system closes that end, and reading here gives end of file. Where other processes are between the two, as
`spark-submit` does, the starter holds a lock on a file instead, which ends with it, too.

1. The main thread is interrupted, as by Ctrl-C, so that files that were not committed go and sessions stop.
   SIGTERM does the same: without a handler it would end Python at once.
2. What is left after `GRACE_S` is killed, together with the process group where this process leads one: the JVM and
   the workers of an embedded Spark are in it. A main thread that is blocked in a library's call handles no signal, so
   a thread counts these seconds.
3. So is what is left when this process ends by itself once its starter has died: a JVM that was about to say where it
   listens finds no reader, and would wait without an end.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import select
import signal
import sys
import threading
import time
from types import FrameType
from typing import Final, NoReturn

GRACE_S: Final = 10.0
EXIT_CODE: Final = 70
_STARTER_IS_GONE: Final = threading.Event()


def exit_when_stdin_closes() -> None:
    """Watches standard input from a thread, and takes SIGTERM for Ctrl-C; returns at once. For the main thread."""
    watched = (sys.stdin.fileno(), _take_sigterm())
    threading.Thread(target=_watch, args=watched, name="stdin-guard", daemon=True).start()


def exit_when_free(lock: str) -> None:
    """Watches from a thread until no process has the lock on a file of this machine, and handles SIGTERM like Ctrl-C.

    Returns at once; for the main thread. Raises: OSError if the file is missing.
    """
    descriptor = os.open(lock, os.O_RDWR)
    _take_sigterm()
    threading.Thread(target=_watch_lock, args=(descriptor,), name="lock-guard", daemon=True).start()


def exit_when_asked() -> None:
    """Takes SIGTERM for Ctrl-C, which `stop` needs; for the main thread."""
    _take_sigterm()


def stop() -> NoReturn:
    """Stops this process from another thread: interrupts the main thread, and ends what is left after `GRACE_S`."""
    main = threading.main_thread().ident
    assert main is not None
    # To the main thread itself, so that it also wakes from a blocking read.
    signal.pthread_kill(main, signal.SIGTERM)
    _end_after_grace()


def _take_sigterm() -> int:
    """Takes SIGTERM for Ctrl-C; gives a descriptor from which the numbers of signals are read."""
    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    # The interpreter writes the number of each signal here at once, even where the handler itself has to wait.
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _interrupt)
    # Registered before all others, so that it runs when these have cleaned up.
    atexit.register(_end_group)
    return signals


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # A second signal must not break off the cleaning up that the first one began.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def _end_group() -> None:
    if _STARTER_IS_GONE.is_set() and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)


def _watch(stdin: int, signals: int) -> None:
    if _closed_before_sigterm(stdin, signals):
        _starter_is_gone()
    _end_after_grace()


def _watch_lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _starter_is_gone()


def _starter_is_gone() -> NoReturn:
    _STARTER_IS_GONE.set()
    with contextlib.suppress(OSError):
        os.write(2, b"error: the process that started this one has died; stopping\n")
    stop()


def _end_after_grace() -> NoReturn:
    time.sleep(GRACE_S)
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(EXIT_CODE)


def _closed_before_sigterm(stdin: int, signals: int) -> bool:
    """Waits until standard input ends (True) or SIGTERM comes (False)."""
    while True:
        ready, _, _ = select.select([stdin, signals], [], [])
        if signals in ready and signal.SIGTERM in os.read(signals, 4096):
            return False
        if stdin in ready and not _read(stdin):
            return True


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
