"""What a DAG file loads: Airflow reads it every half minute, and again in each task, poke and triggerer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.airflow

HEAVY = (
    "pyarrow",
    "pandas",
    "numpy",
    "sqlglot",
    "fastavro",
    "pyroaring",
    "fsspec",
    "pyspark",
    "httpx",
    "sqlalchemy",
    "openlineage",
)
EVERYTHING = """
import importlib, json, sys
from airflow.sdk import DAG
before = set(sys.modules)
from airflow_provider_paimon.provider_info import get_provider_info
info = get_provider_info()
for kind in ("operators", "sensors", "hooks", "triggers"):
    for entry in info[kind]:
        for module in entry["python-modules"]:
            importlib.import_module(module)
for entry in info["transfers"]:
    importlib.import_module(entry["python-module"])
"""
WITH_A_DAG = (
    EVERYTHING
    + """
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from airflow_provider_paimon.sensors.tag import PaimonTagSensor
from airflow_provider_paimon.timetables import daily
with DAG("nightly", schedule=daily("02:00", "Europe/Berlin")):
    here = {"table": "db.t", "warehouse": "/tmp/lake"}
    wait = PaimonTagSensor(task_id="wait", deferrable=True, **here)
    write = PaimonWriteOperator(task_id="write", source="x", create={"primary_keys": ["id"]}, **here)
    compact = PaimonCompactOperator.partial(task_id="compact", warehouse="/tmp/lake").expand(table=["db.t", "db.u"])
    wait >> write >> compact >> PaimonCreateTagOperator(task_id="tag", **here)
"""
)
TOLD = "print(json.dumps(sorted(set(sys.modules) - before)))"


def loaded(program: str) -> list[str]:
    """Modules that a program in a fresh interpreter loads in addition to those of Airflow's SDK."""
    done = subprocess.run([sys.executable, "-c", program + TOLD], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("program", [EVERYTHING, WITH_A_DAG], ids=["modules", "a DAG"])
def test_a_dag_file_loads_no_engine(program: str):
    found = loaded(program)

    assert "airflow_provider_paimon.operators.write" in found
    # What Airflow itself has loaded by then does not count.
    assert [name for name in found if name.partition(".")[0] in HEAVY] == []
    # The errors, which name what a task does about each, and nothing that works on tables.
    assert {name for name in found if name.startswith("paimon_engine")} <= {
        "paimon_engine",
        "paimon_engine.errors",
    }
