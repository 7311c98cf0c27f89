"""Links, notifiers, retry policies and template files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa
import pytest
from airflow.sdk import DAG, BaseNotifier, RetryAction, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers.base import exception_of
from airflow_provider_paimon.notifications.maintenance import PaimonMaintenanceNotifier
from airflow_provider_paimon.operators.alter import PaimonAlterTableOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.delete import PaimonDeleteRowsOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.provider_info import get_provider_info
from airflow_provider_paimon.retries import PAIMON_RETRY_POLICY
from airflow_provider_paimon.summary import summary_line
from paimon_engine import Catalog
from paimon_engine.errors import (
    AlreadyExistsError,
    CallbackError,
    ConflictError,
    CorruptTableError,
    InsufficientMemoryError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from paimon_engine.job_record import JobFailure
from paimon_engine.metastores.rest_client import RestNotFoundError
from tests.provider.conftest import TABLE, make_context, rows
from tests.support.dag_runs import run_dag, states_of, xcom_of

pytestmark = pytest.mark.airflow


@pytest.fixture
def lake(warehouse: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": warehouse}))
    return "lake"


# ── the link to the table ───────────────────────────────────────────────────────────────────────


def link_of(run: Any, task_id: str) -> str:
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id, key="_link_PaimonTableLink")


def test_a_task_links_to_the_directory_of_its_table(lake: str, warehouse: str):
    flights = paimon_table(TABLE, lake)
    with DAG("link_to_directory", schedule=None) as dag:
        flights.expire(keep=5)

    run = run_dag(dag)

    assert link_of(run, "expire_flights") == Path(warehouse, "air.db/flights").as_uri()
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_dict["expire_flights"]
    assert [link.name for link in stored.operator_extra_links] == ["Paimon table"]


def test_a_task_links_into_the_data_catalog(lake: str, warehouse: str, monkeypatch: pytest.MonkeyPatch):
    template = "https://catalog.example.com/{conn_id}/{database}/{table}?at={snapshot_id}&of={path}"
    monkeypatch.setenv("AIRFLOW__PAIMON__TABLE_URL", template)
    flights = paimon_table(TABLE, lake)
    with DAG("link_to_catalog", schedule=None) as dag:
        flights.compact(full=True, launcher="in_process")

    run = run_dag(dag)

    path = quote(f"{warehouse}/air.db/flights", safe="")
    assert link_of(run, "compact_flights") == f"https://catalog.example.com/lake/air/flights?at=4&of={path}"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"table": "air.none"}, "there is no table"),
        ({"paimon_conn_id": "nowhere"}, "connection nowhere is not defined"),
        ({"paimon_conn_id": None, "warehouse": "nonsense://x"}, "nonsense"),
        ({"storage_options": "none"}, "storage_options must be a mapping"),
    ],
    ids=str,
)
def test_the_last_error_of_a_log_is_that_of_the_task(
    lake: str, fields: dict[str, Any], error: str, capfd: pytest.CaptureFixture
):
    given = {"table": TABLE, "paimon_conn_id": lake, "launcher": "in_process", **fields}
    with DAG("no_link", schedule=None) as dag:
        PaimonCompactOperator(task_id="t", **given)

    run = run_dag(dag)

    assert (states_of(run), link_of(run, "t")) == ({"t": "failed"}, "")
    log = capfd.readouterr().out
    assert error in log
    assert "Failed to push" not in log


@pytest.mark.parametrize("template", ["https://x/{tabel}", "https://x/{", "https://x/{}"])
def test_a_template_that_cannot_be_filled_in_is_named(lake: str, template: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW__PAIMON__TABLE_URL", template)
    operator = PaimonCompactOperator(task_id="t", table=TABLE, paimon_conn_id=lake)

    with pytest.raises(InvalidArgumentError, match="table_url") as caught:
        operator.operator_extra_links[0].get_link(operator, ti_key=None)

    assert "{snapshot_id}" in str(caught.value)


# ── who is told ─────────────────────────────────────────────────────────────────────────────────


class Kept(BaseNotifier):
    """A notifier of somebody else, which keeps what it is given."""

    texts: ClassVar[list[str]] = []

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        self.texts.append(self.text)


def test_a_run_is_summed_up(lake: str, source: str):
    Kept.texts.clear()
    flights = paimon_table(TABLE, lake)
    notifier = PaimonMaintenanceNotifier(send=lambda text: Kept(text), title="{{ dag.dag_id }} at {{ ds }}")
    with DAG("summed_up", schedule=None) as dag:
        write = flights.write(source, launcher="in_process")
        compact = flights.compact(full=True, launcher="in_process")
        expire = flights.expire(keep=1, on_success_callback=notifier)

        @task
        def other() -> dict:
            return {"status": "fine"}

        write >> compact >> other() >> expire

    run_dag(dag)

    (text,) = Kept.texts
    lines = text.splitlines()
    assert lines[0] == "summed_up at 2013-01-06"
    assert lines[1].startswith("compact air.flights: committed, snapshot 5; files 4 → 1, bytes ")
    assert lines[2].startswith("expire_snapshots air.flights: expired")
    assert "expired snapshots 4" in lines[2]
    assert lines[3].startswith("write air.flights: committed, snapshot 4; rows 2, files 1, bytes ")
    assert len(lines) == 4


def test_a_failure_is_told_even_where_nothing_was_done(lake: str):
    Kept.texts.clear()
    notifier = PaimonMaintenanceNotifier(send=lambda text: Kept(text), only_changes=True)
    with DAG("told_failure", schedule=None, on_failure_callback=notifier) as dag:
        paimon_table("air.nowhere", lake).compact(on_failure_callback=notifier)

    run = run_dag(dag)

    assert states_of(run) == {"compact_nowhere": "failed"}
    of_task = Kept.texts[0].splitlines()
    assert of_task[0].startswith("told_failure, run ")
    assert of_task[1].startswith("compact_nowhere failed: compact_nowhere: there is no table in ")
    Kept.texts.clear()
    notifier.notify({"dag": dag, "reason": "task_failure"})
    notifier.notify({"dag": dag, "reason": "success"})
    assert [text.splitlines()[1:] for text in Kept.texts] == [["the run failed: task_failure"]]


@dataclass
class Mine:
    """What a task returns that has nothing to do with tables; Airflow's allow list does not have it."""

    number: int


def test_rows_of_functions_are_summed_up_beside_what_cannot_be_read(lake: str, source: str):
    Kept.texts.clear()
    flights = paimon_table(TABLE, lake)
    notifier = PaimonMaintenanceNotifier(send=lambda text: Kept(text), title="", only_changes=True)
    with DAG("summed_up_functions", schedule=None) as dag:

        @task.paimon_write(table=flights)  # type: ignore[untyped-decorator]
        def written() -> pa.Table:
            return rows(20, 21)

        @task.paimon_write(table=flights)  # type: ignore[untyped-decorator]
        def empty() -> pa.Table:
            return rows()

        @task
        def mine() -> Mine:
            return Mine(1)

        written() >> empty() >> mine() >> flights.expire(keep=5, on_success_callback=notifier)

    run_dag(dag)

    (text,) = Kept.texts
    (line,) = text.strip().splitlines()
    assert line.startswith("write air.flights: committed, snapshot 4; rows 2, files 1, bytes ")


def test_a_day_is_tagged_beside_a_result_that_cannot_be_read(lake: str, source: str, catalog: Catalog):
    flights = paimon_table(TABLE, lake)
    with DAG("tagged_beside", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC)) as dag:

        @task
        def mine() -> Mine:
            return Mine(1)

        mine() >> flights.write(source, launcher="in_process") >> flights.tag_day()

    run = run_dag(dag)

    assert states_of(run)["tag_day_flights"] == "success"
    assert list(PaimonHook(lake).tags(TABLE).values()) == [4]


def test_without_a_receiver_the_log_has_it(lake: str, capsys: pytest.CaptureFixture):
    flights = paimon_table(TABLE, lake)
    quiet = PaimonMaintenanceNotifier(only_changes=True)
    with DAG("logged_summary", schedule=None) as dag:
        flights.expire(keep=5, on_success_callback=[PaimonMaintenanceNotifier(), quiet])

    run_dag(dag)

    printed = capsys.readouterr().out
    assert "logged_summary, run manual__" in printed
    assert "expire_snapshots air.flights: noop" in printed
    assert "changed a table" in printed


def test_a_line_says_what_counts():
    details = {"rows_before": 9, "rows_after": 9, "bytes_before": 3 << 20, "bytes_after": 1023, "buckets": [1, 2]}
    details |= {"omitted": {"buckets": 98}, "conflicts": 0, "warnings": ["look here"], "read_amplification_before": 1.5}
    result = {"action": "compact", "table": "a.b", "status": "committed", "snapshot_id": 7, "details": details}

    assert summary_line(result) == ("compact a.b: committed, snapshot 7; bytes 3.0 MiB → 1023, buckets 100; look here")


# ── retries ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "action", "delay"),
    [
        (ConflictError("x"), RetryAction.RETRY, timedelta(seconds=30)),
        (OutcomeUnknownError("x"), RetryAction.RETRY, timedelta(minutes=1)),
        (StorageError("x"), RetryAction.RETRY, timedelta(minutes=2)),
        (InsufficientMemoryError("x"), RetryAction.RETRY, timedelta(minutes=5)),
        (AlreadyExistsError("x"), RetryAction.FAIL, None),
        (NotFoundError("x"), RetryAction.FAIL, None),
        (CorruptTableError("x"), RetryAction.FAIL, None),
        (CallbackError("x"), RetryAction.DEFAULT, None),
        (ValueError("x"), RetryAction.DEFAULT, None),
    ],
)
def test_which_errors_are_worth_another_try(error: Exception, action: RetryAction, delay: timedelta | None):
    wrapped = AirflowException("failed")
    wrapped.__cause__ = error

    for raised in (error, wrapped):
        found = PAIMON_RETRY_POLICY.evaluate(raised, 1, 3)
        assert (found.action, found.retry_delay) == (action, delay)
    error.__cause__ = wrapped
    assert PAIMON_RETRY_POLICY.evaluate(error, 1, 3).action is action


@pytest.mark.parametrize(
    "error", [ConflictError("x"), NotFoundError("x"), RestNotFoundError("x", None), ValueError("x")]
)
def test_the_policy_sees_the_error_of_a_job_in_another_process(error: Exception):
    raised = exception_of(JobFailure.of(error))

    assert PAIMON_RETRY_POLICY.evaluate(raised, 1, 3) == PAIMON_RETRY_POLICY.evaluate(error, 1, 3)


def test_too_little_memory_of_a_job_in_another_process_is_tried_again():
    raised = exception_of(JobFailure.of(pa.ArrowMemoryError("malloc of size 64 failed")))

    found = PAIMON_RETRY_POLICY.evaluate(raised, 1, 3)

    assert (found.action, found.retry_delay) == (RetryAction.RETRY, timedelta(minutes=5))


def test_a_task_that_cannot_succeed_is_not_tried_again(lake: str):
    tries = []
    with DAG("policy_in_a_dag", schedule=None) as dag:

        @task(retries=3, retry_policy=PAIMON_RETRY_POLICY)  # type: ignore[untyped-decorator]
        def read() -> None:
            tries.append(1)
            PaimonHook(lake).read("air.none")

        read()

    run = run_dag(dag)

    assert (states_of(run), len(tries)) == ({"read": "failed"}, 1)
    assert DagSerialization.serialize_dag(dag)


# ── template files ──────────────────────────────────────────────────────────────────────────────


def test_conditions_and_arguments_from_files(lake: str, catalog: Catalog, tmp_path: Path):
    log = catalog.create_table(
        "air.log",
        schema=catalog.table(TABLE).arrow_schema,
        options={"bucket": "-1", "deletion-vectors.enabled": "true"},
    )
    log.write(rows(1, 2, 3))
    (tmp_path / "old.sql").write_text("id < {{ params.below }} -- rows that nobody needs")
    (tmp_path / "policy.yaml").write_text(
        "# how long snapshots live\nretain_max: {{ params.below - 1 }}\nretain_min: 1\n"
    )
    (tmp_path / "columns.yaml").write_text("- {change: add_column, name: city, type: STRING}\n")
    here = {"table": "air.log", "paimon_conn_id": lake, "launcher": "in_process"}
    with DAG("template_files", schedule=None, template_searchpath=str(tmp_path), params={"below": 3}) as dag:
        delete = PaimonDeleteRowsOperator(task_id="delete", where="old.sql", **here)
        alter = PaimonAlterTableOperator(task_id="alter", changes="columns.yaml", **here)
        expire = PaimonJobOperator(task_id="expire", action="expire_snapshots", arguments="policy.yaml", **here)
        delete >> alter >> expire

    run = run_dag(dag)

    assert set(states_of(run).values()) == {"success"}
    assert catalog.table("air.log").to_arrow()["id"].to_pylist() == [3]
    assert catalog.table("air.log").arrow_schema.names[-1] == "city"
    assert xcom_of(run, "expire")["details"]["expired_snapshots"] == []


def test_files_of_data_are_not_templates(lake: str, tmp_path: Path, catalog: Catalog):
    (tmp_path / "rows.json").write_text('{"id": 7, "carrier": "{{ no template }}"}\n')
    with DAG("data_files", schedule=None, template_searchpath=str(tmp_path)):
        write = PaimonWriteOperator(
            task_id="write", source=str(tmp_path / "rows.json"), format="json", table=TABLE, paimon_conn_id=lake
        )
        job = PaimonJobOperator(
            task_id="job", action="write", arguments={"source": str(tmp_path / "rows.json")}, table=TABLE
        )
        for operator in (write, job):
            operator.resolve_template_files()

    assert write.source == job.arguments["source"] == str(tmp_path / "rows.json")


def test_texts_in_a_list_or_a_map_are_no_template_files(lake: str, tmp_path: Path, catalog: Catalog):
    comment = {"change": "update_comment", "comment": "{{ ds }}: see conf.json"}
    here = {"paimon_conn_id": lake, "launcher": "in_process"}
    with DAG("texts", schedule=None, template_searchpath=str(tmp_path), params={"day": "2013"}) as dag:
        alter = PaimonAlterTableOperator(task_id="alter", changes=[comment], table=TABLE, **here)
        option = {"change": "set_option", "key": "my.note", "value": "{{ params.day }}.yaml"}
        job = PaimonJobOperator(
            task_id="job", action="alter_table", arguments={"changes": [option]}, table=TABLE, **here
        )
        alter >> job

    assert set(states_of(run_dag(dag)).values()) == {"success"}
    schema = catalog.table(TABLE).schema
    assert (schema.comment.endswith(": see conf.json"), "{{" in schema.comment) == (True, False)
    assert schema.options["my.note"] == "2013.yaml"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [("- a\n- b", "mapping of names"), ("{a: [", "not valid YAML"), ("just text", "mapping of names")],
)
def test_what_a_file_has_wrong_is_named(warehouse: str, catalog: Catalog, arguments: str, reason: str):
    operator = PaimonJobOperator(
        task_id="t", action="expire_snapshots", arguments=arguments, table=TABLE, warehouse=warehouse
    )

    with pytest.raises(AirflowFailException, match=f"arguments .*{reason}"):
        operator.execute(make_context())


def _all_that_have_templates() -> list[Any]:
    """Operators, sensors and transfers, and the operator of the decorator."""
    info = get_provider_info()
    modules = [
        *(name for kind in ("operators", "sensors") for entry in info[kind] for name in entry["python-modules"]),
        *(entry["python-module"] for entry in info["transfers"]),
        "airflow_provider_paimon.decorators.write",
    ]
    members = [(name, kind) for name in modules for kind in vars(import_module(name)).values()]
    return [
        kind for name, kind in members if getattr(kind, "__module__", "") == name and hasattr(kind, "template_fields")
    ]


def _annotations(kind: Any) -> dict[str, str]:
    """The annotations of all arguments, as they are written."""
    above = [vars(cls).get("__init__") for cls in reversed(kind.__mro__) if "paimon" in cls.__module__]
    return {name: str(text) for made in above if made is not None for name, text in made.__annotations__.items()}


@pytest.mark.parametrize("kind", _all_that_have_templates(), ids=lambda kind: kind.__name__)
def test_the_ui_shows_conditions_as_sql_and_structures_as_json(kind: Any):
    annotations, shown_as = _annotations(kind), kind.template_fields_renderers

    for name in kind.template_fields:
        if name in ("sql", "before") or name.endswith("where"):
            assert shown_as[name] == "sql", name
            assert ".sql" in kind.template_ext, name
        elif re.search("Mapping|Sequence|dict|list", annotations.get(name, "")):
            assert shown_as[name] in ("json", "py"), name
        else:
            assert name not in shown_as or name.startswith("op_"), name
    assert {name for name in shown_as if not name.startswith("op_")} <= set(kind.template_fields)


def test_there_are_operators_to_look_at():
    assert len(_all_that_have_templates()) > 50
