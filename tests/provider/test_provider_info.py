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


def _schema() -> Any:
    """Airflow's schema of what it reads; the fields of connections are described in that of the file it is made of."""
    schema, of_file = (
        json.loads(files("airflow").joinpath(name).read_text())
        for name in ("provider_info.schema.json", "provider.yaml.schema.json")
    )
    schema["properties"]["connection-types"] = of_file["properties"]["connection-types"]
    return schema


def _closed(schema: Any) -> Any:
    """The schema, with no key allowed that it does not describe: Airflow's own ignores those that are misspelt."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def test_fits_airflows_schema():
    jsonschema.validate(get_provider_info(), _schema())
    jsonschema.validate(get_provider_info(), _closed(_schema()))

    misspelt = {**get_provider_info(), "extra-link": []}
    jsonschema.validate(misspelt, _schema())
    with pytest.raises(jsonschema.ValidationError, match="extra-link"):
        jsonschema.validate(misspelt, _closed(_schema()))


def test_parts_belong_to_an_integration_that_is_described():
    info = get_provider_info()
    described = {item["integration-name"] for item in info["integrations"]}

    for kind in ("operators", "sensors", "hooks", "triggers"):
        assert {group["integration-name"] for group in info[kind]} == described
    for transfer in info["transfers"]:
        assert described & {transfer["source-integration-name"], transfer["target-integration-name"]}


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
    arguments |= {"target": "/x", "to": "y", "branch": "x", "consumer": "x", "changes": []}
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
