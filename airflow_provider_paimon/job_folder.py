"""The folder in which a task and its process exchange the job and its result.

A task that is killed cannot remove its folder. So in each folder there is a file that its task has locked. The lock
ends with the task, however that ends, and the next task on this machine removes folders whose lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "paimon-job-"
_LOCK: Final = "lock"
_BEGUN_S: Final = 60
"""A folder whose lock was just made may not be locked yet."""
_LOCKLESS_S: Final = 7 * 86_400
"""Folders of earlier releases have no lock, and their tasks may still be running."""


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A folder for the length of a `with` block; removes those that killed tasks have left."""
    _remove_left()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as directory,
        Path(directory, _LOCK).open("wb") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(directory)


def kept_folder() -> Path:
    """A folder for a process that continues when the task ends: that one must keep the lock, and remove the folder.

    It has a minute to take the lock.
    """
    _remove_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (folder / _LOCK).touch()
    return folder


def _remove_left() -> None:
    """Removes folders of this user that no task has locked any more. If that is not known, they stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            is_ours = found.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            least_s = _BEGUN_S if (folder / _LOCK).exists() else _LOCKLESS_S
            if is_ours and time.time() - found.st_mtime > least_s and not _is_held(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _is_held(path: Path) -> bool:
    """Whether a task has the folder's lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
