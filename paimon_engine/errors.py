"""The error tree, split by what the caller can do about it.

    PaimonError
    ├── NotFoundError            table, snapshot, tag, branch or file: ask for something else
    ├── InvalidArgumentError     the call is wrong: fix the call
    ├── UnsupportedError         the table asks for something that we do not do: names the option or type
    ├── CorruptTableError        stored bytes break the format: names path, expected and found
    ├── ConflictError            others changed the same things and planning again did not help
    ├── SparkError               Spark failed, or gave a job up: look at the cluster, then run it again
    ├── CallbackError            the work is done, but who should hear of it failed: mend that and repeat
    └── StorageError             the store failed
        └── OutcomeUnknownError  it may or may not have happened: look before trying again

Catching `PaimonError` catches everything that the engine raises on purpose.

What goes on all the same, but should be looked at, comes as a `PaimonWarning` of Python's `warnings`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

WAY_OUT: Final = "bring the file back from a copy, or go back to a snapshot or tag that does without it"


MASK: Final = "***"
"""What messages show instead of a value that nobody should see."""

_HIDDEN: Final[set[str]] = set()
_HIDDEN_LENGTH_MIN: Final = 5
"""Shorter values stand in too many texts by chance."""


def hide(values: Iterable[str]) -> None:
    """From now on no message of an error in this process holds one of these values; they are secrets of options."""
    _HIDDEN.update(text for text in values if len(text) >= _HIDDEN_LENGTH_MIN and text.lower() != "false")


def masked(text: str) -> str:
    """The text without the values that are hidden in this process."""
    for value in sorted(_HIDDEN, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def shown_cause(error: BaseException) -> BaseException | None:
    """The error of a library, to be the cause of ours; None if it tells what is hidden, as tracebacks show causes."""
    found: BaseException | None = error
    while found is not None:
        told = f"{found} {found!r}"
        if masked(told) != told:
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
    """The call cannot be carried out as it stands; the message says how to mend it."""


class UnsupportedError(PaimonError):
    """The table or the call asks for a feature that the engine lacks; the message names it."""


class CorruptTableError(PaimonError):
    """Stored bytes break the format; the message names the path, what was expected and what was found."""


class ConflictError(PaimonError):
    """Somebody else changed the same files or names; planning again did not help."""


class SparkError(PaimonError):
    """Spark failed, or gave a job up; nothing of it was committed, and the cause is Spark's own error."""


class CallbackError(PaimonError):
    """The work is done, but a callback that the table names failed to hear of it; the message names both."""


class StorageError(PaimonError):
    """The store failed; nothing is known to have changed unless the subclass says otherwise."""


class OutcomeUnknownError(StorageError):
    """The store's answer was lost: the operation may or may not have happened."""


class PaimonWarning(UserWarning):
    """Something works, but not as it was meant: a misspelt option, a file that another writer described wrongly."""


def shown(value: Any) -> str:
    """A value for a message: cut, on one line, whatever it is and however deep."""
    try:
        return _REPR.repr(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


def damaged(where: str, what: str) -> CorruptTableError:
    """The error for a stored file, `where` its path and the place in it, that is not as the format has it."""
    return CorruptTableError(f"{where}: {what}; {WAY_OUT}")


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Adds the place to errors of decoders that get bytes and do not know where these come from."""
    try:
        yield
    except CorruptTableError as error:
        if WAY_OUT in str(error):
            raise
        raise damaged(where, str(error)) from error
