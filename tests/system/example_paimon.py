"""Create a table, load, compact, tag and expire it."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.create import PaimonCreateTableOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from tests.support.system_tests import folder, get_test_run, home_of, no_folder, watcher

DAG_ID = "example_paimon"
HOME = home_of(DAG_ID)
ORDERS = {"table": "shop.orders", "warehouse": str(HOME / "lake")}

with DAG(
    DAG_ID,
    schedule="@once",
    start_date=datetime(2013, 1, 1),
    catchup=False,
    tags=["example", "paimon"],
) as dag:
    # [START howto_operator_paimon_create_table]
    create = PaimonCreateTableOperator(
        task_id="create",
        columns={"id": "BIGINT NOT NULL", "day": "STRING", "amount": "BIGINT"},
        primary_keys=["id"],
        options={"bucket": 1},
        **ORDERS,
    )
    # [END howto_operator_paimon_create_table]

    # [START howto_operator_paimon_write]
    write = PaimonWriteOperator(task_id="write", source=str(HOME / "orders.parquet"), **ORDERS)
    # [END howto_operator_paimon_write]

    # [START howto_operator_paimon_compact]
    compact = PaimonCompactOperator(task_id="compact", full=True, **ORDERS)
    # [END howto_operator_paimon_compact]

    # [START howto_operator_paimon_create_tag]
    tag = PaimonCreateTagOperator(task_id="tag", tag="first", **ORDERS)
    # [END howto_operator_paimon_create_tag]

    # [START howto_sensor_paimon_tag]
    wait = PaimonTagSensor(task_id="wait", tag="first", poke_interval=1, timeout=60, **ORDERS)
    # [END howto_sensor_paimon_tag]

    # [START howto_operator_paimon_expire_snapshots]
    expire = PaimonExpireSnapshotsOperator(task_id="expire", retain_max=1, retain_min=1, **ORDERS)
    # [END howto_operator_paimon_expire_snapshots]

    # [START howto_hook_paimon]
    @task
    def check() -> None:
        """Reads the table at its tag."""
        rows = PaimonHook(warehouse=ORDERS["warehouse"]).read("shop.orders", ["id", "amount"], tag="first")
        assert max(rows.to_pylist(), key=lambda row: row["id"]) == {"id": 3, "amount": 30}

    # [END howto_hook_paimon]

    folder(HOME)() >> create >> write >> compact >> tag >> wait >> expire >> check() >> no_folder(HOME)()

    # The last task succeeds, also where one before it has failed: this one does not.
    list(dag.tasks) >> watcher()

# Lets pytest run the example: pytest tests/system/example_paimon.py
test_run = get_test_run(dag)
