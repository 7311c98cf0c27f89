"""Every night, on a Spark cluster: load the day, compact, tag the day. The tasks wait for their jobs in the triggerer.

The connection `cluster` is of type `spark`: a standalone master, YARN or Kubernetes. While a job works, its task takes
no worker; a lost worker, triggerer or driver costs a retry at most, and no job commits twice.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.retries import PAIMON_RETRY_POLICY
from airflow_provider_paimon.timetables import daily
from dags_examples.settings import FIRST_RUN, LAKE, STAGING

visits = paimon_table("shop.visits", warehouse=LAKE["warehouse"], spark_conn_id="cluster")
DEFERRED = {
    "deferrable": True,
    # As much as the machines of the cluster have for one task.
    "spark_conf": {"spark.executor.memory": "1g"},
}

with DAG(
    "on_a_cluster",
    schedule=daily("02:00", "UTC"),
    start_date=FIRST_RUN,
    catchup=False,
    default_args={
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_policy": PAIMON_RETRY_POLICY,
        "idempotency_key": "{{ partition_key }}",
    },
    doc_md=__doc__,
    tags=["paimon"],
):
    write = visits.write(
        f"{STAGING}/visits/{{{{ partition_key }}}}/*.parquet",
        create={"primary_keys": ["id"], "options": {"bucket": 4}},
        **DEFERRED,
    )
    write >> visits.compact(full=True, **DEFERRED) >> visits.tag_day()
