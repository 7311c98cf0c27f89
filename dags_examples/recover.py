"""Somebody loaded wrong rows: go back to a tag, after a person has seen what would go and has agreed.

Start it with the table and the tag. Deleted files are moved to a quarantine; `PaimonRestoreOperator` restores them.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param

from airflow_provider_paimon.operators.clean_up import PaimonVerifyOperator
from airflow_provider_paimon.operators.rollback import PaimonRollbackOperator
from dags_examples.settings import LAKE

TABLE = {"table": "{{ params.table }}", "warehouse": LAKE["warehouse"]}

with DAG(
    "recover",
    schedule=None,
    params={"table": Param("shop.orders", type="string"), "tag": Param("", type="string", minLength=1)},
    render_template_as_native_obj=False,
    doc_md=__doc__,
    tags=["paimon"],
):
    plan = PaimonRollbackOperator(task_id="plan", tag="{{ params.tag }}", dry_run=True, **TABLE)
    agree = ApprovalOperator(
        task_id="agree",
        subject="Roll {{ params.table }} back to {{ params.tag }}?",
        body="Newer snapshots and tags go to a quarantine:\n\n"
        "```json\n{{ ti.xcom_pull('plan')['details'] | tojson(indent=2) }}\n```",
        response_timeout=timedelta(days=1),
    )
    rollback = PaimonRollbackOperator(task_id="rollback", tag="{{ params.tag }}", quarantine=True, **TABLE)
    verify = PaimonVerifyOperator(task_id="verify", **TABLE)

    plan >> agree >> rollback >> verify
