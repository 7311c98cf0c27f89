"""Every morning: wait for the day's tag and report on the table as it was then.

Reading at a tag gives the same answer today and in a year, no matter what has been loaded since.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.timetables import daily
from dags_examples.settings import FIRST_RUN, LAKE, LAST_RUN

with DAG(
    "daily_report",
    schedule=daily("00:00", "UTC"),
    start_date=FIRST_RUN,
    end_date=LAST_RUN,
    catchup=True,
    max_active_runs=2,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
    tags=["paimon"],
):
    wait = PaimonTagSensor(task_id="wait_for_tag", deferrable=True, poke_interval=2, timeout=3600, **LAKE)

    @task
    def report(found: dict[str, Any]) -> dict[str, Any]:
        """Flights in the table at the day's tag, and how late those were that had landed by then."""
        table = PaimonHook(warehouse=LAKE["warehouse"]).table(LAKE["table"])
        rows = table.to_arrow(columns=["arr_delay"], tag=found["tag"])
        landed = rows["arr_delay"].drop_null()
        late = sum(delay > 15 for delay in landed.to_pylist())
        return {"tag": found["tag"], "flights": rows.num_rows, "landed": len(landed), "over_15_minutes_late": late}

    report(wait.output)
