"""What a verification finds: problems, of which some are errors of reading; other errors end it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InsufficientMemoryError,
    InvalidArgumentError,
    NotFoundError,
    SparkError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.executor import Failed
from paimon_engine.table.reach.reachability import Unreadable

FINDINGS: Final = (CorruptTableError, NotFoundError, UnsupportedError, InvalidArgumentError, ConflictError)
"""What is wrong with what is stored. A store that fails says nothing about a table: its error ends the verification."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it must be: `where` is a snapshot, tag or path."""

    where: str
    what: str


def problem_at(path: str, root: Unreadable) -> Problem:
    """What is wrong with a root. Raises: StorageError, where only its store is."""
    if root.may_pass:
        raise StorageError(root.reason)
    return Problem(path, root.reason)


def problem_of(failed: Failed) -> str:
    """What a task that could not read a file has found.

    Raises: StorageError, SparkError, InsufficientMemoryError.
    """
    error = failed.error()
    if isinstance(error, StorageError | SparkError | InsufficientMemoryError):
        raise error
    return f"cannot be read: {failed.message}"
