"""A line to an S3 server on which requests fail in the ways that stores and networks fail."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_PIECE: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)
"""For `SO_LINGER`: a closed connection is reset, not ended."""


@dataclass(frozen=True)
class Request:
    """What a client asks: `target` is path and query, percent-encoded as it was sent."""

    verb: str
    target: str
    headers: dict[str, str]

    @property
    def is_listing(self) -> bool:
        """Whether the store is asked which objects there are."""
        return self.verb == "GET" and "list-type=" in self.target


@dataclass(frozen=True)
class Fault:
    """What happens to a request.

    With `is_done` the server does it first. Then the client gets `answer` (a status, a code of S3 and headers); or the
    server's answer up to half of its body and a reset (`cuts_body`), or its end (`ends_body`); or no answer at all.
    """

    is_done: bool = False
    answer: tuple[str, str] | None = None
    headers: str = ""
    cuts_body: bool = False
    ends_body: bool = False
    change: Callable[[bytes], bytes] | None = None


HANG: Final = Fault()
"""The request is never answered."""
SLOW_DOWN: Final = Fault(answer=("503 Slow Down", "SlowDown"))
CUT: Final = Fault(is_done=True, cuts_body=True)
"""The connection is reset in the middle of the answer."""

Rule = Callable[[Request], Fault | None]


class FailingLine:
    """Listens on `port` and passes on each request, unless `rule` says what else happens to it."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.rule: Rule = lambda _: None
        self.requests: list[Request] = []
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more connections; those that hang are closed."""
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One request of each connection: the client is told to close it."""
        with client, contextlib.suppress(OSError, ValueError):
            request, sent = _read_request(client)
            self.requests.append(request)
            fault = self.rule(request)
            answer = self._done(sent) if fault is None or fault.is_done else b""
            if fault is None:
                client.sendall(answer)
            elif fault.answer is not None:
                client.sendall(_answer(*fault.answer, fault.headers))
            elif fault.change is not None:
                client.sendall(fault.change(answer))
            elif fault.cuts_body or fault.ends_body:
                begin = answer.index(b"\r\n\r\n") + 4
                client.sendall(answer[: begin + (len(answer) - begin) // 2])
                if fault.cuts_body:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            else:
                self._ended.wait()

    def _done(self, sent: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._target)) as server:
            server.sendall(sent)
            parts = []
            while data := server.recv(_PIECE):
                parts.append(data)
        return b"".join(parts)


@contextlib.contextmanager
def failing_line(target: int) -> Iterator[FailingLine]:
    """A line to a port of this machine."""
    line = FailingLine(target)
    try:
        yield line
    finally:
        line.close()


def _read_request(client: socket.socket) -> tuple[Request, bytes]:
    """The request, and its bytes, with which the server closes the connection after its answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(client)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    verb, target, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("expect", "").lower() == "100-continue":
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < int(headers.get("content-length", 0)):
        body += _received(client)
    kept = [line for line in lines if line.partition(":")[0].lower() not in ("connection", "expect")]
    sent = "\r\n".join([*kept, "Connection: close", "", ""]).encode("latin-1") + body
    return Request(verb, target, headers), sent


def _received(client: socket.socket) -> bytes:
    if data := client.recv(_PIECE):
        return data
    raise ValueError("the client has gone")


def _answer(status: str, code: str, headers: str) -> bytes:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n{headers}"
    return f"{head}Connection: close\r\n\r\n".encode() + body
