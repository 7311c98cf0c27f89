"""System tables: the same columns and values as the Java library's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import inspect, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.corpus import case

Look = Callable[[TableHandle], pa.Table]
CASES = (
    "tags_basic",
    "part_many_types",
    "evolve_columns_pk",
    "evolve_columns_append",
    "types_parquet_append",
    "stats_none",
    "lsm_levels",
    "statistics",
)
TABLES: dict[str, Look] = {
    "snapshots": inspect.snapshots,
    "tags": inspect.tags,
    "schemas": inspect.schemas,
    "options": inspect.options,
    "manifests": lambda table: inspect.manifests(table, latest_snapshot(table)),
    "partitions": lambda table: inspect.partitions(table, latest_snapshot(table)),
    "files": lambda table: inspect.files(table, latest_snapshot(table)),
    "statistics": lambda table: inspect.statistics(table, latest_snapshot(table)),
    "aggregation_fields": inspect.aggregation_fields,
    "consumers": inspect.consumer_table,
}
# Java 0.9 prints partitions in square brackets, paths without directories, and bytes as their address in memory.
SPELT_OTHERWISE = {
    # JSON with other blanks.
    "statistics": {"colstat"},
    "partitions": {"partition"},
    "files": {"partition", "file_path"},
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


def test_partitions_are_written_for_people_and_bounds_as_java_stores_them() -> None:
    row = inspect.files(_open("part_many_types"), latest_snapshot(_open("part_many_types"))).slice(0, 1).to_pylist()[0]

    assert re.search(r"^{.*, \d{4}-\d\d-\d\d, .*}$", row["partition"])
    assert "p1=true" in row["min_value_stats"] or "p1=false" in row["min_value_stats"]
    assert re.search(r"p2=-?\d+,", row["min_value_stats"]), "the day since 1970"


def test_buckets_sum_up_to_partitions() -> None:
    table = _open("part_many_types")
    snapshot = latest_snapshot(table)

    by_bucket, by_partition = inspect.buckets(table, snapshot), inspect.partitions(table, snapshot)

    for column in ("record_count", "file_size_in_bytes", "file_count"):
        assert sum(by_bucket[column].to_pylist()) == sum(by_partition[column].to_pylist()) > 0


@pytest.mark.parametrize("name", [*CASES, "part_null_append", "dv_parquet"])
def test_buckets_are_the_sums_of_their_files(name: str) -> None:
    table = _open(name)
    files = inspect.files(table, latest_snapshot(table))
    sums = {"record_count": "sum", "file_size_in_bytes": "sum", "bucket": "count", "creation_time": "max"}
    expected = files.group_by(["partition", "bucket"]).aggregate(list(sums.items()))
    names = ["partition", "bucket", *(f"{column}_{how}" for column, how in sums.items())]

    found = inspect.buckets(table, latest_snapshot(table))

    assert _as_rows(found) == sorted(_as_rows(expected.select(names)), key=lambda row: (str(row[0]), row[1]))


def _as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_partitions_are_named_by_column_and_value() -> None:
    table = _open("part_null_append")

    names = inspect.partitions(table, latest_snapshot(table))["partition"].to_pylist()

    assert names == sorted(names)
    assert all(name.count("=") == len(table.schema.partition_keys) for name in names)
    assert any("__DEFAULT_PARTITION__" in name for name in names)


def test_keys_are_written_as_java_does(oracle: Any) -> None:
    table = _open("lsm_levels")
    answer = oracle.call("read", table=str(case("lsm_levels").table), system="files")
    position = [column["name"] for column in answer["columns"]].index("min_key")

    ours = inspect.file_key_ranges(table, latest_snapshot(table))

    assert sorted(ours["min_key"].to_pylist()) == sorted(row[position] for row in answer["rows"])


def test_index_files_name_their_data_files() -> None:
    vectors = _open("dv_parquet")
    hashes = _open("dynamic_bucket_partitioned")

    of_vectors = inspect.table_indexes(vectors, latest_snapshot(vectors)).to_pylist()
    of_hashes = inspect.table_indexes(hashes, latest_snapshot(hashes)).to_pylist()

    paths = inspect.files(vectors, latest_snapshot(vectors))["file_path"].to_pylist()
    live = [path.rpartition("/")[2] for path in paths]
    marked = [item["f0"] for row in of_vectors for item in row["dv_ranges"]]
    assert marked
    assert set(marked) <= set(live)
    assert {row["index_type"] for row in of_hashes} == {"HASH"}
    assert all(row["partition"].startswith("{") and row["row_count"] > 0 for row in of_hashes)


def test_rows_deleted_by_vectors_are_counted_where_they_are_known() -> None:
    table = _open("dv_parquet")

    # Java 0.9 does not write how many rows a vector marks.
    assert inspect.partitions(table, latest_snapshot(table))["deleted_record_count"].to_pylist() == [None]


def test_options_of_columns_are_listed() -> None:
    found = {row["field_name"]: row for row in inspect.aggregation_fields(_open("agg_sum_product")).to_pylist()}

    chosen = next(row for row in found.values() if row["function"] == "[sum]")
    assert chosen["function_options"] == f"[fields.{chosen['field_name']}.aggregate-function]"
    assert found["k"]["function"] == "[]"


def test_branches_are_listed() -> None:
    assert inspect.branch_table(_open("branches"))["branch_name"].to_pylist() == ["dev"]


def test_a_table_without_snapshots_has_empty_system_tables() -> None:
    table = _open("tags_basic")

    for look in (inspect.files, inspect.partitions, inspect.buckets, inspect.manifests):
        assert look(table, None).num_rows == 0
    assert inspect.consumer_table(table).num_rows == 0


# The columns of Paimon 2.x; a question mark means a column that may be null.
COLUMNS = {
    "snapshots": "snapshot_id:int64 schema_id:int64 commit_user:string commit_identifier:int64 commit_kind:string "
    "commit_time:timestamp[ms] base_manifest_list:string delta_manifest_list:string changelog_manifest_list:string? "
    "total_record_count:int64? delta_record_count:int64? changelog_record_count:int64? watermark:int64? "
    "next_row_id:int64? operation:string? writer_version:string?",
    "schemas": "schema_id:int64 fields:string partition_keys:string primary_keys:string options:string comment:string? "
    "update_time:timestamp[ms]",
    "options": "key:string value:string",
    "files": "partition:string? bucket:int32 file_path:string file_format:string schema_id:int64 level:int32 "
    "record_count:int64 file_size_in_bytes:int64 min_key:string? max_key:string? null_value_counts:string "
    "min_value_stats:string max_value_stats:string min_sequence_number:int64? max_sequence_number:int64? "
    "creation_time:timestamp[ms]? deleteRowCount:int64? file_source:string? first_row_id:int64? "
    "write_cols:list<item:string>?",
    "manifests": "file_name:string file_size:int64 num_added_files:int64 num_deleted_files:int64 schema_id:int64 "
    "min_partition_stats:string? max_partition_stats:string? min_row_id:int64? max_row_id:int64?",
    "partitions": "partition:string? record_count:int64 file_size_in_bytes:int64 file_count:int64 "
    "last_update_time:timestamp[ms]? created_at:timestamp[ms]? created_by:string? updated_by:string? options:string? "
    "total_buckets:int32 done:bool deleted_record_count:int64?",
    "buckets": "partition:string? bucket:int32 record_count:int64 file_size_in_bytes:int64 file_count:int64 "
    "last_update_time:timestamp[ms]?",
    "tags": "tag_name:string snapshot_id:int64 schema_id:int64 commit_time:timestamp[ms] record_count:int64? "
    "create_time:timestamp[ms]? time_retained:string?",
    "branches": "branch_name:string create_time:timestamp[ms]",
    "consumers": "consumer_id:string next_snapshot_id:int64",
    "statistics": "snapshot_id:int64 schema_id:int64 mergedRecordCount:int64? mergedRecordSize:int64? colstat:string?",
    "aggregation_fields": "field_name:string field_type:string function:string? function_options:string? "
    "comment:string?",
    "file_key_ranges": "partition:string? bucket:int32 file_path:string file_format:string schema_id:int64 level:int32 "
    "record_count:int64 file_size_in_bytes:int64 min_key:string? max_key:string? first_row_id:int64?",
    "table_indexes": "partition:string? bucket:int32 index_type:string file_name:string file_size:int64 row_count:int64 "
    "dv_ranges:list<item:struct<f0:stringnotnull,f1:int32notnull,f2:int32notnull,_CARDINALITY:int64>>? "
    "row_range_start:int64? row_range_end:int64? index_field_id:int32? index_field_name:string?",
}


@pytest.mark.parametrize("system", COLUMNS)
def test_columns_are_those_of_the_newest_java_release(system: str) -> None:
    path = str(case("statistics").table)

    schema = open_table(f"{path}${system}").arrow_schema

    shown = [f"{field.name}:{str(field.type).replace(' ', '')}{'?' if field.nullable else ''}" for field in schema]
    assert shown == COLUMNS[system].split()
