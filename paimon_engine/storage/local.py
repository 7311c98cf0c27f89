"""Local disk, by path or `file://` address; also any mounted file system that looks like one.

Files are flushed to the disk before they become part of a table: a snapshot that survives a power cut must not
name files that did not.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Final, cast

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, NotFoundError, StorageError, UnsupportedError
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.create import Publish, publish
from paimon_engine.storage.locations import in_one_store

_ABSENT = (FileNotFoundError, NotADirectoryError)
_CANNOT_BE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of a path that leads to no file."""
_MAY_DANGLE: Final = (*_CANNOT_BE, errno.EEXIST)
"""Errors that may be due to a link whose target is missing; a directory cannot be made in place of one."""
_BUFFER_BYTES = 1 << 16
"""Longer writes are not copied into a buffer: writers of data files collect larger blocks themselves."""
_DELETIONS_MAX: Final = 5
"""How often a directory is deleted again because others changed it meanwhile."""


class LocalStorage:
    """`Storage` on local disk. `publish` gives a complete file its final name; see `create`."""

    is_object_store = False

    def __init__(self, publish: Publish = publish) -> None:
        self._publish = publish

    def read(self, path: str) -> bytes:
        with _mapped(path), open(local_path(path), "rb") as file:
            return file.read()

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:  # noqa: ARG002 - costs nothing here
        with _mapped(path):
            # Arrow's own file reads without the interpreter lock and without a copy.
            return cast("BinaryIO", pa.OSFile(local_path(path), "rb"))

    def writer(self, path: str) -> BinaryIO:
        with _mapped(path, writes=True):
            return cast("BinaryIO", _LocalFile(path))

    def create(self, path: str, data: bytes) -> bool:
        local = local_path(path)
        with _mapped(path, writes=True):
            temporary = _write_temporary(local, data)
            try:
                created = self._publish(temporary, local)
            finally:
                # The file may exist by now: a second name that cannot be removed must not look like a failure.
                with contextlib.suppress(OSError):
                    _remove(temporary)
            if created:
                _sync_directory(os.path.dirname(local))
            return created

    def overwrite(self, path: str, data: bytes) -> None:
        local = local_path(path)
        with _mapped(path, writes=True):
            temporary = _write_temporary(local, data)
            try:
                os.replace(temporary, local)
            except OSError:
                _remove(temporary)
                raise

    def exists(self, path: str) -> bool:
        # `os.path.exists` says the same of a file that is not there and of a mount that is gone.
        with _mapped(path):
            try:
                os.stat(local_path(path))
            except OSError as error:
                if error.errno not in _CANNOT_BE:
                    raise
                _refuse_dangling(path, error)
                return False
            return True

    def stat(self, path: str) -> FileInfo:
        with _mapped(path):
            return _info(path.rstrip("/"), os.stat(local_path(path)))

    def list_present(self, prefix: str) -> list[FileInfo]:
        """As `list`, without links whose target is missing, for directories that are no table's."""
        with _mapped(prefix):
            return sorted(_children(prefix.rstrip("/"), leaves_dangling=True), key=lambda info: info.path)

    def list(self, prefix: str) -> list[FileInfo]:
        with _mapped(prefix):
            return sorted(_children(prefix.rstrip("/")), key=lambda info: info.path)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        for info in self.list(prefix):
            if info.is_dir:
                yield from self.walk(info.path)
            else:
                yield info

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with _mapped(path):
                try:
                    os.unlink(local_path(path))
                except _ABSENT as error:
                    _refuse_dangling(path, error)

    def delete_dir(self, path: str) -> None:
        # Not empty, absent, or no permission: in each case the directory stays, as the contract says.
        with contextlib.suppress(OSError):
            os.rmdir(local_path(path))

    def make_dir(self, path: str) -> None:
        with _mapped(path, writes=True):
            os.makedirs(local_path(path), exist_ok=True)

    def rename_dir(self, source: str, target: str) -> None:
        if not in_one_store(source, target):
            raise UnsupportedError(f"{source} cannot be renamed to {target}: they are in different stores")
        with _mapped(source):
            _remove_empty(local_path(target))
            if os.path.lexists(local_path(target)):
                raise StorageError(f"{target}: the name is taken")
            os.makedirs(os.path.dirname(local_path(target)), exist_ok=True)
            # A directory that another process makes meanwhile is replaced if it is empty, which loses nothing.
            os.rename(local_path(source), local_path(target))

    def delete_tree(self, path: str) -> None:
        with _mapped(path):
            if os.path.islink(local_path(path)) and os.path.isdir(local_path(path)):
                # As with a link further down, what it leads to stays.
                os.unlink(local_path(path))
                return
            for tries_left in reversed(range(_DELETIONS_MAX)):
                try:
                    shutil.rmtree(local_path(path))
                except OSError:
                    # Others may have added or deleted files in it meanwhile.
                    if not tries_left and os.path.isdir(local_path(path)):
                        raise
                if not os.path.isdir(local_path(path)):
                    _refuse_dangling(path)
                    return


class _LocalFile(io.BufferedIOBase):
    """A file being written: kept and flushed to the disk when closed, deleted when its `with` block fails."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(os.path.dirname(local_path(path)), exist_ok=True)
        self._file = open(local_path(path), "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed by `close`

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        with _mapped(self._path):
            return self._file.write(cast("bytes", data))

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if not self._file.closed:
            with _mapped(self._path):
                self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            with _mapped(self._path):
                try:
                    self._file.flush()
                    os.fsync(self._file.fileno())
                finally:
                    self._file.close()
        super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self.close()
            except StorageError:
                _remove(local_path(self._path))
                raise
            return
        with contextlib.suppress(OSError):
            self._file.close()
        _remove(local_path(self._path))


def local_path(path: str) -> str:
    """The path for the operating system: without the scheme, made absolute."""
    if path.startswith("file://"):
        path = path[len("file://") :]
    elif path.startswith("file:"):
        path = path[len("file:") :]
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{path[:200]!r} contains bytes that are not characters") from error
    if "\0" in path:
        raise InvalidArgumentError(f"{path[:200]!r} contains a NUL character, which no file name may")
    return os.path.abspath(path)


def _info(path: str, found: os.stat_result) -> FileInfo:
    is_dir = stat.S_ISDIR(found.st_mode)
    return FileInfo(path, 0 if is_dir else found.st_size, found.st_mtime_ns // 1_000_000, is_dir)


def _children(prefix: str, *, leaves_dangling: bool = False) -> Iterator[FileInfo]:
    """What is directly in a directory, if it is one.

    Raises: StorageError for a link whose target is missing, unless those are left out, or it is a hidden one, as the
    locks of an editor are.
    """
    try:
        entries = os.scandir(local_path(prefix))
    except _ABSENT as error:
        _refuse_dangling(prefix, error)
        return
    with entries:
        for entry in entries:
            path = f"{prefix}/{entry.name}"
            try:
                found = entry.stat()
            except OSError as error:
                if error.errno not in _MAY_DANGLE:
                    raise
                # A file may be deleted between the listing and its `stat`; then it is left out.
                if not (leaves_dangling or entry.name.startswith(".")):
                    _refuse_dangling(path, error)
                continue
            yield _info(path, found)


def _refuse_dangling(path: str, error: OSError | None = None) -> None:
    """Raises: StorageError if a link on the way to `path` leads nowhere, so that nothing is known of what is there."""
    local = local_path(path)
    while not os.path.lexists(local):
        local = os.path.dirname(local)
        if os.path.isdir(local):
            return
    try:
        target = os.readlink(local)
    except OSError:
        # It is no link, or was deleted just now.
        return
    if not os.path.exists(local):
        raise StorageError(
            f"{local} is a link to {target}, which is missing, perhaps on a disk that is not mounted: mount it, or "
            "remove the link if its target is lost permanently"
        ) from error


def _write_temporary(local: str, data: bytes) -> str:
    """Write complete, flushed bytes next to `local`; returns the name, which is hidden from listings."""
    directory, name = os.path.split(local)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _sync_directory(directory: str) -> None:
    """Flush a new name to the disk; not every system can open a directory, and those that cannot need not."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _remove_empty(local: str) -> None:
    """Removes a directory that has no files, only directories, as a writer that failed leaves them."""
    if os.path.islink(local):
        return
    with contextlib.suppress(OSError):
        if any(files for _, _, files in os.walk(local, onerror=_raise)):
            return
        for directory, _, _ in os.walk(local, topdown=False):
            os.rmdir(directory)


def _raise(error: OSError) -> None:
    raise error


def _remove(local: str) -> None:
    with contextlib.suppress(*_ABSENT):
        os.unlink(local)


@contextlib.contextmanager
def _mapped(path: str, *, writes: bool = False) -> Iterator[None]:
    """Turn the errors of the operating system into ours.

    What `writes` makes its directories, so that one which is missing is a file.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _MAY_DANGLE:
            _refuse_dangling(path, error)
        if writes and isinstance(error, NotADirectoryError):
            raise StorageError(f"{path}: a part of this path is a file, and not a directory") from error
        if isinstance(error, _ABSENT):
            raise NotFoundError(f"No such file: {path}") from error
        if error.errno == errno.ENAMETOOLONG:
            raise StorageError(f"{path[:200]!r}…: the name is too long for the file system") from error
        raise StorageError(f"{path}: {error}") from error
