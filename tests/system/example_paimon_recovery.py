"""Roll a table back, restore what that has deleted, and clean up."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.clean_up import PaimonRemoveOrphanFilesOperator, PaimonVerifyOperator
from airflow_provider_paimon.operators.delete import PaimonDeleteRowsOperator
from airflow_provider_paimon.operators.repair import PaimonEmptyQuarantineOperator, PaimonRestoreOperator
from airflow_provider_paimon.operators.rollback import PaimonRollbackOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from tests.support.system_tests import folder, get_test_run, home_of, no_folder, watcher

DAG_ID = "example_paimon_recovery"
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
        create={"options": {"deletion-vectors.enabled": "true"}},
        **ORDERS,
    )

    # [START howto_operator_paimon_delete_rows]
    delete = PaimonDeleteRowsOperator(task_id="delete", where="amount > 10", **ORDERS)
    # [END howto_operator_paimon_delete_rows]

    # [START howto_operator_paimon_rollback]
    rollback = PaimonRollbackOperator(task_id="rollback", snapshot=1, quarantine=True, **ORDERS)
    # [END howto_operator_paimon_rollback]

    # [START howto_operator_paimon_restore]
    restore = PaimonRestoreOperator(
        task_id="restore", quarantine="{{ ti.xcom_pull('rollback')['details']['quarantine'] }}", **ORDERS
    )
    # [END howto_operator_paimon_restore]

    # [START howto_operator_paimon_remove_orphan_files]
    orphans = PaimonRemoveOrphanFilesOperator(task_id="orphans", older_than="1 d", **ORDERS)
    # [END howto_operator_paimon_remove_orphan_files]

    # [START howto_operator_paimon_empty_quarantine]
    empty = PaimonEmptyQuarantineOperator(task_id="empty", older_than="30 d", **ORDERS)
    # [END howto_operator_paimon_empty_quarantine]

    # [START howto_operator_paimon_verify]
    verify = PaimonVerifyOperator(task_id="verify", depth="rows", **ORDERS)
    # [END howto_operator_paimon_verify]

    @task
    def check() -> None:
        """The deletion is there again."""
        rows = PaimonHook(warehouse=ORDERS["warehouse"]).read("shop.orders").to_pylist()
        assert [row["id"] for row in rows] == [1]

    steps = write >> delete >> rollback >> restore >> orphans >> empty >> verify
    folder(HOME)() >> write
    steps >> check() >> no_folder(HOME)()

    # The last task succeeds, also where one before it has failed: this one does not.
    list(dag.tasks) >> watcher()

# Lets pytest run the example: pytest tests/system/example_paimon_recovery.py
test_run = get_test_run(dag)
