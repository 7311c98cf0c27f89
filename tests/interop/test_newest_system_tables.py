"""System tables have the columns and the values that the newest release of Java Paimon gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import open_table
from paimon_engine.inspect.system_tables import SYSTEM_TABLES
from paimon_engine.meta.type_text import parse_type_text
from paimon_engine.types import to_arrow
from tests.interop.newest_tables import AGGREGATION, INDEXES, SCHEMA, ours, rows_at, use
from tests.support.canonical import rows_of, text_of
from tests.support.corpus import case
from tests.support.newest import NewestPaimon

OF_EVERY_TABLE = [name for name in SYSTEM_TABLES if name != "row_tracking"]
"""`row_tracking` is compared in `test_row_tracking`."""

SINCE_THEN = {"partitions": 3, "snapshots": 2, "table_indexes": 4}
"""Columns at the end that came with the release after the one that these tests compare with."""

CASES = (
    "branches",
    "changelog_lookup",
    "evolve_columns_append",
    "evolve_types_pk",
    "key_timestamps",
    "part_many_types",
    "stats_full",
    "types_avro_pk",
)


def comparable(value: Any) -> Any:
    """Options in one order."""
    return json.loads(value) if isinstance(value, str) and value.startswith('{"') else value


def assert_same_values(name: str, path: str, newest: NewestPaimon) -> None:
    theirs = newest.read(path, system=name)
    # When a branch was made Java takes from its directory, which changes later too.
    width = 1 if name == "branches" else len(theirs[0]) if theirs else 0
    rows = [[comparable(one) for one in row[:width]] for row in rows_of(open_table(f"{path}${name}").to_arrow())]
    theirs = [[comparable(one) for one in row[:width]] for row in theirs]
    assert sorted(rows, key=text_of) == sorted(theirs, key=text_of)


@pytest.mark.parametrize("name", OF_EVERY_TABLE)
def test_columns_are_those_of_the_newest_java(name: str, tmp_path: Path, newest: NewestPaimon):
    table = ours(tmp_path, "t", use({}))

    found = open_table(f"{table.path}${name}").arrow_schema
    types = {column: parse_type_text(text) for column, text in newest.columns(table.path, system=name)}

    theirs = [pa.field(column, to_arrow(kind), nullable=kind.nullable) for column, kind in types.items()]
    assert list(found)[: len(theirs)] == theirs
    assert len(found) - len(theirs) == SINCE_THEN.get(name, 0)


@pytest.mark.parametrize("name", OF_EVERY_TABLE)
def test_values_are_those_of_the_newest_java(name: str, tmp_path: Path, newest: NewestPaimon):
    table = ours(tmp_path, "t", use({**INDEXES, **AGGREGATION, "deletion-vectors.enabled": "true"}))
    for step in range(3):
        table.write(rows_at(step))
        table.compact(full=True)
    table.create_tag("one")
    table.create_branch("side", tag="one")
    if name != "statistics":
        # Java writes the same statistics with other blanks.
        table.analyze()

    assert_same_values(name, table.path, newest)


@pytest.mark.parametrize("name", OF_EVERY_TABLE)
def test_values_of_tables_of_java_are_those_of_the_newest_java(name: str, newest: NewestPaimon):
    for one in CASES:
        assert_same_values(name, str(case(one).table), newest)


def test_columns_of_rows_are_those_of_the_table(tmp_path: Path):
    table = ours(tmp_path, "t", use({}))

    assert open_table(f"{table.path}$ro").arrow_schema.names == SCHEMA.names
