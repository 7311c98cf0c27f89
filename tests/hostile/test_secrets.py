"""A secret is nowhere but where it is used: not in messages, logs, job files, results or the list of processes.

The secret is replaced by a marker, and everything that others can see is searched for it.
"""

from __future__ import annotations

import json
import logging
import pickle
import shutil
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from paimon_engine import Catalog, InvalidArgumentError, PaimonError, open_table
from paimon_engine.actions.tags import CreateTag
from paimon_engine.cli import app
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.jobs import CatalogRef, Job, StorageRef, TableRef, run
from paimon_engine.metastores import CatalogConfig
from paimon_engine.secrecy import shows_catalog_option, shows_storage_option, without_secrets
from paimon_engine.table.state.handle import load_table
from tests.hostile.marker import MARK, S3, Watch
from tests.hostile.sandbox import SCHEMA, rows
from tests.provider.conftest import make_context
from tests.support.s3 import BUCKET, start_s3


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """A real S3 server, which takes every key."""
    for options in start_s3():
        yield {**options, **S3}


@pytest.fixture(autouse=True)
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Our logs at their most detailed level never show it."""
    for name in ("paimon_engine", "airflow_provider_paimon"):
        caplog.set_level(logging.DEBUG, name)
    yield
    for phase in ("setup", "call"):
        ours = [
            item for item in caplog.get_records(phase) if item.name.startswith(("paimon_engine", "airflow_provider"))
        ]
        assert MARK not in "\n".join(f"{item.getMessage()} {item.exc_text}" for item in ours)


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def message_of(act: Callable[[], Any]) -> str:
    """All that the error says, with its causes and where it came from, as a log has it."""
    with pytest.raises(PaimonError) as caught:
        act()
    return "".join(traceback.format_exception(caught.value)) + repr(caught.value)


# ── what values show of themselves ──────────────────────────────────────────────────────────────


def test_values_that_contain_secrets_do_not_show_them():
    shown = [
        EnvConfig("s3://lake", S3),
        CatalogConfig.of("s3://lake", {"metastore": "jdbc", "uri": f"jdbc:sqlite:/x?password={MARK}", **S3}),
        StorageRef(S3),
        CatalogRef({"token": MARK}),
        Job(TableRef("s3://lake", "db.t"), CreateTag("t"), "u", StorageRef(S3), catalog=CatalogRef({"token": MARK})),
        Catalog("s3://lake", storage_options=S3),
        PaimonHook(warehouse="s3://lake", storage_options=S3),
        PaimonJobOperator(task_id="t", table="db.t", action="verify", warehouse="s3://lake", storage_options=S3),
        LocalExecutor(),
    ]

    for value in shown:
        assert MARK not in f"{value!r} {value}"


def test_a_job_does_not_write_secrets_down():
    for job in (
        Job(TableRef("s3://lake", "db.t"), CreateTag("t"), "u", StorageRef(S3)),
        Job(TableRef("/lake", "db.t"), CreateTag("t"), "u", catalog=CatalogRef({"metastore": "rest", "token": MARK})),
        Job(TableRef("/lake", "db.t"), CreateTag("t"), "u", catalog=CatalogRef({"uri": f"postgresql://u:{MARK}@h/d"})),
    ):
        with pytest.raises(InvalidArgumentError, match="environment variable") as caught:
            job.to_json()
        assert MARK not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        ("s3.secret-key", "x", True),
        ("s3.access-key", "x", True),
        ("jdbc.password", "x", True),
        ("token", "x", True),
        ("sas_token", "x", True),
        ("client_kwargs", '{"aws_secret_access_key": "x"}', True),
        ("uri", "jdbc:postgresql://host/db?user=u&password=x", True),
        ("uri", "postgresql://u:x@host/db", True),
        ("uri", "postgresql://u@host/db", False),
        ("uri", "jdbc:sqlite:/lake/catalog.db", False),
        ("token.provider", "bear", False),
        ("data-token.enabled", "true", False),
        ("s3.endpoint", "http://localhost:9000", False),
        ("s3.region", "eu", False),
    ],
)
def test_secrets_are_known_by_name_or_by_their_position_in_an_address(name: str, text: str, secret: bool):
    shows = shows_storage_option if name in ("sas_token", "client_kwargs") else shows_catalog_option
    assert shows(name, text) is not secret


def test_addresses_are_shown_without_user_and_password():
    assert without_secrets("http://u:x@host:80/a") == "http://***@host:80/a"
    assert "xy" not in without_secrets("jdbc:postgresql://host/db?user=u&password=xy")


def test_tasks_name_secrets_and_do_not_contain_them(store: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    Catalog(f"s3://{BUCKET}/tasks", storage_options=store).create_table("db.t", schema=SCHEMA).write(rows(("a", 1)))
    monkeypatch.setenv("LAKE_SECRET", MARK)
    options = {key: text for key, text in store.items() if MARK not in text}
    secrets = dict.fromkeys((key for key, text in store.items() if MARK in text), "LAKE_SECRET")
    path = f"s3://{BUCKET}/tasks/db.db/t"

    table = load_table(path, EnvConfig(path, options, secrets))

    assert MARK.encode() not in pickle.dumps(table.plain())
    assert MARK not in repr(table)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {**S3, "s3.endpoint": f"http://127.0.0.1:{closed_port()}"}
    options["config_kwargs"] = '{"connect_timeout": 1, "retries": {"max_attempts": 0}}'

    assert MARK not in message_of(lambda: open_table("s3://lake/db.db/t", storage_options=options))


def test_options_that_no_file_system_takes():
    for wrong in ({"s3.secret-kex": MARK}, {"no_such_argument_secret": MARK}, {"key": "{" + MARK}):
        options = {**S3, **wrong}
        try:
            open_table("s3://lake/db.db/t", storage_options=options)
        except Exception as error:  # noqa: BLE001 - whatever is said
            assert MARK not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:postgresql://127.0.0.1:{port}/lake?user=u&password={mark}",
        "postgresql://u:{mark}@127.0.0.1:{port}/lake",
        "jdbc:postgresql://127.0.0.1:no-port/lake?password={mark}",
        "postgresql://u:{mark}@127.0.0.1:no-port/lake",
        "jdbc:mysql://u:{mark}@127.0.0.1:1/lake",
        "jdbc:postgresql://127.0.0.1:{port}/lake?sslpassword={mark}",
        "jdbc:sqlite:/tmp/x.db?password={mark}",
        "jdbc:sqlite:file:x?password={mark}",
        "{mark}",
    ],
)
def test_a_database_that_does_not_answer(uri: str, tmp_path: Path):
    address = uri.format(port=closed_port(), mark=MARK)
    options = {"metastore": "jdbc", "uri": address, "jdbc.connect_timeout": "1"}

    assert MARK not in message_of(lambda: Catalog(str(tmp_path), options=options).list_databases())


class Telling(BaseHTTPRequestHandler):
    """A server that repeats what it was shown."""

    def do_GET(self) -> None:
        reply = {"message": f"no such token: {self.headers.get('Authorization')}", "code": 401}
        body = json.dumps(reply).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_a_catalog_that_refuses_a_token_and_repeats_it():
    server = HTTPServer(("127.0.0.1", 0), Telling)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        uri = f"http://127.0.0.1:{server.server_port}"
        options = {"metastore": "rest", "uri": uri, "token.provider": "bear", "token": MARK}
        message = message_of(lambda: Catalog("lake", options=options).list_databases())
        assert MARK not in message
        assert "***" in message
        with pytest.raises(InvalidArgumentError, match="token.provider") as caught:
            Catalog("lake", options={**options, "uri": uri.replace("//", f"//u:{MARK}@")}).list_databases()
        assert MARK not in str(caught.value)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# ── the command line ────────────────────────────────────────────────────────────────────────────


def test_the_command_line_takes_secrets_from_the_environment(store: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    Catalog(f"s3://{BUCKET}/cli", storage_options=store).create_table("db.t", schema=SCHEMA).write(rows(("a", 1)))
    arguments: list[str] = []
    for number, (key, text) in enumerate(store.items()):
        monkeypatch.setenv(f"LAKE_{number}", text)
        arguments += ["--storage", f"{key}=env:LAKE_{number}"]
    runner = CliRunner()

    read = runner.invoke(app, ["-v", "read", "db.t", "-w", f"s3://{BUCKET}/cli", *arguments])
    tagged = runner.invoke(app, ["-v", "tag", "create", f"s3://{BUCKET}/cli/db.db/t", "now", *arguments])
    failed = runner.invoke(app, ["-v", "read", "db.none", "-w", f"s3://{BUCKET}/cli", *arguments])

    assert (read.exit_code, tagged.exit_code) == (0, 0), (read.output, tagged.output)
    assert MARK not in read.output + tagged.output + failed.output + str(failed.exception)


# ── Airflow ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
def test_a_task_in_a_process_of_its_own_shows_no_secret(
    store: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    table = Catalog(f"s3://{BUCKET}/task", storage_options=store).create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "k"], options={"bucket": "1"}
    )
    for number in range(3):
        table.write(rows(("a", number)))
    keys = ("s3.access-key", "s3.secret-key", "s3.session-token")
    extra = {
        "storage_options": {key: text for key, text in store.items() if key not in keys},
        "token": store["s3.session-token"],
    }
    connection = {"conn_type": "paimon", "host": f"s3://{BUCKET}/task", "extra": extra}
    connection |= {"login": store["s3.access-key"], "password": store["s3.secret-key"]}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    operator = PaimonCompactOperator(task_id="c", table="db.t", paimon_conn_id="lake", launcher="subprocess", full=True)

    with Watch(tmp_path) as watch:
        returned = operator.execute(make_context())

    assert returned["status"] == "committed"
    jobs = {path: data for path, data in watch.files.items() if path.endswith("job.json")}
    assert jobs, "the job's file was never seen"
    assert any(b"paimon_engine" in command for command in watch.commands)
    assert not [command for command in watch.commands if MARK.encode() in command]
    assert not [path for path, data in watch.files.items() if MARK.encode() in data]
    message = capfd.readouterr()
    ours = [item.getMessage() for item in caplog.records if not item.name.startswith(("boto", "s3fs", "aiobotocore"))]
    assert MARK not in json.dumps(returned) + message.out + message.err + "\n".join(ours)
    fields = {name: getattr(operator, name) for name in operator.template_fields}
    assert MARK not in json.dumps(fields, default=str)


@pytest.mark.airflow
def test_a_task_that_fails_in_the_worker_shows_no_secret(store: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    extra = {"storage_options": store}
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": f"s3://{BUCKET}/x", "extra": extra})
    )
    operator = PaimonJobOperator(
        task_id="t", table="db.none", action="create_tag", arguments={"tag": "t"}, paimon_conn_id="lake"
    )

    with pytest.raises(Exception) as caught:
        operator.execute(make_context())

    assert "db.none" in str(caught.value) or "none" in str(caught.value)
    assert MARK not in "".join(traceback.format_exception(caught.value))


def test_jobs_run_with_secrets_by_name(store: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    Catalog(f"s3://{BUCKET}/jobs", storage_options=store).create_table("db.t", schema=SCHEMA).write(rows(("a", 1)))
    names = {key: f"LAKE_{number}" for number, key in enumerate(store)}
    for key, name in names.items():
        monkeypatch.setenv(name, store[key])
    text = Job(TableRef(f"s3://{BUCKET}/jobs", "db.t"), CreateTag("t"), "u", StorageRef({}, names)).to_json()

    result = run(Job.from_json(text))

    assert result.status == "created"
    assert MARK not in text + result.to_json()
