"""System tables: the same columns and values as the Java library's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import inspect
from paimon_engine.env import EnvConfig
from paimon_engine.table.handle import TableHandle, load_table
from paimon_engine.table.snapshots import latest_snapshot
from tests.support.corpus import case

Look = Callable[[TableHandle], pa.Table]
CASES = ("tags_basic", "part_many_types", "evolve_columns_pk", "types_parquet_append", "stats_none", "lsm_levels")
TABLES: dict[str, Look] = {
    "snapshots": inspect.snapshots,
    "tags": inspect.tags,
    "schemas": inspect.schemas,
    "options": inspect.options,
    "manifests": lambda table: inspect.manifests(table, latest_snapshot(table)),
    "partitions": lambda table: inspect.partitions(table, latest_snapshot(table)),
    "files": lambda table: inspect.files(table, latest_snapshot(table)),
}
# Java 0.9 prints partitions and keys in square brackets, dates as days, and bytes as their address in memory.
SPELT_OTHERWISE = {
    "partitions": {"partition"},
    "files": {"partition", "min_key", "max_key", "min_value_stats", "max_value_stats"},
    # The creator's clock has nanoseconds; a system table has milliseconds.
    "tags": {"create_time"},
}


def _open(name: str) -> TableHandle:
    path = str(case(name).table)
    return load_table(path, EnvConfig(path))


def _cell(value: Any) -> Any:
    """A time as Java's reader gives it."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000" if hasattr(value, "strftime") else value


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("system", TABLES)
def test_java_shows_the_same(name: str, system: str, oracle: Any) -> None:
    ours = TABLES[system](_open(name))
    answer = oracle.call("read", table=str(case(name).table), system=system)
    names = [column["name"] for column in answer["columns"]]

    assert ours.schema.names[: len(names)] == names
    compared = [column for column in names if column not in SPELT_OTHERWISE.get(system, set())]
    mine = [[_cell(row[column]) for column in compared] for row in ours.to_pylist()]
    theirs = [[row[names.index(column)] for column in compared] for row in answer["rows"]]
    assert sorted(mine, key=str) == sorted(theirs, key=str)


def test_partitions_and_statistics_are_written_for_people() -> None:
    row = inspect.files(_open("part_many_types"), latest_snapshot(_open("part_many_types"))).slice(0, 1).to_pylist()[0]

    assert row["partition"].startswith("{")
    assert "p1=true" in row["min_value_stats"] or "p1=false" in row["min_value_stats"]
    assert re.search(r"p2=\d{4}-\d\d-\d\d,", row["min_value_stats"])


def test_buckets_sum_up_to_partitions() -> None:
    table = _open("part_many_types")
    snapshot = latest_snapshot(table)

    by_bucket, by_partition = inspect.buckets(table, snapshot), inspect.partitions(table, snapshot)

    for column in ("record_count", "file_size_in_bytes", "file_count"):
        assert sum(by_bucket[column].to_pylist()) == sum(by_partition[column].to_pylist()) > 0


def test_branches_are_listed() -> None:
    assert inspect.branch_table(_open("branches"))["branch_name"].to_pylist() == ["dev"]


def test_a_table_without_snapshots_has_empty_system_tables() -> None:
    table = _open("tags_basic")

    for look in (inspect.files, inspect.partitions, inspect.buckets, inspect.manifests):
        assert look(table, None).num_rows == 0
    assert inspect.consumer_table(table).num_rows == 0
