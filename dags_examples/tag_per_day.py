"""Every night: load the day, compact, tag the day, expire what no tag needs.

Each run belongs to the day that has ended, which is its partition key. Days may be repeated, cleared or made up for in
any order and end in the same table: every task commits once for its day, `sequence.field` keeps newer knowledge on top,
and the tag is put on the snapshot that the day made. To load corrected files of a day, clear it with `on_clear="rerun"`
among the defaults, and let the tag move by `if_exists="replace"`.

Writes and compactions run inside Spark tasks, which is what this project is for: `launcher="subprocess"` says so. By
itself a job on as few bytes as those of a day would stay in the process of its Airflow task.
"""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.tag_schedule import tag_of
from airflow_provider_paimon.timetables import daily
from dags_examples.flights import KEY, stage_day
from dags_examples.settings import FIRST_RUN, LAKE, LAST_RUN, STAGING

ON_SPARK = {"launcher": "subprocess"}

with DAG(
    "tag_per_day",
    schedule=daily("00:00", "UTC"),
    start_date=FIRST_RUN,
    end_date=LAST_RUN,
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 1, "idempotency_key": "{{ partition_key }}"},
    doc_md=__doc__,
    tags=["paimon"],
):

    @task
    def stage(**context: object) -> list[str]:
        """Puts the day's files into the staging folder."""
        from datetime import date

        return stage_day(date.fromisoformat(tag_of(context)), STAGING)

    write = PaimonWriteOperator(
        task_id="write",
        source=stage(),
        create={"primary_keys": KEY, "options": {"bucket": "2", "sequence.field": "known_on"}},
        **ON_SPARK,
        **LAKE,
    )
    compact = PaimonCompactOperator(task_id="compact", full=True, **ON_SPARK, **LAKE)
    tag = PaimonCreateTagOperator(task_id="tag", **LAKE)
    expire = PaimonExpireSnapshotsOperator(task_id="expire", retain_max=1, **LAKE)

    write >> compact >> tag >> expire
