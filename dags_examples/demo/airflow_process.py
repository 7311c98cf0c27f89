"""An Airflow of the demo's own: SQLite, all components in one process group, ports that are free."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

import httpx
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_fixed

START_S = 300
STOP_S = 20
TAIL_LINES = 25
TRIES = 10


class AirflowFailedError(Exception):
    """Airflow did not start, or ended by itself."""


class LocalAirflow:
    """`airflow standalone` in a folder, ended with everything that it started when the `with` block ends."""

    def __init__(
        self, home: Path, project: Path, *, port: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._home = home
        self._project = project
        self._more = dict(environment or {})
        self.port = port if port is not None and _is_free(port) else free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        self._log = home / "standalone.log"

    def __enter__(self) -> Self:
        prepare_database(self._home)
        with self._log.open("wb") as log:
            self._process = self._start(log)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        process = self._process
        if process is None:
            return
        # A second Ctrl-C must not leave half of it running.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while _group_lives(process) and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.1)
        _signal_group(process, signal.SIGKILL)
        process.wait()
        signal.signal(signal.SIGINT, before)

    def _start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "airflow", "standalone"]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self._project,
            env={**os.environ, **airflow_environment(self._home, self._project, self.port), **self._more},
            start_new_session=True,
        )

    def wait_until_healthy(self) -> None:
        """Returns once all components answer.

        Raises: AirflowFailedError.
        """
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self.check_alive()
            with contextlib.suppress(httpx.HTTPError):
                parts = self._client.get("/api/v2/monitor/health").raise_for_status().json()
                if all(part is None or part["status"] == "healthy" for part in parts.values()):
                    self._log_in()
                    return
            time.sleep(0.5)
        raise AirflowFailedError(f"Airflow did not start within {START_S} s; its last log lines:\n{self._tail()}")

    def _log_in(self) -> None:
        token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def check_alive(self) -> None:
        """Raises: AirflowFailedError if Airflow has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise AirflowFailedError(f"Airflow ended by itself; its last log lines:\n{self._tail()}")

    def wait(self) -> None:
        """Returns never, but by Ctrl-C. Raises: AirflowFailedError if Airflow ends."""
        while True:
            self.check_alive()
            time.sleep(0.5)

    def get(self, path: str, **parameters: Any) -> Any:
        """Answer of the REST API to a GET of a path below `/api/v2`.

        Raises: AirflowFailedError.
        """
        self.check_alive()
        return self._request("GET", path, params=parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Answer of the REST API to a POST of a JSON body to a path below `/api/v2`.

        Raises: AirflowFailedError.
        """
        self.check_alive()
        return self._request("POST", path, json=body)

    def _request(self, method: str, path: str, **content: Any) -> Any:
        try:
            answer = send_again_if_busy(lambda: self._client.request(method, f"/api/v2/{path}", **content))
        except httpx.HTTPError as error:
            raise self._error(f"{method} {path}: {error!r}") from error
        if answer.is_error:
            raise self._error(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json()

    def _error(self, message: str) -> AirflowFailedError:
        return AirflowFailedError(f"Airflow's API: {message}; its last log lines:\n{self._tail()}")

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])


def send_again_if_busy(send: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer to a request that is sent again, up to ten times in all, while Airflow answers 500.

    Airflow writes its audit log in the event loop, before it begins what was requested. With SQLite this fails after
    5 s ("database is locked") if another request holds the lock, whose commit waits for the same event loop. Nothing
    was done then, so that it is safe to send the request again.
    """
    retrying = Retrying(
        retry=retry_if_result(lambda answer: answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR),
        stop=stop_after_attempt(TRIES),
        wait=wait_fixed(2),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
    )
    answer: httpx.Response = retrying(send)
    return answer


def prepare_database(home: Path) -> None:
    """Creates the SQLite database of an Airflow in this folder, if there is none, in write-ahead mode.

    All components share it. With SQLite's default journal a reader keeps each writer waiting, which fails after 5 s.
    """
    home.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(home / "airflow.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")


def airflow_environment(home: Path, project: Path, port: int) -> dict[str, str]:
    """The settings of an Airflow that lives in `home`, reads the DAGs of `project` and listens on this port only."""
    url = f"http://127.0.0.1:{port}"
    return {
        "AIRFLOW_HOME": str(home),
        # The components of `standalone` are started by name.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(project),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags_examples"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        # On a busy machine an import takes long; one that takes too long all the same is tried again after a minute.
        # Reading all examples more often would take time from the tasks.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        # A busy machine answers late, above all while the API server starts.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
