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


_SERVER = """
import sys, time
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
application = DomainDispatcherApplication(create_backend_app)
seconds, log = float(sys.argv[2]), open(sys.argv[3], "a", buffering=1) if len(sys.argv) > 3 else None
def noted(environ, start):
    verb = "LIST" if "list-type" in environ["QUERY_STRING"] else environ["REQUEST_METHOD"]
    def started(status, headers, *more):
        size = dict(headers).get("Content-Length", 0) if verb == "GET" and status[0] == "2" else 0
        print(verb, size, environ["PATH_INFO"], file=log)
        return start(status, headers, *more)
    time.sleep(seconds)
    return application(environ, started if log else start)
make_server("127.0.0.1", int(sys.argv[1]), noted, threaded=seconds > 0).serve_forever()
"""
"""Of a port, seconds that each answer takes, and the path of a log; answers one request after another without them."""


class RequestLog:
    """The requests to a server, in order: pairs of verb and path; listings are the verb LIST.

    `bytes_read` are those of the answers to GET that were taken last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self.bytes_read = 0

    def take(self) -> list[tuple[str, str]]:
        """The requests since the last time."""
        with self.path.open() as file:
            file.seek(self._read)
            lines = file.readlines()
            self._read = file.tell()
        found = [line.rstrip("\n").split(" ", 2) for line in lines]
        self.bytes_read = sum(int(size) for _, size, _ in found)
        return [(verb, path) for verb, _, path in found]


def start_s3(
    *, one_at_a_time: bool = False, log: RequestLog | None = None, seconds: float = 0
) -> Iterator[dict[str, str]]:
    """Options that lead to a server with one bucket; skips where moto or s3fs is not installed.

    With `one_at_a_time` it decides races as S3 does: moto looks and writes in two steps, so with threads it would not.
    Such a server can keep a `log` of its requests. With `seconds`, each answer takes as long at least, and several
    requests are answered at once.
    """
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    pytest.importorskip("moto.server", reason='the S3 test server is not installed: pip install "moto[server]"')
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    if one_at_a_time or seconds:
        command = [sys.executable, "-W", "ignore", "-c", _SERVER, str(port), str(seconds)]
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
