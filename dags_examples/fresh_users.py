"""Every hour: wait until a table is fresh again, and tell people if that takes longer than half an hour.

The sensor waits in the triggerer and costs no worker. The deadline belongs to the run: if the table is fresh in time,
the run has ended and nobody hears of it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.sensors.snapshot import PaimonFreshnessSensor
from dags_examples.alerts import tell_late
from dags_examples.settings import FIRST_RUN, LAKE

users = paimon_table("shop.users", warehouse=LAKE["warehouse"])
LATE = DeadlineAlert(
    reference=DeadlineReference.DAGRUN_QUEUED_AT,
    interval=timedelta(minutes=30),
    callback=AsyncCallback(tell_late, kwargs={"what": "shop.users"}),
)

with DAG(
    "fresh_users",
    schedule="@hourly",
    start_date=FIRST_RUN,
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    deadline=LATE,
    doc_md=__doc__,
    tags=["paimon"],
):
    PaimonFreshnessSensor(
        task_id="fresh",
        table=users,
        max_age="1 h",
        # Compactions keep no table fresh.
        kinds=["APPEND", "OVERWRITE"],
        deferrable=True,
        poke_interval=30,
        timeout=timedelta(hours=6).total_seconds(),
    )
