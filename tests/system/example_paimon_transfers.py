"""Copy between tables and files."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.transfers.paimon_to_files import PaimonToFilesOperator
from tests.support.system_tests import folder, get_test_run, home_of, no_folder, watcher

DAG_ID = "example_paimon_transfers"
HOME = home_of(DAG_ID)

with DAG(
    DAG_ID,
    schedule="@once",
    start_date=datetime(2013, 1, 1),
    catchup=False,
    tags=["example", "paimon"],
) as dag:
    # [START howto_asset_paimon_table]
    orders = paimon_table("shop.orders", warehouse=str(HOME / "lake"))
    large = paimon_table("shop.large_orders", warehouse=str(HOME / "lake"))
    write = orders.write(str(HOME / "orders.parquet"), create={"primary_keys": ["id"], "options": {"bucket": 1}})
    # [END howto_asset_paimon_table]

    # [START howto_operator_paimon_write_from_table]
    copy = large.write(orders, source_where="amount > 10", create={"primary_keys": ["id"], "options": {"bucket": 1}})
    # [END howto_operator_paimon_write_from_table]

    # [START howto_transfer_paimon_to_files]
    export = PaimonToFilesOperator(
        task_id="export", table=large, columns=["id", "amount"], target=str(HOME / "large.csv"), format="csv"
    )
    # [END howto_transfer_paimon_to_files]

    @task
    def check() -> None:
        """The file has the rows of the second table."""
        lines = (HOME / "large.csv").read_text().splitlines()
        assert sorted(lines[1:]) == ["2,20", "3,30"]

    folder(HOME)() >> write >> copy >> export >> check() >> no_folder(HOME)()

    # The last task succeeds, also where one before it has failed: this one does not.
    list(dag.tasks) >> watcher()

# Lets pytest run the example: pytest tests/system/example_paimon_transfers.py
test_run = get_test_run(dag)
