"""What is not known to be harmless is a secret: canaries in options with any name, and in every part of an address.

A list of words would miss most of these names. The canary must be nowhere that others can look.
"""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.job import PaimonJobOperator
from paimon_engine import Catalog, InvalidArgumentError, PaimonError, open_table
from paimon_engine.actions.verify import Verify
from paimon_engine.actions.write import Write
from paimon_engine.cli import app
from paimon_engine.env import EnvConfig
from paimon_engine.jobs import CatalogRef, Job, StorageRef, TableRef, run
from paimon_engine.metastores import CatalogConfig
from tests.hostile.sandbox import Sandbox, make_sandbox
from tests.provider.conftest import make_context

CANARY = "canary-5e1f-of-the-mine"
NAMES = (
    *("connection_string", "conn_str", "pwd", "api_key", "apikey", "encryption_key", "sse_customer_key", "kms"),
    *("service_account_json", "private_key", "key_data", "headers", "header.Authorization", "auth", "cookie", "pin"),
    *("credential", "passphrase", "dsn", "x-y-z", "user", "anything", "s3_additional_kwargs", "fs.oss.accessKeyId"),
)
NESTED = (
    ("headers", json.dumps({"Authorization": f"Bearer {CANARY}"})),
    ("client_kwargs", json.dumps({"headers": {"X-Auth": CANARY}})),
    ("config_kwargs", json.dumps({"proxies": {"https": f"http://u:{CANARY}@proxy"}})),
    ("service_account_json", json.dumps({"private_key": f"-----BEGIN\n{CANARY}\n-----"})),
)
OPTIONS = (*((name, CANARY) for name in NAMES), *NESTED)
ADDRESSES = (
    f"ftp://user:{CANARY}@host/lake",
    f"s3://key:{CANARY}@bucket/lake",
    f"sftp://u:a@{CANARY}@host:22/lake",
    f"https://{CANARY}@host/lake",
)


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return make_sandbox(tmp_path)


@pytest.fixture(autouse=True)
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for phase in ("setup", "call"):
        assert CANARY not in "\n".join(f"{item.getMessage()} {item.exc_text}" for item in caplog.get_records(phase))


def message_of(act: Callable[[], Any], expected: type[BaseException] = PaimonError) -> str:
    with pytest.raises(expected) as caught:
        act()
    return "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(caught.value.args)


@pytest.mark.parametrize(("name", "text"), OPTIONS, ids=[f"{name}-{len(text)}" for name, text in OPTIONS])
def test_an_option_of_any_name_is_shown_nowhere(name: str, text: str, box: Sandbox):
    options = {name: text}
    catalog = Catalog(str(box.lake), storage_options=options)
    table = open_table(str(box.path), storage_options=options, options=options)
    job = Job(TableRef(path=str(box.path)), Verify(), "u", StorageRef(options), table_options=options)
    values = (catalog, table, job, job.storage, EnvConfig("s3://b", options), CatalogRef(options), table.verify())

    assert CANARY not in " ".join(f"{value!r} {value}" for value in values)
    assert CANARY not in run(job).to_json()
    for wrong in (
        Job(TableRef(path="/t"), Verify(), "u", StorageRef(options)),
        Job(TableRef(path="/t"), Verify(), "u", table_options=options),
        Job(TableRef("w", "a.b"), Verify(), "u", catalog=CatalogRef({"metastore": "rest", **options})),
    ):
        message = message_of(wrong.to_json, InvalidArgumentError)
        assert CANARY not in message
        assert repr(name) in message
        assert "secrets" in message


def test_a_library_that_repeats_an_option_does_not_get_it_into_our_errors():
    """The memory file system of fsspec under another name, whose requests fail and show what they were given."""

    class Repeating(MemoryFileSystem):
        protocol = "repeating"
        cachable = False

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            try:
                raise ValueError(f"refused: {self.storage_options}")
            except ValueError as error:
                raise OSError(f"cannot list {path} with {self.storage_options['api_key']}") from error

        cat_file = exists = info = find = ls

    register_implementation("repeating", Repeating, clobber=True)
    nested = json.dumps({"Authorization": f"Bearer {CANARY}-2"})
    catalog = Catalog("repeating://lake", storage_options={"api_key": CANARY, "headers": nested})

    for act in (catalog.list_databases, lambda: catalog.table("a.b"), lambda: catalog.list_tables("a")):
        message = message_of(act)
        assert CANARY not in message
        assert "***" in message


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_a_password_is_refused_wherever_it_is_given(address: str, box: Sandbox):
    doors = (
        lambda: Catalog(address),
        lambda: Catalog(options={"warehouse": address}),
        lambda: Catalog("/lake", options={"warehouse": address}),
        lambda: open_table(address),
        lambda: EnvConfig(address),
        lambda: CatalogConfig.of(address),
        lambda: TableRef(path=address),
        lambda: TableRef(address, "a.b"),
        lambda: Write(address),
        lambda: Write([box.source, address]),
        lambda: PaimonHook(warehouse=address).catalog(),
        lambda: PaimonHook().table_ref(address),
    )
    for door in doors:
        assert CANARY not in message_of(door, InvalidArgumentError)
    text = json.dumps({"version": 1, "table": {"path": address}, "commit_user": "u", "action": {"name": "verify"}})
    assert CANARY not in message_of(lambda: Job.from_json(text), InvalidArgumentError)
    assert CANARY not in str(PaimonHook(warehouse=address).test_connection())
    for arguments in (["verify", address, "--json"], ["tables", address], ["read", "a.b", "-w", address]):
        result = CliRunner().invoke(app, ["-v", *arguments])
        assert result.exit_code != 0
        assert CANARY not in result.output + str(result.exception)
    operator = PaimonJobOperator(task_id="t", table=address, action="verify")
    assert CANARY not in message_of(lambda: operator.execute(make_context()), AirflowException)


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://u:{CANARY}@h/d",
        f"jdbc:postgresql://h/d?user=u&password={CANARY}",
        f"jdbc:postgresql://h/d?user=u&sslkeypass={CANARY}",
        f"https://{CANARY}@h",
        f"https://h?sig={CANARY}",
    ],
)
def test_an_address_of_a_catalog_is_not_written_down(uri: str):
    job = Job(TableRef("/lake", "a.b"), Verify(), "u", catalog=CatalogRef({"metastore": "jdbc", "uri": uri}))
    config = CatalogConfig.of("/lake", {"metastore": "jdbc", "uri": uri})

    assert CANARY not in f"{job!r} {config!r} {message_of(job.to_json, InvalidArgumentError)}"


def test_an_operator_passes_what_may_be_secret_in_the_environment(box: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PAIMON__TABLE_API_KEY", raising=False)
    options = {"connection_string": CANARY, "anon": "true"}
    operator = PaimonJobOperator(
        task_id="t", table=str(box.path), action="verify", storage_options=options, table_options={"api_key": CANARY}
    )

    job = operator.job(PaimonHook(storage_options=options), make_context())

    assert CANARY not in job.to_json() + repr(job) + json.dumps(operator.execute(make_context()))
    assert job.storage.options == {"anon": "true"}
    assert set(job.storage.secrets) == {"connection_string"}
    assert set(job.table_secrets) == {"api_key"}


def test_a_job_takes_options_of_its_table_from_the_environment(box: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("READ_SIZE", "soon")
    job = Job(TableRef(path=str(box.path)), Verify(), "u", table_secrets={"snapshot.time-retained": "READ_SIZE"})

    assert Job.from_json(job.to_json()) == job
    assert pickle.loads(pickle.dumps(job)) == job
    monkeypatch.delenv("READ_SIZE")
    with pytest.raises(InvalidArgumentError, match="READ_SIZE"):
        run(job)


def test_what_is_known_to_be_harmless_is_written_as_it_is():
    storage = {"s3.endpoint": "http://localhost:9000", "s3.region": "eu", "client_kwargs": '{"region_name": "eu"}'}
    catalog = {"metastore": "jdbc", "uri": "jdbc:sqlite:/lake/catalog.db", "lock.enabled": "true"}
    table = {"bucket": "4", "fields.v.aggregate-function": "sum", "file-index.bloom-filter.columns": "k"}
    job = Job(TableRef("/l", "a.b"), Verify(), "u", StorageRef(storage), table, catalog=CatalogRef(catalog))

    assert Job.from_json(job.to_json()) == job
    for address in ("abfs://container@account.dfs.core.windows.net/lake", "hdfs://user@namenode:8020/lake"):
        assert TableRef(path=address).location() == address
