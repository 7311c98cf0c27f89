"""A real Airflow whose parts are separate processes, so that each can be killed and started again.

API server, scheduler, DAG processor and triggerer share an SQLite database in a folder of the test, listen on free
ports of 127.0.0.1, and end with the `with` block; if the test itself is killed, they end too. Tests see what users see:
DAG files, and the public REST API.

    with RealAirflow(tmp_path, {"hello.py": DAG_FILE}) as airflow:
        run_id = airflow.run("hello")
        airflow.kill("triggerer")
        airflow.start("triggerer")
        airflow.wait_for_run("hello", run_id)

Starting takes 20 to 60 s: share it in a module by a fixture with `scope="module"`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx

from dags_examples.demo.airflow_process import airflow_environment, free_port, prepare_database, send_again_if_busy
from dags_examples.demo.follow import is_import_timeout

PROJECT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("api-server", "scheduler", "dag-processor", "triggerer")
START_S: Final = 240
"""How long a busy machine may take to start."""
WAIT_S: Final = 300
STOP_S: Final = 20
TAIL_LINES: Final = 15
ENDED: Final = ("success", "failed")
NEVER_RUN: Final = ("upstream_failed", "skipped", "removed")
SETTINGS: Final = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    # The work of a lost part is given to the next one soon.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "5",
}
"""What tests would otherwise wait for; `environment` overrides it."""

_T = TypeVar("_T")


class AirflowError(AssertionError):
    """Something did not come about; the message has the ends of the logs."""


class RealAirflow:
    """A running Airflow.

    Args:
        home: an empty folder for its database, logs and DAG files.
        dags: names and texts of DAG files; they are there before the DAG processor starts.
        environment: variables for all parts, and so for tasks.
        parts: what to start.
    """

    def __init__(
        self,
        home: Path,
        dags: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        parts: Sequence[str] = PARTS,
    ) -> None:
        self.home = home
        self.dags_folder = home / "dags"
        self.parts = parts
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **airflow_environment(home / "airflow", PROJECT, port),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags_folder),
            **SETTINGS,
            **(environment or {}),
        }
        self._running: dict[str, _Part] = {}
        self._client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        self._dags = dict(dags or {})

    # ── its life ────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        try:
            self.dags_folder.mkdir(parents=True)
            for name, text in self._dags.items():
                (self.dags_folder / name).write_text(text, encoding="utf-8")
            prepare_database(self.home / "airflow")
            self.command("db", "migrate")
            for part in self.parts:
                self.start(part)
            self._wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        for part in self._running.values():
            part.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for part in self._running.values():
            part.end(deadline)
        self._running.clear()

    def command(self, *words: str) -> str:
        """What a command of `airflow` prints. Raises: AirflowError if it fails."""
        command = [sys.executable, "-m", "airflow", *words]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=PROJECT, timeout=START_S, check=False
        )
        if done.returncode:
            raise AirflowError(f"airflow {' '.join(words)}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    def start(self, part: str) -> None:
        """Starts a part that does not run: `api-server`, `scheduler`, `dag-processor` or `triggerer`."""
        assert part not in self._running, part
        log = self._log(part)
        log.parent.mkdir(parents=True, exist_ok=True)
        # Logs are read as files: their servers would listen on all addresses.
        more = ["--skip-serve-logs"] if part in ("scheduler", "triggerer") else []
        self._running[part] = _Part([sys.executable, "-m", "airflow", part, *more], log, self.environment)

    def kill(self, part: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to all processes of a part, and returns when they have ended."""
        running = self._running.pop(part)
        running.signal(number)
        running.end(time.monotonic() + STOP_S)

    def restart(self, part: str) -> None:
        """Kills a part and starts it again."""
        self.kill(part)
        self.start(part)

    def pids(self, part: str) -> list[int]:
        """All processes of a part: those of one session."""
        return processes_of(self._running[part].pid)

    def _wait_until_healthy(self) -> None:
        wanted = {part.replace("-", "_") for part in self.parts} - {"api_server"}

        def is_healthy() -> bool:
            health = self._client.get("/api/v2/monitor/health").raise_for_status().json()
            return all((health.get(name) or {}).get("status") == "healthy" for name in wanted)

        self.wait_until(is_healthy, "healthy", timeout=START_S)
        token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"
        # The API of the workers is built by its first request, for which a busy machine takes long.
        self._client.get("/execution/health", timeout=180)

    # ── the public REST API ─────────────────────────────────────────────────────────────────────

    def get(self, path: str, **parameters: Any) -> Any:
        """Answer to a GET of a path below `/api/v2`; repeated while the server is busy or cannot be reached."""
        return self._request("GET", path, tries=5, params=parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Answer to a POST; repeated only where the server has done nothing yet."""
        return self._request("POST", path, json=body)

    def patch(self, path: str, body: Mapping[str, Any], **parameters: Any) -> Any:
        """Answer to a PATCH; repeated only where the server has done nothing yet."""
        return self._request("PATCH", path, json=body, params=parameters)

    def delete(self, path: str) -> Any:
        """Answer to a DELETE; repeated only where the server has done nothing yet."""
        return self._request("DELETE", path)

    def _request(self, method: str, path: str, *, tries: int = 1, **more: Any) -> Any:
        for number in range(1, tries + 1):
            try:
                answer = send_again_if_busy(lambda: self._client.request(method, f"/api/v2/{path}", **more))
                break
            except httpx.TransportError as error:
                if number == tries:
                    raise self._error(f"{method} {path}: {error!r}") from error
            time.sleep(1)
        if answer.is_error:
            raise self._error(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json() if answer.content else None

    # ── DAGs, runs and tasks ────────────────────────────────────────────────────────────────────

    def wait_for_dags(self, *dag_ids: str, timeout: float = WAIT_S) -> None:
        """Returns when Airflow has read these DAGs, some of them perhaps not at the first try.

        Raises: AirflowError, at once where a file cannot be imported.
        """

        def is_read() -> bool:
            errors = self.get("importErrors")["import_errors"]
            broken = [item for item in errors if not is_import_timeout(item)]
            if broken:
                raise self._error("\n".join(f"{item['filename']}:\n{item['stack_trace']}" for item in broken))
            return set(dag_ids) <= {dag["dag_id"] for dag in self.get("dags", limit=200)["dags"]}

        self.wait_until(is_read, f"DAGs {dag_ids}", timeout=timeout)

    def add_dag(self, name: str, text: str, *dag_ids: str) -> None:
        """Writes one more DAG file, and returns when Airflow has read these DAGs of it."""
        (self.dags_folder / name).write_text(text, encoding="utf-8")
        self.wait_for_dags(*dag_ids)

    def run(self, dag_id: str, **body: Any) -> str:
        """Starts a run, for example with `partition_key=` or `conf=`; gives its id."""
        self.wait_for_dags(dag_id)
        created: str = self.post(f"dags/{dag_id}/dagRuns", {"logical_date": None, **body})["dag_run_id"]
        return created

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The runs of a DAG, oldest first."""
        found: list[dict[str, Any]] = self.get(f"dags/{dag_id}/dagRuns", limit=100)["dag_runs"]
        return sorted(found, key=lambda run: (run["run_after"], run["dag_run_id"]))

    def wait_for_run(self, dag_id: str, run_id: str, state: str = "success", timeout: float = WAIT_S) -> dict[str, Any]:
        """The run, once it is in this state. Raises: AirflowError, at once if it ends in another."""

        def reached() -> dict[str, Any] | None:
            run: dict[str, Any] = self.get(f"dags/{dag_id}/dagRuns/{run_id}")
            if run["state"] in ENDED and run["state"] != state:
                raise self._error(f"{dag_id} {run_id} is {run['state']}:\n{self._why(dag_id, run_id)}")
            return run if run["state"] == state else None

        return self.wait_until(reached, f"{dag_id} {run_id} {state}", timeout=timeout)

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run by task; of mapped ones by `task.0`, `task.1` …"""
        found = self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=200)["task_instances"]
        return {
            item["task_id"] if item["map_index"] < 0 else f"{item['task_id']}.{item['map_index']}": item
            for item in found
        }

    def wait_for_task(
        self, dag_id: str, run_id: str, task: str, *states: str, timeout: float = WAIT_S
    ) -> dict[str, Any]:
        """A task instance, once it is in one of these states, such as `deferred`."""

        def reached() -> dict[str, Any] | None:
            instance = self.tasks(dag_id, run_id).get(task)
            if instance is not None and instance["state"] in (*ENDED, *NEVER_RUN) and instance["state"] not in states:
                raise self._error(f"{task} is {instance['state']}:\n{self._why(dag_id, run_id)}")
            return instance if instance is not None and instance["state"] in states else None

        return self.wait_until(reached, f"{dag_id} {run_id} {task} {states}", timeout=timeout)

    def wait_for_question(self, dag_id: str, run_id: str, task: str) -> None:
        """Returns when a task waits for a person, and the scheduler knows that its process has ended.

        An answer before that ends the attempt: the process is taken for one that ended without its task. People need
        longer.
        """
        self.wait_for_task(dag_id, run_id, task, "awaiting_input", "deferred")
        ended = f"TaskInstanceKey(dag_id={dag_id!r}, task_id={task!r}, run_id={run_id!r}"
        self.wait_until(
            lambda: any("executor event" in line and ended in line for line in self.output("scheduler").splitlines()),
            f"the end of the process of {task}",
        )

    def xcom(self, dag_id: str, run_id: str, task: str, key: str = "return_value", map_index: int = -1) -> Any:
        """What a task returned."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/{key}"
        return self.get(path, map_index=map_index, deserialize=True)["value"]

    def log(self, dag_id: str, run_id: str, task: str, try_number: int = 1, map_index: int = -1) -> str:
        """The log of an attempt of a task."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task}/logs/{try_number}"
        lines = self.get(path, map_index=map_index)["content"]
        return "\n".join(str(line) for line in lines)

    def output(self, part: str) -> str:
        """What a part has printed so far."""
        return self._log(part).read_text(errors="replace")

    def clear(self, dag_id: str, run_id: str) -> None:
        """Clears all tasks of a run."""
        self.post(f"dags/{dag_id}/dagRuns/{run_id}/clear", {"dry_run": False})

    def wait_until(self, look: Callable[[], _T], what: str, timeout: float = WAIT_S) -> _T:
        """What `look` gives, once it is true. Raises: AirflowError after `timeout` seconds, or if a part has ended."""
        deadline = time.monotonic() + timeout
        while True:
            for name, part in self._running.items():
                if not part.lives():
                    raise self._error(f"{name} has ended by itself")
            with contextlib.suppress(httpx.HTTPError):
                if found := look():
                    return found
            if time.monotonic() > deadline:
                raise self._error(f"not within {timeout} s: {what}")
            time.sleep(0.5)

    def _why(self, dag_id: str, run_id: str) -> str:
        failed = [item for item in self.tasks(dag_id, run_id).values() if item["state"] == "failed"]
        return "\n".join(
            self.log(dag_id, run_id, item["task_id"], item["try_number"], item["map_index"])[-3000:] for item in failed
        )

    def _log(self, part: str) -> Path:
        return self.home / "logs" / f"{part}.log"

    def _error(self, message: str) -> AirflowError:
        texts = [
            f"── {part} ──\n" + "\n".join(self._log(part).read_text(errors="replace").splitlines()[-TAIL_LINES:])
            for part in self.parts
            if self._log(part).exists()
        ]
        return AirflowError("\n".join([message, *texts]))


class _Part:
    """A process in a separate session, with a guard that ends the session when this process has ended."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=PROJECT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.pid = self._process.pid
        guard = [sys.executable, "-ISc", f"import os, sys; sys.stdin.read(); os.killpg({self.pid}, {signal.SIGKILL:d})"]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def lives(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """To the group, and to what has left it for a group of its own within the session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        for pid in processes_of(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self, deadline: float) -> None:
        while (self.lives() or processes_of(self.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._guard.kill()
        self._guard.communicate()


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    return _state_and_session(Path("/proc", str(pid), "stat"))[0] not in (None, "Z", "X")


def processes_of(session: int) -> list[int]:
    """Running processes of a session, from `/proc`; none where there is no `/proc`."""
    found = ((stat, _state_and_session(stat)) for stat in Path("/proc").glob("[0-9]*/stat"))
    return [int(stat.parent.name) for stat, (state, of) in found if of == session and state not in ("Z", "X")]


def _state_and_session(stat: Path) -> tuple[str | None, int | None]:
    """The name is in brackets and may contain blanks: state, parent, group and session follow it."""
    try:
        state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None, None
    return state, int(session)
