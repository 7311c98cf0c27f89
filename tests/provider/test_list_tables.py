"""The tables of a database by a pattern."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.list_tables import PaimonListTablesOperator
from paimon_engine import Catalog
from tests.provider.conftest import SCHEMA, make_context, rows

pytestmark = pytest.mark.airflow


@pytest.fixture
def shop(warehouse: str) -> str:
    catalog = Catalog(warehouse)
    for name in ("orders_a", "orders_b", "orders_old", "users"):
        table = catalog.create_table(f"shop.{name}", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        for number in range(2):
            table.write(rows(number))
    return warehouse


def listed(warehouse: str, **fields: Any) -> list[str]:
    operator = PaimonListTablesOperator(task_id="tables", warehouse=warehouse, **{"database": "shop", **fields})
    found: list[str] = operator.execute(make_context())
    return found


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["orders_a", "orders_b", "orders_old", "users"]),
        ({"tables": "orders_*"}, ["orders_a", "orders_b", "orders_old"]),
        ({"tables": "orders_*", "exclude": "*_old"}, ["orders_a", "orders_b"]),
        ({"tables": ["orders_[a-b]", "users"]}, ["orders_a", "orders_b", "users"]),
        ({"tables": "['users']", "exclude": ""}, ["users"]),
        ({"tables": "USERS", "allow_none": "True"}, []),
    ],
)
def test_tables_by_pattern(shop: str, fields: dict[str, Any], names: list[str]):
    assert listed(shop, **fields) == [f"shop.{name}" for name in names]


def test_a_pattern_or_database_that_matches_nothing_fails(shop: str):
    with pytest.raises(AirflowFailException, match="no table of shop matches order-*.*it has orders_a"):
        listed(shop, tables="order-*")
    with pytest.raises(AirflowFailException, match="no database 'shp'"):
        listed(shop, database="shp")


def test_compactions_are_mapped_over_them(shop: str):
    with DAG("maintenance", schedule=None):
        tables = PaimonListTablesOperator(task_id="tables", database="shop", tables="orders_*", warehouse=shop)
        mapped = PaimonCompactOperator.partial(task_id="compact", warehouse=shop, full=True).expand(table=tables.output)
    assert mapped.upstream_task_ids == {"tables"}

    for name in tables.execute(make_context()):
        operator = PaimonCompactOperator(task_id="compact", table=name, warehouse=shop, full=True)
        assert operator.execute(make_context(name))["status"] == "committed"
    assert [Catalog(shop).table(f"shop.{name}").latest_snapshot_id() for name in ("orders_a", "users")] == [3, 2]
