"""Operators call the tag callbacks that a table names, as every other way to run a job does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator, PaimonDeleteTagOperator
from paimon_engine import Catalog, SetOption
from tests.provider.conftest import TABLE
from tests.support import tag_hooks
from tests.support.tag_hooks import Heard


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: Catalog) -> Heard:
    monkeypatch.syspath_prepend(str(tag_hooks.install(tmp_path / "site")))
    heard = Heard(tmp_path / "heard")
    catalog.table(TABLE).alter([SetOption(key, value) for key, value in heard.options().items()])
    return heard


@pytest.fixture
def fields(warehouse: str) -> dict[str, Any]:
    return {"task_id": "task", "table": TABLE, "warehouse": warehouse, "launcher": "in_process", "tag": "t"}


def test_operators_notify_of_tags(heard: Heard, fields: dict[str, Any], context: dict[str, Any]):
    PaimonCreateTagOperator(**fields).execute(context)
    PaimonDeleteTagOperator(**fields).execute(context)

    assert heard.words == [("created", "t", 3), ("deleted", "t", 3)]


def test_a_task_whose_callback_failed_is_tried_again(heard: Heard, fields: dict[str, Any], context: dict[str, Any]):
    failing = PaimonCreateTagOperator(**fields, table_options=heard.options("fail"))
    with pytest.raises(AirflowException, match=r"com\.acme\.Note could not be notified") as raised:
        failing.execute(context)
    assert not isinstance(raised.value, AirflowFailException)
    heard.forget()

    PaimonCreateTagOperator(**fields).execute(context)

    assert heard.words == [("created", "t", 3)]


def test_a_task_whose_callback_is_not_installed_is_not(heard: Heard, fields: dict[str, Any], context: dict[str, Any]):
    missing = {"tag.callbacks": "com.acme.NotInstalled"}
    with pytest.raises(AirflowFailException, match=r"com\.acme\.NotInstalled"):
        PaimonCreateTagOperator(**fields, table_options=missing).execute(context)

    PaimonCreateTagOperator(**fields, table_options={"tag.callbacks": ""}).execute(context)

    assert heard.words == []
