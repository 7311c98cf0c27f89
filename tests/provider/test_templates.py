"""Structures by templates: what Jinja leaves is their text, or with native rendering themselves."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import redact

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.operators.branches import PaimonCreateBranchOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.consumers import PaimonResetConsumerOperator
from airflow_provider_paimon.operators.create import PaimonCreateTableOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.operators.list_tables import PaimonListTablesOperator
from airflow_provider_paimon.operators.repair import PaimonEmptyQuarantineOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.sensors.snapshot import PaimonFreshnessSensor, PaimonSnapshotSensor
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.transfers.paimon_to_files import PaimonToFilesOperator
from airflow_provider_paimon.transfers.paimon_to_sql import PaimonToSqlOperator
from airflow_provider_paimon.transfers.sql_to_paimon import SqlToPaimonOperator
from airflow_provider_paimon.triggers.table import PaimonTableTrigger
from paimon_engine import Catalog, InvalidArgumentError
from tests.provider.conftest import TABLE, make_context, rows


def rendered(kind: type[Any], values: dict[str, Any], *, native: bool = False, **fields: Any) -> Any:
    """An operator whose fields `values` are templates, after Airflow has rendered them."""
    with DAG("dag", schedule=None, render_template_as_native_obj=native):
        made = kind(task_id="t", **{"table": TABLE, **fields, **{name: f"{{{{ v.{name} }}}}" for name in values}})
    made.render_template_fields(make_context(v=values))
    return made


@pytest.fixture(params=[False, True], ids=["texts", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sqlite3.Connection:
    path = tmp_path / "users.db"
    monkeypatch.setenv("AIRFLOW_CONN_DB", json.dumps({"conn_type": "sqlite", "host": str(path)}))
    connection = sqlite3.connect(path)
    connection.execute("create table users(id int, carrier text)")
    connection.execute("insert into users values (1, 'AA'), (20, 'BB')")
    connection.commit()
    return connection


def test_options_of_a_run(catalog: Catalog, native: bool):
    values = {"table_options": {"num-sorted-run.compaction-trigger": 2}, "storage_options": {"region": "eu"}}
    operator = rendered(PaimonCompactOperator, values, native=native, warehouse=catalog.warehouse)

    job = operator.job(operator.hook(), make_context())

    assert (job.table_options, job.storage.options) == ({"num-sorted-run.compaction-trigger": "2"}, {"region": "eu"})
    assert operator.execute(make_context())["status"] == "committed"


def test_what_renders_to_nothing_is_not_given(catalog: Catalog, source: str, native: bool):
    names = ("table_options", "storage_options", "create", "columns", "spark_conf", "properties", "paimon_conn_id")
    values = dict.fromkeys(names)

    written = rendered(PaimonWriteOperator, values, native=native, source=source, warehouse=catalog.warehouse)

    assert written.execute(make_context())["details"]["rows"] == 2
    looks = rendered(PaimonSnapshotSensor, {"storage_options": None}, native=native, warehouse=catalog.warehouse)
    assert looks.execute(make_context())["snapshot_id"] == 4


def test_time_spans(catalog: Catalog, native: bool):
    looks = rendered(PaimonFreshnessSensor, {"max_age": timedelta(days=1)}, native=native, warehouse=catalog.warehouse)

    assert looks.execute(make_context())["snapshot_id"] == 3
    values = {"older_than": timedelta(hours=1)}
    expires = rendered(PaimonExpireSnapshotsOperator, values, native=native, warehouse=catalog.warehouse)
    assert expires.execute(make_context())["status"] == "noop"


def test_sources_and_the_table_to_create(warehouse: str, tmp_path: Path, native: bool):
    sources = [str(tmp_path / f"{number}.parquet") for number in (1, 2)]
    for number, path in enumerate(sources):
        pq.write_table(rows(number), path)
    create = {"primary_keys": ["id"], "options": {"bucket": 2}, "comment": None}

    operator = rendered(PaimonWriteOperator, {"source": sources, "create": create}, native=native, warehouse=warehouse)

    assert operator.lineage_sources() == sources
    assert operator.execute(make_context())["details"]["rows"] == 2
    schema = Catalog(warehouse).table(TABLE).schema
    assert (schema.primary_keys, schema.options["bucket"]) == (("id",), "2")


def test_options_of_a_new_table(warehouse: str, native: bool):
    values: dict[str, Any] = {"columns": {"id": "BIGINT NOT NULL"}, "primary_keys": ["id"]}
    values["options"] = {"bucket": 2, "deletion-vectors.enabled": True}

    operator = rendered(PaimonCreateTableOperator, values, native=native, warehouse=warehouse)

    assert operator.execute(make_context())["status"] == "created"
    found = Catalog(warehouse).table(TABLE).schema.options
    assert (found["bucket"], found["deletion-vectors.enabled"]) == ("2", "true")


@pytest.mark.parametrize("given", [{"id": 10}, [10]], ids=["named", "listed"])
def test_parameters_of_a_query(catalog: Catalog, database: sqlite3.Connection, given: Any, native: bool):
    sql = "select * from users where id > " + (":id" if isinstance(given, dict) else "?")

    operator = rendered(
        SqlToPaimonOperator,
        {"parameters": given},
        native=native,
        sql=sql,
        sql_conn_id="db",
        warehouse=catalog.warehouse,
    )

    assert operator.execute(make_context())["rows"] == 1


def test_transfers_take_options_of_the_store_as_texts(catalog: Catalog, database: sqlite3.Connection, native: bool):
    values = {"storage_options": {"region": "eu"}, "columns": ["id", "carrier"]}
    operator = rendered(
        PaimonToSqlOperator, values, native=native, target="users", sql_conn_id="db", warehouse=catalog.warehouse
    )

    assert operator.execute(make_context())["rows"] == 3


def test_settings_of_spark_as_the_text_of_json(catalog: Catalog):
    operator = PaimonCompactOperator(
        task_id="t", table=TABLE, warehouse=catalog.warehouse, spark_conf='{"spark.a": 1, "spark.b": true}', full=True
    )

    assert operator.execute(make_context())["status"] == "committed"


def test_whether_to_defer(catalog: Catalog, native: bool):
    operator = rendered(PaimonCompactOperator, {"deferrable": False}, native=native, warehouse=catalog.warehouse)

    assert operator.execute(make_context())["status"] in ("committed", "noop")
    operator.deferrable = "perhaps"
    with pytest.raises(AirflowFailException, match="deferrable='perhaps'"):
        operator.execute(make_context())


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (PaimonCompactOperator, {"table_options": "bucket"}, "table_options must be a mapping"),
        (PaimonCompactOperator, {"storage_options": "region"}, "storage_options must be a mapping"),
        (PaimonWriteOperator, {"source": "x", "create": ["id"]}, "create must be a mapping"),
        (PaimonWriteOperator, {"source": "x", "create": "id"}, "create must be a mapping"),
        (PaimonSnapshotSensor, {"storage_options": "region"}, "storage_options must be a mapping"),
        (SqlToPaimonOperator, {"sql": "x", "sql_conn_id": "db", "parameters": "1"}, "parameters must be a list"),
        (SqlToPaimonOperator, {"sql": "x", "sql_conn_id": "db", "storage_options": "a"}, "storage_options must be"),
    ],
)
def test_other_structures_are_refused_by_their_name(
    catalog: Catalog, kind: type[Any], fields: dict[str, Any], message: str
):
    operator = kind(task_id="t", table=TABLE, warehouse=catalog.warehouse, **fields)

    with pytest.raises(AirflowFailException, match=message):
        operator.execute(make_context())


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [
        (PaimonResetConsumerOperator, {"consumer": "reader"}, "next_snapshot"),
        (PaimonEmptyQuarantineOperator, {"older_than": "1 d"}, "quarantine"),
        (PaimonCreateBranchOperator, {"branch": "trial"}, "tag"),
        (PaimonCreateBranchOperator, {"branch": "trial"}, "snapshot"),
    ],
)
def test_a_template_without_a_value_does_nothing_else(
    catalog: Catalog, kind: type[Any], fields: dict[str, Any], name: str, native: bool
):
    catalog.table(TABLE).reset_consumer("reader", next_snapshot=2)

    for value in (None, ""):
        operator = rendered(kind, {name: value}, native=native, warehouse=catalog.warehouse, **fields)
        with DAG("dag", schedule=None, render_template_as_native_obj=native):
            job = PaimonJobOperator(
                task_id="t",
                table=TABLE,
                warehouse=catalog.warehouse,
                action=kind.action_name,
                arguments={**fields, name: "{{ v }}"},
            )
        job.render_template_fields(make_context(v=value))
        in_file = PaimonJobOperator(
            task_id="t",
            table=TABLE,
            warehouse=catalog.warehouse,
            action=kind.action_name,
            arguments="\n".join(f"{one}: {given}" for one, given in {**fields, name: value or "''"}.items()),
        )
        for one in (operator, job, in_file):
            with pytest.raises(AirflowFailException, match=f"{name} was given, and its template left no value"):
                one.execute(make_context())

    assert catalog.table(TABLE).consumers()["next_snapshot_id"].to_pylist() == [2]
    assert catalog.table(TABLE).branches().num_rows == 0
    assert kind(task_id="t", table=TABLE, warehouse=catalog.warehouse, **fields).execute(make_context())


@pytest.mark.parametrize("value", [None, "", " None "])
def test_an_overwrite_without_a_value_adds_no_rows(
    catalog: Catalog, database: sqlite3.Connection, source: str, value: Any, *, native: bool
):
    from_database = {"sql": "SELECT * FROM users", "sql_conn_id": "db"}
    kinds: list[tuple[type[Any], dict[str, Any]]] = [
        (PaimonWriteOperator, {"source": source}),
        (SqlToPaimonOperator, from_database),
    ]
    for kind, fields in kinds:
        operator = rendered(kind, {"overwrite": value}, native=native, warehouse=catalog.warehouse, **fields)
        with pytest.raises(AirflowFailException, match="overwrite was given, and its template left no value"):
            operator.execute(make_context())
        given = kind(task_id="t", table=TABLE, warehouse=catalog.warehouse, overwrite=None, **fields)
        assert given.execute(make_context(run_id=kind.__name__))["status"] == "committed"
        whole = rendered(kind, {"overwrite": {}}, native=native, warehouse=catalog.warehouse, **fields)
        assert whole.execute(make_context(run_id=f"{kind.__name__} again"))["status"] == "committed"

    assert catalog.table(TABLE).to_arrow()["id"].to_pylist() == [1, 20]


@pytest.mark.parametrize("name", ["after_snapshot", "newer_than", "watermark"])
def test_a_wait_without_the_value_of_a_condition_does_not_end_at_any_snapshot(
    catalog: Catalog, name: str, native: bool
):
    for value in (None, "", " None "):
        looks = rendered(PaimonSnapshotSensor, {name: value}, native=native, warehouse=catalog.warehouse)
        with pytest.raises(AirflowFailException, match=f"{name} was given, and its template left no value"):
            looks.execute(make_context())

    trigger = PaimonTableTrigger(table=TABLE, kind="snapshot", warehouse=catalog.warehouse, **{name: "None"})
    event = asyncio.run(anext(trigger.run())).payload
    assert event["is_hopeless"]
    assert f"{name} was given" in event["message"]
    without = PaimonSnapshotSensor(task_id="t", table=TABLE, warehouse=catalog.warehouse, **{name: None})
    assert without.execute(make_context())["snapshot_id"] == 3


PARTS: list[tuple[type[Any], dict[str, Any], Any]] = [
    (PaimonCompactOperator, {"where": "carrier <> '{{ v }}'"}, "carrier <> ''"),
    (PaimonCompactOperator, {"idempotency_key": "load-{{ v }}"}, "load-"),
    (PaimonWriteOperator, {"source": ["/staging/{{ v }}/*.parquet"]}, ["/staging//*.parquet"]),
    (PaimonWriteOperator, {"source": "x", "overwrite": {"carrier": "a{{ v }}"}}, {"carrier": "a"}),
    (PaimonListTablesOperator, {"database": "air", "tables": "t_{{ v }}*"}, "t_*"),
    (PaimonTagSensor, {"tag": "day-{{ v }}"}, "day-"),
    (PaimonToSqlOperator, {"target": "t", "sql_conn_id": "db", "before": "DELETE FROM t WHERE d = '{{ v }}'"}, None),
]


@pytest.mark.parametrize(
    ("kind", "fields", "empty"), PARTS, ids=[f"{kind.__name__}-{[*of][-1]}" for kind, of, _ in PARTS]
)
def test_a_template_without_a_value_for_a_part_of_a_text(
    kind: type[Any], fields: dict[str, Any], empty: Any, *, native: bool
):
    """The text would have `None` in it: a condition that matches nothing or all, one key for all runs."""
    name, given = list(fields.items())[-1]
    table = {} if kind is PaimonListTablesOperator else {"table": TABLE}

    def made(**more: Any) -> Any:
        with DAG("dag", schedule=None, render_template_as_native_obj=native):
            return kind(task_id="t", **table, **{**fields, **more})

    with pytest.raises(AirflowFailException, match=r"a template left no value for a part of a text: .*\{\{ v \}\}"):
        made().render_template_fields(make_context(v=None))

    nothing = json.loads(json.dumps(given).replace("{{ v }}", "{{ v or '' }}"))
    operator = made(**{name: nothing})
    operator.render_template_fields(make_context(v=None))
    assert getattr(operator, name) == (empty or "DELETE FROM t WHERE d = ''")
    whole = made(**{name: " {{ v }}\n"})
    whole.render_template_fields(make_context(v=None))
    assert str(getattr(whole, name)).strip() == "None"


def test_none_as_a_word_of_a_template_and_of_a_value(catalog: Catalog):
    """Only what an expression leaves is looked at."""
    where = "carrier <> 'None' AND carrier <> '{{ v }}'{% if w %} AND id > 1{% endif %}"
    operator = PaimonCompactOperator(task_id="t", table=TABLE, warehouse=catalog.warehouse, where=where)

    operator.render_template_fields(make_context(v="None", w=None))

    assert operator.where == "carrier <> 'None' AND carrier <> 'None'"


@pytest.mark.parametrize("finalize", [None, str], ids=["", "finalize"])
def test_airflow_shows_no_password_of_an_address(finalize: Any):
    """It stores and shows rendered templates, also of a task that is refused for such an address."""
    word = f"pass-of-the-{'' if finalize is None else 'other-'}lake"
    with DAG("dag", schedule=None, jinja_environment_kwargs={"finalize": finalize}):
        operator = PaimonWriteOperator(task_id="t", table=TABLE, source=["{{ v }}"], warehouse="{{ v }}")

    operator.render_template_fields(make_context(v=f"s3://me:{word}@bucket/x"))

    assert operator.source == [f"s3://me:{word}@bucket/x"]
    assert redact([operator.source, operator.warehouse]) == [["s3://me:***@bucket/x"], "s3://me:***@bucket/x"]


def test_finalize_of_the_dag_stays(catalog: Catalog):
    """Who says what becomes of None means it."""
    with DAG(
        "dag", schedule=None, jinja_environment_kwargs={"finalize": lambda value: "-" if value is None else value}
    ):
        operator = PaimonCompactOperator(task_id="t", table=TABLE, where="carrier = '{{ v }}'")

    operator.render_template_fields(make_context(v=None))

    assert operator.where == "carrier = '-'"


def test_a_template_without_a_value_in_a_mapped_task_and_in_the_triggerer():
    with DAG("dag", schedule=None):
        mapped = PaimonCompactOperator.partial(task_id="t", where="carrier = '{{ v }}'").expand(table=[TABLE])
    assert (mapped.inlets, mapped.executor_config) == ([], {}), "the defaults of Airflow"
    context = make_context(v=None)
    context["ti"].map_index = 0
    trigger = PaimonTableTrigger(table=TABLE, kind="tag", tag="day-{{ v }}")
    trigger.template_fields = ("tag",)

    for templates in (mapped.unmap({"table": TABLE}), trigger):
        with pytest.raises(AirflowFailException, match="a template left no value for a part of a text"):
            templates.render_template_fields(context)


def test_a_template_without_a_value_names_no_file(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, native: bool
):
    """It would be one in the working directory of the worker."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for kind, name in ((PaimonToFilesOperator, "target"), (PaimonWriteOperator, "source")):
        for value in (None, "", " "):
            operator = rendered(kind, {name: value}, native=native, warehouse=catalog.warehouse)
            with pytest.raises(AirflowFailException, match=f"{name}=.* is not allowed; give a path"):
                operator.execute(make_context())

    assert sorted(tmp_path.iterdir()) == before


def test_a_template_replaces_the_options_of_an_asset_only_where_it_has_none(warehouse: str):
    given = "{{ v.options }}"
    operator = PaimonCompactOperator(task_id="t", table=paimon_table(TABLE, warehouse=warehouse), table_options=given)

    assert operator.table_options == given
    table = paimon_table(TABLE, warehouse=warehouse, storage_options={"region": "eu"})
    with pytest.raises(InvalidArgumentError, match="storage_options cannot be one template"):
        PaimonSnapshotSensor(task_id="t", table=table, storage_options=given)


def test_objects_of_python_in_a_text_are_refused_and_not_misread(catalog: Catalog, database: sqlite3.Connection):
    """Read as YAML they would be other texts, which some databases take for parameters without a use."""
    fields = {"warehouse": catalog.warehouse, "sql": "SELECT 1", "sql_conn_id": "db"}
    operator = SqlToPaimonOperator(
        task_id="t", table=TABLE, parameters="{'since': DateTime(2024, 1, 2, tzinfo=Timezone('UTC'))}", **fields
    )

    with pytest.raises(AirflowFailException, match=r"parameters has objects of Python.*render_template_as_native_obj"):
        operator.execute(make_context())


def test_texts_in_a_list_name_no_files_where_a_dag_is_read(tmp_path: Path):
    (tmp_path / "q.sql").write_text("SELECT 1")
    with DAG("dag", schedule=None, template_searchpath=str(tmp_path)):
        operator = SqlToPaimonOperator(
            task_id="t", table=TABLE, sql="q.sql", sql_conn_id="db", parameters=["q.sql", "see missing.sql"]
        )

    operator.resolve_template_files()

    assert (operator.sql, operator.parameters) == ("SELECT 1", ["q.sql", "see missing.sql"])


@pytest.mark.parametrize("given", [{"tag": "x", "snapshot": "None"}, {"tag": "", "snapshot": "1"}])
def test_one_of_two_fields_is_enough_for_a_branch(catalog: Catalog, given: dict[str, str]):
    catalog.table(TABLE).create_tag("x")
    where = {"table": TABLE, "warehouse": catalog.warehouse}

    done = PaimonCreateBranchOperator(task_id="t", branch="b", **where, **given).execute(make_context())

    assert done["status"] == "created"
