"""An S3 server in a separate process, for tests whose tables are in a bucket with lent credentials."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_engine.storage import storage_for
from tests.support.file_system import file_system_of

BUCKET = "lent"
START_TIMEOUT_S = 60


_ONE_AT_A_TIME = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
application = DomainDispatcherApplication(create_backend_app)
log = open(sys.argv[2], "a", buffering=1) if len(sys.argv) > 2 else None
def noted(environ, start):
    verb = "LIST" if "list-type" in environ["QUERY_STRING"] else environ["REQUEST_METHOD"]
    print(verb, environ["PATH_INFO"], file=log)
    return application(environ, start)
make_server("127.0.0.1", int(sys.argv[1]), noted if log else application, threaded=False).serve_forever()
"""


class RequestLog:
    """The requests to a server, in order: pairs of verb and path; listings are the verb LIST."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def take(self) -> list[tuple[str, str]]:
        """The requests since the last time."""
        with self.path.open() as file:
            file.seek(self._read)
            lines = file.readlines()
            self._read = file.tell()
        return [(verb, path) for verb, _, path in (line.rstrip("\n").partition(" ") for line in lines)]


def start_s3(*, one_at_a_time: bool = False, log: RequestLog | None = None) -> Iterator[dict[str, str]]:
    """Options that lead to a server with one bucket; skips where moto or s3fs is not installed.

    With `one_at_a_time` it decides races as S3 does: moto looks and writes in two steps, so with threads it would not.
    Such a server can keep a `log` of its requests.
    """
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    pytest.importorskip("moto.server", reason='the S3 test server is not installed: pip install "moto[server]"')
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    if one_at_a_time:
        command = [sys.executable, "-W", "ignore", "-c", _ONE_AT_A_TIME, str(port)]
        if log is not None:
            log.path.touch()
            command.append(str(log.path))
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        options = {
            "s3.endpoint": f"http://127.0.0.1:{port}",
            "s3.access-key": "lent-key",
            "s3.secret-key": "lent-secret",
            "s3.region": "eu-central-1",
            "s3.path.style.access": "true",
        }
        file_system_of(storage_for(f"s3://{BUCKET}", options)).mkdir(BUCKET)
        yield options
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the S3 server did not start")
