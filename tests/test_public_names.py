"""The public names: what is listed exists, what people type works, and looking costs no Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest

import paimon_engine


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that a fresh Python has after a statement."""
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", paimon_engine.__all__)
def test_every_listed_name_exists(name: str):
    assert getattr(paimon_engine, name).__name__ == name


def test_the_list_is_sorted_and_complete():
    assert paimon_engine.__all__ == sorted(paimon_engine.__all__)
    assert set(paimon_engine.__all__) <= set(dir(paimon_engine))
    assert set(paimon_engine._HOMES) <= set(paimon_engine.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Lake'"):
        _ = paimon_engine.Lake


def test_importing_the_package_does_not_import_arrow():
    loaded = loaded_by("import paimon_engine")

    assert not loaded & {"pyarrow", "numpy", "sqlglot", "fsspec", "pyspark"}


def test_the_command_line_starts_without_arrow():
    assert not loaded_by("import paimon_engine.cli") & {"pyarrow", "numpy", "sqlglot", "fsspec", "pyspark"}


def test_the_list_of_commands_comes_without_arrow():
    show = "import sys; sys.argv = ['paimon-engine', '--help']\ntry: main()\nexcept SystemExit: pass"
    loaded = loaded_by(f"from paimon_engine.cli import main\n{show}")

    assert not loaded & {"pyarrow", "numpy", "sqlglot", "fsspec", "pyspark"}


def test_local_tables_need_neither_spark_nor_fsspec():
    loaded = loaded_by("from paimon_engine import Catalog; Catalog('/nowhere').list_databases()")

    assert not loaded & {"fsspec", "s3fs", "pyspark", "airflow"}
