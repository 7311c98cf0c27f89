"""One root directory per kind of storage, so that each contract test runs on all of them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from paimon_engine.storage import Storage, storage_for
from paimon_engine.storage.fsspec_storage import FsspecStorage
from paimon_engine.storage.leased import Lease, LeasedStorage
from paimon_engine.storage.locked import LockedStorage
from tests.support.file_system import file_system_of
from tests.support.hdfs import start_hdfs


@dataclass(frozen=True)
class Place:
    """A storage and a fresh directory in it."""

    storage: Storage
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


@dataclass(frozen=True)
class S3Server:
    """A real S3 server over HTTP, with one bucket named `lake`."""

    options: dict[str, str]
    requests: list[str]
    """Method and path of each request, in order; tests may clear it."""
    refused: list[str]
    """Ends of the paths of which no bytes are given; tests may add some."""


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    pytest.importorskip("moto.server", reason='the S3 test server is not installed: pip install "moto[server]"')
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    requests: list[str] = []
    refused: list[str] = []

    def noting(environ: Any, start_response: Any) -> Any:
        requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        if environ["REQUEST_METHOD"] == "GET" and refused and environ["PATH_INFO"].endswith(tuple(refused)):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        return application(environ, start_response)

    # One request at a time: moto looks and writes in two steps, so with threads it would not decide races.
    server = make_server("127.0.0.1", 0, noting, threaded=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    options = {
        "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
        "s3.access-key": "test",
        "s3.secret-key": "test",
        "s3.region": "eu-central-1",
        "s3.path.style.access": "true",
    }
    file_system_of(storage_for("s3://lake", options)).mkdir("lake")
    yield S3Server(options, requests, refused)
    server.shutdown()
    thread.join()


@pytest.fixture(scope="session")
def s3_options(s3_server: S3Server) -> dict[str, str]:
    """Options for the S3 server."""
    return s3_server.options


class ThreadLock:
    """A lock of this process, for a store that does not decide races."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> bool:
        self._lock.release()
        return True


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an HDFS cluster."""
    yield from start_hdfs(tmp_path_factory.mktemp("hdfs"))


@pytest.fixture(
    params=[
        *("path", "file", "memory", "locked", "leased"),
        pytest.param("s3", marks=pytest.mark.s3),
        *("oss", "cosn"),
        pytest.param("hdfs", marks=pytest.mark.java),
    ]
)
def location(request: pytest.FixtureRequest, tmp_path) -> Place:
    roots = {"path": str(tmp_path), "file": f"file://{tmp_path}"}
    kind = request.param
    if kind == "locked":
        # fsspec's plain file system, which looks first and writes then.
        plain = FsspecStorage.for_scheme("local", {})
        return Place(LockedStorage(plain.under_lock(), ThreadLock), f"local://{tmp_path}")
    if kind == "leased":
        return Place(LeasedStorage(lambda: Lease(storage_for(str(tmp_path), {})), lambda: 0), str(tmp_path))
    if kind == "hdfs":
        address = request.getfixturevalue("hdfs")
        return Place(storage_for(address, {}), f"{address}/{uuid.uuid4()}")
    if kind in ("oss", "cosn"):
        root = f"{kind}://lake/{uuid.uuid4()}"
        return Place(storage_for(root, request.getfixturevalue("cloud_server").options[kind]), root)
    root = roots[kind] if kind in roots else f"{kind}://lake/{uuid.uuid4()}"
    options = request.getfixturevalue("s3_options") if kind == "s3" else {}
    return Place(storage_for(root, options), root)
