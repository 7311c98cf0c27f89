"""`@task.paimon_write`: what a function returns is written into a table."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from paimon_engine import Catalog
from tests.provider.conftest import TABLE, make_context, rows

pytestmark = pytest.mark.airflow


def run(returned: Any, context: Any = None, **fields: Any) -> dict[str, Any]:
    with DAG("writes", schedule=None):

        @task.paimon_write(**fields)  # type: ignore[untyped-decorator]
        def make(number: int, dag_run: Any = None) -> Any:
            assert number == 7
            assert dag_run is not None
            return returned

        operator = make(7).operator
    done: dict[str, Any] = operator.execute(context or make_context())
    return done


@pytest.mark.parametrize("form", ["arrow", "pandas", "reader", "polars"])
def test_what_a_function_returns_is_written(catalog: Catalog, warehouse: str, form: str):
    table = rows(10, 11)
    makers: dict[str, Any] = {"arrow": lambda: table, "pandas": table.to_pandas, "reader": table.to_reader}
    returned = makers.get(form, lambda: pytest.importorskip("polars").from_arrow(table))()

    done = run(returned, table=TABLE, warehouse=warehouse)

    assert (done["status"], done["rows"]) == ("committed", 2)
    assert sorted(catalog.table(TABLE).to_arrow()["id"].to_pylist()) == [1, 2, 3, 10, 11]


def test_a_repeat_commits_once_and_a_table_is_created(warehouse: str):
    columns = {"id": "BIGINT NOT NULL", "carrier": "STRING"}
    fields = {"table": "shop.new", "warehouse": warehouse, "columns": columns, "create": {"options": {"bucket": "-1"}}}

    assert [run(rows(1), **fields)["status"] for _ in range(2)] == ["committed", "already_done"]
    assert run(rows(2), make_context("another run"), overwrite={}, **fields)["status"] == "committed"
    assert Catalog(warehouse).table("shop.new").to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"create": {"primary_keys": ["id"]}}, "make: shop.new is to be created, .*give their types, as in columns="),
        ({"columns": {"id": "INT"}, "create": {"primary_key": ["id"]}}, "create: unknown field 'primary_key'; .*_keys"),
        ({"columns": {"id": "INT"}, "create": "{'options': {'bucket': 2}, 'sql': 'x'}"}, "unknown field 'sql'"),
    ],
)
def test_a_table_that_cannot_be_created_so_is_named_with_what_is_missing(warehouse: str, fields: Any, message: str):
    with pytest.raises(AirflowFailException, match=message):
        run(rows(1), table="shop.new", warehouse=warehouse, **fields)


def test_keys_and_options_of_a_new_table_may_be_what_templates_leave(warehouse: str):
    create = "{'primary_keys': ['id'], 'options': {'bucket': 2, 'deletion-vectors.enabled': True}}"
    run(rows(1), table="shop.new", warehouse=warehouse, columns={"id": "BIGINT", "carrier": "STRING"}, create=create)

    schema = Catalog(warehouse).table("shop.new").schema
    assert (schema.primary_keys, schema.options["bucket"]) == (("id",), "2")
    assert schema.options["deletion-vectors.enabled"] == "true"
    with_columns = {"create": {"columns": {"id": "BIGINT"}}}
    assert run(rows(2).select(["id"]), table="shop.one", warehouse=warehouse, **with_columns)["rows"] == 1


COLUMNS = {
    "id": "BIGINT",
    "name": "STRING",
    "kind": "VARCHAR(10)",
    "state": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "price": "DECIMAL(10, 2)",
    "parts": "ARRAY<BIGINT>",
    "raw": "BYTES",
}


def test_the_types_of_a_polars_frame_arrive(warehouse: str):
    pl = pytest.importorskip("polars")
    values: dict[str, list[Any]] = {
        "id": [1, 2],
        "name": ["Ann", None],
        "kind": ["x", None],
        "state": ["new", "old"],
        "day": [date(2024, 2, 29), None],
        "at": [datetime(2024, 2, 29, 1, 2, 3, 4), None],
        "price": [Decimal("1.50"), None],
        "parts": [[1, 2], []],
        "raw": [b"x", None],
    }
    special = {"id": pl.UInt32, "kind": pl.Categorical, "state": pl.Enum(["new", "old"]), "price": pl.Decimal(10, 2)}

    run(pl.DataFrame(values, schema_overrides=special), table="shop.new", warehouse=warehouse, columns=COLUMNS)

    assert Catalog(warehouse).table("shop.new").to_arrow().sort_by("id").to_pydict() == values


def test_a_lazy_frame_says_what_to_call(catalog: Catalog, warehouse: str):
    pl = pytest.importorskip("polars")

    with pytest.raises(AirflowFailException, match=r"cannot write a LazyFrame.*\.collect\(\)"):
        run(pl.LazyFrame({"id": [1]}), table=TABLE, warehouse=warehouse)


def test_categories_of_polars_may_be_row_kinds(catalog: Catalog):
    pl = pytest.importorskip("polars")
    kinds = pl.Series("op", ["-D", "+I"], dtype=pl.Categorical)

    catalog.table(TABLE).write(pl.DataFrame({"id": [1, 9], "op": kinds}), row_kinds="op")

    assert sorted(catalog.table(TABLE).to_arrow()["id"].to_pylist()) == [2, 3, 9]


@pytest.mark.parametrize("returned", [None, [1], {"id": [1]}, pa.table({"x": [1]})])
def test_what_is_no_data_of_the_table_fails_without_a_retry(catalog: Catalog, warehouse: str, returned: Any):
    with pytest.raises(AirflowFailException, match="cannot write a|no column 'x'"):
        run(returned, table=TABLE, warehouse=warehouse)
