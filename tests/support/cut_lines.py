"""A line to a server that is cut when a given request is on it: before the server gets it, or before it answers.

Thrift and PostgreSQL have the names of their calls and statements as plain text in what they send.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import Final

_PIECE: Final = 1 << 16


class CutLine:
    """Listens on `port`, and passes on what comes and goes, until it is to `cut`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._request: bytes | None = None
        self._after = b""
        self._reaches_server = self._stays_cut = False
        self.is_cut = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, request: str, *, reaches_server: bool, after: str = "", stays_cut: bool = False) -> None:
        """Cuts the line once at the next such request, if there was one like `after` before it on the connection.

        `stays_cut` refuses all connections from then on.
        """
        self._after = after.encode()
        self._reaches_server, self._stays_cut = reaches_server, stays_cut
        self._request = request.encode()

    def repair(self) -> None:
        """All requests are passed on."""
        self._request, self.is_cut = None, False

    def close(self) -> None:
        """No more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        sent = b""
        with client, server, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    data = source.recv(_PIECE)
                    if not data:
                        return
                    if source is client:
                        sent += data
                    if source is client and self._must_cut(data, sent):
                        client.close()
                        if self._reaches_server:
                            server.sendall(data)
                            server.recv(_PIECE)  # it has done it by now
                        return
                    (server if source is client else client).sendall(data)

    def _must_cut(self, data: bytes, sent: bytes) -> bool:
        if self._request is None or self._request not in data or self._after not in sent:
            return False
        self._request, self.is_cut = None, self._stays_cut
        self.cuts += 1
        return True


@contextlib.contextmanager
def cut_line(target: int) -> Iterator[CutLine]:
    """A line to a port of this machine."""
    line = CutLine(target)
    try:
        yield line
    finally:
        line.close()
