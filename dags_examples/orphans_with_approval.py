"""Once a week: find files that nothing names, and delete them after a person has seen the list and has agreed.

Where nothing is found nobody is asked. Deleted files are moved to a quarantine, which is emptied a month later;
`PaimonRestoreOperator` restores them until then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, task

from airflow_provider_paimon.assets import paimon_table
from airflow_provider_paimon.operators.repair import PaimonEmptyQuarantineOperator
from dags_examples.settings import FIRST_RUN, LAKE

orders = paimon_table("shop.orders", warehouse=LAKE["warehouse"])
OLD = "3 d"

with DAG(
    "orphans_with_approval",
    schedule="@weekly",
    start_date=FIRST_RUN,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["paimon"],
):
    plan = orders.remove_orphan_files(older_than=OLD, dry_run=True, task_id="plan")

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def any_found(planned: dict[str, Any]) -> bool:
        """Whether there is something to ask about. Fails where it cannot be known what is an orphan."""
        details = planned["details"]
        if details["stopped"]:
            raise RuntimeError("; ".join(details["stopped"]))
        return bool(details["files_deleted"])

    agree = ApprovalOperator(
        task_id="agree",
        subject="Delete {{ ti.xcom_pull('plan')['details']['files_deleted'] }} files of shop.orders?",
        body="No snapshot, tag, branch or changelog names them:\n\n"
        "```json\n{{ ti.xcom_pull('plan')['details']['deleted'] | tojson(indent=2) }}\n```",
        response_timeout=timedelta(days=5),
    )
    remove = orders.remove_orphan_files(older_than=OLD, quarantine=True, task_id="remove")
    empty = PaimonEmptyQuarantineOperator(task_id="empty", table=orders, older_than="30 d", trigger_rule="none_failed")

    any_found(plan.output) >> agree >> remove >> empty
