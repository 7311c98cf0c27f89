"""Where the files of a check are: below the table, or outside it where the caller allows reading."""

from __future__ import annotations

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.storage import Storage
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.files.external import data_file_at, index_path, store_of
from paimon_engine.table.reach.reachability import DataPaths
from paimon_engine.table.state.handle import TableHandle


class FileLocations:
    """Paths of files and their sizes; each directory is listed once."""

    def __init__(self, table: TableHandle) -> None:
        self.closed: set[str] = set()
        """Names of the files outside the table that may not be read."""

        self._table = table
        self._paths = DataPaths(table)
        self._directories: dict[str, dict[str, FileInfo]] = {}

    def directory(self, entry: ManifestEntry) -> str | None:
        """Directory of a data file; None where reading is not allowed.

        Raises: CorruptTableError if the manifest names no location.
        """
        try:
            return data_file_at(self._table, self._paths.directory(entry), entry.file)[1]
        except UnsupportedError:
            self.closed.add(entry.file.name)
            return None

    def of(self, entry: ManifestEntry) -> list[tuple[str, int | None]]:
        """Paths of a data file and its extra files, with their sizes where known; none if reading is not allowed.

        Raises: CorruptTableError if the manifest names no location.
        """
        directory, file = self.directory(entry), entry.file
        if directory is None:
            return []
        extras: list[tuple[str, int | None]] = [(f"{directory}/{name}", None) for name in file.extra_files]
        return [(f"{directory}/{file.name}", file.size_bytes), *extras]

    def of_index(self, file: IndexFile) -> str | None:
        """Path of an index file; None where reading is not allowed.

        Raises: CorruptTableError if the index manifest names no location.
        """
        try:
            return index_path(self._table, file)
        except UnsupportedError:
            self.closed.add(file.name)
            return None

    def store(self, path: str) -> Storage:
        """The store of a path."""
        return store_of(self._table, path)

    def size_bytes(self, path: str) -> int | None:
        """Size of a file; None if it is not there."""
        directory = path.rpartition("/")[0]
        if directory not in self._directories:
            listed = self.store(path).list(directory)
            self._directories[directory] = {info.path: info for info in listed if not info.is_dir}
        info = self._directories[directory].get(path)
        return None if info is None else info.size_bytes
