"""Files outside the table's directory, which manifests name by their full path.

A user who can write a manifest could name any file in it, and have it read or deleted by a process with more
rights. So such files are used only if the caller that opens the table allows it by options of the storage; what
is stored with the table counts for nothing:

    external-paths.allowed      directories, by comma, below which files may be read, and new ones written
    external-paths.deletable    directories, by comma, below which files may be deleted, too, once unneeded

Files below the table's own directory may be read by their full path too.

Source: `DataFilePathFactory`, `ExternalPathProvider` of the Java library, which reads and deletes every file that is
named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_engine.errors import CorruptTableError, UnsupportedError, damaged
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import DataFile
from paimon_engine.options.texts import split_list
from paimon_engine.storage import EXTERNAL_ALLOWED, EXTERNAL_DELETABLE, Storage
from paimon_engine.storage.fenced import unfenced
from paimon_engine.storage.locations import is_below, normal_path
from paimon_engine.table.state.handle import TableHandle, index_file_path


def data_file_at(table: TableHandle, directory: str, file: DataFile) -> tuple[Storage, str]:
    """The store and directory of a data file and its extra files; `directory` is that of its bucket.

    Raises: UnsupportedError if the file is where reading is not allowed.
    """
    if file.external_path is None:
        return table.env.storage, directory
    path = readable_path(table, file.external_path, file.name)
    return store_of(table, path), path.rpartition("/")[0]


def index_path(table: TableHandle, file: IndexFile) -> str:
    """Path of an index file. Raises: UnsupportedError if it is where reading is not allowed."""
    if file.external_path is None:
        return index_file_path(table, file.partition, file.bucket, file.name)
    return readable_path(table, file.external_path, file.name)


def store_of(table: TableHandle, path: str) -> Storage:
    """The store of a path, which may differ from the table's."""
    if not is_outside(table, path):
        return table.env.storage
    if _store(path) == _store(table.paths.root):
        return unfenced(table.env.storage)
    return replace(table.config, address=path).build().storage


def is_outside(table: TableHandle, path: str) -> bool:
    """Whether a full path does not lead into the table's directory."""
    return not path.startswith(f"{table.paths.root}/")


def delete_outside(table: TableHandle, paths: Sequence[str]) -> None:
    """Deletes files outside the table's directory. Raises: StorageError."""
    for path in paths:
        store_of(table, path).delete([path])


def readable_path(table: TableHandle, path: str, name: str) -> str:
    """The full path of the file `name` outside the table's directory, if it may be read.

    Raises: UnsupportedError naming what to do; CorruptTableError if the path is none.
    """
    location = _checked(table, path, name)
    if is_allowed(table, location):
        return location
    raise UnsupportedError(
        f"file {name} of {table.paths.root} is outside the table, in {path[:200]!r}; {remedy('reading that location')}"
    )


def is_allowed(table: TableHandle, path: str) -> bool:
    """Whether the caller allows a full path to be used."""
    allowed = split_list(table.config.options.get(EXTERNAL_ALLOWED, ""))
    return is_below(path, (table.paths.root, *allowed, *_deletable(table)))


def is_deletable(table: TableHandle, path: str) -> bool:
    """Whether the caller allows a file to be deleted at that full path."""
    return is_below(path, _deletable(table))


def remedy(what: str, option: str = EXTERNAL_ALLOWED) -> str:
    """How the caller allows it."""
    return (
        f"to allow {what}, open the table with the storage option '{option}' = '<directory>,…' naming it or one above "
        "it"
    )


def deletable_path(table: TableHandle, path: str, name: str) -> str | None:
    """The full path of the file `name` outside the table's directory, if it may be deleted; else None."""
    try:
        location = _checked(table, path, name)
    except CorruptTableError:
        return None
    return location if is_deletable(table, location) else None


def _deletable(table: TableHandle) -> tuple[str, ...]:
    return split_list(table.config.options.get(EXTERNAL_DELETABLE, ""))


def _checked(table: TableHandle, path: str, name: str) -> str:
    location = normal_path(path)
    if location is None or location.rpartition("/")[2] != name:
        raise damaged(table.paths.root, f"_EXTERNAL_PATH of file {name} is {path[:200]!r}, not its full path")
    return location


def _store(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator and scheme != "file" else ""
