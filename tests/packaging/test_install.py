"""A wheel, installed into an empty environment, holds together. Some minutes: `make test-install`.

By pip with the pinned versions; and by uv with the newest ones that the wheel's metadata allows, into the newest Python
on this machine that the project is tested with. In both, Airflow's doctor finds nothing wrong and a DAG succeeds.
`PAIMON_TEST_PYTHON` names another interpreter for both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.reference import CACHE

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("PAIMON_TEST_PYTHON")

pytestmark = [pytest.mark.install, pytest.mark.timeout(1800)]

PROBE = """
import json
from importlib.metadata import version
import paimon_engine, airflow_provider_paimon.provider_info as provider
from paimon_engine.spark import check_spark
check_spark()
print(json.dumps([paimon_engine.__file__, provider.get_provider_info()["package-name"]]))
"""


def _run(*command: str | Path, cwd: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment | {"PIP_CACHE_DIR": str(CACHE / "pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, PROJECT, cwd=folder)
    return next(folder.glob("*.whl"))


def _by_pip(wheel: Path, folder: Path) -> Path:
    """The interpreter of an environment with the pinned versions."""
    _run(PYTHON or sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", "--no-input", "-c", PROJECT / ".constraints.txt", wheel, cwd=folder)
    return python


def _by_uv(wheel: Path, folder: Path) -> Path:
    """The interpreter of an environment with the newest versions."""
    _run(sys.executable, "-m", "venv", folder / "uv", cwd=folder)
    _run(folder / "uv" / "bin" / "python", "-m", "pip", "install", "-q", "--no-input", "uv", cwd=folder)
    uv = folder / "uv" / "bin" / "uv"
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(CACHE / "uv"), "UV_LINK_MODE": "copy"}
    _run(uv, "venv", "-q", "--seed", "--python", PYTHON or ">=3.11,<3.14", folder / "venv", cwd=folder, **settings)
    python = folder / "venv" / "bin" / "python"
    _run(uv, "pip", "install", "-q", "--python", python, wheel, cwd=folder, **settings)
    return python


@pytest.fixture(scope="module", params=[_by_pip, _by_uv], ids=["pip, pinned", "uv, newest"])
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty environment into which the wheel was put."""
    interpreter: Path = request.param(wheel, tmp_path_factory.mktemp("fresh"))
    return interpreter


def test_two_builds_have_the_same_bytes(tmp_path: Path):
    """Who builds it again from the same sources gets the same wheel and the same source archive."""
    _run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", "--no-input", "hatchling", cwd=tmp_path)
    for folder in ("one", "other"):
        _run(python, "-m", "hatchling", "build", "-d", tmp_path / folder, cwd=PROJECT)

    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert {name.rpartition(".")[2] for name in names} == {"whl", "gz"}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name


def test_the_wheel_contains_the_two_packages_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"paimon_engine", "airflow_provider_paimon"}
    assert {"paimon_engine/py.typed", "airflow_provider_paimon/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_a_fresh_installation_is_complete(python: Path, tmp_path: Path):
    _run(python, "-m", "pip", "check", cwd=tmp_path)
    output = _run(python, "-c", PROBE, cwd=tmp_path, AIRFLOW_HOME=str(tmp_path / "airflow"))
    origin, name = json.loads(output.splitlines()[-1])

    assert Path(origin).is_relative_to(python.parents[1])
    assert name == "airflow-provider-paimon"


def test_airflow_s_command_finds_nothing_wrong(python: Path, tmp_path: Path):
    home = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    airflow = python.parent / "airflow"
    _run(airflow, "db", "migrate", cwd=tmp_path, **home)
    _run(airflow, "paimon", "init", "--warehouse", tmp_path / "lake", cwd=tmp_path, **home)
    found = json.loads(_run(airflow, "paimon", "doctor", "-o", "json", cwd=tmp_path, **home).strip().splitlines()[-1])

    assert [item for item in found if not item["is_ok"]] == []


DAG_FILE = """
from pathlib import Path

from airflow.sdk import DAG
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator

HERE = Path(__file__).parent
LAKE = {"table": "db.t", "warehouse": str(HERE / "lake")}

with DAG("fresh", schedule=None):
    first = PaimonWriteOperator(
        task_id="first", source=str(HERE / "rows.csv"), format="csv", columns={"k": "BIGINT NOT NULL", "v": "STRING"},
        create={"primary_keys": ["k"], "options": {"bucket": "1"}}, **LAKE)
    again = PaimonWriteOperator(task_id="again", source=str(HERE / "rows.csv"), format="csv", **LAKE)
    compact = PaimonCompactOperator(task_id="compact", full=True, **LAKE)
    first >> again >> compact >> PaimonCreateTagOperator(task_id="tag", tag="done", **LAKE)
"""


def test_a_dag_is_run(python: Path, tmp_path: Path):
    home = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
    }
    (tmp_path / "fresh.py").write_text(DAG_FILE, encoding="utf-8")
    (tmp_path / "rows.csv").write_text("k,v\n1,a\n2,b\n", encoding="utf-8")
    airflow = python.parent / "airflow"
    _run(airflow, "db", "migrate", cwd=tmp_path, **home)

    _run(airflow, "dags", "test", "fresh", "-f", tmp_path / "fresh.py", cwd=tmp_path, **home)

    command = [
        python.parent / "paimon-engine",
        "read",
        "db.t",
        "-w",
        tmp_path / "lake",
        "--tag",
        "done",
        "--output",
        "csv",
    ]
    assert _run(*command, cwd=tmp_path).split() == ['"k","v"', '1,"a"', '2,"b"']


def test_the_command_works(python: Path, tmp_path: Path):
    assert "Usage" in _run(python.parent / "paimon-engine", "--help", cwd=tmp_path)
