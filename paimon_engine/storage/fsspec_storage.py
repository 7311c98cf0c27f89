"""Any store that fsspec has a file system for: S3, Google Cloud Storage, Azure and so on.

Reading works everywhere. Writing needs create-if-absent in one request, which the object stores in
`create.CONDITIONAL_PUT` offer; elsewhere `create` and `overwrite` raise an error that says so.

Clients try again what was not answered, in several layers whose numbers of tries multiply: one GET that S3 never
answers would take half an hour. So what asks about one file, or for a part of it, has a limit of time for all tries
together. Listings, which may have many pages, and uploads have the limits that the client has for each request.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.exceptions import FSTimeoutError

from paimon_engine.errors import (
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
    shown_cause,
)
from paimon_engine.storage.absence import AbsenceProbe
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.create import CONDITIONAL_PUT
from paimon_engine.storage.locations import in_one_store
from paimon_engine.storage.reading import MappedFile
from paimon_engine.storage.remote_file import READ_AHEAD_BYTES, RemoteFile
from paimon_engine.storage.requests import REQUESTS_AT_ONCE, for_each
from paimon_engine.units import parse_duration_ms

_CONNECTIONS = 2 * REQUESTS_AT_ONCE
_S3_SCHEMES = ("s3", "s3a")
_CREATE_TRIES = 5
_REQUEST_TIMEOUT = "request-timeout"
_REQUEST_TIMEOUT_DEFAULT = "5 min"
_RANGE_BYTES_MAX = 64 << 20
"""What one request reads: more of a slow store might take longer than a request may."""

_NOT_DONE = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError, TypeError, ValueError)
"""Errors of a request that the store refused, so nothing was written."""

_PAIMON_S3_OPTIONS = {
    "s3.endpoint": ("endpoint_url",),
    "s3.access-key": ("key",),
    "s3.secret-key": ("secret",),
    "s3.session-token": ("token",),
    "s3.region": ("client_kwargs", "region_name"),
}
"""Paimon's names of options that s3fs names differently; any other option is passed to the file system unchanged."""

_NUMBERS = frozenset(
    {
        *("default_block_size", "blocksize", "block_size", "max_concurrency", "port"),
        *("timeout", "requests_timeout", "connection_timeout", "read_timeout", "connect_timeout"),
    }
)
"""Options of file systems that are numbers."""


class FsspecStorage:
    """`Storage` over an fsspec file system of one scheme, with all its caches off."""

    def __init__(
        self,
        file_system: Any,
        scheme: str,
        *,
        is_locked: bool = False,
        decides_races: bool = True,
        timeout_ms: int = parse_duration_ms(_REQUEST_TIMEOUT_DEFAULT),
    ) -> None:
        """With `is_locked` callers hold a lock while they create, see `LockedStorage`.

        Without `decides_races` another service decides them, and the store is not tested for it.
        """
        self._fs = file_system
        self._scheme = scheme
        self.is_object_store = scheme in CONDITIONAL_PUT
        # Otherwise s3fs requests the size first, to fetch large files in parts; files that are read completely are
        # small here.
        self._whole = {"max_concurrency": 1} if scheme in _S3_SCHEMES else {}
        self._timeout_ms = timeout_ms
        # Of those that need no event loop fsspec knows no limit.
        self._limit = {"timeout": timeout_ms / 1000} if getattr(file_system, "async_impl", False) else {}
        self._is_locked = is_locked
        self._absence = AbsenceProbe(self._try_create, self.read) if decides_races and not is_locked else None

    def under_lock(self) -> FsspecStorage:
        """The same store for callers that hold a lock while they create, so it does not have to decide races."""
        return FsspecStorage(self._fs, self._scheme, is_locked=True, timeout_ms=self._timeout_ms)

    def beside_server(self) -> FsspecStorage:
        """The same store for tables of a server that creates the files that decide a race."""
        return FsspecStorage(
            self._fs, self._scheme, is_locked=self._is_locked, decides_races=False, timeout_ms=self._timeout_ms
        )

    @classmethod
    def for_scheme(cls, scheme: str, options: Mapping[str, str]) -> FsspecStorage:
        """The storage of a scheme; `options` are the file system's own, Paimon's names for S3, and `request-timeout`.

        Raises: UnsupportedError if no file system is installed for the scheme.
        """
        timeout_ms = _timeout_ms(options.get(_REQUEST_TIMEOUT, _REQUEST_TIMEOUT_DEFAULT))
        options = {name: text for name, text in options.items() if name != _REQUEST_TIMEOUT}
        try:
            # Listings must not be cached: other writers change them at any time.
            file_system = fsspec.filesystem(scheme, **_arguments(scheme, options), use_listings_cache=False)
        except (ImportError, ValueError) as error:
            stores = ", ".join(f"{known}://" for known in sorted(CONDITIONAL_PUT))
            raise UnsupportedError(
                f"No file system for {scheme}:// is installed here: {error}. Allowed are a path on the local disk, "
                f"file:, {stores}, and other schemes of installed fsspec file systems, to read or under a lock"
            ) from shown_cause(error)
        return cls(file_system, scheme, timeout_ms=timeout_ms)

    def read(self, path: str) -> bytes:
        with _mapped(path):
            return cast("bytes", self._fs.cat_file(self._native(path), **self._whole, **self._limit))

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        if not self.is_object_store:
            with _mapped(path):
                file = self._fs.open(self._native(path), "rb", cache_type="readahead", block_size=READ_AHEAD_BYTES)
            return cast("BinaryIO", MappedFile(file, path, _mapped))
        if size_bytes is not None and size_bytes <= READ_AHEAD_BYTES:
            return io.BytesIO(self.read(path))
        info = self.stat(path)
        if info.is_dir:
            raise NotFoundError(f"No such file: {path}")

        def read_range(begin: int, count: int) -> bytes:
            with _mapped(path):
                end = begin + min(count, _RANGE_BYTES_MAX)
                found = self._fs.cat_file(self._native(path), start=begin, end=end, **self._whole, **self._limit)
                return cast("bytes", found)

        return cast("BinaryIO", RemoteFile(path, info.size_bytes, read_range))

    def writer(self, path: str) -> BinaryIO:
        self._check_writable(path)
        with _mapped(path):
            native = self._native(path)
            if not self.is_object_store:
                self._fs.makedirs(self._fs._parent(native), exist_ok=True)  # noqa: SLF001 - no public name
            return cast("BinaryIO", _Upload(self, path, self._fs.open(native, "wb")))

    def create(self, path: str, data: bytes) -> bool:
        self._check_writable(path)
        if not self.is_object_store:
            return self._create_under_lock(path, data)
        if self._absence is not None:
            self._absence.check(path, self._delete_if_possible)
        # The client repeats a request whose answer was lost and then finds its own file.
        return self._try_create(path, data) or self.read(path) == data

    def _try_create(self, path: str, data: bytes) -> bool:
        """Whether the store took the object; False if the name was taken."""
        for attempt in range(_CREATE_TRIES):
            time.sleep(0.05 * attempt)
            try:
                self._fs.pipe_file(self._native(path), data, mode="create", **self._limit)
            except FileExistsError:
                return False
            except _NOT_DONE as error:
                raise StorageError(f"{path}: {error}") from shown_cause(error)
            except Exception as error:  # noqa: BLE001 - clients raise many kinds that are not an OSError
                if _is_race(error):
                    continue
                raise OutcomeUnknownError(f"{path}: may or may not have been created: {_said(error)}") from shown_cause(
                    error
                )
            return True
        raise StorageError(f"{path}: others keep creating it at the same time")

    def _create_under_lock(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        try:
            self.overwrite(path, data)
        except StorageError as error:
            if isinstance(error.__cause__, _NOT_DONE):
                raise
            raise OutcomeUnknownError(f"{path}: may or may not have been created: {error}") from shown_cause(error)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        self._check_writable(path)
        native = self._native(path)
        with _mapped(path):
            if self.is_object_store:
                self._fs.pipe_file(native, data, **self._limit)
                return
            # Readers must not see an incomplete file, and a process that dies in between must not leave one.
            parent, _, name = native.rpartition("/")
            temporary = f"{parent}/.{name}.{uuid.uuid4()}.tmp"
            self._fs.makedirs(parent, exist_ok=True)
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, native)

    def exists(self, path: str) -> bool:
        native = self._native(path)
        with _mapped(path):
            if self.is_object_store:
                return bool(self._fs.exists(native, **self._limit))
            # fsspec's own `exists` says the same of a file that is not there and of a server that does not answer.
            with _if_there():
                self._fs.info(native)
                return True
            return False

    def stat(self, path: str) -> FileInfo:
        path = path.rstrip("/")
        with _mapped(path):
            return _info(path, self._fs.info(self._native(path), **self._limit))

    def list(self, prefix: str) -> list[FileInfo]:
        prefix, native = prefix.rstrip("/"), self._native(prefix)
        entries: Any = []
        with _mapped(prefix), _if_there():
            entries = self._fs.ls(native, detail=True)
        # Pages of a listing may overlap, as where a store is a gateway to others.
        found = {info.path: info for info in _below(prefix, native, entries)}
        return [found[path] for path in sorted(found)]

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        if not self.is_object_store:
            return (info for info in self._tree(prefix) if not info.is_dir)
        prefix, native = prefix.rstrip("/"), self._native(prefix)
        entries: Any = []
        with _mapped(prefix), _if_there():
            entries = self._fs.find(native, detail=True).values()
        return (info for info in _below(prefix, native, entries) if not info.is_dir)

    def _tree(self, prefix: str) -> Iterator[FileInfo]:
        """All files and directories below, each directory before what is in it.

        fsspec's own `find` leaves out directories that cannot be listed, so that their files seem not to be there.
        """
        waiting = [prefix]
        while waiting:
            found = self.list(waiting.pop())
            yield from found
            waiting += [info.path for info in found if info.is_dir]

    def delete(self, paths: Sequence[str]) -> None:
        # One request per file: the bulk call of fsspec treats paths as patterns and may delete other files.
        for_each(self._delete, paths)

    def delete_dir(self, path: str) -> None:
        if not self.is_object_store:
            with contextlib.suppress(OSError):
                self._fs.rmdir(self._native(path))

    def make_dir(self, path: str) -> None:
        if not self.is_object_store:
            with _mapped(path):
                self._fs.makedirs(self._native(path), exist_ok=True)

    def rename_dir(self, source: str, target: str) -> None:
        if self.is_object_store:
            raise UnsupportedError(
                f"Cannot rename {source}: {self._scheme}:// has no directories, so files would be copied one by one; "
                "write the rows to a new table instead"
            )
        if not in_one_store(source, target):
            raise UnsupportedError(f"{source} cannot be renamed to {target}: they are in different stores")
        with _mapped(source):
            if self.exists(target):
                raise StorageError(f"{target}: the name is taken")
            self._fs.makedirs(self._fs._parent(self._native(target)), exist_ok=True)  # noqa: SLF001 - no public name
            self._fs.mv(self._native(source), self._native(target), recursive=True)

    def delete_tree(self, path: str) -> None:
        if self.is_object_store:
            self.delete([info.path for info in self.walk(path)])
            return
        tree = list(self._tree(path))
        self.delete([info.path for info in tree if not info.is_dir])
        with _mapped(path), _if_there():
            for directory in [*(info.path for info in reversed(tree) if info.is_dir), path]:
                self._fs.rmdir(self._native(directory))

    def give_up(self, path: str, upload: Any) -> None:
        """Ends an upload so that it leaves no file."""
        if not self.is_object_store:
            # Written directly to its name, to which nothing refers yet.
            with contextlib.suppress(Exception):
                upload.close()
            self._delete(path)
            return
        with contextlib.suppress(Exception):
            upload.discard()
        # Else the file system completes the upload when the object is collected.
        upload.closed = True

    def _delete_if_possible(self, path: str) -> None:
        with contextlib.suppress(StorageError):
            self._delete(path)

    def _delete(self, path: str) -> None:
        with _mapped(path), _if_there():
            self._fs.rm_file(self._native(path), **self._limit)

    def _native(self, path: str) -> str:
        """The path as the file system spells it, without scheme and trailing slash."""
        return str(self._fs._strip_protocol(path)).rstrip("/")  # noqa: SLF001 - fsspec has no public name for it

    def _check_writable(self, path: str) -> None:
        if not self.is_object_store and not self._is_locked:
            raise UnsupportedError(
                f"Cannot write {path}: {self._scheme}:// offers no atomic create-if-absent here, so two writers could "
                "replace each other's snapshots. "
                f"Writing works on local disk and on {', '.join(sorted(CONDITIONAL_PUT))}, "
                "and elsewhere through a JDBC catalog with 'lock.enabled' = 'true'"
            )


class _Upload(io.BufferedIOBase):
    """An upload that is completed when closed, and given up when the `with` block fails."""

    def __init__(self, storage: FsspecStorage, path: str, upload: Any) -> None:
        self._storage = storage
        self._path = path
        self._upload = upload

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        with _mapped(self._path):
            # Arrow passes buffers, which fsspec does not accept as bytes.
            return int(self._upload.write(memoryview(cast("bytes", data)).cast("B")))

    def tell(self) -> int:
        return int(self._upload.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _mapped(self._path):
                try:
                    self._upload.close()
                except BaseException:
                    # The store keeps, and charges for, the parts of an upload that is neither completed nor given up.
                    self._storage.give_up(self._path, self._upload)
                    raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self.closed:
            self._storage.delete([self._path])
        else:
            super().close()
            self._storage.give_up(self._path, self._upload)

    def __del__(self) -> None:
        """Nothing: an upload that was dropped without being closed leaves no file."""


def _timeout_ms(text: str) -> int:
    try:
        if (found := parse_duration_ms(text)) > 0:
            return found
    except InvalidArgumentError:
        pass
    raise InvalidArgumentError(f"storage option {_REQUEST_TIMEOUT}: {text!r} is not a time, such as '5 min'")


def _arguments(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Options as the arguments of a file system: JSON objects, lists and booleans become values."""
    arguments: dict[str, Any] = {}
    if scheme in _S3_SCHEMES:
        # By default it has ten connections, for which further requests wait.
        _put(arguments, ("config_kwargs", "max_pool_connections"), _CONNECTIONS)
    for name, text in options.items():
        if name == "s3.path.style.access":
            style = "path" if text.lower() == "true" else "auto"
            _put(arguments, ("config_kwargs", "s3", "addressing_style"), style)
        elif name in _PAIMON_S3_OPTIONS:
            _put(arguments, _PAIMON_S3_OPTIONS[name], text)
        elif name.startswith("s3."):
            known = ", ".join([*_PAIMON_S3_OPTIONS, "s3.path.style.access"])
            raise InvalidArgumentError(f"Unknown storage option {name}; known are {known}, and all options of s3fs")
        else:
            _put(arguments, (name,), _value(name, text))
    return arguments


def _value(name: str, text: str) -> Any:
    if text[:1] in ("{", "[") or text in ("true", "false"):
        return json.loads(text)
    # Not whatever looks like a number, which may be a user or a password.
    if name in _NUMBERS:
        with contextlib.suppress(ValueError):
            return float(text) if "." in text else int(text)
        raise InvalidArgumentError(f"storage option {name}: {text!r} is not a number")
    return text


def _put(arguments: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested dictionaries; a dictionary is merged into an existing one."""
    *parents, name = path
    for parent in parents:
        arguments = arguments.setdefault(parent, {})
    if isinstance(value, dict):
        value = {**arguments.get(name, {}), **value}
    arguments[name] = value


def _below(prefix: str, native: str, entries: Any) -> Iterator[FileInfo]:
    """Entries strictly below a directory, without the marker objects of directories themselves."""
    for entry in entries:
        name = str(entry["name"]).rstrip("/")
        if name.startswith(f"{native}/"):
            yield _info(prefix + name[len(native) :], entry)


def _info(path: str, entry: Mapping[str, Any]) -> FileInfo:
    if entry["type"] == "directory":
        return FileInfo(path, 0, 0, is_dir=True)
    return FileInfo(path, int(entry["size"] or 0), _modified_ms(entry), is_dir=False)


def _modified_ms(entry: Mapping[str, Any]) -> int:
    """The modification time, whose name and type differ between file systems; 0 if it gives none."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "modified", "created"):
        value = entry.get(name)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def _is_race(error: BaseException) -> bool:
    """Whether S3 answered that another client was creating the same object, after which a retry is expected."""
    return any("ConditionalRequestConflict" in str(found) for found in (error, error.__cause__))


def _is_absence(error: OSError) -> bool:
    """Whether there is no such file. Clients have kinds of their own, with the number of the system's error.

    Of the files of a bucket that does not exist nothing is known: its name is wrong, or it is not made yet.
    """
    answer = getattr(error.__cause__, "response", None)
    if isinstance(answer, Mapping) and answer.get("Error", {}).get("Code") == "NoSuchBucket":
        return False
    return isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno in (errno.ENOENT, errno.ENOTDIR)


@contextlib.contextmanager
def _if_there() -> Iterator[None]:
    """Ends the block where a file is not there."""
    try:
        yield
    except OSError as error:
        if not _is_absence(error):
            raise


@contextlib.contextmanager
def _mapped(path: str) -> Iterator[None]:
    """Turn what a file system raises into our errors; clients raise many kinds that are not an OSError."""
    try:
        yield
    except PaimonError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        if isinstance(error, OSError) and _is_absence(error):
            raise NotFoundError(f"No such file: {path}") from shown_cause(error)
        raise StorageError(f"{path}: {_said(error)}") from shown_cause(error)


def _said(error: Exception) -> str:
    """What a client says has happened."""
    if isinstance(error, FSTimeoutError):
        return f"the store has not answered within the time of the storage option '{_REQUEST_TIMEOUT}', tries included"
    return f"{type(error).__name__}: {error}"
