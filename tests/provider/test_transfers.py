"""Rows that come out of real databases into tables, and go back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from airflow_provider_paimon.transfers.paimon_to_sql import PaimonToSqlOperator
from airflow_provider_paimon.transfers.sql_to_paimon import SqlToPaimonOperator
from paimon_engine import Catalog, SetOption
from tests.provider.conftest import StateStore, make_context
from tests.support.postgres import PASSWORD, USER, PostgresServer, start_postgres

pytest.importorskip("airflow.providers.sqlite")
pytest.importorskip("airflow.providers.postgres")

pytestmark = pytest.mark.airflow

COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "price": "DECIMAL(10, 2)", "day": "DATE", "at": "TIMESTAMP(6)"}
MADE = "CREATE TABLE {name} (id BIGINT, name VARCHAR(20), price DECIMAL(10, 2), day DATE, at TIMESTAMP)"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ann", "price": Decimal("1.50"), "day": date(2024, 2, 29), "at": datetime(2024, 2, 29, 12, 30)},
    {"id": 2, "name": None, "price": None, "day": None, "at": None},
    {"id": 3, "name": "Cid", "price": Decimal("0.10"), "day": date(1969, 1, 1), "at": datetime(1969, 1, 1, 0, 0, 0, 1)},
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    yield from start_postgres()


@pytest.fixture(params=["sqlite", "postgres"])
def run_sql(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A database behind the connection `db`, with the table `users` of three rows; runs statements there."""
    connection: dict[str, Any] = {"conn_type": "sqlite", "host": str(tmp_path / "users.db")}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        connection = {"conn_type": "postgres", "host": "127.0.0.1", "port": server.port, "login": USER}
        connection |= {"password": PASSWORD, "schema": server.database}
    monkeypatch.setenv("AIRFLOW_CONN_DB", json.dumps(connection))

    def run(*statements: str) -> list[Any]:
        with closing(BaseHook.get_connection("db").get_hook().get_conn()) as opened:
            cursor = opened.cursor()
            for statement in statements:
                cursor.execute(statement)
            found = cursor.fetchall() if cursor.description else []
            opened.commit()
            return found

    values = "(1, 'Ann', 1.50, '2024-02-29', '2024-02-29 12:30:00'), (2, NULL, NULL, NULL, NULL), "
    values += "(3, 'Cid', 0.10, '1969-01-01', '1969-01-01 00:00:00.000001')"
    run("DROP TABLE IF EXISTS users", "DROP TABLE IF EXISTS copy", MADE.format(name="users"))
    run(f"INSERT INTO users VALUES {values}")
    return run


def load(warehouse: str, context: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"sql": "SELECT * FROM users", "sql_conn_id": "db", "table": "shop.users", "columns": COLUMNS, **fields}
    done: dict[str, Any] = SqlToPaimonOperator(task_id="load", warehouse=warehouse, **given).execute(
        context or make_context()
    )
    return done


def rows_of(warehouse: str) -> list[dict[str, Any]]:
    return Catalog(warehouse).table("shop.users").to_arrow().sort_by("id").to_pylist()


# ── SQL to table ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batch_rows", [1, 2, 50_000])
def test_the_rows_of_a_query_are_written_in_batches(run_sql: Any, warehouse: str, batch_rows: int):
    done = load(warehouse, batch_rows=batch_rows, create={"primary_keys": ["id"], "options": {"bucket": 1}})

    assert (done["status"], done["rows"], done["snapshot_id"]) == ("committed", 3, 1)
    assert done["warnings"] == []
    assert rows_of(warehouse) == ROWS
    assert json.dumps(done)


def test_a_query_may_take_parameters_and_give_some_of_the_columns(run_sql: Any, warehouse: str):
    sign = BaseHook.get_connection("db").get_hook().placeholder
    load(warehouse, sql=f"SELECT name, id FROM users WHERE id > {sign}", parameters=[2])

    assert [(row["id"], row["name"], row["price"]) for row in rows_of(warehouse)] == [(3, "Cid", None)]


def test_upserts_and_overwrites(run_sql: Any, warehouse: str):
    load(warehouse, create={"primary_keys": ["id"], "options": {"bucket": 1}})
    run_sql("UPDATE users SET name = 'Bob' WHERE id = 2", "DELETE FROM users WHERE id = 3")
    other = make_context("another run")
    load(warehouse, other, create={"primary_keys": ["id"], "options": {"bucket": 1}})
    assert [row["name"] for row in rows_of(warehouse)] == ["Ann", "Bob", "Cid"]

    load(warehouse, make_context("a third run"), overwrite={})
    assert [row["name"] for row in rows_of(warehouse)] == ["Ann", "Bob"]


def test_no_partition_is_overwritten_for_which_a_template_left_no_value(run_sql: Any, warehouse: str):
    with pytest.raises(AirflowFailException, match=r"overwrite=.*a template left no value for id"):
        load(warehouse, overwrite={"id": "None"}, create={"primary_keys": ["id"], "partition_keys": ["id"]})

    assert not Path(warehouse).exists()


def test_no_rows_are_no_snapshot(run_sql: Any, warehouse: str):
    assert load(warehouse, sql="SELECT * FROM users WHERE id = 7")["status"] == "noop"


def attempts(warehouse: str, **fields: Any) -> list[dict[str, Any]]:
    """The first attempt, whose success is not reported, its retry, and one after the task was cleared."""
    store, done = StateStore(), []
    for tries, clears in ((1, 0), (2, 0), (3, 1)):
        context = make_context(task_state_store=store)
        context["ti"].try_number, context["dag_run"].clear_number = tries, clears
        operator = SqlToPaimonOperator(
            task_id="load", warehouse=warehouse, table="shop.users", sql="SELECT * FROM users", sql_conn_id="db",
            columns=COLUMNS, **fields,
        )  # fmt: skip
        done.append(operator.execute(context))
        if tries > 1:
            for callback in operator.on_success_callback:
                callback(context)
    return done


def test_a_retry_commits_once_and_a_clear_again(run_sql: Any, warehouse: str):
    done = attempts(warehouse)

    assert [one["status"] for one in done] == ["committed", "already_done", "committed"]
    (warning,) = done[-1]["warnings"]
    assert "committed snapshot 1: its rows are kept in addition" in warning
    assert len(rows_of(warehouse)) == 6


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"overwrite": {}}, None),
        ({"create": {"primary_keys": ["id"], "options": {"bucket": 1}}}, None),
        (
            {"create": {"primary_keys": ["id"], "options": {"bucket": 1, "merge-engine": "first-row"}}},
            "corrections were ignored",
        ),
    ],
    ids=["overwrite", "upsert", "first-row"],
)
def test_a_clear_warns_only_of_what_it_does_not_replace(
    run_sql: Any, warehouse: str, fields: dict[str, Any], says: str | None
):
    again = attempts(warehouse, **fields)[-1]

    assert again["status"] == "committed"
    assert [says in warning for warning in again["warnings"]] == ([True] if says else [])
    Catalog(warehouse).table("shop.users").compact(full=True)
    assert len(rows_of(warehouse)) == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": None}, "there is no table|no database"),
        ({"sql": "SELECT id, name AS nickname FROM users"}, "the query gives the columns id, nickname"),
        ({"sql": "SELECT id, id FROM users"}, "each of them once"),
        ({"columns": {**COLUMNS, "name": "INT"}}, "column 'name' of the query does not fit"),
        ({"sql": "CREATE TABLE copy (id INT)"}, "gives no rows|syntax error"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"sql": ["SELECT id FROM users"]}, r"^load: sql=.* give one query as a text"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    run_sql: Any, warehouse: str, fields: dict[str, Any], message: str
):
    with pytest.raises(Exception, match=message):
        load(warehouse, **fields)
    assert not list(Path(warehouse).rglob("data-*"))


@pytest.mark.parametrize("batch_rows", [1, 50_000])
def test_values_that_do_not_fit_fail_the_task_for_good(run_sql: Any, warehouse: str, batch_rows: int):
    """Also in a later batch, for which Arrow asks once the first one is written."""
    with pytest.raises(AirflowFailException, match="column 'name' of the query does not fit the table's int32"):
        load(warehouse, columns={**COLUMNS, "name": "INT"}, batch_rows=batch_rows)


def test_a_connection_of_no_database_is_refused(warehouse: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": warehouse}))

    with pytest.raises(AirflowFailException, match="not to an SQL database: its hook PaimonHook"):
        load(warehouse, sql_conn_id="lake")


def test_a_connection_of_a_type_that_is_not_installed_is_named(warehouse: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "abacus", "host": "here"}))

    with pytest.raises(AirflowFailException, match="connection lake is of type abacus, for which no provider"):
        load(warehouse, sql_conn_id="lake")


# ── table to SQL ────────────────────────────────────────────────────────────────────────────────


def unload(warehouse: str, **fields: Any) -> dict[str, Any]:
    given = {"table": "shop.users", "sql_conn_id": "db", "target": "copy", **fields}
    done: dict[str, Any] = PaimonToSqlOperator(task_id="unload", warehouse=warehouse, **given).execute(make_context())
    return done


@pytest.mark.parametrize("batch_rows", [1, "2", 10_000])
def test_rows_go_into_a_database_and_come_back(run_sql: Any, warehouse: str, batch_rows: int | str):
    load(warehouse)
    run_sql(MADE.format(name="copy"))

    done = unload(warehouse, batch_rows=batch_rows)
    assert done == {"table": "shop.users", "target": "copy", "rows": 3, "snapshot_id": 1}

    load(warehouse, make_context("another run"), sql="SELECT * FROM copy", overwrite={})
    assert rows_of(warehouse) == ROWS


def test_some_rows_and_columns_of_a_tag(run_sql: Any, warehouse: str):
    load(warehouse)
    Catalog(warehouse).table("shop.users").create_tag("first")
    load(warehouse, make_context("another run"))
    run_sql("CREATE TABLE copy (id BIGINT, name VARCHAR(20))")

    done = unload(warehouse, columns=["id", "name"], where="id > 1", tag="first")

    assert done["snapshot_id"] == 1
    assert sorted(run_sql("SELECT * FROM copy")) == [(2, None), (3, "Cid")]


@pytest.mark.parametrize("columns", [[], "[]"], ids=["list", "as a template leaves it"])
def test_no_columns_are_refused(run_sql: Any, warehouse: str, columns: Any):
    """No row was inserted then, and the task succeeded."""
    load(warehouse)
    run_sql(MADE.format(name="copy"))

    with pytest.raises(AirflowFailException, match="name at least one column"):
        unload(warehouse, columns=columns)


def test_columns_that_are_called_as_words_of_sql(run_sql: Any, warehouse: str):
    table = Catalog(warehouse).create_table("shop.users", schema={"order": "INT", "group": "INT"})
    table.write(pa.table({"order": [1], "group": [2]}, pa.schema([("order", pa.int32()), ("group", pa.int32())])))
    run_sql('CREATE TABLE copy ("group" INT, "order" INT)')

    unload(warehouse)

    assert run_sql("SELECT * FROM copy") == [(2, 1)]


def test_columns_with_signs_of_sql_in_their_names(run_sql: Any, warehouse: str):
    names = ['a"b', "c d", "e%s", "f.g", "Order", "id", "select"]
    table = Catalog(warehouse).create_table("shop.users", schema=dict.fromkeys(names, "INT"))
    table.write(pa.table({name: [number] for number, name in enumerate(names)}, table.arrow_schema))
    columns = ", ".join('"{}" INT'.format(name.replace('"', '""')) for name in reversed(names))
    run_sql(f"CREATE TABLE copy ({columns})")

    unload(warehouse)

    assert run_sql("SELECT * FROM copy") == [(6, 5, 4, 3, 2, 1, 0)]


def test_columns_in_upper_case_are_those_that_the_database_takes_them_for(run_sql: Any, warehouse: str):
    table = Catalog(warehouse).create_table("shop.users", schema={"userId": "INT", "c d": "INT"})
    table.write(pa.table({"userId": [1], "c d": [2]}, table.arrow_schema))
    create = 'CREATE TABLE copy (USERID INT, "c d" INT)'

    unload(warehouse, before=create)

    assert run_sql("SELECT * FROM copy") == [(1, 2)]


def test_rows_of_a_system_table_are_of_no_snapshot(run_sql: Any, warehouse: str):
    load(warehouse)
    run_sql("CREATE TABLE copy (snapshot_id BIGINT)")

    assert unload(warehouse, table="shop.users$snapshots", columns=["snapshot_id"])["snapshot_id"] is None
    assert run_sql("SELECT * FROM copy") == [(1,)]


def test_a_database_without_a_connection_is_named_and_tried_again(warehouse: str):
    """Airflow says that there is none, too, where the connections cannot be reached just now."""
    with pytest.raises(AirflowNotFoundException, match="connection nowhere .* is not defined"):
        load(warehouse, sql_conn_id="nowhere")


@pytest.mark.parametrize("options", [{"scan.fallback-branch": "other"}, {"scan.snapshot-id": "1"}])
def test_rows_are_those_that_a_read_of_the_table_gives(
    run_sql: Any, warehouse: str, catalog: Catalog, options: dict[str, str]
):
    table = catalog.create_table("air.special", schema={"id": "BIGINT", "p": "INT"}, partition_keys=["p"])
    table.write(pa.table({"id": [1], "p": [1]}, table.arrow_schema))
    table.create_branch("other")
    catalog.table("air.special$branch_other").write(pa.table({"id": [2, 3], "p": [2, 2]}, table.arrow_schema))
    table.write(pa.table({"id": [4], "p": [3]}, table.arrow_schema))
    table.alter([SetOption(name, value) for name, value in options.items()])
    run_sql("CREATE TABLE copy (id BIGINT, p INT)")

    done = unload(warehouse, table="air.special")

    assert done["rows"] == catalog.table("air.special").to_arrow().num_rows


@pytest.mark.parametrize("batch_rows", [0, "0", "many", 1.5])
def test_batches_have_rows(run_sql: Any, warehouse: str, batch_rows: Any):
    load(warehouse)
    with pytest.raises(AirflowFailException, match=f"batch_rows={batch_rows!r}.*at least 1"):
        unload(warehouse, batch_rows=batch_rows)


def test_a_statement_before_makes_a_repeat_safe(run_sql: Any, warehouse: str):
    load(warehouse)
    run_sql("CREATE TABLE copy (id BIGINT)", "INSERT INTO copy VALUES (9)")
    for _ in range(2):
        unload(warehouse, columns=["id"], before="DELETE FROM copy")

    assert sorted(run_sql("SELECT id FROM copy")) == [(1,), (2,), (3,)]


def test_where_an_insert_fails_nothing_is_changed(run_sql: Any, warehouse: str):
    load(warehouse)
    run_sql("CREATE TABLE copy (id BIGINT CHECK (id < 3))", "INSERT INTO copy VALUES (0)")

    with pytest.raises(Exception, match="(?i)check"):
        unload(warehouse, columns=["id"], before="DELETE FROM copy", batch_rows=1)
    assert run_sql("SELECT id FROM copy") == [(0,)]


def test_tables_and_columns_that_are_not_there(run_sql: Any, warehouse: str):
    with pytest.raises(AirflowFailException, match="no table"):
        unload(warehouse)
    load(warehouse)
    with pytest.raises(AirflowFailException, match="nothing"):
        unload(warehouse, columns=["nothing"])


# ── lineage ─────────────────────────────────────────────────────────────────────────────────────


def columns_of(dataset: Any) -> list[str]:
    return [field.name for field in dataset.facets["schema"].fields]


def test_lineage_names_what_a_query_reads(run_sql: Any, request: pytest.FixtureRequest, warehouse: str):
    pytest.importorskip("airflow.providers.openlineage")
    sql = "SELECT u.id, u.name FROM users u WHERE u.id > 1"
    task = SqlToPaimonOperator(
        task_id="load", warehouse=warehouse, sql=sql, sql_conn_id="db", table="shop.users", columns=COLUMNS
    )
    before = task.get_openlineage_facets_on_start()
    task.execute(make_context())
    told = task.get_openlineage_facets_on_complete(None)

    (written,) = told.outputs
    assert (written.name, written.facets["version"].datasetVersion) == ("shop.users", "1")
    if "sqlite" in request.node.name:
        assert before.inputs == told.inputs == []
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    (read,) = told.inputs
    assert (read.namespace, read.name) == (f"postgres://127.0.0.1:{server.port}", f"{server.database}.public.users")
    assert columns_of(read) == list(COLUMNS)
    assert [item.name for item in before.inputs] == [read.name]
    assert told.job_facets["sql"].query == sql


def test_lineage_names_the_table_that_rows_are_inserted_into(
    run_sql: Any, request: pytest.FixtureRequest, warehouse: str
):
    pytest.importorskip("airflow.providers.openlineage")
    load(warehouse)
    run_sql(MADE.format(name="copy"))
    task = PaimonToSqlOperator(
        task_id="unload", warehouse=warehouse, table="shop.users", sql_conn_id="db", target="copy"
    )
    task.execute(make_context())

    told = task.get_openlineage_facets_on_complete(None)

    assert [item.name for item in told.inputs] == ["shop.users"]
    if "sqlite" in request.node.name:
        assert told.outputs == []
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    (written,) = told.outputs
    assert written.namespace == f"postgres://127.0.0.1:{server.port}"
    assert written.name == f"{server.database}.public.copy"
    assert columns_of(written) == list(COLUMNS)
    assert written.outputFacets["outputStatistics"].rowCount == 3


def test_lineage_survives_a_query_that_nobody_can_parse(run_sql: Any, warehouse: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("airflow.providers.openlineage")
    for conn_id, sql in (("db", "THIS IS (no query"), ("nowhere", "SELECT 1")):
        task = SqlToPaimonOperator(
            task_id="load", warehouse=warehouse, sql=sql, sql_conn_id=conn_id, table="shop.users", columns=COLUMNS
        )
        assert [item.name for item in task.get_openlineage_facets_on_start().outputs] == ["shop.users"]
