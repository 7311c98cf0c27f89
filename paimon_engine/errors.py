"""The error tree, split by what the caller can do about it.

    PaimonError
    ├── NotFoundError            table, snapshot, tag, branch or file: name another one
    ├── InvalidArgumentError     the call is wrong: fix the call
    ├── UnsupportedError         the table needs a feature that the engine lacks: names the option or type
    ├── CorruptTableError        stored bytes break the format: names path, expected and found
    ├── ConflictError            others changed the same things and planning again did not help
    │   └── AlreadyExistsError   the name is taken: choose another one, or say that what is there may stay
    ├── SparkError               Spark failed, or aborted a job: check the cluster, then run it again
    ├── InsufficientMemoryError  the process has not enough memory: give it more, or give the action less
    ├── CallbackError            the action succeeded, but a callback failed: repair the callback and repeat
    └── StorageError             the store failed
        └── OutcomeUnknownError  the operation may have succeeded: check before trying again

Catching `PaimonError` catches everything that the engine raises on purpose.

Conditions that do not stop the engine, but need attention, are reported as `PaimonWarning` by Python's `warnings`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

REMEDY: Final = "restore the file from a copy, or roll back to a snapshot or tag that does not need it"


MASK: Final = "***"
"""What messages show instead of a secret value."""

_HIDDEN: Final[set[str]] = set()
_HIDDEN_LENGTH_MIN: Final = 5
"""Shorter values occur in too many texts by chance."""


def hide(values: Iterable[str]) -> None:
    """From now on error messages in this process do not contain these values, which are secret options."""
    _HIDDEN.update(text for text in values if len(text) >= _HIDDEN_LENGTH_MIN and text.lower() != "false")


@contextmanager
def hidden_within() -> Iterator[None]:
    """What is hidden within the block is shown again after it, for a process that continues with other secrets."""
    before = set(_HIDDEN)
    try:
        yield
    finally:
        _HIDDEN.intersection_update(before)


def masked(text: str) -> str:
    """The text without the values that are hidden in this process."""
    for value in sorted(_HIDDEN, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def shown_cause(error: BaseException) -> BaseException | None:
    """The error of a library as the cause of ours; None if its text has a hidden value: tracebacks show causes."""
    found: BaseException | None = error
    while found is not None:
        text = f"{found} {found!r}"
        if masked(text) != text:
            return None
        found = found.__cause__ or found.__context__
    return error


class PaimonError(Exception):
    """Root of all errors of the engine. Texts in its message are masked, see `hide`."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(item) if isinstance(item, str) else item for item in args))


class NotFoundError(PaimonError):
    """A named thing does not exist: table, snapshot, tag, branch or file."""


class InvalidArgumentError(PaimonError):
    """The call has a wrong argument; the message says how to correct it."""


class UnsupportedError(PaimonError):
    """The table or the call requires a feature that the engine lacks; the message names it."""


class CorruptTableError(PaimonError):
    """Stored bytes break the format; the message names the path, what was expected and what was found."""


class ConflictError(PaimonError):
    """Another writer changed the same files or names; planning again did not help."""


class AlreadyExistsError(ConflictError):
    """What is to be made has a name that is taken; trying again does not help."""


class SparkError(PaimonError):
    """Spark failed, or gave a job up; nothing of it was committed, and the cause is Spark's own error."""


class InsufficientMemoryError(PaimonError, MemoryError):
    """The process could not have the memory that the work needs; nothing was committed, and nothing is damaged."""


class CallbackError(PaimonError):
    """The action succeeded, but a callback that the table names failed; the message names both."""


class StorageError(PaimonError):
    """The store failed; nothing is known to have changed unless the subclass says otherwise."""


class OutcomeUnknownError(StorageError):
    """The store's answer was lost: the operation may or may not have happened."""


def kind_of(error: BaseException) -> str:
    """The name of the error's class, by which another process finds it in this module.

    Of an error of ours it is the nearest class that is defined here: a subclass of one module is found nowhere. Python,
    NumPy and Arrow have a class of their own each for too little memory.
    """
    ours = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == __name__)
    theirs = InsufficientMemoryError if isinstance(error, MemoryError) else type(error)
    return next(ours, theirs.__name__)


class PaimonWarning(UserWarning):
    """Something works, but probably not as intended: a misspelt option, a file with wrong metadata."""


def shown(value: Any) -> str:
    """The `repr` of any value for a message: on one line, and cut if long or deep."""
    try:
        return _REPR.repr(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


def damaged(where: str, what: str) -> CorruptTableError:
    """The error for a stored file that breaks the format; `where` is its path and the position in it."""
    return CorruptTableError(f"{where}: {what}; {REMEDY}")


def unreadable(path: str, kind: str, error: Exception) -> PaimonError:
    """The error for a file that a decoder gave up: it is damaged, unless its bytes or the memory for it are missing.

    `kind` is what it should be: "a Parquet file". Operating systems number their errors, decoders do not; some pass
    them on as texts.
    """
    if isinstance(error, MemoryError):
        return InsufficientMemoryError(f"{path}: there is not enough memory to read it: {error}")
    if (isinstance(error, OSError) and error.errno is not None) or "[errno " in str(error):
        return StorageError(f"{path}: {error}")
    return damaged(path, f"cannot be read as {kind}: {error}")


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Adds the path to errors of decoders, which get bytes without it."""
    try:
        yield
    except CorruptTableError as error:
        if REMEDY in str(error):
            raise
        raise damaged(where, str(error)) from error


@contextmanager
def on_temporary_files() -> Iterator[None]:
    """For a `with` block that writes temporary files, and does nothing else that the operating system may refuse.

    Raises: StorageError that names their directory, if it is full, say.
    """
    try:
        yield
    except OSError as error:
        raise temporary_files_failed(error) from error


def temporary_files_failed(error: OSError) -> StorageError:
    """The error for a temporary file that could not be written."""
    import tempfile

    return StorageError(
        f"a temporary file in {tempfile.gettempdir()} could not be written: {error}; make room there, or let the "
        "environment variable TMPDIR name another directory"
    )
