"""Partitions that are marked as done are reported to a server, where the machine and not the table allows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, StorageError, Table, UnsupportedError, open_table
from paimon_engine.metastores.http_report import is_allowed

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])


class Listener(BaseHTTPRequestHandler):
    """A server that keeps the requests that it gets, and returns the prepared answers, or SUCCESS."""

    received: ClassVar[list[Any]] = []
    answers: ClassVar[list[tuple[int, str]]] = []

    def do_POST(self) -> None:
        self.received.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        status, text = self.answers.pop(0) if self.answers else (200, '{"result": "success", "more": 1}')
        self.send_response(status)
        if status == 307:
            self.send_header("Location", self.path)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def listener() -> Iterator[str]:
    Listener.received, Listener.answers = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/done?key=s3cret"
        server.shutdown()


def reporting(root: Path, url: str, ways: str = "success-file,http-report") -> Table:
    done = "partition.mark-done-action"
    options = {"bucket": "-1", done: ways, f"{done}.http.url": url, f"{done}.http.params": "p1"}
    catalog = Catalog(str(root / "lake"))
    table = catalog.create_table("db.t", schema=SCHEMA, partition_keys=["day", "hour"], options=options)
    return open_table(table.path, storage_options={"report-urls.allowed": url.partition("?")[0]})


@pytest.mark.parametrize(
    "allowed",
    [
        "",
        "http://localhost:{port}/",
        "https://127.0.0.1:{port}/",
        "http://127.0.0.1:1/",
        "http://127.0.0.1:{port}/other",
        "http://127.0.0.1:{port}/do",
        "http://x@127.0.0.1:{port}/doing",
        "no address",
        "*",
        ",",
        "http://",
    ],
)
def test_a_table_cannot_have_reports_posted_where_it_is_not_allowed(
    tmp_path: Path, listener: str, allowed: str
) -> None:
    path = reporting(tmp_path, listener).path
    port = listener.split(":")[2].partition("/")[0]
    table = open_table(path, storage_options={"report-urls.allowed": allowed.format(port=port)})
    # What is stored with the table, or said with it, counts for nothing.
    for again in (table, open_table(path), open_table(path, options={"report-urls.allowed": listener})):
        for dry_run in (True, False):
            with pytest.raises(UnsupportedError, match="report-urls.allowed") as raised:
                again.mark_partition_done({"day": "2024-01-01", "hour": 1}, dry_run=dry_run)
            assert "s3cret" not in str(raised.value)

    assert Listener.received == []
    assert not list(Path(path).rglob("_SUCCESS"))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://h/a/b?x=1", True),
        ("http://h/a", True),
        ("http://H/a/", True),
        ("http://h:80/a/b", True),
        ("http://h/ab", False),
        ("http://h:8080/a", False),
        ("http://h.evil/a", False),
        ("http://h@evil/a", False),
        ("http://evil\\@h/a", False),
        ("http://h/a/../b", False),
        ("http://h/a/%2e%2e/b", False),
        ("http://169.254.169.254/a", False),
        ("https://h/a", False),
        ("file:///h/a", False),
    ],
)
def test_what_is_below_an_allowed_address(url: str, allowed: bool) -> None:
    assert is_allowed(url, ["http://h/a"]) is allowed


def test_a_server_that_leads_on_to_another_is_not_followed(tmp_path: Path, listener: str) -> None:
    Listener.answers = [(307, "{}")]

    with pytest.raises(StorageError, match="status 307"):
        reporting(tmp_path, listener, "http-report").mark_partition_done({"day": "2024-01-01", "hour": 1})
    assert len(Listener.received) == 1


def test_a_server_gets_the_report_of_partitions_that_java_sends(tmp_path: Path, listener: str) -> None:
    table = reporting(tmp_path, listener)
    Listener.answers = [(503, "busy")]
    mark = {"day": "2024-01-01", "hour": 1}

    planned = table.mark_partition_done(mark, dry_run=True)
    assert (planned.status, Listener.received) == ("dry_run", [])
    done = table.mark_partition_done(mark)

    body = {"partition": "day=2024-01-01/hour=1/", "table": "db.t", "path": table.path, "params": "p1"}
    assert Listener.received == [("/done?key=s3cret", body)] * 2  # the first one met a busy server
    assert (done.files, done.reported) == (planned.files, ("day=2024-01-01/hour=1",))
    assert Path(done.files[0]).exists()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, '{"result": "FAILED"}'), "'FAILED' instead of 'SUCCESS'"),
        ((200, "[]"), "instead of 'SUCCESS'"),
        ((200, "no"), "is not JSON"),
        ((403, "{}"), "status 403"),
    ],
)
def test_a_server_that_does_not_take_it_fails_the_mark_and_no_secret_is_shown(
    tmp_path: Path, listener: str, answer: tuple[int, str], why: str
) -> None:
    Listener.answers = [answer]

    with pytest.raises(StorageError, match=why) as raised:
        reporting(tmp_path, listener, "http-report").mark_partition_done({"day": "2024-01-01", "hour": 1})
    assert "s3cret" not in str(raised.value)


def test_a_report_needs_an_address(tmp_path: Path) -> None:
    for number, url in enumerate(("", "ftp://x/y", "no address")):
        with pytest.raises(InvalidArgumentError, match=r"http\.url|not a URL"):
            reporting(tmp_path / str(number), url, "http-report").mark_partition_done({"day": "2024-01-01", "hour": 1})
