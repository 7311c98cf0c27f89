"""A small warehouse and what Airflow hands to an operator; the test run's own conftest gives Airflow its home."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # imported when it is first used

from paimon_engine import Catalog, Table

TABLE = "air.flights"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("carrier", pa.string())])


def rows(*ids: int, carrier: str = "AA") -> pa.Table:
    return pa.table({"id": list(ids), "carrier": [carrier] * len(ids)}, SCHEMA)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def catalog(warehouse: str) -> Catalog:
    """A warehouse with one table of three snapshots, `{1: 1}` to `{1: 1, 2: 2, 3: 3}`."""
    catalog = Catalog(warehouse)
    table = catalog.create_table(TABLE, schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for number in (1, 2, 3):
        table.write(rows(number))
    return catalog


def set_time(table: Table, snapshot: int, moment: datetime) -> None:
    """Lets a snapshot have been committed at that time."""
    path = Path(table.path, "snapshot", f"snapshot-{snapshot}")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "timeMillis": int(moment.timestamp() * 1000)}))


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A Parquet file with two new rows."""
    path = tmp_path / "new.parquet"
    pq.write_table(rows(10, 11), path)
    return str(path)


@pytest.fixture
def context() -> dict[str, Any]:
    return make_context()


def make_context(run_id: str = "scheduled__2013-01-05", partition_key: str | None = "2013-01-05", **more: Any) -> dict:
    """What operators read of Airflow's task context."""
    instance = SimpleNamespace(dag_id="dag", task_id="task", run_id=run_id, map_index=-1, try_number=1)
    run = SimpleNamespace(partition_key=partition_key, logical_date=None, data_interval_start=None, run_id=run_id)
    return {"ti": instance, "dag_run": run, **more}


class StateStore:
    """A task's state store as Airflow keeps it: JSON by key, which survives retries and clears."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        assert retention is NEVER_EXPIRE
        self.values[key] = json.dumps(value)
