"""The REST catalog server of `rest_server.py`, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

_HTTP = httpx.Client(trust_env=False)


@dataclass(frozen=True)
class RestServer:
    """A running server."""

    port: int
    root: Path

    @property
    def options(self) -> dict[str, str]:
        """Catalog options that lead to it."""
        return {"metastore": "rest", "uri": f"http://127.0.0.1:{self.port}", "warehouse": "lake"}

    def fail(self, method: str, path: str, fault: str | int, times: int = 1) -> None:
        """Requests of that method whose path matches: `lose_request`, `lose_reply`, or an HTTP status instead."""
        self._control("faults", {"method": method, "path": path, "fault": fault, "times": times})

    def lie(self, method: str, path: str, text: str, *, status: int = 200, done: bool = False, times: int = 1) -> None:
        """Such requests are answered by that text; `done` says whether the server also does what was asked."""
        lie = {"status": status, "text": text, "done": done}
        self._control("faults", {"method": method, "path": path, "fault": lie, "times": times})

    def tell_the_truth(self) -> None:
        """Ends all faults and lies."""
        self._control("truth", {})

    @property
    def requests(self) -> list[str]:
        """Method and path of all requests so far."""
        return list(self._control("requests", {})["requests"])

    @property
    def commits(self) -> list[dict[str, Any]]:
        """Commits that succeeded: table and statistics."""
        return list(self._control("commits", {})["commits"])

    @property
    def alters(self) -> list[dict[str, Any]]:
        """Bodies of the changes of schemas that were made."""
        return list(self._control("commits", {})["alters"])

    def _control(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = _HTTP.post(f"http://127.0.0.1:{self.port}/test/{what}", json=body)
        answer.raise_for_status()
        return dict(answer.json())


@contextmanager
def rest_server(root: Path, **settings: Any) -> Iterator[RestServer]:
    """A server whose tables are below `root`; `settings` are those that `rest_server.py` describes."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("rest_server.py")), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "REST_SERVER": json.dumps(settings)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RestServer(int(process.stdout.readline()), root)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)
