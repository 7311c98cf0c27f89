"""`PaimonWriteOperator` with another table as its source: by name, by path, as a `paimon_table`, of another warehouse."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog
from paimon_engine.errors import InvalidArgumentError
from tests.provider.conftest import TABLE, make_context, rows

pytestmark = pytest.mark.airflow


def write(warehouse: str, context: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"table": "shop.copy", "warehouse": warehouse, "create": {}, **fields}
    done: dict[str, Any] = PaimonWriteOperator(task_id="write", **given).execute(context or make_context())
    return done


def ids(warehouse: str, table: str = "shop.copy") -> list[int]:
    return sorted(Catalog(warehouse).table(table).to_arrow()["id"].to_pylist())


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("form", ["name", "path", "asset", "template"])
def test_a_small_table_is_copied_in_the_task_itself(catalog: Catalog, warehouse: str, form: str):
    named: dict[str, dict[str, Any]] = {
        "name": {"source": TABLE, "format": "paimon", "source_snapshot": 2},
        "path": {"source": catalog.table(TABLE).path, "format": "paimon", "source_snapshot": "2"},
        "asset": {"source": paimon_table(TABLE, warehouse=warehouse), "source_where": "id < 3"},
        "template": {"source": TABLE, "format": "paimon", "source_columns": "['id']", "source_where": "id < 3"},
    }

    done = write(warehouse, **named[form])

    assert (done["status"], done["details"]["rows"]) == ("committed", 2)
    assert done["details"]["source_snapshot_id"] == (2 if form in ("name", "path") else 3)
    assert ids(warehouse) == [1, 2]


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "air.missing", "format": "paimon"}, "no table"),
        ({"source": TABLE, "format": "paimon", "source_tag": "2013-01-01"}, "2013-01-01"),
        ({"source": TABLE, "format": "paimon", "source_columns": ["day"]}, "day"),
        ({"source": TABLE, "format": "paimon", "source_where": "day > 1"}, "day"),
        ({"source": "/data/*.parquet", "source_tag": "first"}, "format='paimon'"),
        ({"source": TABLE, "format": "paimon", "create": {"primary_keys": ["day"]}}, "day"),
    ],
)
def test_a_mistake_is_found_before_spark_starts(catalog: Catalog, warehouse: str, fields: dict[str, Any], message: str):
    with pytest.raises(AirflowFailException, match=message):
        write(warehouse, launcher="subprocess", **fields)
    assert not Path(warehouse, "shop.db").exists()


def test_a_retry_writes_once_though_the_source_has_changed(catalog: Catalog, warehouse: str):
    fields = {"source": TABLE, "format": "paimon"}
    first = write(warehouse, **fields)
    catalog.table(TABLE).write(rows(9))

    assert (write(warehouse, **fields)["status"], ids(warehouse)) == ("already_done", [1, 2, 3])
    assert write(warehouse, make_context("the next run"), overwrite={}, **fields)["status"] == "committed"
    assert (first["snapshot_id"], ids(warehouse)) == (1, [1, 2, 3, 9])


def test_tables_of_another_connection(
    catalog: Catalog, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AIRFLOW_CONN_RAW", json.dumps({"conn_type": "paimon", "host": warehouse}))
    there = str(tmp_path / "there")

    write(there, source=paimon_table(TABLE, "raw"))
    write(there, table="shop.again", source=TABLE, format="paimon", source_conn_id="raw")
    by_path = f"{tmp_path}/third/t"
    write(there, table=by_path, source=TABLE, format="paimon", source_conn_id="raw")

    assert ids(there) == ids(there, "shop.again") == [1, 2, 3]
    with pytest.raises(AirflowFailException, match="no table"):
        write(there, table="shop.third", source=TABLE, format="paimon")


def test_secrets_of_both_warehouses_reach_the_job(warehouse: str):
    options = {"s3.access-key": "us", "s3.secret-key": "ours"}
    table = paimon_table("shop.copy", warehouse=warehouse, storage_options=options)
    same, other = ({**options, "s3.secret-key": value} for value in ("ours", "theirs"))

    def secrets(more: dict[str, str]) -> dict[str, str]:
        source = paimon_table(TABLE, warehouse="s3://raw/lake", storage_options=more)
        operator = PaimonWriteOperator(task_id="write", table=table, source=source)
        return operator._secrets(operator.hook())

    assert secrets(same) == {"PAIMON_S3_ACCESS_KEY": "us", "PAIMON_S3_SECRET_KEY": "ours"}
    with pytest.raises(InvalidArgumentError, match="different secrets"):
        secrets(other)


def test_the_source_is_an_inlet_and_goes_with_no_file_format(warehouse: str):
    orders, copy = paimon_table(TABLE, warehouse=warehouse), paimon_table("shop.copy", warehouse=warehouse)
    with DAG("d", schedule=None):
        task = copy.write(orders, source_tag="{{ partition_key }}")

    assert task.inlets == [orders]
    assert task.outlets == [copy]
    with pytest.raises(InvalidArgumentError, match="format='csv'"):
        PaimonWriteOperator(task_id="w", table=copy, source=orders, format="csv")
    with pytest.raises(InvalidArgumentError, match="two locations"):
        PaimonWriteOperator(task_id="w", table=copy, source=orders, source_conn_id="elsewhere")


@pytest.mark.spark
def test_on_spark(catalog: Catalog, warehouse: str):
    done = write(warehouse, source=TABLE, format="paimon", launcher="subprocess", create={"options": {"bucket": "-1"}})

    assert (done["status"], ids(warehouse)) == ("committed", [1, 2, 3])
