"""Every night: keep all tables in shape, one mapped task per table, and tell what was done.

A table that cannot be compacted or expired fails its own mapped task and holds up no other. Errors are tried again
where that helps. The deadline tells if a night takes longer than two hours.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.notifications.maintenance import PaimonMaintenanceNotifier
from airflow_provider_paimon.operators.clean_up import PaimonRemoveOrphanFilesOperator
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.retries import PAIMON_RETRY_POLICY
from airflow_provider_paimon.table_tasks import for_tables
from dags_examples.alerts import tell_late
from dags_examples.settings import FIRST_RUN, LAKE

TABLES = [paimon_table(name, warehouse=LAKE["warehouse"]) for name in ("shop.orders", "shop.users")]

with DAG(
    "nightly_maintenance",
    schedule="0 3 * * *",
    start_date=FIRST_RUN,
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1), "retry_policy": PAIMON_RETRY_POLICY},
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=2),
        callback=AsyncCallback(tell_late, kwargs={"what": "the nightly maintenance"}),
    ),
    on_success_callback=PaimonMaintenanceNotifier(only_changes=True),
    doc_md=__doc__,
    tags=["paimon"],
):
    compact = for_tables(TABLES, PaimonCompactOperator, task_id="compact", max_bytes="50 gb")
    expire = for_tables(TABLES, PaimonExpireSnapshotsOperator, task_id="expire", retain_max=10)
    orphans = for_tables(TABLES, PaimonRemoveOrphanFilesOperator, task_id="orphans", older_than="3 d", dry_run=True)

    compact >> expire >> orphans
