from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import redact

from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine import Catalog, InvalidArgumentError, read_wait
from paimon_engine.jobs import StorageRef, TableRef
from tests.provider.conftest import TABLE
from tests.support.s3 import BUCKET, start_s3

S3 = {
    "conn_type": "paimon",
    "host": "s3://bucket/lake",
    "login": "AKIA",
    "password": "very secret",
    "extra": {"endpoint": "http://127.0.0.1:9000", "region": "eu-west-1", "storage_options": {"anon": False}},
}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch, warehouse: str):
    def define(name: str = "paimon_default", **fields):
        fields = {"conn_type": "paimon", "host": warehouse, **fields}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))

    return define


def test_a_warehouse_needs_no_connection(catalog: Catalog, warehouse: str):
    hook = PaimonHook(warehouse=warehouse)

    assert hook.catalog().list_tables("air") == ["flights"]
    assert hook.latest_snapshot(TABLE)["snapshot_id"] == 3
    assert hook.table_ref(TABLE) == TableRef(warehouse=warehouse, name=TABLE)
    assert hook.storage_ref() == StorageRef()


def test_a_connection_names_the_warehouse(catalog: Catalog, warehouse: str, connection):
    connection()

    assert PaimonHook().table(TABLE).latest_snapshot_id() == 3
    assert PaimonHook("paimon_default").warehouse == warehouse


def test_a_table_may_be_named_by_its_directory(catalog: Catalog, warehouse: str):
    path = f"{warehouse}/air.db/flights"
    hook = PaimonHook(warehouse="/somewhere/else")

    assert hook.table_ref(path) == TableRef(path=path)
    assert hook.table(path).latest_snapshot_id() == 3


def test_tags_by_name(catalog: Catalog, warehouse: str):
    catalog.table(TABLE).create_tag("2013-01-05", snapshot=2)
    hook = PaimonHook(warehouse=warehouse)

    assert hook.tags(TABLE) == {"2013-01-05": 2}
    wait = read_wait("tag", {"tag": "2013-01-05"})
    assert hook.look(TABLE, wait) == {"tag": "2013-01-05", "snapshot_id": 2}
    assert hook.look(TABLE, read_wait("tag", {"tag": "2013-01-06"})) is None
    assert hook.look("air.nothing", wait) is None


def test_secrets_are_named_and_never_shown(connection):
    connection("lake", **S3)
    hook = PaimonHook("lake", storage_options={"s3.path.style.access": "true", "token": "also secret"})

    ref = hook.storage_ref()

    assert ref.options == {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-west-1",
        "s3.path.style.access": "true",
    }
    assert ref.secrets == {
        "s3.access-key": "PAIMON_LAKE_S3_ACCESS_KEY",
        "s3.secret-key": "PAIMON_LAKE_S3_SECRET_KEY",
        "anon": "PAIMON_LAKE_ANON",
        "token": "PAIMON_LAKE_TOKEN",
    }
    assert hook.secrets()["PAIMON_LAKE_S3_SECRET_KEY"] == "very secret"
    assert hook.storage_options["s3.secret-key"] == "very secret"
    assert hook.has_given_secrets()
    assert not PaimonHook("lake").has_given_secrets()


def test_nested_options_with_a_secret_inside_are_secret():
    hook = PaimonHook(warehouse="s3://b/l", storage_options={"client_kwargs": {"aws_secret_access_key": "x"}})

    assert hook.storage_ref().options == {}
    assert hook.has_given_secrets()


def test_storage_options_of_a_connection_may_be_text(connection):
    connection("lake", extra={"storage_options": '{"anon": true}'})

    assert PaimonHook("lake").storage_options == {"anon": "true"}


def test_storage_options_that_are_no_object_are_refused(connection):
    connection("lake", extra={"storage_options": "anon"})

    with pytest.raises(InvalidArgumentError, match="JSON object"):
        PaimonHook("lake").storage_ref()


def test_a_connection_without_a_warehouse_says_where_to_put_it(connection):
    connection("lake", host="")

    with pytest.raises(InvalidArgumentError, match="field Warehouse"):
        _ = PaimonHook("lake").warehouse


def test_no_connection_and_no_warehouse_says_what_to_give():
    with pytest.raises(InvalidArgumentError, match="define the connection paimon_default"):
        _ = PaimonHook().warehouse


@pytest.mark.parametrize("name", ["lake", "paimon_default"])
def test_a_connection_of_another_type_is_no_warehouse(name: str, connection, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection(name, conn_type="http", host="example.com")
    hook = PaimonHook(None if name == "paimon_default" else name)

    with pytest.raises(InvalidArgumentError, match=f"connection {name} is of type http; .* type paimon"):
        hook.catalog()
    with pytest.raises(InvalidArgumentError, match="of type http"):
        asyncio.run(hook.load_connection())
    assert list(tmp_path.iterdir()) == []


def test_a_connection_that_is_named_and_not_defined_says_what_to_do():
    message = "connection missing is not defined: define it with type paimon"
    with pytest.raises(AirflowNotFoundException, match=message):
        PaimonHook("missing").table(TABLE)
    with pytest.raises(AirflowNotFoundException, match="correct its name"):
        asyncio.run(PaimonHook("missing").load_connection())


def test_what_templates_leave_where_there_is_nothing_names_no_connection(catalog: Catalog, warehouse: str, connection):
    connection()

    assert PaimonHook("None", "", "None").table(TABLE).latest_snapshot_id() == 3


def test_options_of_the_store_may_be_the_text_that_a_template_leaves(warehouse: str):
    for given in ("{'region': 'eu', 'anon': True}", '{"region": "eu", "anon": true}', "region: eu\nanon: true"):
        assert PaimonHook(None, warehouse, given).storage_options == {"region": "eu", "anon": "true"}
    for secret in ("s3.secret-key=TOPSECRET", '{"s3.secret-key": "TOPSECRET", }}'):
        with pytest.raises(InvalidArgumentError, match="storage_options") as refused:
            PaimonHook(None, warehouse, secret)
        assert "TOPSECRET" not in f"{refused.value} {refused.value.__cause__} {refused.value.__context__}"


def test_a_connection_whose_uri_has_a_path_says_how_to_write_it(monkeypatch: pytest.MonkeyPatch, warehouse: str):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "paimon:///data/lake")
    with pytest.raises(InvalidArgumentError, match="percent-encoded.*paimon://%2Fdata%2Flake"):
        _ = PaimonHook("lake").warehouse

    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "paimon://%2Fdata%2Flake")
    assert PaimonHook("lake").warehouse == "/data/lake"


def test_logs_stay_readable_and_show_no_secret(connection):
    options = {
        "s3.path-style-access": "false", "s3.connection.timeout": "10000", "client.region": "eu-central",
        "part.size": "64 mb", "k": "sup3rs3cret", "token": "abc-de", "client_kwargs": {"password": "hidden text"},
    }  # fmt: skip
    catalog = {"metastore": "rest", "uri": "http://catalog.example", "prefix": "lake", "warehouse": "shop"}
    connection("lake", host="s3://b/l", extra={"storage_options": options, "catalog_options": catalog})

    PaimonHook("lake").secrets({"bucket": "2", "unknown.option": "another secret"})

    line = "overwrite false, 10000 rows in eu-central by http://catalog.example of 64 mb"
    assert redact(line) == line
    assert redact("sup3rs3cret; abc-de; another secret") == "***; ***; ***"
    assert "hidden text" not in redact('client_kwargs={"password": "hidden text"}')


def test_test_connection(catalog: Catalog, connection, caplog: pytest.LogCaptureFixture):
    connection()
    caplog.set_level(logging.INFO)

    good, message = PaimonHook("paimon_default").test_connection()

    assert good
    assert "air" in message


def test_test_connection_of_an_unknown_scheme_says_which_are_allowed(connection):
    connection(host="nonsense://x")

    good, message = PaimonHook("paimon_default").test_connection()

    assert not good
    for word in ("nonsense", "local disk", "s3://", "gs://", "abfss://"):
        assert word in message


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_test_connection_of_a_mistyped_directory_makes_none(scheme: str, tmp_path: Path, connection):
    connection(host=f"{scheme}{tmp_path}/mistyped")

    good, message = PaimonHook("paimon_default").test_connection()

    assert not good
    assert f"{tmp_path}/mistyped on " in message
    assert "does not exist" in message
    assert list(tmp_path.iterdir()) == []


def test_test_connection_of_a_file_and_of_a_relative_path(tmp_path: Path, connection):
    (tmp_path / "file").touch()
    connection(host=f"{tmp_path}/file")
    assert PaimonHook("paimon_default").test_connection()[1].endswith("is a file")

    assert "begins with /" in PaimonHook(warehouse="lake").test_connection()[1]


def test_test_connection_without_a_warehouse_says_where_to_put_it(connection):
    connection(host="")

    assert PaimonHook("paimon_default").test_connection()[1].endswith("or give warehouse= together with the connection")


def test_test_connection_names_nothing_that_it_made_up():
    # A directory in which no user can create a file, not even root.
    good, message = PaimonHook(warehouse="/proc/self").test_connection()

    assert not good
    assert "create-if-absent" in message
    assert "/proc/self/(new file)" in message
    assert "doctor" not in message


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["silent", "closed"])
def test_test_connection_does_not_wait_for_a_server_that_does_not_answer(
    kind: str, silent_server: str, connection, monkeypatch: pytest.MonkeyPatch
):
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = f"http://127.0.0.1:{other.getsockname()[1]}"
    address = silent_server if kind == "silent" else closed
    connection(host="s3://bucket/lake", login="key", password="secret", extra={"endpoint": address})
    # What takes seconds, to load the store's client and to try again, is not begun.
    monkeypatch.setattr(PaimonHook, "catalog", lambda *_: pytest.fail("the store was called"))

    good, message = PaimonHook("paimon_default").test_connection()

    assert not good
    assert message.startswith(f"The S3 endpoint {address} does not answer: ")
    assert ("timed out" in message) == (kind == "silent")


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


@pytest.mark.s3
def test_test_connection_of_a_store_that_answers(connection, s3: dict[str, str]):
    fields = {"login": s3["s3.access-key"], "password": s3["s3.secret-key"]}
    extra = {"endpoint": s3["s3.endpoint"], "storage_options": {"s3.path.style.access": True}}
    connection(host=f"s3://{BUCKET}/lake", **fields, extra=extra)

    assert PaimonHook("paimon_default").test_connection() == (True, f"s3://{BUCKET}/lake: no database yet")
    connection(host="s3://missing/lake", **fields, extra=extra)
    good, message = PaimonHook("paimon_default").test_connection()
    assert not good
    assert "missing" in message


def test_test_connection_ends_if_the_store_takes_for_ever(warehouse: str, catalog, monkeypatch: pytest.MonkeyPatch):
    stuck = threading.Event()
    monkeypatch.setattr("airflow_provider_paimon.connection_check.EXAMINE_S", 0.2)
    monkeypatch.setattr(PaimonHook, "catalog", lambda *_: stuck.wait(60))

    assert PaimonHook(warehouse=warehouse).test_connection() == (
        False,
        f"{warehouse} does not answer: nothing came within 0 s",
    )
    stuck.set()
