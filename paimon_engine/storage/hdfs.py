"""HDFS, by hdfs-native: a client in Rust that needs neither Java nor Hadoop's libraries.

The NameNode decides races: a rename that is not told to overwrite fails if the name is taken, in one step. So a file
that must appear complete and once is written beside its name and renamed, and commits need no lock. Java's engine does
the same, so writers of both exclude each other.

The configuration comes from `HADOOP_CONF_DIR` (`core-site.xml`, `hdfs-site.xml`), which knows nameservices with several
NameNodes, or from options.

Source: `HadoopFileIO`, `HadoopUtils`, `SecurityConfiguration` of the Java library; `FSDirRenameOp` of Hadoop.
"""

from __future__ import annotations

import contextlib
import io
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Final, TypeVar, cast

from paimon_engine.errors import (
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
    shown_cause,
)
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.remote_file import READ_AHEAD_BYTES, RemoteFile
from paimon_engine.storage.requests import for_each

SCHEMES: Final = ("hdfs", "viewfs")

_CONF_DIR: Final = "hadoop-conf-dir"
_PRINCIPAL: Final = "security.kerberos.login.principal"
_KEYTAB: Final = "security.kerberos.login.keytab"
_HADOOP_PREFIX: Final = "hadoop."
_SETTING_PREFIXES: Final = ("dfs.", "fs.")
_SHOWN_MAX: Final = 300

_T = TypeVar("_T")


class HdfsStorage:
    """`Storage` of all paths with one scheme, `hdfs` or `viewfs`.

    A client is made per nameservice, when it is needed.
    """

    is_object_store = False

    def __init__(self, scheme: str, options: Mapping[str, str]) -> None:
        """Raises: InvalidArgumentError for unknown options; UnsupportedError if hdfs-native is not installed."""
        self._scheme = scheme
        self._library = _library()
        self._settings, self._more = _client_arguments(options)
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def read(self, path: str) -> bytes:
        return _mapped(path, lambda: cast("bytes", self._client(path).read(self._native(path)).read()))

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        if size_bytes is not None and size_bytes <= READ_AHEAD_BYTES:
            return io.BytesIO(self.read(path))
        reader = _mapped(path, lambda: self._client(path).read(self._native(path)))

        def read_range(begin: int, count: int) -> bytes:
            return _mapped(path, lambda: cast("bytes", reader.read_range(begin, count)))

        return cast("BinaryIO", RemoteFile(path, len(reader), read_range, from_threads=False))

    def writer(self, path: str) -> BinaryIO:
        return cast("BinaryIO", _Writer(self, path, self._begin(path)))

    def create(self, path: str, data: bytes) -> bool:
        temporary = self._beside(path, data)
        native = self._native(path)
        try:
            self._client(path).rename(self._native(temporary), native, False)
        except (FileExistsError, FileNotFoundError) as error:
            # The client repeats a request whose answer was lost, and the repeated one then finds the first one's file.
            return self._is_there(path, data, error, temporary)
        except Exception as error:  # noqa: BLE001 - the client raises many kinds
            if _is_refused(error):
                self._delete_if_possible(temporary)
                raise StorageError(f"{path}: {_message_of(error)}") from shown_cause(error)
            # The temporary file stays: the request may still be carried out.
            raise OutcomeUnknownError(
                f"{path}: may or may not have been created: {_message_of(error)}"
            ) from shown_cause(error)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        temporary = self._beside(path, data)
        try:
            _mapped(path, lambda: self._client(path).rename(self._native(temporary), self._native(path), True))
        except PaimonError:
            self._delete_if_possible(temporary)
            raise

    def exists(self, path: str) -> bool:
        return self._status(path) is not None

    def stat(self, path: str) -> FileInfo:
        status = self._status(path)
        if status is None:
            raise NotFoundError(f"No such file: {path}")
        return _info(path.rstrip("/"), status)

    def list(self, prefix: str) -> list[FileInfo]:
        prefix, native = prefix.rstrip("/"), self._native(prefix)

        def entries() -> list[Any]:
            try:
                return list(self._client(prefix).list_status(native, False))
            except FileNotFoundError:
                return []
            except RuntimeError as error:
                if _is_below_a_file(error):
                    return []
                raise

        found = []
        # A file is listed as itself.
        for status in _mapped(prefix, entries):
            if status.path.startswith(f"{native.rstrip('/')}/"):
                found.append(_info(prefix + status.path[len(native.rstrip("/")) :], status))
        return sorted(found, key=lambda info: info.path)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        # Directory by directory: a recursive listing fails if one of them is deleted meanwhile.
        waiting = [prefix.rstrip("/")]
        while waiting:
            for info in self.list(waiting.pop()):
                if info.is_dir:
                    waiting.append(info.path)
                else:
                    yield info

    def delete(self, paths: Sequence[str]) -> None:
        for_each(self._delete, paths)

    def delete_dir(self, path: str) -> None:
        status = self._status(path)
        if status is None or not status.isdir:
            return
        try:
            self._client(path).delete(self._native(path), False)
        except Exception as error:  # noqa: BLE001 - the client raises many kinds
            if "PathIsNotEmptyDirectoryException" not in str(error):
                raise StorageError(f"{path}: {_message_of(error)}") from shown_cause(error)

    def make_dir(self, path: str) -> None:
        _mapped(path, lambda: self._client(path).mkdirs(self._native(path), 0o755, True))

    def rename_dir(self, source: str, target: str) -> None:
        if self._authority(source) != self._authority(target):
            raise UnsupportedError(f"{source} cannot be renamed to {target}: they are in different file systems")
        if self.exists(target):
            raise StorageError(f"{target}: the name is taken")
        self.make_dir(target.rstrip("/").rpartition("/")[0])
        try:
            self._client(source).rename(self._native(source), self._native(target), False)
        except FileNotFoundError as error:
            raise NotFoundError(f"No such directory: {source}") from shown_cause(error)
        except Exception as error:  # noqa: BLE001 - the client raises many kinds
            raise StorageError(f"{source}: {_message_of(error)}") from shown_cause(error)

    def delete_tree(self, path: str) -> None:
        if not self._native(path).strip("/"):
            raise StorageError(f"{path}: the root of a file system is not deleted")
        _mapped(path, lambda: self._client(path).delete(self._native(path), True))

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def give_up(self, path: str, sink: Any) -> None:
        """Ends a file that was not completed, so that nothing is left of it."""
        with contextlib.suppress(Exception):
            sink.close()
        self._delete_if_possible(path)

    def _begin(self, path: str) -> Any:
        options = self._library.WriteOptions(overwrite=False, create_parent=True)
        return _mapped(path, lambda: self._client(path).create(self._native(path), options))

    def _beside(self, path: str, data: bytes) -> str:
        """A complete file with that content beside the path, with the name of a temporary file. Returns: its path."""
        parent, _, name = path.rpartition("/")
        temporary = f"{parent}/.{name}.{uuid.uuid4()}.tmp"
        with self.writer(temporary) as sink:
            sink.write(data)
        return temporary

    def _is_there(self, path: str, data: bytes, error: OSError, temporary: str) -> bool:
        """Whether the file that took the name has these bytes. Raises: StorageError if there is none."""
        try:
            found = self.read(path) == data
        except NotFoundError as missing:
            self._delete_if_possible(temporary)
            raise StorageError(f"{path}: {_message_of(error)}") from missing
        self._delete_if_possible(temporary)
        return found

    def _status(self, path: str) -> Any | None:
        def status() -> Any | None:
            try:
                return self._client(path).get_file_info(self._native(path))
            except FileNotFoundError:
                return None

        return _mapped(path, status)

    def _delete(self, path: str) -> None:
        status = self._status(path)
        if status is None:
            return
        if status.isdir:
            raise StorageError(f"{path}: it is a directory, and was to be deleted as a file")
        _mapped(path, lambda: self._client(path).delete(self._native(path), False))

    def _delete_if_possible(self, path: str) -> None:
        with contextlib.suppress(StorageError):
            self._delete(path)

    def _client(self, path: str) -> Any:
        authority = self._authority(path)
        with self._lock:
            if authority not in self._clients:
                url = f"{self._scheme}://{authority}" if authority else None
                self._clients[authority] = _mapped(path, lambda: self._made(url))
            return self._clients[authority]

    def _made(self, url: str | None) -> Any:
        try:
            return self._library.Client(url, self._settings, **self._more)
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"{url or f'{self._scheme}:///'}: {_message_of(error)}; name host and port, or give the configuration "
                f"of the cluster by HADOOP_CONF_DIR or the storage option '{_CONF_DIR}'"
            ) from shown_cause(error)

    def _authority(self, path: str) -> str:
        return path.removeprefix(f"{self._scheme}://").partition("/")[0]

    def _native(self, path: str) -> str:
        """The path in its file system, taken literally, without a slash at its end."""
        return f"/{path.removeprefix(f'{self._scheme}://').partition('/')[2]}".rstrip("/") or "/"


class _Writer(io.BufferedIOBase):
    """A file that is complete when closed, and deleted when the `with` block fails."""

    def __init__(self, storage: HdfsStorage, path: str, sink: Any) -> None:
        self._storage = storage
        self._path = path
        self._sink = sink
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(cast("bytes", data)).cast("B")
        if len(view):
            _mapped(self._path, lambda: self._sink.write(view))
        self._at += len(view)
        return len(view)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            super().close()
            _mapped(self._path, self._sink.close)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()
            self._storage.give_up(self._path, self._sink)

    def __del__(self) -> None:
        """Nothing: a file that was dropped without being closed is not completed."""


def _library() -> Any:
    try:
        import hdfs_native
    except ImportError as error:
        raise UnsupportedError(
            f"HDFS needs the package hdfs-native ({error}): pip install 'airflow-provider-paimon[hdfs]'"
        ) from error
    return hdfs_native


def _client_arguments(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of Hadoop, and the client's own arguments. Raises: InvalidArgumentError for an unknown option."""
    settings: dict[str, str] = {}
    more: dict[str, str] = {}
    own = {_CONF_DIR: "config_dir", _PRINCIPAL: "kerberos_principal", _KEYTAB: "kerberos_keytab"}
    for name, text in options.items():
        if name in own:
            more[own[name]] = text
        elif name.startswith(_SETTING_PREFIXES):
            settings[name] = text
        elif name.startswith(_HADOOP_PREFIX):
            # As Java's catalog options have them: `hadoop.dfs.nameservices`.
            short = name.removeprefix(_HADOOP_PREFIX)
            settings[short if short.startswith(_SETTING_PREFIXES) else name] = text
        else:
            raise InvalidArgumentError(
                f"Unknown storage option {name} for HDFS; known are {', '.join(own)}, and settings of Hadoop that "
                "begin with dfs., fs. or hadoop."
            )
    if _KEYTAB in options and _PRINCIPAL not in options:
        raise InvalidArgumentError(f"'{_KEYTAB}' needs '{_PRINCIPAL}'")
    return settings, more


def _info(path: str, status: Any) -> FileInfo:
    if status.isdir:
        return FileInfo(path, 0, 0, is_dir=True)
    return FileInfo(path, int(status.length), int(status.modification_time), is_dir=False)


def _mapped(path: str, act: Callable[[], _T]) -> _T:
    """What `act` gives; the library's errors become ours."""
    try:
        return act()
    except PaimonError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"No such file: {path}") from shown_cause(error)
    except FileExistsError as error:
        raise StorageError(f"{path}: the name is taken") from shown_cause(error)
    except (OSError, RuntimeError, ValueError) as error:
        if _is_below_a_file(error):
            raise NotFoundError(f"No such file: {path}") from shown_cause(error)
        raise StorageError(f"{path}: {_message_of(error)}") from shown_cause(error)


def _is_below_a_file(error: Exception) -> bool:
    """Whether a part of the path that should be a directory is a file."""
    return "is not a directory" in str(error)


def _is_refused(error: Exception) -> bool:
    """Whether the NameNode answered that it did not do it."""
    return isinstance(error, PermissionError) or "AccessControlException" in str(error) or "must both be" in str(error)


def _message_of(error: Exception) -> str:
    """What the server said, without its stack."""
    text = str(error).replace("\\n", "\n").replace("\\t", "\t").partition("\n\tat ")[0]
    return " ".join(text.split())[:_SHOWN_MAX]
