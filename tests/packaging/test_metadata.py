"""What pip, Airflow and a shell will find once the package is installed."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from importlib.metadata import Distribution, distribution, distributions, entry_points, version
from pathlib import Path

import pyspark
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from airflow_provider_paimon.provider_info import get_provider_info

PROJECT = Path(__file__).resolve().parents[2]
NAME = "airflow-provider-paimon"
ONLY_TO_DERIVE = ("PaimonActionOperator", "PaimonDeletingOperator")


@pytest.fixture(scope="module")
def installed() -> Distribution:
    return distribution(NAME)


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def pins() -> dict[str, Version]:
    lines = (PROJECT / ".constraints.txt").read_text(encoding="utf-8").split()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(name): Version(text) for name, text in pairs}


def test_the_entry_points_can_be_loaded(installed: Distribution):
    points = {f"{point.group}:{point.name}": point for point in installed.entry_points}

    assert {"apache_airflow_provider:provider_info", "console_scripts:paimon-engine"} <= set(points)
    for point in points.values():
        assert callable(point.load()), point


def test_airflow_finds_the_provider_under_its_name(installed: Distribution):
    found = [point for point in entry_points(group="apache_airflow_provider") if point.dist.name == installed.name]

    assert [point.load()()["package-name"] for point in found] == [NAME]


def test_the_pins_are_in_the_declared_ranges(project: dict, pins: dict[str, Version]):
    extras = [text for extra in project["optional-dependencies"].values() for text in extra]

    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        pin = pins.get(canonicalize_name(requirement.name))

        assert pin is not None, f"{requirement.name} is not pinned in .constraints.txt"
        assert pin in requirement.specifier


def test_the_pins_run_on_the_oldest_python_that_is_declared(project: dict, pins: dict[str, Version]):
    """Debian 12 has Python 3.11.2, and a pin that wants 3.11.5 would end the set-up there; newer Pythons hide it."""
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    found = {canonicalize_name(one.name): one.metadata for one in distributions() if "Requires-Python" in one.metadata}
    pinned = {name: metadata["Requires-Python"] for name, metadata in found.items() if name in pins}
    refused = {name: text for name, text in pinned.items() if oldest not in SpecifierSet(text)}

    assert len(pinned) > len(pins) // 2
    assert not refused


def test_the_parts_of_spark_are_one_minor_version(pins: dict[str, Version]):
    """Both distributions own the folder `pyspark`: files of one over jars of another start, and fail at the first task."""
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar"))
    versions = [version("pyspark"), version("pyspark-client"), pyspark.__version__, jar.stem.rsplit("-", 1)[1]]

    assert len({Version(text).release[:2] for text in versions}) == 1, versions
    assert pins["pyspark"] == pins["pyspark-client"]


def test_the_changelog_names_this_version(project: dict):
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert re.search(rf"^## {re.escape(project['version'])}\b", changelog, re.MULTILINE)


def test_importing_the_engine_starts_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, paimon_engine; print(sorted({'pyspark', 'airflow', 'pandas', 'fsspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)

    assert done.stdout.strip() == "[]"


def test_the_registry_names_what_there_is():
    registry = yaml.safe_load((PROJECT / ".airflow-registry.yaml").read_text(encoding="utf-8"))
    info = get_provider_info()

    assert registry["package-name"] == NAME
    assert (PROJECT / registry["logo"]).is_file() and (PROJECT / registry["docs"]).is_file()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        modules = [module for group in info[kind] for module in group["python-modules"]]
        there = {
            f"{module}.{name}"
            for module in modules
            for name, member in vars(import_module(module)).items()
            if name.startswith("Paimon") and member.__module__ == module and name not in ONLY_TO_DERIVE
        }
        assert {entry["module"] for entry in registry[kind]} == there
