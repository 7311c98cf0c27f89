"""Correct a table on a branch, and merge the branch."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.branches import (
    PaimonCreateBranchOperator,
    PaimonDeleteBranchOperator,
    PaimonMergeBranchOperator,
)
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from tests.support.system_tests import folder, get_test_run, home_of, no_folder, watcher

DAG_ID = "example_paimon_branch"
HOME = home_of(DAG_ID)
ORDERS = {"table": "shop.orders", "warehouse": str(HOME / "lake")}

with DAG(
    DAG_ID,
    schedule="@once",
    start_date=datetime(2013, 1, 1),
    catchup=False,
    tags=["example", "paimon"],
) as dag:
    write = PaimonWriteOperator(
        task_id="write",
        source=str(HOME / "orders.parquet"),
        create={"primary_keys": ["id"], "options": {"bucket": 1}},
        **ORDERS,
    )
    start = PaimonCreateTagOperator(task_id="start", tag="start", **ORDERS)

    # [START howto_operator_paimon_create_branch]
    create = PaimonCreateBranchOperator(task_id="create", branch="trial", tag="start", if_exists="ignore", **ORDERS)
    # [END howto_operator_paimon_create_branch]

    # [START howto_decorator_paimon_write]
    @task.paimon_write(table="shop.orders$branch_trial", warehouse=ORDERS["warehouse"])
    def correct():
        """What is written to the branch."""
        import pyarrow as pa

        return pa.table({"id": [3], "day": ["2013-01-01"], "amount": [33]})

    # [END howto_decorator_paimon_write]

    # [START howto_operator_paimon_merge_branch]
    merge = PaimonMergeBranchOperator(task_id="merge", branch="trial", **ORDERS)
    # [END howto_operator_paimon_merge_branch]

    # [START howto_operator_paimon_delete_branch]
    delete = PaimonDeleteBranchOperator(task_id="delete", branch="trial", **ORDERS)
    # [END howto_operator_paimon_delete_branch]

    @task
    def check() -> None:
        """The correction is in the table."""
        rows = PaimonHook(warehouse=ORDERS["warehouse"]).read("shop.orders").to_pylist()
        assert {row["id"]: row["amount"] for row in rows} == {1: 10, 2: 20, 3: 33}

    folder(HOME)() >> write >> start >> create >> correct() >> merge >> delete >> check() >> no_folder(HOME)()

    # The last task succeeds, also where one before it has failed: this one does not.
    list(dag.tasks) >> watcher()

# Lets pytest run the example: pytest tests/system/example_paimon_branch.py
test_run = get_test_run(dag)
