"""Deleting files to which nothing refers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

from paimon_engine.errors import StorageError
from paimon_engine.storage import Storage

logger = logging.getLogger(__name__)


def delete_unneeded(storage: Storage, paths: Sequence[str]) -> None:
    """Deletes files to which nothing refers; never raises a StorageError, which would hide what has happened."""
    if not paths:
        return
    try:
        storage.delete(paths)
    except StorageError as error:
        logger.warning("files that nothing refers to are left for the removal of orphans: %s", error)


class _Discarded(BaseException):
    """Makes the context of a storage writer end without its file."""


def discard(writer: AbstractContextManager[BinaryIO]) -> None:
    """Ends the context of a storage writer: what the store has of the file so far is deleted."""
    writer.__exit__(_Discarded, _Discarded(), None)
