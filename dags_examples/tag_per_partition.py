"""Every night: load the day's partition, compact it, mark it as complete, tag the day. A second DAG reads that day.

Both are scheduled by Airflow's own partitions: the run's key is the day that has ended, and so are the table's
partition and the tag. Overwriting the partition makes a day that is loaded again right, in a clear as in a backfill;
`if_exists="replace"` then moves its tag.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, PartitionedAssetTimetable, task

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.partitions import PaimonMarkPartitionDoneOperator
from dags_examples.settings import FIRST_RUN, LAKE, LAST_RUN, STAGING

sales = paimon_table("shop.sales", warehouse=LAKE["warehouse"])
DAY = {"day": "{{ partition_key }}"}

with DAG(
    "tag_per_partition",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
    start_date=FIRST_RUN,
    end_date=LAST_RUN,
    catchup=True,
    default_args={"retries": 2},
    doc_md=__doc__,
    tags=["paimon"],
):
    write = sales.write(
        f"{STAGING}/sales/{{{{ partition_key }}}}/*.parquet",
        overwrite=DAY,
        create={"primary_keys": ["day", "id"], "partition_keys": ["day"], "options": {"bucket": 1}},
    )
    compact = sales.compact(full=True, where="day = '{{ partition_key }}'")
    done = PaimonMarkPartitionDoneOperator(task_id="mark_done", table=sales, partitions=[DAY])
    write >> compact >> done >> sales.tag_day(if_exists="replace")

with DAG("read_partitions", schedule=PartitionedAssetTimetable(assets=sales.tags), doc_md=__doc__, tags=["paimon"]):

    @task(inlets=[sales.tags])
    def report(dag_run: Any = None) -> dict[str, Any]:
        """Rows of that day, and of the table as it was when the day had been loaded."""
        day = dag_run.partition_key
        rows = PaimonHook(warehouse=LAKE["warehouse"]).read(sales.table, tag=day)
        return {"day": day, "rows": rows["day"].to_pylist().count(day), "rows_in_table": rows.num_rows}

    report()
