"""Whenever a day of a table is tagged: read exactly that day. Nobody polls; the tag's own event starts the run."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, task

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.timetables import daily
from dags_examples.settings import FIRST_RUN, LAKE

orders = paimon_table("shop.orders", warehouse=LAKE["warehouse"])

with DAG("tag_orders", schedule=daily("02:00", "UTC"), start_date=FIRST_RUN, catchup=False, tags=["paimon"]):
    orders.tag_day()

with DAG("follow_tags", schedule=PartitionedAssetTimetable(assets=orders.tags), doc_md=__doc__, tags=["paimon"]):

    @task(inlets=[orders.tags])
    def count(dag_run: Any = None) -> dict[str, Any]:
        """Rows of the table as they were when that day ended."""
        rows = PaimonHook(warehouse=LAKE["warehouse"]).read(orders.table, tag=dag_run.partition_key)
        return {"day": dag_run.partition_key, "rows": rows.num_rows}

    count()
