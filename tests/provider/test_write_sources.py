"""Sources of a write are checked in the task itself: what is wrong is said before a process or a cluster is started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog
from tests.provider.conftest import make_context

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch):
    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)


def write(warehouse: str, context: dict[str, Any], **fields: Any) -> dict[str, Any]:
    operator = PaimonWriteOperator(task_id="write", table="shop.new", warehouse=warehouse, **fields)
    done: dict[str, Any] = operator.execute(context)
    return done


@pytest.fixture
def csv(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    path.write_text("id,name\n1,Ann\n2,Bob\n")
    return str(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"create": {}}, "a CSV file have no types.*columns="),
        ({"columns": {"id": "BIGINT"}}, "no column 'name'"),
        ({"columns": {"id": "BIGINT", "name": "INT"}}, "column 'name': .*'(Ann|Bob)'"),
        ({"columns": {"id": "NUMBERS", "name": "STRING"}}, "column 'id'"),
        ({"source": "/none/*.csv", "columns": {"id": "BIGINT"}}, "no source file matches"),
        ({"format": "xml", "columns": {"id": "BIGINT"}}, "'orc' or 'avro' or 'csv'"),
        ({}, "there is no table"),
    ],
)
def test_a_mistake_is_found_before_spark_starts(
    warehouse: str, context: dict[str, Any], csv: str, fields: dict[str, Any], message: str
):
    with pytest.raises(AirflowFailException, match=message):
        write(warehouse, context, launcher="subprocess", **{"source": csv, "format": "csv", **fields})
    assert not Path(warehouse).exists()


def test_brackets_are_part_of_a_name(warehouse: str, context: dict[str, Any], csv: str):
    columns = {"id": "BIGINT", "name": "STRING"}
    path = Path(csv).with_name("rows [1].csv")
    path.write_text("id,name\n3,Cid\n")
    how = {"format": "csv", "columns": columns, "launcher": "in_process"}

    assert write(warehouse, context, source=str(path), **how)["details"]["rows"] == 1
    assert write(warehouse, make_context("2"), source=f"{path.parent}/row[a-z].csv", **how)["details"]["rows"] == 2


def test_a_csv_creates_a_table_with_columns(warehouse: str, context: dict[str, Any], csv: str):
    columns = {"id": "BIGINT NOT NULL", "name": "STRING"}
    create = {"primary_keys": ["id"], "options": {"bucket": 1, "write-only": True}}

    done = write(warehouse, context, source=csv, format="csv", columns=columns, create=create, launcher="in_process")

    table = Catalog(warehouse).table("shop.new")
    assert done["status"] == "committed"
    assert table.to_arrow().sort_by("id")["name"].to_pylist() == ["Ann", "Bob"]
    assert table.schema.options["write-only"] == "true"


def test_columns_may_be_the_text_of_a_template(warehouse: str, context: dict[str, Any], csv: str):
    columns = '{"id": "BIGINT", "name": "STRING"}'

    assert (
        write(warehouse, context, source=csv, format="csv", columns=columns, launcher="in_process")["details"]["rows"]
        == 2
    )
