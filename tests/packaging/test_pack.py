"""What `paimon-engine pack` makes for workers: the engine without Airflow."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from paimon_engine.packing import engine_archive, engine_digest, engine_requirements, engine_wheel, write_archive

NO_AIRFLOW = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("airflow", "airflow_provider_paimon"):
            raise ModuleNotFoundError(f"{name} is not for workers")

sys.meta_path.insert(0, Refuse())
sys.path[:] = [path for path in sys.path if path not in ("", PROJECT)]
sys.path.insert(0, ARCHIVE)
"""
EVERYTHING = """
import pkgutil, importlib, paimon_engine
assert paimon_engine.__file__.startswith(ARCHIVE), paimon_engine.__file__
names = [module.name for module in pkgutil.walk_packages(paimon_engine.__path__, "paimon_engine.")]
assert len(names) > 200
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
from paimon_engine.packing import engine_digest
print(engine_digest())
"""


def test_the_archive_is_the_whole_engine_and_needs_no_airflow(tmp_path: Path):
    archive = engine_archive(tmp_path)
    project = str(Path(__file__).resolve().parents[2])
    code = f"ARCHIVE, PROJECT = {str(archive)!r}, {project!r}\n{NO_AIRFLOW}{EVERYTHING}"

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert done.stderr == ""
    assert done.stdout.strip() == engine_digest()


def test_the_same_code_gives_the_same_archive(tmp_path: Path):
    for name in ("a.zip", "b.zip"):
        write_archive(tmp_path / name)

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_wheel_can_be_installed_alone(tmp_path: Path):
    wheel = engine_wheel(tmp_path)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(target)]

    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)

    assert (target / "paimon_engine" / "py.typed").exists()
    with zipfile.ZipFile(wheel) as file:
        (metadata,) = [file.read(name).decode() for name in file.namelist() if name.endswith("/METADATA")]
    needed = [line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if line.startswith("Requires-D")]
    assert needed == engine_requirements()
    assert any(name.startswith("pyarrow") for name in needed)
    assert not any(name.startswith(("apache-airflow", "pyspark")) for name in needed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_packed_environment_runs_the_engine(tmp_path: Path):
    program = Path(sys.executable).with_name("paimon-engine")
    packed = tmp_path / "environment.tar.gz"

    subprocess.run([str(program), "pack", str(packed)], check=True)

    with tarfile.open(packed) as file:
        file.extractall(tmp_path / "environment", filter="fully_trusted")
    python = tmp_path / "environment" / "bin" / "python"
    listed = subprocess.run(
        [str(python), "-m", "paimon_engine", "tables", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert listed.stderr.strip() == "" or "no table" in listed.stderr
    installed = subprocess.run([str(python), "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "pyarrow" in installed
    assert "airflow" not in installed
