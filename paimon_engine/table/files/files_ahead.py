"""Data files of a read, opened side by side, some of them before their turn: small ones with all of their bytes.

On object stores a request takes as long as to decode thousands of rows. A merge opens the first file of each run at
once, and files that follow each other are read one after another; each was a request that was waited for, and each
large one two or three: its size, and what it ends with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import zip_longest
from typing import BinaryIO, Final

from paimon_engine.errors import PaimonError
from paimon_engine.lsm.sections import Section
from paimon_engine.meta.manifest import DataFile
from paimon_engine.storage import Opener, Storage
from paimon_engine.storage.remote_file import LOOK_BYTES, READ_AHEAD_BYTES, RemoteFile
from paimon_engine.storage.requests import REQUESTS_AT_ONCE, request_pool
from paimon_engine.table.files.external import data_file_at, store_of
from paimon_engine.table.files.index_filter import SUFFIX as INDEX_SUFFIX
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import is_on_object_store

_HELD_BYTES: Final = 32 << 20
"""Bytes that are fetched of files that are not read yet."""
_FORMATS_WITH_FOOTER: Final = ("parquet", "orc")
"""Their readers begin at the end of a file."""


SectionAt = tuple[str, Section, Mapping[str, str]]
"""The directory of a bucket, a section of its files, and the directories of those that are elsewhere, by name."""


def files_ahead(table: TableHandle, sections: Iterable[SectionAt], *, filtered: bool = False) -> Opener | None:
    """What opens the files of sections that are read one after another, on an object store; else None.

    Of a read that is `filtered`, files with an index beside them are left alone, since it may exclude them.
    """
    return _FilesAhead(table, iter(sections), filtered=filtered) if is_on_object_store(table) else None


def in_turn(directory: str, files: Iterable[DataFile]) -> Iterator[SectionAt]:
    """Files of a bucket that are read one after another, as sections."""
    return ((directory, ((file,),), {}) for file in files)


class _FilesAhead:
    """Opens files before they are read, in that order; of large ones it fetches the end.

    Of the first section as many as it has runs, since a merge opens the first file of each at once; then more and more,
    so that a reader who stops early has caused few requests that it did not need.
    """

    def __init__(self, table: TableHandle, sections: Iterator[SectionAt], *, filtered: bool) -> None:
        """Nothing is fetched before the first file is opened."""
        self._table = table
        self._filtered = filtered
        self._sections = sections
        self._next: deque[tuple[str, DataFile]] = deque()
        self._at_once = 1
        self._under_way: dict[str, tuple[Future[BinaryIO], int]] = {}
        self._opened: set[str] = set()
        self._held_bytes = 0

    def _named(self) -> bool:
        """Whether there is a next file."""
        while not self._next and (found := next(self._sections, None)) is not None:
            directory, section, elsewhere = found
            if not self._opened:
                self._at_once = max(self._at_once, len(section))
            self._next.extend((elsewhere.get(file.name, directory), file) for file in _in_order_of_reading(section))
        return bool(self._next)

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        """As `Storage.open`."""
        self._fetch()
        self._opened.add(path)
        self._at_once = min(2 * self._at_once, 2 * REQUESTS_AT_ONCE)
        found = self._under_way.pop(path, None)
        if found is None:
            return store_of(self._table, path).open(path, size_bytes=size_bytes)
        future, held_bytes = found
        self._held_bytes -= held_bytes
        self._fetch()
        return future.result()

    def _fetch(self) -> None:
        """Begins to fetch the next files, as many as there is room for."""
        while len(self._under_way) < self._at_once and self._held_bytes < _HELD_BYTES and self._named():
            directory, file = self._next.popleft()
            has_index = any(name.endswith(INDEX_SUFFIX) for name in file.extra_files)
            if self._filtered and has_index:
                continue
            try:
                storage, directory = data_file_at(self._table, directory, file)
            except PaimonError:
                continue  # It is raised where the file is read, if it is.
            path = f"{directory}/{file.name}"
            if path in self._opened or path in self._under_way:
                continue
            held_bytes = file.size_bytes if file.size_bytes <= READ_AHEAD_BYTES else LOOK_BYTES
            self._under_way[path] = request_pool().submit(_opened, storage, path, file), held_bytes
            self._held_bytes += held_bytes


def _opened(storage: Storage, path: str, file: DataFile) -> BinaryIO:
    found = storage.open(path, size_bytes=file.size_bytes)
    if isinstance(found, RemoteFile) and file.format in _FORMATS_WITH_FOOTER:
        found.hold_end()
    return found


def _in_order_of_reading(section: Section) -> list[DataFile]:
    """The files of a section: the first ones of all runs, which a merge opens at once, then the second ones."""
    return [file for files in zip_longest(*section) for file in files if file is not None]
