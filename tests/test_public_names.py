"""The public names: what is listed exists, what people type works, and looking costs no Arrow."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_engine
from paimon_engine import Catalog, Table, open_table
from paimon_engine.action_table import ACTIONS
from paimon_engine.meta.schema_change import SchemaChange
from tests.support.public_hints import hints_of


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


def _own_classes(hint: Any) -> Iterator[type]:
    """The engine's classes in an annotation."""
    if isinstance(hint, type) and hint.__module__.startswith("paimon_engine"):
        yield hint
    for part in typing.get_args(hint):
        yield from _own_classes(part)


def _facade() -> Iterator[Any]:
    yield open_table
    for owner in (Catalog, Table):
        for name, member in inspect.getmembers(owner):
            if inspect.isfunction(member) and not name.startswith("_"):
                yield member
            elif isinstance(member, property) and not name.startswith("_"):
                yield member.fget


@pytest.mark.parametrize("action", ACTIONS)
def test_the_spec_and_the_result_of_every_action_are_public(action: str):
    info = ACTIONS[action]
    for kind in (info.spec, typing.get_type_hints(inspect.unwrap(info.run))["return"]):
        assert getattr(paimon_engine, kind.__name__, None) is kind
        assert kind.__name__ in paimon_engine.__all__


def test_what_the_facade_takes_and_gives_is_public():
    inner = {"DisposalWords"}  # names of keyword arguments, no value of its own
    hints = map(hints_of, _facade())
    used = {kind for found in hints for hint in found.values() for kind in _own_classes(hint)}
    used |= set(_own_classes(SchemaChange))

    assert {kind.__name__ for kind in used} - inner - set(paimon_engine.__all__) == set()
    assert [
        kind for kind in used if kind.__name__ not in inner and getattr(paimon_engine, kind.__name__) is not kind
    ] == []


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


def test_a_read_loads_nothing_that_it_does_not_use(tmp_path: Path):
    columns = {"k": "BIGINT NOT NULL", "v": "STRING"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=columns, primary_keys=["k"], options={"bucket": 1})
    table.write(pa.table({"k": [1], "v": ["a"]}))

    loaded = loaded_by(f"from paimon_engine import open_table\nassert len(open_table({table.path!r}).to_arrow()) == 1")

    others = (
        "format.orc",
        "format.avro_rows",
        "format.variant_nodes",
        "format.file_index",
        "merge.functions",
        "meta.schema_change",
    )
    others += ("inspect.system_tables", "table.commit", "table.compaction", "table.removal", "table.write", "lsm.plan")
    assert {name for name in others if f"paimon_engine.{name}" in loaded} == set()
