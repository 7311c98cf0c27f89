"""Prepare rows in many tasks, and commit them in one."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.commit import PaimonCommitHook
from airflow_provider_paimon.operators.create import PaimonCreateTableOperator
from tests.support.system_tests import folder, get_test_run, home_of, no_folder, watcher

DAG_ID = "example_paimon_commit"
HOME = home_of(DAG_ID)
ORDERS = {"table": "shop.orders", "warehouse": str(HOME / "lake")}


def hook() -> PaimonCommitHook:
    """The warehouse."""
    return PaimonCommitHook(warehouse=ORDERS["warehouse"])


with DAG(
    DAG_ID,
    schedule="@once",
    start_date=datetime(2013, 1, 1),
    catchup=False,
    tags=["example", "paimon"],
) as dag:
    create = PaimonCreateTableOperator(task_id="create", columns={"id": "BIGINT", "amount": "BIGINT"}, **ORDERS)

    # [START howto_hook_paimon_commit]
    @task
    def prepare(number: int):
        """Writes files that nobody sees yet."""
        import pyarrow as pa

        return hook().prepare("shop.orders", pa.table({"id": [number], "amount": [10 * number]}))

    @task
    def commit(prepared):
        """Makes one snapshot of all."""
        return hook().commit(prepared)

    @task(trigger_rule="one_failed")
    def abort(prepared):
        """Deletes what was prepared, where a task has failed."""
        return hook().abort(prepared)

    # [END howto_hook_paimon_commit]

    @task
    def check(done) -> None:
        """All rows are there, by one snapshot."""
        table = hook().table("shop.orders")
        assert done["snapshot_id"] == table.latest_snapshot_id() == 1
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]

    prepared = prepare.expand(number=[1, 2, 3])
    committed = commit(prepared)
    folder(HOME)() >> create >> prepared
    committed >> abort(prepared)
    check(committed) >> no_folder(HOME)()

    # The last task succeeds, also where one before it has failed: this one does not.
    list(dag.tasks) >> watcher()

# Lets pytest run the example: pytest tests/system/example_paimon_commit.py
test_run = get_test_run(dag)
