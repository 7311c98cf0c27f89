"""A real process for each job: the engine's own where Spark is installed, else a small program instead."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers import InProcess, Subprocess, choose_launcher, own_process
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.placement import Placement
from paimon_engine import Catalog
from paimon_engine.jobs import Job, Resources, StorageRef, TableRef, action_type
from tests.provider.conftest import TABLE

PROJECT = Path(__file__).resolve().parents[2]


def job_on(warehouse: str, action: str = "create_tag", **fields) -> Job:
    fields = fields or {"tag": "t"}
    return Job(TableRef(warehouse, TABLE), action_type(action)(**fields), "user")


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


# ── choosing ────────────────────────────────────────────────────────────────────────────────────


def placed(where: str) -> Placement:
    return Placement(where, "")


@pytest.mark.parametrize(
    ("resources", "spark", "memory"),
    [
        (Resources(), "local[*]", None),
        (Resources(local_cores=3, memory=1 << 30, spark_conf={"spark.a": "b"}), "local[3]", 1 << 30),
    ],
)
def test_an_embedded_spark_takes_the_resources(resources, spark, memory):
    launcher = choose_launcher(placed("subprocess"), resources)

    assert isinstance(launcher, Subprocess)
    assert (launcher.spark, launcher.memory_bytes) == (spark, memory)
    assert launcher.spark_conf == (resources.spark_conf or {})


def _connection(monkeypatch, name: str, **fields) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


def test_a_spark_connect_server(monkeypatch):
    extra = {"use_ssl": True}
    fields = {"host": "spark.example", "port": 15009, "login": "me", "password": "the; to=ken", "extra": extra}
    _connection(monkeypatch, "cluster", conn_type="spark_connect", **fields)

    launcher = choose_launcher(placed("cluster"), Resources(spark_conf={"spark.a": "b"}), "cluster")

    assert isinstance(launcher, Subprocess)
    assert launcher.spark == "sc://spark.example:15009/;user_id=me;use_ssl=True"
    assert launcher.environment == {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "the; to=ken"}
    assert launcher.spark_conf == {"spark.a": "b"}
    assert "the; to=ken" not in repr(launcher)


def test_connections_of_other_types_are_refused_with_those_that_are_allowed(monkeypatch):
    _connection(monkeypatch, "cluster", conn_type="postgres", host="db")

    with pytest.raises(AirflowFailException, match="is of type postgres; allowed is .*spark_connect") as refused:
        choose_launcher(placed("cluster"), None, "cluster")

    assert "Leave spark_conn_id away" in str(refused.value)


@pytest.mark.parametrize("where", ["cluster", "spark_connect"])
def test_a_connection_that_is_missing_is_not_tried_again(where):
    with pytest.raises(AirflowFailException, match="The connection nowhere that spark_conn_id names is not defined"):
        choose_launcher(placed(where), None, "nowhere")


@pytest.mark.parametrize(("host", "message"), [(None, "names no host"), ("sc://h/path", "host sc://h/path")])
def test_a_connection_without_a_usable_address_is_refused(monkeypatch, host, message):
    _connection(monkeypatch, "cluster", conn_type="spark_connect", host=host)

    with pytest.raises(AirflowFailException, match=message):
        choose_launcher(placed("cluster"), None, "cluster")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"host": None}, "names the Spark master 'spark://'"),
        ({"host": "nonsense"}, "names the Spark master 'nonsense'; its host must be yarn"),
        ({"host": "spark://h"}, "its host must be .*spark://host .with a port"),
        ({"host": "spark://h", "port": 7077, "extra": {"deploy-mode": "cluster"}}, "runs no Python driver itself"),
        ({"host": "yarn", "extra": {"deploy-mode": "both"}}, "choose client or cluster"),
        ({"host": "yarn", "extra": {"spark-binary": "sh"}}, "spark-binary"),
        ({"host": "k8s://https://h", "port": 6443}, "pip install apache-airflow-providers-cncf-kubernetes"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_and_never_taken_for_yarn(monkeypatch, fields, message):
    _connection(monkeypatch, "cluster", conn_type="spark", **fields)

    with pytest.raises(AirflowFailException, match=message):
        choose_launcher(placed("cluster"), None, "cluster")


# ── in this process ─────────────────────────────────────────────────────────────────────────────


def test_secrets_are_in_the_environment_only_while_the_job_runs(catalog: Catalog, warehouse: str):
    storage = StorageRef(secrets={"token": "PAIMON_TEST_TOKEN"})
    job = Job(TableRef(warehouse, TABLE), action_type("create_tag")(tag="t"), "user", storage)

    assert InProcess().launch(job, {"PAIMON_TEST_TOKEN": "x"}).status == "created"
    assert "PAIMON_TEST_TOKEN" not in os.environ
    with pytest.raises(AirflowFailException, match="PAIMON_TEST_TOKEN"):
        InProcess().launch(job, {})


# ── a separate process ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Replaces the engine by a small program; it sees the same arguments, environment and pipes."""

    def replace(code: str) -> None:
        path = tmp_path / "program.py"
        path.write_text("import json, os, signal, sys, time\n" + textwrap.dedent(code))
        real = subprocess.Popen

        def start(command, **options):
            assert command[1:4] == ["-m", "paimon_engine", "run"]
            return real([command[0], str(path), *command[4:]], **options)

        monkeypatch.setattr(subprocess, "Popen", start)

    return replace


def test_progress_and_output_reach_the_log(program, warehouse: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    program("""
        record = sys.argv[sys.argv.index("--record") + 1]
        os.mkdir(record)
        beat = dict(number=1, host="h", pid=1, stage="compact", done=2, total=8)
        open(record + "/beat.json", "w").write(json.dumps(beat))
        print("a word on standard output", flush=True)
        time.sleep(1)
        value = dict(status="noop", action="compact", table="t", snapshot_id=None, seconds=0.0, details={}, version=1)
        open(record + "/outcome.json", "w").write(json.dumps(value))
        sys.stdout.write("no end of line")
    """)

    result = Subprocess("local[*]").launch(job_on(warehouse), {})

    logged = [record.getMessage() for record in caplog.records]
    assert result.status == "noop"
    assert sorted(logged[1:]) == ["a word on standard output", "compact: 2 of 8", "no end of line"]


def test_the_child_gets_secrets_by_its_environment_only(program, warehouse: str):
    program("""
        job = open(sys.argv[sys.argv.index("--job") + 1]).read()
        assert "very secret" not in job + " ".join(sys.argv)
        print("error:", os.environ["PAIMON_SECRET"], os.getsid(0) == os.getpid(), os.fstat(0).st_mode & 0o170000)
        sys.exit(1)
    """)

    with pytest.raises(AirflowException) as failed:
        Subprocess("local[*]").launch(job_on(warehouse), {"PAIMON_SECRET": "very secret"})

    # In a session of its own, and its standard input is a pipe.
    assert str(failed.value) == f"very secret True {0o010000}"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("print('error: disk full', file=sys.stderr); sys.exit(1)", AirflowException, "^disk full$"),
        ("print('error: no such column'); sys.exit(2)", AirflowFailException, "^no such column$"),
        ("print('what happened'); sys.exit(3)", AirflowException, "exit code 3\nwhat happened"),
        ("os.kill(os.getpid(), signal.SIGKILL)", AirflowException, "SIGKILL; the machine may have run out of memory"),
    ],
)
def test_failures_say_what_the_process_said(program, warehouse: str, code, kind, message):
    program(code)

    with pytest.raises(AirflowException, match=message) as failed:
        Subprocess("local[*]").launch(job_on(warehouse), {})

    assert type(failed.value) is kind


def test_a_process_that_stays_delays_nothing(program, warehouse: str, tmp_path: Path):
    """Such as a JVM that hangs: it holds the pipe of the output."""
    program(f"""
        child = os.fork()
        if child == 0:
            time.sleep(3600)
        open({str(tmp_path / "pid")!r}, "w").write(str(child))
        print("error: done")
        os._exit(1)
    """)

    with pytest.raises(AirflowException):
        Subprocess("local[*]").launch(job_on(warehouse), {})

    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def _launch_in_thread(launcher: Subprocess, job: Job) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def launch() -> None:
        try:
            launcher.launch(job, {})
        except AirflowException as error:
            errors.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    return thread, errors


def test_kill_sends_a_signal_first(program, warehouse: str, tmp_path: Path):
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    program(f"""
        def stop(*_):
            open({str(cleaned)!r}, "w").close()
            sys.exit(1)
        signal.signal(signal.SIGTERM, stop)
        open({str(ready)!r}, "w").close()
        time.sleep(3600)
    """)
    launcher = Subprocess("local[*]")
    thread, errors = _launch_in_thread(launcher, job_on(warehouse))
    assert wait_until(ready.exists)

    launcher.kill()

    thread.join(timeout=60)
    assert cleaned.exists()
    assert len(errors) == 1


def test_kill_does_not_take_no_for_an_answer(program, warehouse: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(own_process, "GRACE_S", 0.5)
    ready = tmp_path / "ready"
    program(f"""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open({str(ready)!r}, "w").close()
        time.sleep(3600)
    """)
    launcher = Subprocess("local[*]")
    thread, errors = _launch_in_thread(launcher, job_on(warehouse))
    assert wait_until(ready.exists)

    launcher.kill()

    thread.join(timeout=60)
    assert "SIGKILL" in str(errors[0])


# ── the engine itself ───────────────────────────────────────────────────────────────────────────

LAUNCH = """
import sys
from airflow_provider_paimon.launchers import Subprocess
from paimon_engine.jobs import Job
real = Subprocess._start
def start(self, *args):
    process = real(self, *args)
    print("CHILD", process.pid, flush=True)
    return process
Subprocess._start = start
Subprocess("local[1]").launch(Job.from_json(sys.argv[1]), {})
"""


GUARDED = """
import subprocess, sys, time
from paimon_engine.guard import exit_when_stdin_closes
exit_when_stdin_closes()
print(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(1)
"""


def test_what_a_process_has_started_ends_with_it_when_its_parent_has_ended():
    command = [sys.executable, "-c", GUARDED]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT, start_new_session=True) as process:
        started = int(process.stdout.readline())
        assert is_alive(started)
        process.stdin.close()
        process.wait(timeout=60)

    assert wait_until(lambda: not is_alive(started))


@pytest.mark.spark
def test_the_engine_ends_when_its_starter_is_killed(catalog: Catalog, warehouse: str, tmp_path: Path):
    job = job_on(warehouse, "compact", full=True).to_json()
    command = [sys.executable, "-c", LAUNCH, job]
    # The job's files are not removed after SIGKILL.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=environment) as starter:
        try:
            line = next(line for line in starter.stdout if line.startswith("CHILD"))
            child = int(line.split()[1])
            # Until the JVM is there, which is the one that would keep running.
            assert wait_until(lambda: _java_below(child), seconds=60)
            java = _java_below(child)
        finally:
            starter.kill()

    assert wait_until(lambda: not is_alive(child), seconds=60)
    assert wait_until(lambda: not is_alive(java), seconds=60)


def _java_below(parent: int) -> int | None:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    if not children.exists():
        return None
    for child in map(int, children.read_text().split()):
        command = Path(f"/proc/{child}/cmdline")
        if command.exists() and b"java" in command.read_bytes().split(b"\0")[0]:
            return child
    return None


@pytest.mark.spark
def test_operators_on_an_embedded_spark(catalog: Catalog, warehouse: str, source: str, context, caplog):
    caplog.set_level(logging.INFO)
    fields = {"task_id": "t", "table": TABLE, "warehouse": warehouse, "launcher": "subprocess", "local_cores": 1}

    written = PaimonWriteOperator(source=source, **fields).execute(context)
    compacted = PaimonCompactOperator(full=True, **fields).execute(context)

    assert (written["status"], written["snapshot_id"]) == ("committed", 4)
    assert (compacted["status"], compacted["snapshot_id"]) == ("committed", 5)
    assert sorted(PaimonHook(warehouse=warehouse).table(TABLE).to_arrow()["id"].to_pylist()) == [1, 2, 3, 10, 11]
    said = [record.getMessage() for record in caplog.records]
    assert "compact, round 1: 1 of 1" in said
    # Neither of the JVM, nor of Spark, nor of Python libraries.
    assert [line for line in said if "warn" in line.lower()] == []


@pytest.mark.spark
def test_a_wrong_call_on_an_embedded_spark_fails_at_once(catalog: Catalog, warehouse: str, context):
    operator = PaimonCompactOperator(
        task_id="t", table=TABLE, warehouse=warehouse, where="id > 1", launcher="subprocess"
    )

    with pytest.raises(AirflowFailException, match="partition columns"):
        operator.execute(context)
