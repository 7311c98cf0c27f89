"""Where the new data files of a bucket are written: in its directory, or outside the table where its options say so.

Outside, readers and clean-ups find a file by the full path in its manifest entry. As for reading there, the caller that
opens the table must allow it (`table.files.external`): the options were written by somebody else.

Source: `DataFilePathFactory`, `ExternalPathProvider` of the Java library.
"""

from __future__ import annotations

import logging
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.format.murmur import hash_bytes
from paimon_engine.meta.manifest import DataFile
from paimon_engine.options.external import EXTERNAL_PATHS
from paimon_engine.storage.locations import is_local, normal_path
from paimon_engine.supported import check_writable
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.external import data_file_at, is_allowed, remedy, store_of
from paimon_engine.table.state.handle import TableHandle, bucket_path, index_file_path
from paimon_engine.table.state.unneeded import delete_unneeded

logger = logging.getLogger(__name__)

_ENTROPY_PARTS: Final = ((0, 4), (4, 8), (8, 12), (12, 20))
"""Of the last 20 binary digits of a hash, those that become one directory each."""


def external_directories(table: TableHandle) -> tuple[str, ...]:
    """The directories outside the table that its new files are spread over, local ones without scheme; none: inside.

    Raises: UnsupportedError if the caller does not allow one; InvalidArgumentError.
    """
    found = table.options.external_paths
    directories = []
    for text in () if found is None else found.directories:
        directory = normal_path(text)
        if directory is None:
            raise InvalidArgumentError(
                f"option '{EXTERNAL_PATHS}' names {text[:100]!r}; '.', '..' and empty parts are not allowed in a path"
            )
        if directory == table.paths.root or directory.startswith(f"{table.paths.root}/"):
            raise InvalidArgumentError(
                f"option '{EXTERNAL_PATHS}' names {directory}, which is in the table {table.paths.root} itself, where "
                "clean-ups look for unneeded files; name a directory outside"
            )
        if not is_allowed(table, f"{directory}/file"):
            raise UnsupportedError(
                f"new files of {table.paths.root} are to be written outside the table, to {directory!r} (option "
                f"'{EXTERNAL_PATHS}'); {remedy('that')}"
            )
        directories.append(directory)
    return tuple(directories)


def check_files_writable(table: TableHandle) -> None:
    """Raises UnsupportedError if the engine cannot write files as the table's options require, or may not."""
    check_writable(table.options)
    external_directories(table)


class NewPaths:
    """Chooses a path for each new file of a bucket, and knows those that it chose."""

    def __init__(self, table: TableHandle, partition: bytes, bucket: int) -> None:
        """Nothing is written. Raises: UnsupportedError, InvalidArgumentError as `external_directories`."""
        self._table = table
        self._directory = bucket_path(table, partition, bucket)
        self._directories = external_directories(table)
        self._turn: int | None = None
        self.chosen: list[str] = []
        """All paths so far."""

    def choose(self, name: str) -> str:
        """The path of a new file of that name."""
        self.chosen.append(f"{self._directory_for(name)}/{name}")
        return self.chosen[-1]

    def _directory_for(self, name: str) -> str:
        external = self._table.options.external_paths
        if external is None:
            return self._directory
        # Names are unique, and their hashes as good as random.
        number, weights = hash_bytes(name.encode(), seed=0), external.weights
        if weights is not None:
            root = self._directories[bisect(list(accumulate(weights)), number % sum(weights))]
        else:
            # Many writers begin at the same time, and each may write one file only.
            self._turn = (number if self._turn is None else self._turn + 1) % len(self._directories)
            root = self._directories[self._turn]
        directory = root + self._directory.removeprefix(self._table.paths.root)
        return f"{directory}/{_entropy_directories(number)}" if external.entropy else directory

    def placed(self, files: Iterable[DataFile]) -> list[DataFile]:
        """New files with their full paths, if they are outside the table."""
        if not self._directories:
            return list(files)
        paths = {path.rpartition("/")[2]: path for path in self.chosen}
        return [replace(file, external_path=_as_in_java(paths[file.name])) for file in files]

    def delete_all(self) -> None:
        """Deletes what was written, to which nothing refers; never raises a StorageError."""
        delete_new(self._table, self.chosen)
        self.chosen = []


def _entropy_directories(number: int) -> str:
    """Directories made of a hash, by which stores spread requests."""
    digits = f"{number & 0xFFFFF:020b}"
    return "/".join(digits[begin:end] for begin, end in _ENTROPY_PARTS)


def written_paths(table: TableHandle, message: CommitMessage) -> list[str]:
    """Paths of the files that were written for a message; without those that the caller may not read.

    Files that the message only moves to another level are left out: they are live.
    """
    directory = bucket_path(table, message.partition, message.bucket)
    after = (*message.new_files, *message.compact_after, *message.changelog_files)
    directories = {
        name: _readable_directory(table, file)
        for file in after
        if file.external_path is not None
        for name in (file.name, *file.extra_files)
    }
    places = [(directories.get(name, directory), name) for name in message.written_names()]
    indexes = [file for file in message.new_index_files if file.external_path is None]
    return [
        *(f"{place}/{name}" for place, name in places if place is not None),
        *(index_file_path(table, file.partition, file.bucket, file.name) for file in indexes),
    ]


def unreadable_files(table: TableHandle, message: CommitMessage) -> list[str]:
    """Full paths of the files that were written for a message, and that the caller may not read."""
    written = (*message.new_files, *message.compact_after, *message.changelog_files)
    outside = [file for file in written if file.external_path is not None]
    return [file.external_path or "" for file in outside if _readable_directory(table, file) is None]


def _readable_directory(table: TableHandle, file: DataFile) -> str | None:
    try:
        return data_file_at(table, "", file)[1]
    except PaimonError:
        return None


def delete_new(table: TableHandle, paths: Sequence[str]) -> None:
    """Deletes files to which nothing refers, outside the table too; never raises a PaimonError."""
    outside = [path for path in paths if not path.startswith(f"{table.paths.root}/")]
    delete_unneeded(table.env.storage, [path for path in paths if path not in outside])
    for path in outside:
        try:
            store_of(table, path).delete([path])
        except PaimonError as error:
            logger.warning("%s, outside the table, is left, though nothing refers to it: %s", path, error)


def _as_in_java(path: str) -> str:
    """A full path as `Path.toString` writes it."""
    return f"file:{path}" if is_local(path) else path
