"""Connections that name a catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine.jobs import CatalogRef
from tests.provider.conftest import TABLE
from tests.support.rest import rest_server

TOKEN = "geheimes-wort"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The connection `lake` to a REST catalog with one database."""
    with rest_server(tmp_path, token=TOKEN) as server:
        options = {"metastore": "rest", "uri": server.options["uri"], "token.provider": "bear", "token": TOKEN}
        fields = {"conn_type": "paimon", "host": "lake", "extra": {"catalog_options": options}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
        PaimonHook("lake").catalog().create_database("air")
        yield server


def test_operators_work_on_a_catalog_of_the_connection(lake, source: str, context):
    fields = {"task_id": "task", "table": TABLE, "paimon_conn_id": "lake", "launcher": "in_process"}

    written = PaimonWriteOperator(**fields, source=source, create={"options": {"bucket": "-1"}}).execute(context)
    tagged = PaimonCreateTagOperator(**fields, tag="first").execute(context)

    assert (written["status"], tagged["status"]) == ("committed", "created")
    assert [commit["table"] for commit in lake.commits] == [TABLE]
    assert PaimonHook("lake").tags(TABLE) == {"first": 1}


def test_a_job_knows_its_catalog_by_the_names_of_variables(lake):
    hook = PaimonHook("lake")

    assert hook.catalog_ref() == CatalogRef(
        {"metastore": "rest"},
        {
            "uri": "PAIMON_LAKE_CATALOG_URI",
            "token.provider": "PAIMON_LAKE_CATALOG_TOKEN_PROVIDER",
            "token": "PAIMON_LAKE_CATALOG_TOKEN",
        },
    )
    assert hook.secrets()["PAIMON_LAKE_CATALOG_TOKEN"] == TOKEN
    assert hook.test_connection() == (True, "lake: databases air")


def test_a_path_is_no_table_of_a_catalog(lake, context):
    operator = PaimonCreateTagOperator(
        task_id="task", table="/lake/air.db/flights", paimon_conn_id="lake", launcher="in_process", tag="t"
    )

    with pytest.raises(AirflowFailException, match=r"named by database.table, not by its path"):
        operator.execute(context)
