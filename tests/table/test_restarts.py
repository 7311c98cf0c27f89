"""Changes where sequence numbers begin again: a compaction has dropped the newest deletes, or rows were overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path))


def make(catalog: Catalog, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **named})


def put(table: Table, *rows: tuple[Any, ...]) -> None:
    data = [{"k": k, "v": v} for _, k, v in rows]
    table.write(pa.Table.from_pylist(data, SCHEMA), row_kinds=pa.array([kind for kind, _, _ in rows]))


def changes(catalog: Catalog, start: int, end: int) -> Sequence[tuple[Any, ...]]:
    found = catalog.table("db.t$audit_log").to_arrow(incremental=(start, end)).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def deleted_and_written_again(table: Table) -> None:
    """Rows 1 and 2 are deleted, that is compacted, and row 1 is written again; snapshots 2 to 4, after one of three rows."""
    put(table, ("+I", 3, 3), ("+I", 1, 1), ("+I", 2, 2))
    put(table, ("-D", 2, 2), ("-D", 1, 1))
    table.compact(full=True)
    put(table, ("+I", 1, 10))


def test_a_row_that_is_written_again_is_one_of_the_changes(catalog: Catalog) -> None:
    deleted_and_written_again(make(catalog))

    assert changes(catalog, 1, 4) == [("+I", 1, 10), ("-D", 2, 2)]
    assert catalog.table("db.t").to_arrow(incremental=(1, 4)).to_pylist() == [{"k": 1, "v": 10}]
    assert changes(catalog, 1, 2) == [("-D", 1, 1), ("-D", 2, 2)]


def test_numbers_may_begin_again_several_times(catalog: Catalog) -> None:
    table = make(catalog)
    deleted_and_written_again(table)
    put(table, ("+I", 2, 20), ("-D", 1, 10))
    table.compact(full=True)
    put(table, ("+I", 1, 100))
    table.compact(full=True)
    put(table, ("-D", 3, 3))

    assert changes(catalog, 1, table.latest_snapshot_id() or 0) == [("+I", 1, 100), ("+I", 2, 20), ("-D", 3, 3)]


def test_rows_written_after_an_overwrite_are_newer_than_those_before(catalog: Catalog) -> None:
    table = make(catalog)
    for value in range(5):
        put(table, ("+I", 1, value))
    table.write(pa.Table.from_pylist([{"k": 9, "v": 9}], SCHEMA), overwrite={})
    put(table, ("+I", 1, 50))

    assert changes(catalog, 0, 7) == [("+I", 1, 50)]


def test_merge_engines_merge_what_came_before_and_after(catalog: Catalog) -> None:
    table = make(
        catalog,
        merge_engine="aggregation",
        fields__v__aggregate_function="sum",
        aggregation__remove_record_on_delete="true",
    )
    deleted_and_written_again(table)
    put(table, ("+I", 1, 5))

    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 1, "v": 15}, {"k": 3, "v": 3}]
    assert changes(catalog, 1, 5) == [("+I", 1, 15), ("-D", 2, 2)]


def test_a_retraction_concerns_what_came_before_numbers_began_again(catalog: Catalog) -> None:
    """As in Java, where the numbers give the same order: the last value is taken back, and none is left."""
    table = make(catalog, merge_engine="aggregation")
    put(table, ("+I", 3, 3))
    put(table, ("+I", 1, 679), ("-U", 7, 73))
    table.compact(full=True)
    put(table, ("+I", 1, 101))
    put(table, ("-U", 1, 405))

    assert table.to_arrow(where="k = 1").to_pylist() == [{"k": 1, "v": None}]
    assert table.to_arrow(incremental=(1, 5)).to_pylist() == [{"k": 1, "v": None}]


def test_changes_that_outlive_their_snapshots_are_ordered_too(catalog: Catalog) -> None:
    table = make(catalog, changelog__time_retained="3 h", changelog__num_retained__min="10")
    deleted_and_written_again(table)
    put(table, ("+I", 7, 7))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")

    assert table.snapshots().num_rows == 1
    assert changes(catalog, 1, 5) == [("+I", 1, 10), ("+I", 7, 7), ("-D", 2, 2)]
