"""Once all days of a month are tagged: close the month on the tag of its last day. A missing day holds it up."""

from __future__ import annotations

import calendar
from typing import Any

from airflow.sdk import DAG, MonthWindow, PartitionedAssetTimetable, RollupMapper, StartOfMonthMapper, task

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from dags_examples.settings import LAKE

orders = paimon_table("shop.orders", warehouse=LAKE["warehouse"])
MONTHS = RollupMapper(upstream_mapper=StartOfMonthMapper(input_format="%Y-%m-%d"), window=MonthWindow())

with DAG(
    "month_close",
    schedule=PartitionedAssetTimetable(assets=orders.tags, default_partition_mapper=MONTHS),
    doc_md=__doc__,
    tags=["paimon"],
):

    @task
    def close(dag_run: Any = None) -> dict[str, Any]:
        """Rows of the table when the month had ended; the partition key is the month, such as 2013-02."""
        year, month = (int(part) for part in dag_run.partition_key.split("-")[:2])
        last = f"{year}-{month:02}-{calendar.monthrange(year, month)[1]:02}"
        rows = PaimonHook(warehouse=LAKE["warehouse"]).read(orders.table, tag=last)
        return {"month": dag_run.partition_key, "tag": last, "rows": rows.num_rows}

    close()
