"""The error tree, split by what the caller can do about it.

    PaimonError
    ├── NotFoundError            table, snapshot, tag, branch or file: ask for something else
    ├── InvalidArgumentError     the call is wrong: fix the call
    ├── UnsupportedError         the table asks for something that we do not do: names the option or type
    ├── CorruptTableError        stored bytes break the format: names path, expected and found
    ├── ConflictError            others changed the same things and planning again did not help
    ├── CallbackError            the work is done, but who should hear of it failed: mend that and repeat
    └── StorageError             the store failed
        └── OutcomeUnknownError  it may or may not have happened: look before trying again

Catching `PaimonError` catches everything that the engine raises on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WAY_OUT: Final = "bring the file back from a copy, or go back to a snapshot or tag that does without it"


class PaimonError(Exception):
    """Root of all errors of the engine."""


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


class CallbackError(PaimonError):
    """The work is done, but a callback that the table names failed to hear of it; the message names both."""


class StorageError(PaimonError):
    """The store failed; nothing is known to have changed unless the subclass says otherwise."""


class OutcomeUnknownError(StorageError):
    """The store's answer was lost: the operation may or may not have happened."""


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
