"""Where jobs run, with what, and what is said of it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import launchers
from airflow_provider_paimon.launchers import InProcess, Subprocess
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.placement import IN_PROCESS_LIMIT, OPTIONS, Wanted, place, wanted_resources
from airflow_provider_paimon.provider_info import get_provider_info
from paimon_engine import Catalog
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.jobs import Job, JobResult, Resources, TableRef, action_type
from paimon_engine.table.compaction.rewrite import rewrite
from tests.provider.conftest import TABLE

MIB = 1 << 20


def job_on(warehouse: str, action: str, **fields: Any) -> Job:
    return Job(TableRef(warehouse, TABLE), action_type(action)(**fields), "user")


def wanted(limit: int = 256 * MIB, by_operator: tuple[str, ...] = (), **options: Any) -> Wanted:
    return Wanted(Resources(in_process_limit=limit, **options), frozenset(by_operator))


# ── which place ─────────────────────────────────────────────────────────────────────────────────


def test_little_to_rewrite_stays_in_the_process(catalog: Catalog, warehouse: str):
    found = place(job_on(warehouse, "compact", full=True), {}, wanted(), "auto", None)

    size = sum(catalog.table(TABLE).files()["file_size_in_bytes"].to_pylist()) / 1024
    assert found.where == "in_process"
    assert found.why == f"compact: {size:.1f} KiB to rewrite, below 256.0 MiB: in this process"


@pytest.mark.parametrize("less", [0, 1])
def test_the_limit_itself_is_above(catalog: Catalog, warehouse: str, less: int):
    size = sum(catalog.table(TABLE).files()["file_size_in_bytes"].to_pylist())

    found = place(job_on(warehouse, "compact", full=True), {}, wanted(size + less), "auto", None)

    assert found.where == ("in_process" if less else "subprocess")
    assert ("not below" in found.why) == (not less)


def test_a_write_goes_by_its_sources(catalog: Catalog, warehouse: str, source: str):
    assert place(job_on(warehouse, "write", source=source), {}, wanted(), "auto", None).where == "in_process"
    large = place(job_on(warehouse, "write", source=source), {}, wanted(100), "auto", None)
    assert large.where == "subprocess"
    assert " B to read, not below 100 B: on an embedded Spark" in large.why


def test_with_a_limit_of_0_all_work_on_rows_is_on_spark(catalog: Catalog, warehouse: str):
    catalog.table(TABLE).compact(full=True)

    assert place(job_on(warehouse, "compact"), {}, wanted(0), "auto", None).where == "subprocess"
    assert place(job_on(warehouse, "compact", dry_run=True), {}, wanted(0), "auto", None).where == "in_process"
    assert place(job_on(warehouse, "create_tag", tag="t"), {}, wanted(0), "auto", "x").where == "in_process"


def test_what_cannot_be_known_goes_to_spark(catalog: Catalog, warehouse: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("airflow_provider_paimon.engine.planned_bytes", lambda job: None)

    found = place(job_on(warehouse, "compact"), {}, wanted(), "auto", None)

    assert found.where == "subprocess"
    assert found.why.startswith("how much compact has to read is not known before")


def test_a_connection_takes_all_work_on_rows(catalog: Catalog, warehouse: str):
    found = place(job_on(warehouse, "compact"), {}, wanted(), "auto", "cluster")

    assert (found.where, found.why) == ("cluster", "compact works on rows: on the Spark of the connection cluster")
    asked = wanted(by_operator=("in_process_limit",))
    assert place(job_on(warehouse, "compact"), {}, asked, "auto", "cluster").where == "in_process"
    assert place(job_on(warehouse, "create_tag", tag="t"), {}, wanted(), "auto", "cluster").where == "in_process"


@pytest.mark.parametrize(
    ("launcher", "where"),
    [("in_process", "in_process"), ("subprocess", "subprocess"), ("spark_connect", "spark_connect")],
)
def test_a_launcher_that_is_given_is_taken_unseen(launcher: str, where: str):
    nowhere = Job(TableRef(path="/missing"), action_type("compact")(), "u")

    found = place(nowhere, {}, wanted(), launcher, "cluster")

    assert found.where == where
    assert found.why.endswith("as launcher= says")


@pytest.mark.parametrize(
    ("launcher", "conn_id", "options", "message"),
    [
        ("yarn", None, {}, "choose one of auto, in_process"),
        ("spark_connect", None, {}, "needs spark_conn_id"),
        ("in_process", None, {"spark_conf": {"spark.a": "b"}}, "there is no Spark"),
        ("in_process", None, {"memory": 1 << 30}, "not analyze there"),
        ("in_process", None, {"in_process_limit": 1}, "launcher='auto' only"),
        ("subprocess", None, {"in_process_limit": 1}, "launcher='auto' only"),
        ("spark_connect", "c", {"local_cores": 2}, "not done on this machine"),
        ("auto", "c", {"local_cores": 2}, "spark_conn_id='c'"),
        ("auto", "c", {"memory": 1 << 30}, "not analyze there"),
    ],
)
def test_an_option_without_effect_is_refused(launcher: str, conn_id: str | None, options: dict, message: str):
    nowhere = Job(TableRef(path="/missing"), action_type("analyze")(), "u")
    resources = Resources(**{"in_process_limit": 0, **options})

    with pytest.raises(InvalidArgumentError, match=message):
        place(nowhere, {}, Wanted(resources, frozenset(options)), launcher, conn_id)
    if options:
        # Defaults of a whole installation concern only what they can.
        place(nowhere, {}, Wanted(resources), launcher, conn_id)


@pytest.mark.parametrize(("kind", "launcher"), [("spark", "spark_submit"), ("spark_connect", "spark_connect")])
def test_memory_is_that_of_a_driver_that_is_submitted(kind: str, launcher: str, monkeypatch: pytest.MonkeyPatch):
    fields = {"conn_type": kind, "host": "spark://example" if kind == "spark" else "example", "port": 7077}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(fields))
    nowhere = Job(TableRef(path="/missing"), action_type("analyze")(), "u")
    asked = wanted(by_operator=("memory",), memory=600 * MIB)

    if kind == "spark_connect":
        with pytest.raises(InvalidArgumentError, match="not analyze there"):
            place(nowhere, {}, asked, "auto", "cluster")
        return
    found = place(nowhere, {}, asked, "auto", "cluster")

    submitting = launchers.choose_launcher(found, asked.resources, "cluster")
    assert found.where == launcher
    assert isinstance(submitting, launchers.SparkSubmit)
    assert submitting.settings.conf == {"spark.driver.memory": "600m"}


def test_options_for_spark_are_mentioned_where_there_is_none(catalog: Catalog, warehouse: str):
    asked = wanted(by_operator=("spark_conf",), spark_conf={"spark.a": "b"})

    assert (
        "(without Spark, spark_conf has no effect)" in place(job_on(warehouse, "compact"), {}, asked, "auto", None).why
    )


# ── what it may take ────────────────────────────────────────────────────────────────────────────


def test_operator_before_connection_before_configuration_before_default(monkeypatch: pytest.MonkeyPatch):
    def found(operator: Any = None, extra: Any = None) -> tuple[int | None, int | None, bool]:
        both = wanted_resources({"memory": operator}, {"memory": extra})
        return both.resources.memory, both.resources.in_process_limit, "memory" in both.by_operator

    assert found() == (None, 256 * MIB, False)
    monkeypatch.setenv("AIRFLOW__PAIMON__MEMORY", "1 gb")
    monkeypatch.setenv("AIRFLOW__PAIMON__IN_PROCESS_LIMIT", "0")
    assert found() == (1024 * MIB, 0, False)
    assert found(extra="2 gb") == (2048 * MIB, 0, False)
    assert found("3 gb", "2 gb") == (3072 * MIB, 0, True)
    # What templates leave of nothing.
    assert found("None", "2 gb") == found("", "2 gb") == (2048 * MIB, 0, False)


def test_values_as_people_write_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW__PAIMON__SPARK_CONF", '{"spark.a": "b"}')
    given = {"local_cores": "3", "spark_conf": {"spark.x": 2, "spark.y": True}}

    assert wanted_resources(given, {}).resources.spark_conf == {"spark.x": "2", "spark.y": "true"}
    assert wanted_resources(given, {}).resources.local_cores == 3
    assert wanted_resources({}, {}).resources.spark_conf == {"spark.a": "b"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("in_process_limit", "much", "in_process_limit"),
        ("in_process_limit", -1, "at least 0"),
        ("local_cores", 0, "at least 1"),
        ("local_cores", "two", "local_cores"),
        ("memory", "1 mb", "at least 512.0 MiB"),
        ("spark_conf", "{", "spark_conf"),
        ("spark_conf", {"executor.memory": "1g"}, "names begin with spark"),
        ("spark_conf", {"spark.master": "yarn"}, "launcher's to say"),
        ("spark_conf", {"spark.driver.memory": "1g"}, "give memory instead"),
    ],
)
@pytest.mark.parametrize("source", ["the operator", "the connection's extra", r"the configuration, section \[paimon\]"])
def test_wrong_values_name_the_option_and_who_said_it(
    source: str, name: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
):
    text = value if isinstance(value, str) else json.dumps(value)
    operator, extra = {}, {}
    if source == "the operator":
        operator = {name: value}
    elif source == "the connection's extra":
        extra = {name: value}
    else:
        monkeypatch.setenv(f"AIRFLOW__PAIMON__{name.upper()}", text)

    with pytest.raises(InvalidArgumentError, match=f"^{source}: .*{message}"):
        wanted_resources(operator, extra)


def test_the_section_is_declared_with_the_same_defaults():
    options = get_provider_info()["config"]["paimon"]["options"]

    assert set(OPTIONS) <= set(options)
    assert {name: item["default"] for name, item in options.items() if item["default"]} == {
        "in_process_limit": IN_PROCESS_LIMIT
    }
    assert set(OPTIONS) <= set(get_provider_info()["connection-types"][0]["conn-fields"])
    assert set(OPTIONS) <= set(PaimonJobOperator.template_fields)


# ── operators ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> list[Subprocess]:
    """Processes that would have been started, with what they were to take."""
    asked: list[Subprocess] = []

    def launch(self: Subprocess, job: Job, secrets: object) -> JobResult:
        asked.append(self)
        return JobResult("noop", "compact", job.table.name or "", None, 0.0, {"task": job.to_json()})

    monkeypatch.setattr(Subprocess, "launch", launch)
    return asked


def test_small_jobs_start_no_process(
    catalog: Catalog, warehouse: str, source: str, context: dict, caplog, no_process: list[Subprocess]
):
    caplog.set_level(logging.INFO)
    here = {"task_id": "t", "table": TABLE, "warehouse": warehouse}

    PaimonWriteOperator(source=source, **here).execute(context)
    compacted = PaimonCompactOperator(full=True, **here).execute(context)
    PaimonCreateTagOperator(tag="t", **here).execute(context)

    logged = [record.getMessage() for record in caplog.records]
    assert no_process == []
    assert compacted["status"] == "committed"
    assert sum("below 256.0 MiB: in this process" in line for line in logged) == 2
    assert "create_tag works on metadata: in this process" in logged


def test_options_reach_the_process(
    catalog: Catalog, warehouse: str, context: dict, monkeypatch, no_process: list[Subprocess]
):
    extra = {"in_process_limit": 0, "memory": "600 mb", "local_cores": 5}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": warehouse, "extra": extra}))
    here = {"task_id": "t", "table": TABLE, "paimon_conn_id": "lake"}

    result = PaimonCompactOperator(local_cores=1, spark_conf={"spark.a": "b"}, **here).execute(context)

    (process,) = no_process
    assert (process.spark, process.memory_bytes, process.spark_conf) == ("local[1]", 600 * MIB, {"spark.a": "b"})
    assert json.loads(result["details"]["task"])["action"]["task_memory_bytes"] == 600 * MIB
    own = PaimonCompactOperator(task_memory_bytes="100 mb", **here).execute(context)
    assert json.loads(own["details"]["task"])["action"]["task_memory_bytes"] == 100 * MIB


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "1 mb"}, "t: the operator: .*at least 512.0 MiB"),
        ({"local_cores": "many"}, "t: the operator: .*local_cores"),
        ({"launcher": "in_process", "spark_conf": {"spark.a": "b"}}, "t: spark_conf has no effect"),
        ({"launcher": "yarn"}, "t: launcher='yarn'; choose one of"),
    ],
)
def test_wrong_options_fail_the_task_for_good(
    catalog: Catalog, warehouse: str, context: dict, options: dict, message: str, no_process: list[Subprocess]
):
    with pytest.raises(AirflowFailException, match=message):
        PaimonCompactOperator(task_id="t", table=TABLE, warehouse=warehouse, **options).execute(context)
    assert catalog.table(TABLE).snapshots().num_rows == 3


def test_a_wrong_call_fails_while_it_is_planned(
    catalog: Catalog, warehouse: str, context: dict, no_process: list[Subprocess]
):
    operator = PaimonCompactOperator(task_id="t", table=TABLE, warehouse=warehouse, where="id > 1", in_process_limit=0)

    with pytest.raises(AirflowFailException, match="partition columns"):
        operator.execute(context)
    assert no_process == []


def test_a_store_that_fails_while_it_is_planned_is_tried_again(
    catalog: Catalog, warehouse: str, context: dict, monkeypatch: pytest.MonkeyPatch
):
    from paimon_engine.errors import StorageError

    def fail(job: Job) -> int:
        raise StorageError("the store is away")

    monkeypatch.setattr("airflow_provider_paimon.engine.planned_bytes", fail)

    with pytest.raises(AirflowException, match="the store is away") as failed:
        PaimonCompactOperator(task_id="t", table=TABLE, warehouse=warehouse).execute(context)
    assert not isinstance(failed.value, AirflowFailException)


# ── in this process ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cores", [1, 3])
def test_local_cores_limit_the_threads(catalog: Catalog, warehouse: str, monkeypatch: pytest.MonkeyPatch, cores: int):
    wide = catalog.create_table(
        "air.wide", schema={"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": 8}
    )
    for _ in range(2):
        wide.write(pa.table({"id": list(range(1000))}))
    seen: set[str] = set()
    together: Callable[[float], bool] = threading.Barrier(cores).wait  # type: ignore[assignment]

    def watched(env: Any, task: Any) -> Any:
        if len(seen) < cores:
            seen.add(threading.current_thread().name)
            # Each thread takes one task only once all of them are there.
            together(30)
        seen.add(threading.current_thread().name)
        assert pa.cpu_count() <= cores
        return rewrite(env, task)

    monkeypatch.setattr("paimon_engine.table.compaction.compaction_round.rewrite", watched)
    before = pa.cpu_count()

    InProcess(cores).launch(Job(TableRef(warehouse, "air.wide"), action_type("compact")(full=True), "u"), {})

    assert len(seen) == cores
    assert pa.cpu_count() == before


def test_launchers_have_no_other_options():
    """An option that is added has to reach each of them, or to be refused."""
    assert {item.name for item in Resources.__dataclass_fields__.values()} == set(OPTIONS)
    assert launchers.Subprocess("local[*]").memory_bytes is None
