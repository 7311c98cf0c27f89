"""Alibaba Cloud's OSS, Tencent Cloud's COS and Huawei Cloud's OBS, by Apache OpenDAL: one client in Rust for all three.

OSS and COS decide races: a request with `x-oss-forbid-overwrite` or `x-cos-forbid-overwrite` fails if the name is
taken. A bucket of OSS that keeps versions ignores that header; as in all object stores, the first `create` in a bucket
finds out (`storage.absence`). OBS has no such request: it is read, and written under the lock of a catalog.

Source: `OSSFileIO` of the Java library; PutObject in the manuals of OSS and of COS.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Final, cast

from fsspec import asyn

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
from paimon_engine.storage.remote_file import READ_AHEAD_BYTES, RemoteFile
from paimon_engine.storage.requests import for_each

SCHEMES: Final[Mapping[str, str]] = {"oss": "oss", "cosn": "cos", "cos": "cos", "obs": "obs"}
"""The service of each scheme; `cosn` is Hadoop's name of COS."""

_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "oss": {
        "fs.oss.endpoint": "endpoint",
        "fs.oss.accessKeyId": "access_key_id",
        "fs.oss.accessKeySecret": "access_key_secret",
        "fs.oss.securityToken": "security_token",
    },
    "cos": {
        "fs.cosn.userinfo.secretId": "secret_id",
        "fs.cosn.userinfo.secretKey": "secret_key",
        "fs.cosn.userinfo.sessionToken": "security_token",
    },
    "obs": {
        "fs.obs.endpoint": "endpoint",
        "fs.obs.access.key": "access_key_id",
        "fs.obs.secret.key": "secret_access_key",
    },
}
"""Names of options in Java, and in OpenDAL."""
_COS_REGION: Final = "fs.cosn.bucket.region"
_COS_ENDPOINT: Final = "fs.cosn.bucket.endpoint_suffix"
_SET_HERE: Final = frozenset({"scheme", "bucket", "root"})

_PART_BYTES: Final = 8 << 20
_TIMEOUT_S: Final = 60.0
_TRIES: Final = 4
_SHOWN_MAX: Final = 300


class OpenDalStorage:
    """`Storage` of all buckets of one scheme. A client is made per bucket, when it is needed."""

    is_object_store = True

    def __init__(
        self, scheme: str, options: Mapping[str, str], *, is_locked: bool = False, decides_races: bool = True
    ) -> None:
        """With `is_locked` callers hold a lock while they create, see `LockedStorage`.

        Without `decides_races` another service decides them, and the store is not tested for it.
        Raises: InvalidArgumentError for unknown options; UnsupportedError if OpenDAL is not installed.
        """
        self._scheme, self._given = scheme, dict(options)
        self._library = _library(scheme)
        self._options = _client_options(scheme, options)
        self._is_locked = is_locked
        self._absence = AbsenceProbe(self._try_create, self.read) if decides_races and not is_locked else None
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def under_lock(self) -> OpenDalStorage:
        """The same store for callers that hold a lock while they create, so it does not have to decide races."""
        return OpenDalStorage(self._scheme, self._given, is_locked=True)

    def beside_server(self) -> OpenDalStorage:
        """The same store for tables of a server that creates the files that decide a race."""
        return OpenDalStorage(self._scheme, self._given, is_locked=self._is_locked, decides_races=False)

    def read(self, path: str) -> bytes:
        with self._mapped(path):
            return cast("bytes", self._client(path).read(_key(path)))

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        if size_bytes is not None and size_bytes <= READ_AHEAD_BYTES:
            return io.BytesIO(self.read(path))
        info = self.stat(path)
        if info.is_dir:
            raise NotFoundError(f"No such file: {path}")
        client = self._client(path)

        def read_range(begin: int, count: int) -> bytes:
            with self._mapped(path):
                return cast("bytes", client.read(_key(path), offset=begin, size=count))

        return cast("BinaryIO", RemoteFile(path, info.size_bytes, read_range))

    def writer(self, path: str) -> BinaryIO:
        self._check_writable(path)
        return cast("BinaryIO", _PartedUpload(self, path))

    def upload(self, path: str) -> Any:
        """An upload in parts, which is an object when it is closed."""
        with self._mapped(path):
            return self._client(path).open(_key(path), "wb", chunk=_PART_BYTES)

    def create(self, path: str, data: bytes) -> bool:
        self._check_writable(path)
        if self._is_locked:
            return self._create_under_lock(path, data)
        if self._absence is not None:
            self._absence.check(path, self._delete_if_possible)
        # The client repeats a request whose answer was lost and then finds its own object.
        return self._try_create(path, data) or self.read(path) == data

    def _try_create(self, path: str, data: bytes) -> bool:
        """Whether the store took the object; False if the name was taken."""
        errors = self._library.exceptions
        try:
            self._client(path).write(_key(path), data, if_not_exists=True)
        except (errors.ConditionNotMatch, errors.AlreadyExists):
            return False
        except (errors.PermissionDenied, errors.NotFound, errors.ConfigInvalid, errors.Unsupported) as error:
            raise StorageError(f"{path}: {_message_of(error)}") from shown_cause(error)
        except Exception as error:  # noqa: BLE001 - nothing is known of what else the client raises
            raise OutcomeUnknownError(
                f"{path}: may or may not have been created: {_message_of(error)}"
            ) from shown_cause(error)
        return True

    def _create_under_lock(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        try:
            self.overwrite(path, data)
        except StorageError as error:
            raise OutcomeUnknownError(f"{path}: may or may not have been created: {error}") from shown_cause(error)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        self._check_writable(path)
        with self._mapped(path):
            self._client(path).write(_key(path), data)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def stat(self, path: str) -> FileInfo:
        found = self._find(path)
        if found is None:
            raise NotFoundError(f"No such file: {path}")
        return found

    def list(self, prefix: str) -> list[FileInfo]:
        return sorted(self._below(prefix, is_recursive=False), key=lambda info: info.path)

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        return (info for info in self._below(prefix, is_recursive=True) if not info.is_dir)

    def delete(self, paths: Sequence[str]) -> None:
        for_each(self._delete, paths)

    def delete_dir(self, path: str) -> None:
        """Nothing: directories are prefixes."""

    def make_dir(self, path: str) -> None:
        """Nothing: directories are prefixes."""

    def rename_dir(self, source: str, target: str) -> None:
        raise UnsupportedError(
            f"Cannot rename {source} to {target}: {self._scheme}:// has no directories, so files would be copied one "
            "by one; write the rows to a new table instead"
        )

    def delete_tree(self, path: str) -> None:
        self.delete([info.path for info in self.walk(path)])

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def _find(self, path: str) -> FileInfo | None:
        path = path.rstrip("/")
        try:
            with self._mapped(path):
                return _info(path, self._client(path).stat(_key(path)))
        except NotFoundError:
            found = self._below(path, is_recursive=True, limit=1)
            return FileInfo(path, 0, 0, is_dir=True) if found else None

    def _below(self, prefix: str, *, is_recursive: bool, limit: int | None = None) -> Sequence[FileInfo]:
        """Objects and prefixes strictly below a directory; with a limit, at least one of them if there is one."""
        prefix = prefix.rstrip("/")
        key = f"{_key(prefix)}/"
        begin = len(key)

        async def entries() -> list[Any]:
            listed = await self._client(prefix).to_async_operator().list(key, recursive=is_recursive, limit=limit)
            found = []
            async for entry in listed:
                # What the store lists first may be the marker of the directory itself.
                if len(entry.path) > begin:
                    found.append(entry)
                if limit is not None and found:
                    break
            return found

        with self._mapped(prefix):
            # The library's listing for threads keeps all other threads from running while it waits for the store.
            found = asyn.sync(asyn.get_loop(), entries)
        infos = [_info(f"{prefix}/{entry.path[begin:].rstrip('/')}", entry.metadata) for entry in found]
        # Pages of a listing may overlap, as where a store is a gateway to others.
        return list({info.path: info for info in infos}.values())

    def _delete(self, path: str) -> None:
        with self._mapped(path):
            self._client(path).delete(_key(path))

    def _delete_if_possible(self, path: str) -> None:
        with contextlib.suppress(StorageError):
            self._delete(path)

    def _client(self, path: str) -> Any:
        bucket = path.partition("://")[2].partition("/")[0]
        with self._lock:
            if bucket not in self._clients:
                self._clients[bucket] = self._made(bucket)
            return self._clients[bucket]

    def _made(self, bucket: str) -> Any:
        layers = self._library.layers
        try:
            client = self._library.Operator(SCHEMES[self._scheme], bucket=bucket, **self._options)
        except Exception as error:  # noqa: BLE001 - of several kinds, all about options
            raise InvalidArgumentError(
                f"{self._scheme}://{bucket}: {_message_of(error)}; give the storage options "
                f"{', '.join(known_options(self._scheme))}"
            ) from shown_cause(error)
        client = client.layer(layers.TimeoutLayer(timeout=_TIMEOUT_S, io_timeout=_TIMEOUT_S))
        return client.layer(layers.RetryLayer(max_times=_TRIES, jitter=True, min_delay=0.1, max_delay=10.0))

    def _check_writable(self, path: str) -> None:
        if SCHEMES[self._scheme] == "obs" and not self._is_locked and self._absence is not None:
            raise UnsupportedError(
                f"Cannot write {path}: OBS offers no create-if-absent, so two writers could replace each other's "
                "snapshots. Use a JDBC catalog with 'lock.enabled' = 'true', or a REST catalog"
            )

    @contextlib.contextmanager
    def _mapped(self, path: str) -> Iterator[None]:
        """Turns what the library raises into our errors."""
        try:
            yield
        except PaimonError:
            raise
        except self._library.exceptions.NotFound as error:
            raise NotFoundError(f"No such file: {path}") from shown_cause(error)
        except Exception as error:  # noqa: BLE001 - the library has many kinds
            raise StorageError(f"{path}: {_message_of(error)}") from shown_cause(error)


class _PartedUpload(io.BufferedIOBase):
    """An object that is there when this is closed, and never if the `with` block fails.

    It is sent in parts; a small one in one request. What is collected for the next part is kept here.
    """

    def __init__(self, storage: OpenDalStorage, path: str) -> None:
        self._storage, self._path = storage, path
        self._part = bytearray()
        self._upload: Any = None
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(cast("bytes", data)).cast("B")
        self._part += view
        self._at += len(view)
        if len(self._part) >= _PART_BYTES:
            self._send()
        return len(view)

    def _send(self) -> None:
        if self._upload is None:
            self._upload = self._storage.upload(self._path)
        with self._storage._mapped(self._path):  # noqa: SLF001 - the same module
            self._upload.write(bytes(self._part))
        self._part.clear()

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._upload is None:
            self._storage.overwrite(self._path, bytes(self._part))
            return
        if self._part:
            self._send()
        with self._storage._mapped(self._path):  # noqa: SLF001 - the same module
            self._upload.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self.closed:
            self._storage.delete([self._path])
        else:
            super().close()

    def __del__(self) -> None:
        """Nothing: an upload that was dropped without being closed leaves no object."""


def known_options(scheme: str) -> list[str]:
    """Names of the options that say where a store is and who asks."""
    service = SCHEMES[scheme]
    return [*_OPTIONS[service], *((_COS_REGION, _COS_ENDPOINT) if service == "cos" else ())]


def _library(scheme: str) -> Any:
    try:
        import opendal
    except ImportError as error:
        raise UnsupportedError(
            f"{scheme}:// needs the package opendal ({error}): pip install 'airflow-provider-paimon[{SCHEMES[scheme]}]'"
        ) from error
    return opendal


def _client_options(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options by OpenDAL's names. Raises: InvalidArgumentError for an unknown one."""
    import opendal.config

    service = SCHEMES[scheme]
    own = getattr(opendal.config, f"{service.capitalize()}Config").__annotations__.keys() - _SET_HERE
    found: dict[str, str] = {}
    for name, text in options.items():
        if name in _OPTIONS[service]:
            found[_OPTIONS[service][name]] = text
        elif service == "cos" and name == _COS_REGION:
            found.setdefault("endpoint", f"https://cos.{text}.myqcloud.com")
        elif service == "cos" and name == _COS_ENDPOINT:
            found["endpoint"] = text
        elif name in own:
            found[name] = text
        else:
            raise InvalidArgumentError(
                f"Unknown storage option {name} for {scheme}://; known are {', '.join(known_options(scheme))}, and "
                f"OpenDAL's: {', '.join(sorted(own))}"
            )
    if "endpoint" in found and "://" not in found["endpoint"]:
        found["endpoint"] = f"https://{found['endpoint']}"
    return found


def _key(path: str) -> str:
    """Name of the object in its bucket, without a slash at its end."""
    return path.partition("://")[2].partition("/")[2].rstrip("/")


def _info(path: str, metadata: Any) -> FileInfo:
    if metadata.mode.is_dir():
        return FileInfo(path, 0, 0, is_dir=True)
    modified = metadata.last_modified
    modified_ms = 0 if modified is None else int(modified.timestamp() * 1000)
    return FileInfo(path, int(metadata.content_length), modified_ms, is_dir=False)


def _message_of(error: Exception) -> str:
    """What the store said, without addresses, which may have a signature, and without the client's stack."""
    text = str(error).partition("\n\nContext:")[0]
    source = str(error).partition("\nSource:\n")[2].partition("\n\n")[0]
    return " ".join(f"{text} {source}".split())[:_SHOWN_MAX]
