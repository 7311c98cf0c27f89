"""A REST server, or what stands in front of it, that answers something else than what happened, or nothing sensible."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    Table,
)
from paimon_engine.table.check.table_check import check_table
from tests.support.rest import RestServer, rest_server

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
COMMIT, LATEST, ROLLBACK = r"/commit$", r"/snapshot$", r"/rollback$"
SNAPSHOT_MISSING = json.dumps({"message": "none", "resourceType": "SNAPSHOT", "resourceName": "t", "code": 404})
TABLE_MISSING = json.dumps({"message": "none", "resourceType": "TABLE", "resourceName": "t", "code": 404})

_NUMBERS = itertools.count()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{number}" for number in ids]}, SCHEMA)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("rest") / "lake") as started:
        yield started


@pytest.fixture
def table(server: RestServer) -> Iterator[Table]:
    """A table in a database of its own."""
    catalog, database = Catalog(options=server.options), f"db{next(_NUMBERS)}"
    catalog.create_database(database)
    options = {"bucket": 1, "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms", "commit.max-retries": "4"}
    table = catalog.create_table(f"{database}.t", schema=SCHEMA, primary_keys=["id"], options=options)
    yield table
    server.tell_the_truth()
    assert check_table(table._handle) == []


def name_of(table: Table) -> str:
    return f"{table.path.split('.db/')[0].rpartition('/')[2]}.t"


def latest(server: RestServer, table: Table, which: str = "snapshot") -> str:
    """What the server answers truly."""
    database, _, name = name_of(table).partition(".")
    address = f"{server.options['uri']}/v1/lake/databases/{database}/tables/{name}/{which}"
    return httpx.get(address, trust_env=False).text


def stray_files(table: Table) -> list[str]:
    """Data and metadata files that no snapshot needs."""
    return [file.path for file in table.remove_orphan_files(older_than="0 s", dry_run=True).deleted]


@contextmanager
def after_a_post(path: str, act: Callable[[], object]) -> Iterator[None]:
    """Acts when the next such request has been answered, before the client knows of it."""
    real = httpx.Client.request

    def request(client: httpx.Client, method: str, url: Any, **more: Any) -> httpx.Response:
        answer = real(client, method, url, **more)
        if method == "POST" and re.search(path, str(url)):
            patch.undo()
            act()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.Client, "request", request)
        yield


# ── answers to a commit ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, "<html>ok</html>"),
        (200, ""),
        (200, "{}"),
        (200, "[]"),
        (200, '{"success": "yes"}'),
        (200, '{"success": false}'),
        (204, ""),
        (400, '{"message": "no"}'),
        (401, "{}"),
        (403, "<html>no</html>"),
        (404, "<html>no</html>"),
        (404, TABLE_MISSING),
        (409, '{"message": "the base has changed"}'),
        (413, "too large"),
        (501, "{}"),
    ],
)
def test_a_commit_that_was_done_counts_whatever_the_answer(
    table: Table, server: RestServer, status: int, text: str, is_first: bool
):
    before = len(server.commits)
    if not is_first:
        table.write(rows(1))
    server.lie("POST", COMMIT, text, status=status, done=True)

    result = table.write(rows(2))

    assert result.snapshot_id == table.latest_snapshot_id() == (1 if is_first else 2)
    assert ids(table) == ([2] if is_first else [1, 2])
    assert len(server.commits) - before == result.snapshot_id


def test_a_commit_counts_though_another_one_was_built_on_it(table: Table, server: RestServer):
    table.write(rows(1))
    other = Catalog(options=server.options).table(name_of(table))
    server.lie("POST", COMMIT, '{"message": "the base has changed"}', status=409, done=True)

    with after_a_post(COMMIT, lambda: other.write(rows(3))):
        result = table.write(rows(2))

    assert result.snapshot_id == 2
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, '{"message": "no"}', InvalidArgumentError),
        (403, '{"message": "no"}', StorageError),
        (404, TABLE_MISSING, NotFoundError),
        (413, "too large", StorageError),
    ],
)
def test_a_commit_that_was_refused_leaves_nothing(
    table: Table, server: RestServer, status: int, text: str, error: type[PaimonError]
):
    table.write(rows(1))
    server.lie("POST", COMMIT, text, status=status)

    with pytest.raises(error) as raised:
        table.write(rows(2))

    assert not isinstance(raised.value, OutcomeUnknownError)
    assert ids(table) == [1]
    assert stray_files(table) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_commit_that_conflicts_is_tried_again(table: Table, server: RestServer, is_first: bool):
    """As Java does, and as after `"success": false`."""
    if not is_first:
        table.write(rows(1))
    other = Catalog(options=server.options).table(name_of(table))
    server.lie("POST", COMMIT, '{"message": "the base has changed"}', status=409)

    with after_a_post(COMMIT, lambda: other.write(rows(3))):
        assert table.write(rows(2)).status == "committed"

    assert ids(table) == ([2, 3] if is_first else [1, 2, 3])
    assert table.latest_snapshot_id() == len(ids(table))
    assert stray_files(table) == []


def test_a_commit_that_is_always_refused_says_so(table: Table, server: RestServer, caplog: pytest.LogCaptureFixture):
    table.write(rows(1))
    server.lie("POST", COMMIT, '{"message": "the table is locked"}', status=409, times=99)

    with pytest.raises(ConflictError, match="the catalog refused every try"):
        table.write(rows(2))

    assert "the table is locked" in caplog.text
    assert ids(table) == [1]
    assert stray_files(table) == []


def test_a_commit_without_permission_says_so_where_nothing_may_be_asked(table: Table, server: RestServer):
    table.write(rows(1))
    server.lie("POST", COMMIT, "{}", status=401)

    with (
        after_a_post(COMMIT, lambda: server.lie("GET", LATEST, "{}", status=401, times=9)),
        pytest.raises(StorageError, match="rejected the credentials") as raised,
    ):
        table.write(rows(2))

    server.tell_the_truth()
    assert not isinstance(raised.value, OutcomeUnknownError)
    assert ids(table) == [1]
    assert stray_files(table) == []


@pytest.mark.parametrize(("status", "text"), [(404, "<html>no</html>"), (404, "{}"), (200, "{}"), (401, ""), (500, "")])
def test_a_commit_is_in_doubt_while_the_server_does_not_say_what_is_there(
    table: Table, server: RestServer, status: int, text: str
):
    table.write(rows(1))
    server.lie("POST", COMMIT, '{"message": "the base has changed"}', status=409, done=True)

    with (
        after_a_post(COMMIT, lambda: server.lie("GET", LATEST, text, status=status, times=99)),
        pytest.raises(OutcomeUnknownError, match="never confirmed .*snapshot-2"),
    ):
        table.write(rows(2))

    server.tell_the_truth()
    assert ids(table) == [1, 2]


@pytest.mark.parametrize(("status", "text"), [(200, "ok"), (400, "{}"), (404, "<html>"), (404, "{}"), (500, "")])
def test_a_rollback_that_was_done_counts_whatever_the_answer(table: Table, server: RestServer, status: int, text: str):
    table.write(rows(1))
    table.write(rows(2))
    server.lie("POST", ROLLBACK, text, status=status, done=True)

    assert table.rollback(snapshot=1).removed_snapshots == (2,)
    assert ids(table) == [1]


@pytest.mark.parametrize("done", [True, False])
def test_a_rollback_is_in_doubt_while_the_server_does_not_say_what_is_there(
    table: Table, server: RestServer, done: bool
):
    table.write(rows(1))
    table.write(rows(2))
    server.lie("POST", ROLLBACK, "{}", status=500, done=done)

    with (
        after_a_post(ROLLBACK, lambda: server.lie("GET", LATEST, "", times=99)),
        pytest.raises(OutcomeUnknownError, match="back to snapshot 1, after.*run the same rollback again"),
    ):
        table.rollback(snapshot=1)

    server.tell_the_truth()
    assert ids(table) == ([1] if done else [1, 2])
    table.rollback(snapshot=1)
    assert ids(table) == [1]


# ── answers to questions ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", "{}", '{"snapshot": null}', '{"snapshot": 5}', '{"snapshot": {}}', "null"])
def test_an_answer_without_a_snapshot_is_no_empty_table(table: Table, server: RestServer, text: str):
    table.write(rows(1))
    server.lie("GET", LATEST, text, times=3)

    with pytest.raises(StorageError):
        ids(table)
    with pytest.raises(StorageError):
        table.write(rows(2))
    with pytest.raises(StorageError):
        table.remove_orphan_files(older_than="0 s")


def test_a_gateway_without_its_server_is_a_store_that_fails(table: Table, server: RestServer):
    table.write(rows(1))
    server.lie("GET", LATEST, "<html>default backend - 404</html>", status=404)

    with pytest.raises(StorageError, match="check 'uri'"):
        ids(table)


@pytest.mark.parametrize("text", [SNAPSHOT_MISSING, ""])
def test_no_clean_up_trusts_a_server_that_has_forgotten_the_snapshots(table: Table, server: RestServer, text: str):
    table.write(rows(1))
    table.write(rows(2))
    old = latest(server, table, "snapshots/1")
    server.lie("GET", LATEST, text or old, status=404 if text else 200, times=99)

    assert table.remove_orphan_files(older_than="0 s").files_deleted == 0
    assert table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s").files_deleted == 0

    server.tell_the_truth()
    assert ids(table) == [1, 2]


ODD = (None, [], {}, "x", -1, True, [None])


def twisted(value: Any) -> Iterator[Any]:
    """A JSON value with one of its parts replaced or left out, in all ways."""
    yield from ODD
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: other} for other in twisted(item))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in twisted(item))


QUESTIONS: dict[str, tuple[str, Callable[[Catalog], object]]] = {
    "config": ("/v1/config", lambda catalog: catalog.list_databases()),
    "databases": ("/v1/lake/databases", lambda catalog: catalog.list_databases()),
    "database": ("/v1/lake/databases/db", lambda catalog: catalog.database_properties("db")),
    "tables": ("/v1/lake/databases/db/tables", lambda catalog: catalog.list_tables("db")),
    "table": ("/v1/lake/databases/db/tables/t", lambda catalog: catalog.table("db.t").latest_snapshot_id()),
    "snapshot": ("/v1/lake/databases/db/tables/t/snapshot", lambda catalog: catalog.table("db.t").latest_snapshot_id()),
    "token": ("/v1/lake/databases/db/tables/t/token", lambda catalog: ids(catalog.table("db.t"))),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_odd_answers_are_named_errors(tmp_path: Path, name: str):
    path, ask = QUESTIONS[name]
    with rest_server(tmp_path / "lake", lend={"s3.access-key": "a", "s3.secret-key": "b"}, lent_ms=0) as server:
        options = {**server.options, "data-token.enabled": "true"}
        catalog = Catalog(options=options)
        catalog.create_database("db")
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1}).write(rows(1))
        warehouse = {"warehouse": "lake"} if name == "config" else {}
        true = httpx.get(f"{server.options['uri']}{path}", params=warehouse, trust_env=False).json()

        for number, answer in enumerate(twisted(true)):
            server.lie("GET", f"{path}$", json.dumps(answer), times=9)
            try:
                # A client reads its configuration once.
                ask(Catalog(options={**options, "header.number": str(number)}) if name == "config" else catalog)
            except PaimonError as error:
                assert len(str(error)) < 2_000
            except Exception as error:
                raise AssertionError(f"{json.dumps(answer)[:300]}") from error
            finally:
                server.tell_the_truth()
        assert number > 8


def test_no_message_shows_what_a_server_lends(tmp_path: Path):
    with rest_server(tmp_path / "lake", lend={"s3.access-key": "a"}, lent_ms=0) as server:
        catalog = Catalog(options={**server.options, "data-token.enabled": "true"})
        catalog.create_database("db")
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1}).write(rows(1))
        server.lie("GET", "/token$", json.dumps({"token": "very-secret", "expiresAtMillis": 1}))

        with pytest.raises(StorageError, match="'token' in the answer is of type str") as raised:
            ids(catalog.table("db.t"))

        assert "very-secret" not in str(raised.value)
