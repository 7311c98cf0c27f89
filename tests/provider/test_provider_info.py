from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_paimon import __version__
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.provider_info import get_provider_info
from paimon_engine.jobs import ACTIONS

PROVIDER = Path(__file__).resolve().parents[2] / "airflow_provider_paimon"


def _modules() -> list[str]:
    info = get_provider_info()
    kinds = ("operators", "sensors", "hooks", "triggers")
    modules = [module for kind in kinds for group in info[kind] for module in group["python-modules"]]
    return [*modules, *(transfer["python-module"] for transfer in info["transfers"])]


def test_fits_airflows_schema():
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


def _paths(value: Any) -> list[str]:
    """All dotted paths into our package."""
    if isinstance(value, str):
        return [value] if value.startswith("airflow_provider_paimon.") else []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [path for item in items for path in _paths(item)]


def test_what_is_named_is_there():
    for path in _paths(get_provider_info()):
        if path not in _modules():
            module, _, name = path.rpartition(".")
            assert callable(getattr(importlib.import_module(module), name)), path


@pytest.mark.parametrize("module", _modules())
def test_each_named_module_can_be_imported(module: str):
    importlib.import_module(module)


def test_no_module_is_forgotten():
    packages = ("operators", "sensors", "hooks", "triggers", "transfers")
    shared = {"airflow_provider_paimon.transfers.table_transfer"}
    present = {
        f"airflow_provider_paimon.{package}.{path.stem}"
        for package in packages
        for path in (PROVIDER / package).glob("[!_]*.py")
    }

    assert set(_modules()) | shared == present


def test_the_connection_type_leads_to_the_hook():
    (connection,) = get_provider_info()["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")

    assert getattr(importlib.import_module(module), name) is PaimonHook
    assert connection["connection-type"] == PaimonHook.conn_type


def _actions_of(operator: type) -> list[type]:
    """The operators of one action each."""
    found = [kind for child in operator.__subclasses__() for kind in (child, *_actions_of(child))]
    return [kind for kind in found if not kind.__subclasses__()]


def test_each_action_has_an_operator():
    from airflow_provider_paimon.operators.job import PaimonJobOperator

    for module in _modules():
        importlib.import_module(module)
    arguments = {"source": "x", "tag": "x", "quarantine": "x", "partitions": [], "where": "true"}
    arguments |= {"to": "y", "branch": "x", "consumer": "x", "changes": []}
    made = set()
    operator: Any
    for operator in _actions_of(PaimonJobOperator):
        wanted = operator.__init__.__kwdefaults__ or {}
        needed = {name: value for name, value in arguments.items() if name in operator.template_fields}
        made.add(operator(task_id="t", table="db.t", **{k: v for k, v in needed.items() if k not in wanted}).action)

    assert made == set(ACTIONS)


def test_parsing_a_dag_imports_no_spark():
    code = f"import sys, importlib; [importlib.import_module(m) for m in {_modules()}]; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.airflow
def test_airflow_lists_the_provider():
    command = [sys.executable, "-m", "airflow", "providers", "list", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ, timeout=120)
    found = json.loads(done.stdout[done.stdout.index("[") :])

    assert {item["package_name"]: item["version"] for item in found}["airflow-provider-paimon"] == __version__
