"""The operator that creates tables; what the action does with them, tests/actions/test_create_table.py says."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.create import PaimonCreateTableOperator
from paimon_engine import Catalog

pytestmark = pytest.mark.airflow

COLUMNS = {"id": "BIGINT NOT NULL", "name": "VARCHAR(10)"}


def create(warehouse: str, context: dict[str, Any], **fields: Any) -> dict[str, Any]:
    operator = PaimonCreateTableOperator(task_id="create", table="shop.users", warehouse=warehouse, **fields)
    done: dict[str, Any] = operator.execute(context)
    return done


def test_a_table_is_created_and_then_verified(warehouse: str, context: dict[str, Any]):
    fields = {
        "columns": COLUMNS,
        "primary_keys": ["id"],
        "options": {"bucket": 2, "write-only": True},
        "comment": "all",
    }

    assert [create(warehouse, context, **fields)["status"] for _ in range(2)] == ["created", "exists"]

    schema = Catalog(warehouse).table("shop.users").schema
    assert dict(schema.options) == {"bucket": "2", "write-only": "true"}
    assert (schema.primary_keys, schema.comment) == (("id",), "all")


def test_another_definition_fails_without_a_retry_and_says_the_difference(warehouse: str, context: dict[str, Any]):
    create(warehouse, context, columns=COLUMNS)

    with pytest.raises(AirflowFailException, match="column name is VARCHAR\\(10\\), not VARCHAR\\(20\\)"):
        create(warehouse, context, columns={**COLUMNS, "name": "VARCHAR(20)"})
    assert create(warehouse, context, columns={"x": "INT"}, if_exists="ignore")["status"] == "exists"


def test_values_that_templates_render(warehouse: str, context: dict[str, Any]):
    texts = {"columns": '{"id": "BIGINT", "name": "STRING"}', "primary_keys": "['id']", "options": '{"bucket": "2"}'}

    assert create(warehouse, context, **texts)["status"] == "created"
    assert {"columns", "primary_keys", "options", "comment", "sql", "if_exists"} <= set(
        PaimonCreateTableOperator.template_fields
    )


def test_a_statement(warehouse: str, context: dict[str, Any]):
    sql = "CREATE TABLE users (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"

    assert create(warehouse, context, sql=sql)["status"] == "created"
    assert Catalog(warehouse).table("shop.users").schema.primary_keys == ("id",)
    assert PaimonCreateTableOperator.template_ext == (".sql",)


def test_a_wrong_definition_is_refused(warehouse: str, context: dict[str, Any]):
    with pytest.raises(AirflowFailException, match="give columns with their types, or a CREATE TABLE statement"):
        create(warehouse, context)
    with pytest.raises(AirflowFailException, match="if_exists='replace' is not allowed"):
        create(warehouse, context, columns=COLUMNS, if_exists="replace")
