"""What the log of a task says of its job: progress with its round, and one line at the end."""

from __future__ import annotations

import logging
import re
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG, task

from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.summary import log_line
from paimon_engine import Catalog
from tests.provider.conftest import TABLE, rows


def logged_by(operator: Any, context: dict, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.set_level(logging.INFO)
    caplog.clear()
    operator.execute(context)
    return [record.getMessage() for record in caplog.records]


def test_a_compaction_says_what_changed_and_where_the_time_went(
    catalog: Catalog, warehouse: str, context: dict, caplog: pytest.LogCaptureFixture
):
    logged = logged_by(PaimonCompactOperator(task_id="t", table=TABLE, warehouse=warehouse, full=True), context, caplog)

    assert re.fullmatch(
        r"compact air\.flights: committed, snapshot 4; files 3 → 1, bytes \d\.\d KiB → \d\.\d KiB, buckets 1, rounds 1; "
        r"rows 3 as before; levels L0×3 → L5×1; \d+\.\d s: plan \d+\.\d s, merge \d+\.\d s, commit \d+\.\d s",
        logged[-1],
    )
    assert "compact, round 1: 1 of 1" in logged
    assert [line for line in logged if line.startswith("compact ")] == logged[-1:]


def test_progress_names_its_round(catalog: Catalog, warehouse: str, context: dict, caplog: pytest.LogCaptureFixture):
    wide = catalog.create_table(
        "air.wide", schema={"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": 3, "write-only": True}
    )
    for _ in range(2):
        wide.write(pa.table({"id": list(range(100))}))
    operator = PaimonCompactOperator(task_id="t", table="air.wide", warehouse=warehouse, full=True, round_bytes=1)

    logged = logged_by(operator, context, caplog)

    assert [line for line in logged if line.endswith(": 1 of 1")] == [f"compact, round {n}: 1 of 1" for n in (1, 2, 3)]
    assert "rounds 3" in logged[-1]


def test_other_jobs_have_such_a_line(
    catalog: Catalog, warehouse: str, source: str, context: dict, caplog: pytest.LogCaptureFixture
):
    here = {"task_id": "t", "table": TABLE, "warehouse": warehouse}

    written = logged_by(PaimonWriteOperator(source=source, **here), context, caplog)[-1]
    tagged = logged_by(PaimonCreateTagOperator(tag="x", **here), context, caplog)[-1]

    times = r"\d+\.\d s: plan \d+\.\d s, write \d+\.\d s, commit \d+\.\d s"
    assert re.fullmatch(rf"write air\.flights: committed, snapshot 4; rows 2, .*; {times}", written)
    assert re.fullmatch(r"create_tag air\.flights: created, snapshot 4, tag x; \d+\.\d s", tagged)


def test_what_keeps_snapshots_is_said_in_words(
    catalog: Catalog, warehouse: str, context: dict, caplog: pytest.LogCaptureFixture
):
    catalog.table(TABLE).reset_consumer("billing", next_snapshot=1)
    expiry = PaimonExpireSnapshotsOperator(task_id="t", table=TABLE, warehouse=warehouse, retain_max=1, retain_min=1)

    line = logged_by(expiry, context, caplog)[-1]

    says = r"remaining 2; consumer 'billing' will read snapshot 1 next"
    assert re.fullmatch(rf"expire_snapshots air\.flights: noop; {says}; \d+\.\d s", line)


def test_many_reasons_are_counted():
    details = {"stopped": ["one", "two", "three"], "remaining_because": ["one"], "notes": [{"path": "p"}]}
    result = {"action": "verify", "table": "t", "status": "stopped", "details": {**details, "omitted": {"stopped": 4}}}

    assert log_line(result) == "verify t: stopped; notes 1; one; two; 5 more reasons; 0.0 s"


def test_a_transfer_has_such_a_line(catalog: Catalog, warehouse: str, context: dict, caplog: pytest.LogCaptureFixture):
    with DAG("writes", schedule=None):

        @task.paimon_write(table=TABLE, warehouse=warehouse)  # type: ignore[untyped-decorator]
        def make() -> Any:
            return rows(7)

        operator = make().operator

    line = logged_by(operator, context, caplog)[-1]

    assert re.fullmatch(
        r"write air\.flights: committed, snapshot 4; rows 1, files 1, bytes \S+( KiB)?, buckets 1; \d+\.\d s", line
    )


def test_the_start_of_spark_is_told_apart():
    result = {
        "action": "compact",
        "table": "t",
        "status": "noop",
        "details": {},
        "seconds": 2.0,
        "startup_seconds": 7.5,
    }

    assert log_line(result) == "compact t: noop; 2.0 s, after 7.5 s for the start of Spark"
