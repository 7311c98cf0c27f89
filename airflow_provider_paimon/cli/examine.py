"""What `airflow paimon doctor` looks at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from typing import Final

from airflow.configuration import conf
from airflow.exceptions import AirflowNotFoundException

from airflow_provider_paimon import engine
from airflow_provider_paimon.cli.warehouse import hook_of
from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine.errors import PaimonError, masked

_NAME: Final = "airflow-provider-paimon"
_WORKER_TIMEOUT_S: Final = 60
_WORKER_PROBE: Final = """
import json, sys
found = {"python": "%d.%d" % sys.version_info[:2]}
for name in ("pyarrow", "numpy", "fastavro", "paimon_engine"):
    try:
        found[name] = getattr(__import__(name), "__version__", "installed")
    except ImportError:
        found[name] = None
print(json.dumps(found))
"""


def examine(conn_id: str | None, warehouse: str | None) -> list[engine.Finding]:
    """All findings, in the order in which to correct what is wrong."""
    return [
        *engine.examine_programs(),
        *_packages(),
        _workers_python(),
        *_registration(),
        *_settings(),
        *_connection(conn_id, warehouse),
    ]


def _packages() -> Iterator[engine.Finding]:
    """Whether all that this provider needs is installed, in versions that fit."""
    from packaging.requirements import Requirement

    wrong, commands = [], []
    for text in requires(_NAME) or ():
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            found = None
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            wrong.append(f"{wanted.name} {found or 'missing'}")
            commands.append(f"'{wanted.name}{wanted.specifier}'")
    remedy = f"pip install {' '.join(commands)}" if wrong else None
    found = ", ".join(wrong) or f"all that {_NAME} {version(_NAME)} needs"
    yield engine.Finding("packages", is_ok=not wrong, found=found, remedy=remedy)


def _workers_python() -> engine.Finding:
    """The Python of Spark's workers on this machine: the task's own, unless the environment says otherwise."""
    what, python = "workers' Python", os.environ.get("PYSPARK_PYTHON") or sys.executable
    command = [python, "-c", _WORKER_PROBE]
    own = "unset PYSPARK_PYTHON: then workers use the Python of the task"
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that Spark would start
            command, capture_output=True, text=True, timeout=_WORKER_TIMEOUT_S, check=False
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return engine.Finding(what, is_ok=False, found=f"{python}: {error}", remedy=own)
    missing = [name for name, number in found.items() if number is None]
    mine = "{}.{}".format(*sys.version_info[:2])
    if missing or found["python"] != mine:
        description = f"{python}: Python {found['python']}, tasks have {mine}" if found["python"] != mine else python
        lacks = f"; lacks {', '.join(missing)}" if missing else ""
        return engine.Finding(
            what, is_ok=False, found=f"{description}{lacks}", remedy=f"{own}, or install what it lacks"
        )
    return engine.Finding(what, is_ok=True, found=f"{python}, {found['python']}")


def _registration() -> Iterator[engine.Finding]:
    """Whether Airflow knows this provider, and will know the timetable in stored DAGs."""
    from airflow.providers_manager import ProvidersManager

    is_known = _NAME in ProvidersManager().providers
    yield engine.Finding(
        "provider",
        is_ok=is_known,
        found="Airflow knows it" if is_known else "Airflow does not know it",
        remedy=None if is_known else f"pip install --force-reinstall --no-deps {_NAME}, in Airflow's own environment",
    )
    has_plugin = any(point.dist and point.dist.name == _NAME for point in entry_points(group="airflow.plugins"))
    yield engine.Finding(
        "timetable",
        is_ok=has_plugin,
        found="registered" if has_plugin else "not registered: DAGs with daily(…) cannot be scheduled",
        remedy=None if has_plugin else f"pip install --force-reinstall --no-deps {_NAME}",
    )


def _settings() -> Iterator[engine.Finding]:
    """Airflow's settings that change what operators do."""
    tests = conf.get("core", "test_connection", fallback="Disabled")
    is_on = tests.lower() == "enabled"
    yield engine.Finding(
        "core.test_connection",
        is_ok=True,
        found=tests if is_on else f"{tests}: the form of connections cannot test them",
        remedy=None if is_on else "AIRFLOW__CORE__TEST_CONNECTION=Enabled, or use this command",
    )
    forgets = conf.getboolean("state_store", "clear_on_success", fallback=False)
    yield engine.Finding(
        "state_store.clear_on_success",
        is_ok=True,
        found="True: a later try without a note counts as a clear" if forgets else "False",
        remedy="set it to False, so that retries are distinguished from clears by their notes" if forgets else None,
    )
    yield _state_store()


def _state_store() -> engine.Finding:
    """Whether the store can be loaded in which tasks note under which name they commit."""
    from airflow.sdk.module_loading import import_string

    path = conf.get("state_store", "backend", fallback="")
    remedy = "set [state_store] backend to a class that can be imported, such as Airflow's own default"
    try:
        import_string(path)
    except (ImportError, ValueError) as error:
        return engine.Finding("state store", is_ok=False, found=f"{path}: {error}", remedy=remedy)
    return engine.Finding("state store", is_ok=True, found=path)


def _connection(conn_id: str | None, warehouse: str | None) -> Iterator[engine.Finding]:
    """The connection, what it leads to, and whether the store there decides commits."""
    name = conn_id or PaimonHook.default_conn_name
    named = f"connection {name}" if warehouse is None or conn_id else "warehouse"
    try:
        hook = hook_of(conn_id, warehouse)
        address = hook.warehouse
        yield engine.Finding(named, is_ok=True, found=address)
        yield from hook.catalog().examine()
    except AirflowNotFoundException:
        remedy = f"airflow paimon init --conn-id {name} --warehouse ADDRESS"
        yield engine.Finding(named, is_ok=False, found="not defined", remedy=remedy)
    except (PaimonError, OSError, ValueError) as error:
        yield engine.Finding(named, is_ok=False, found=masked(str(error)), remedy="see what the message says")
