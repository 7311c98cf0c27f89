"""What the real OpenLineage provider hears of our tasks, by its transport that writes to a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.openlineage import lineage
from airflow_provider_paimon.operators.clean_up import PaimonVerifyOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog
from tests.provider.conftest import TABLE, make_context

pytestmark = [pytest.mark.airflow]

PROGRAM = """
import sys
from datetime import UTC, datetime
from airflow.sdk import DAG, Asset, task
from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from tests.support.dag_runs import run_dag, states_of

flights = paimon_table("air.flights", "lake")
with DAG("lineage", schedule=None) as dag:
    write = PaimonWriteOperator(task_id="write", source=sys.argv[1], table=flights, launcher="in_process")
    compact = PaimonCompactOperator(task_id="compact", full=True, table=flights, launcher="in_process")
    again = PaimonCompactOperator(task_id="again", full=True, table=flights, launcher="in_process")
    tag = PaimonCreateTagOperator(task_id="tag", tag="t", table=flights)

    @task
    def read() -> int:
        return PaimonHook("lake").read("air.flights").num_rows

    @task(outlets=[flights])
    def tell() -> None:
        pass

    # In one process the collector keeps what a task before has read, so that one comes last.
    write >> compact >> again >> tag >> tell() >> read()
print(states_of(run_dag(dag)))
"""


def run_program(program: str, *arguments: str, **environment: str) -> str:
    """Runs it in a process whose Airflow has a home of its own."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    home = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=home, env=os.environ | environment, timeout=250
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """The events of a run, by task and kind."""
    folder = tmp_path_factory.mktemp("lineage")
    catalog = Catalog(str(folder / "lake"))
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "its number"}),
            pa.field("legs", pa.list_(pa.struct([("to", pa.string())]))),
        ]
    )
    table = catalog.create_table(TABLE, schema=schema, primary_keys=["id"], options={"bucket": "1"}, comment="All.")
    table.write(pa.table({"id": [1], "legs": [[]]}, schema))
    pa.parquet.write_table(pa.table({"id": [2, 3], "legs": [[], []]}, schema), folder / "new.parquet")
    transport = {"type": "file", "log_file_path": str(folder / "events.jsonl"), "append": True}
    output = run_program(
        PROGRAM,
        str(folder / "new.parquet"),
        AIRFLOW_HOME=str(folder / "airflow"),
        AIRFLOW_CONN_LAKE=json.dumps({"conn_type": "paimon", "host": str(folder / "lake")}),
        AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
    )
    assert "failed" not in output.splitlines()[-1]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    found = {(event["job"]["name"].removeprefix("lineage."), event["eventType"]): event for event in events}
    return {**found, ("folder", ""): {"path": str(folder)}}


def _named(datasets: list[dict]) -> list[tuple[str, str]]:
    return [(item["namespace"], item["name"]) for item in datasets]


FLIGHTS = ("paimon://lake", TABLE)


def test_a_write_names_its_files_and_what_came_out(sent: dict):
    folder = sent["folder", ""]["path"]
    event = sent["write", "COMPLETE"]
    (output,) = event["outputs"]

    assert _named(event["inputs"]) == [("file", f"{folder}/new.parquet")]
    assert _named([output]) == [FLIGHTS]
    assert output["facets"]["version"]["datasetVersion"] == "2"
    assert output["facets"]["documentation"]["description"] == "All."
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert output["outputFacets"]["outputStatistics"]["size"] > 0
    (other,) = output["facets"]["symlinks"]["identifiers"]
    assert other == {"namespace": "file", "name": f"{folder}/lake/air.db/flights", "type": "TABLE"}


def test_columns_have_the_types_of_the_table(sent: dict):
    ident, legs = sent["write", "COMPLETE"]["outputs"][0]["facets"]["schema"]["fields"]

    assert (ident["name"], ident["type"], ident["description"]) == ("id", "BIGINT NOT NULL", "its number")
    assert (legs["type"], [(item["name"], item["type"]) for item in legs["fields"]]) == ("ARRAY", [("to", "STRING")])


def test_what_is_going_to_be_done_is_told_at_the_start(sent: dict):
    event = sent["write", "START"]

    assert _named(event["outputs"]) == [FLIGHTS]
    assert "version" not in event["outputs"][0]["facets"]
    assert "outputStatistics" not in event["outputs"][0].get("outputFacets", {})
    assert event["outputs"][0]["facets"]["schema"]["fields"]


def test_a_compaction_reads_and_writes_the_table(sent: dict):
    event = sent["compact", "COMPLETE"]

    assert _named(event["inputs"]) == _named(event["outputs"]) == [FLIGHTS]
    assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == "3"


def test_what_changed_nothing_has_no_output(sent: dict):
    assert _named(sent["again", "COMPLETE"]["inputs"]) == [FLIGHTS]
    assert sent["again", "COMPLETE"].get("outputs", []) == []


def test_a_tag_tells_the_version(sent: dict):
    (output,) = sent["tag", "COMPLETE"]["outputs"]

    assert output["facets"]["version"]["datasetVersion"] == "3"
    assert not output.get("outputFacets")


def test_tasks_that_use_the_hook_or_the_asset_name_the_same_table(sent: dict):
    assert _named(sent["read", "COMPLETE"]["inputs"]) == [FLIGHTS]
    assert _named(sent["tell", "COMPLETE"]["outputs"]) == [FLIGHTS]


# ── without a run ───────────────────────────────────────────────────────────────────────────────


def test_a_table_that_is_not_there_yet_has_a_name(warehouse: str, source: str):
    task = PaimonWriteOperator(task_id="t", table="air.new", source=[source], warehouse=warehouse, overwrite={})

    (output,) = task.get_openlineage_facets_on_start().outputs

    assert (output.namespace, output.name) == (
        paimon_table("air.new", warehouse=warehouse).uri.removesuffix("/air/new"),
        "air.new",
    )
    assert output.facets.keys() == {"lifecycleStateChange"}
    assert output.facets["lifecycleStateChange"].lifecycleStateChange.name == "OVERWRITE"


def test_who_only_looks_writes_nothing(catalog: Catalog, warehouse: str):
    task = PaimonVerifyOperator(task_id="t", table=TABLE, warehouse=warehouse, launcher="in_process")
    task.execute(make_context())

    sent = task.get_openlineage_facets_on_complete(None)

    assert (len(sent.inputs), sent.outputs) == (1, [])


def test_tables_in_directories_and_stores(catalog: Catalog, warehouse: str):
    path = f"{warehouse}/air.db/flights"
    task = PaimonCompactOperator(task_id="t", table=path, full=True, launcher="in_process")
    task.execute(make_context())

    (output,) = task.get_openlineage_facets_on_complete(None).outputs

    assert (output.namespace, output.name) == ("file", path)
    assert "symlinks" not in output.facets
    found = lineage(PaimonHook(warehouse=warehouse), TABLE, "write", sources=["s3://key:s3cret@bucket/in/*.parquet"])
    assert (found.inputs[0].namespace, found.inputs[0].name) == ("s3://bucket", "in/*.parquet")


def test_a_write_names_the_table_that_it_reads_and_its_version(catalog: Catalog, warehouse: str):
    source = paimon_table(TABLE, warehouse=warehouse)
    operator = PaimonWriteOperator(
        task_id="w", table="shop.copy", warehouse=warehouse, source=source, source_snapshot=2, create={}
    )
    assert [item.name for item in operator.get_openlineage_facets_on_start().inputs] == [TABLE]

    operator.execute(make_context())
    sent = operator.get_openlineage_facets_on_complete(None)

    (read,), (written,) = sent.inputs, sent.outputs
    assert (read.name, read.facets["version"].datasetVersion) == (TABLE, "2")
    assert [field.name for field in read.facets["schema"].fields] == ["id", "carrier"]
    assert (written.name, written.facets["version"].datasetVersion) == ("shop.copy", "1")
