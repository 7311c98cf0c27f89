"""Files and directories that appear at once, or not at all, under names that others read.

Where a store has directories, what is written has another name beside the final one until it is complete, and gets
the final one in one step. An object store shows no object before it is complete; a directory there is a prefix, whose
objects appear one by one, so that readers wait for its last file, `_SUCCESS`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from paimon_engine.errors import ConflictError, NotFoundError, OutcomeUnknownError, StorageError
from paimon_engine.storage.base import Storage
from paimon_engine.storage.create import publish
from paimon_engine.storage.local import LocalStorage, local_path


def create_own(storage: Storage, path: str, data: bytes) -> bool:
    """Creates a file of a name that others may choose too: whether it has our content then.

    A store's client repeats a request whose answer was lost, and the second one is refused by what the first one made.
    Raises: OutcomeUnknownError if the answer was lost and there is no such file, which may still appear; StorageError.
    """
    try:
        if storage.create(path, data):
            return True
    except OutcomeUnknownError:
        if not storage.exists(path):
            raise
    try:
        return storage.read(path) == data
    except NotFoundError:  # others have deleted theirs meanwhile
        return False


def shows_incomplete(storage: Storage) -> bool:
    """Whether files are visible while they are written, as on disks; directories can be renamed there."""
    return not storage.is_object_store


@contextmanager
def whole_file(storage: Storage, path: str, *, replace: bool) -> Iterator[BinaryIO]:
    """A file to write, which appears under its name when the `with` block ends, and not where it fails.

    Raises: ConflictError if the name is taken and `replace` is false; StorageError.
    """
    if not replace and storage.exists(path):
        raise ConflictError(f"{path} exists")
    if not shows_incomplete(storage):
        with storage.writer(path) as sink:
            yield sink
        return
    partial = beside(path)
    with storage.writer(partial) as sink:
        yield sink
    try:
        _publish(storage, partial, path, replace=replace)
    except BaseException:
        with suppress(StorageError):
            storage.delete([partial])
        raise


def _publish(storage: Storage, partial: str, path: str, *, replace: bool) -> None:
    """Gives a complete file its final name. Raises: ConflictError, StorageError."""
    if isinstance(storage, LocalStorage):
        source, target = local_path(partial), local_path(path)
        try:
            if replace:
                os.replace(source, target)
                return
            created = publish(source, target)
        except OSError as error:
            raise StorageError(f"{path}: {error}") from error
        if not created:
            raise ConflictError(f"{path} exists")
        storage.delete([partial])
        return
    if replace:
        storage.delete([path])
    storage.rename_dir(partial, path)


def publish_directory(storage: Storage, partial: str, path: str) -> None:
    """Gives a directory its final name; one that is there is replaced, unless that fails.

    Between the two, for the time of two renames, there is none.
    """
    if not storage.exists(path):
        storage.rename_dir(partial, path)
        return
    old = beside(path)
    storage.rename_dir(path, old)
    try:
        storage.rename_dir(partial, path)
    except BaseException:
        storage.rename_dir(old, path)
        raise
    storage.delete_tree(old)


def beside(path: str) -> str:
    """A name beside a path that nothing else uses, and that programs which read directories leave out."""
    directory, slash, name = path.rstrip("/").rpartition("/")
    return f"{directory}{slash}.{name}.{uuid.uuid4().hex[:12]}.partial"
