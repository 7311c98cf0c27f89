"""A PostgreSQL server of the tests' own: real, on a free port, removed afterwards.

Its binaries come with the system's package; without them the tests that need a server are skipped.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "s3cret-of-the-lake"
USER = "paimon"
SYSTEM_USER = "postgres"
"""Whom the server runs as where the tests run as root, which it refuses."""

START_TIMEOUT_S = 60


@dataclass(frozen=True)
class PostgresServer:
    """Where the server listens; `database` is there and empty."""

    port: int
    database: str = "postgres"

    @property
    def jdbc_uri(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.database}"

    @property
    def options(self) -> dict[str, str]:
        """Catalog options of the connection."""
        return {"uri": self.jdbc_uri, "jdbc.user": USER, "jdbc.password": PASSWORD}


def start_postgres() -> Iterator[PostgresServer]:
    """A running server; skips where PostgreSQL is not installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user = _user()
    # Not in the folder of the tests: the server's user must get at it.
    with tempfile.TemporaryDirectory(prefix="paimon-postgres-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "password").write_text(PASSWORD)
        if user is not None:
            shutil.chown(home, user)
            shutil.chown(home / "password", user)
        data, port = home / "data", _free_port()
        setup = [binaries / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", home / "password"]
        subprocess.run([*setup, "--no-sync", "-E", "UTF8"], check=True, capture_output=True, user=user, cwd=home)
        settings = [f"-p {port}", f"-k {home}", "-h 127.0.0.1", "-F"]
        control = [binaries / "pg_ctl", "-D", data, "-w", "-t", str(START_TIMEOUT_S)]
        start = [*control, "-l", home / "log", "-o", " ".join(settings), "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, user=user, cwd=home)
        try:
            yield PostgresServer(port)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, user=user, cwd=home)


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    locations = [Path(found).resolve().parent] if found else []
    locations += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (location for location in locations if (location / "pg_ctl").exists() and (location / "initdb").exists()), None
    )


def _user() -> str | None:
    """Whom the server runs as, None for ourselves; skips if we are root and there is no other user."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER).pw_name
    pytest.skip(f"PostgreSQL does not run as root, and there is no user {SYSTEM_USER}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
