"""The same job in each place that it can run: the same result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from paimon_engine import Catalog
from paimon_engine.errors import UnsupportedError
from paimon_engine.spark import check_spark
from tests.provider.conftest import SCHEMA, make_context, rows
from tests.support.spark_servers import Server, connect_server, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SUBMIT_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
}
ON_SPARK = ("embedded", "submit", "connect")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    try:
        check_spark()
    except UnsupportedError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    with standalone(directory) as submit, connect_server(directory) as connect:
        yield {"submit": submit, "connect": connect}


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: dict[str, Server], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an operator is given for the place."""
    if request.param == "submit" and " " in sys.prefix:
        pytest.skip("Spark's script find-spark-home cannot be run from a path that holds a space")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    connections = {
        "SUBMIT": {"conn_type": "spark", "host": "spark://127.0.0.1", "port": servers["submit"].port},
        "CONNECT": {"conn_type": "spark_connect", "host": "127.0.0.1", "port": servers["connect"].port},
    }
    for name, fields in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(fields))
    return {
        "in_process": {"launcher": "in_process"},
        "embedded": {"launcher": "subprocess"},
        "submit": {"spark_conn_id": "submit", "spark_conf": SUBMIT_CONF},
        "connect": {"spark_conn_id": "connect"},
    }[request.param]


def compaction(warehouse: str, place: dict[str, Any], **more: Any) -> PaimonCompactOperator:
    return PaimonCompactOperator(task_id="t", table="db.t", warehouse=warehouse, full=True, **place, **more)


@pytest.mark.parametrize("place", ["in_process", *ON_SPARK], indirect=True)
def test_the_same_job_gives_the_same_result(place: dict[str, Any], tmp_path: Path):
    warehouse = str(tmp_path / "lake")
    table = Catalog(warehouse).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    for number in range(3):
        table.write(rows(number, number + 1, number + 10))

    result = compaction(warehouse, place).execute(make_context())

    assert (result["status"], result["snapshot_id"]) == ("committed", 4)
    assert [result["details"][name] for name in ("rows_before", "rows_after", "failed")] == [9, 7, []]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 10, 11, 12]
    assert compaction(warehouse, place).execute(make_context())["status"] == "already_done"
