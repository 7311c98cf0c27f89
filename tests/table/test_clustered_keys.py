"""`pk-clustering-override`: files above level 0 in the order of other columns, written, compacted and rescaled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from paimon_engine import (
    Catalog,
    DropColumn,
    InvalidArgumentError,
    RenameColumn,
    SetOption,
    Table,
    UnsupportedError,
    UpdateColumnType,
    open_table,
)
from paimon_engine.table.compaction import clustered
from tests.support.seeds import seeds

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("city", pa.string()), ("v", pa.int32())])
CITIES = ("Lima", "Oslo", "Bonn", None, "Kyiv")
VECTORS = {"deletion-vectors.enabled": "true"}
FIRST_ROW = {"merge-engine": "first-row"}
Rows = list[dict[str, Any]]


def table_of(
    path: Path,
    options: Mapping[str, str] = VECTORS,
    *,
    schema: pa.Schema = COLUMNS,
    keys: tuple[str, ...] = ("k",),
    partitioned_by: tuple[str, ...] = (),
    by: str = "city",
) -> Table:
    given = {"bucket": "1", "pk-clustering-override": "true", "clustering.columns": by, **options}
    return Catalog(str(path)).create_table(
        "db.t", schema=schema, primary_keys=keys, partition_keys=partitioned_by, options=given
    )


def some_rows(step: int, keys: Any) -> Rows:
    return [{"k": key, "city": CITIES[(key * 7 + step) % 5], "v": step * 1000 + key} for key in keys]


def put(table: Table, rows: Rows, kind: str = "+I") -> None:
    given = pa.Table.from_pylist(rows, table.arrow_schema)
    table.write(given, row_kinds=[kind] * len(rows))


def rows_in(table: Table, **how: Any) -> Rows:
    return sorted(table.to_arrow(**how).to_pylist(), key=lambda row: row["k"])


def files_of(table: Table) -> Rows:
    return open_table(f"{table.path}$files").to_arrow().to_pylist()


def assert_in_order(table: Table, name: str) -> None:
    """Every file above level 0 has its rows, and its ends in the manifest, in the order of the column, nulls first."""
    for file in files_of(table):
        stored = pa.parquet.read_table(file["file_path"])[name].to_pylist()
        order = [(value is not None, value) for value in stored]
        if file["level"]:
            assert order == sorted(order)
            ends = [f"[{'null' if value is None else value}]" for value in (stored[0], stored[-1])]
            assert [file["min_key"], file["max_key"]] == ends


@pytest.mark.parametrize(
    "options", [VECTORS, FIRST_ROW, {**VECTORS, **FIRST_ROW}], ids=["deduplicate", "first-row", "both"]
)
@pytest.mark.parametrize("seed", seeds(2))
def test_random_writes_and_compactions(tmp_path: Path, options: Mapping[str, str], seed: int):
    rng, expected = Random(seed), {}
    table = table_of(tmp_path, {**options, "num-sorted-run.compaction-trigger": "3", "target-file-size": "2 kb"})
    keeps_first = "merge-engine" in options
    for step in range(16):
        rows = some_rows(step, sorted(rng.sample(range(80), rng.randint(1, 40))))
        if rng.random() < 0.25 and not keeps_first:
            put(table, rows, "-D")
            for row in rows:
                expected.pop(row["k"], None)
        else:
            put(table, rows)
            for row in rows:
                expected[row["k"]] = expected.get(row["k"], row) if keeps_first else row
        if rng.random() < 0.6:
            table.compact(full=rng.random() < 0.2)
            assert rows_in(table) == [expected[key] for key in sorted(expected)]
            assert_in_order(table, "city")
            assert table.verify("rows").problems == ()
    table.compact(full=True)

    assert rows_in(table) == [expected[key] for key in sorted(expected)]
    assert sum(file["record_count"] for file in files_of(table)) == len(expected)
    assert table.compact(full=True).status == "noop"


def test_keys_are_searched_for_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clustered, "KEYS_AT_ONCE", 10)
    for name, options in (("a", VECTORS), ("b", FIRST_ROW)):
        table = table_of(tmp_path / name, {**options, "write-buffer-size": "1 mb"})
        for step in range(4):
            put(table, some_rows(step, range(step * 10, step * 10 + 25)))
            table.compact()
        put(table, some_rows(8, range(15)))
        put(table, some_rows(9, range(10, 60)))
        table.compact()
        found = {row["k"]: row["v"] // 1000 for row in rows_in(table)}

        newest = {key: 9 if key >= 10 else 8 for key in range(60)}
        oldest = {key: max(0, -(-(key - 24) // 10)) if key < 55 else 9 for key in range(60)}
        assert found == (newest if options is VECTORS else oldest)


ORDERED_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [None, False, True]),
    "int": (pa.int32(), [None, -(2**31), -1, 0, 5]),
    "double": (pa.float64(), [None, -math.inf, -1.5, 0.0, 2.5, math.inf, math.nan]),
    "decimal": (pa.decimal128(30, 2), [None, Decimal("-5.00"), Decimal("0.10"), Decimal("7.25")]),
    "text": (pa.string(), [None, "", "a", "a\0", "ab", "b", "ü", "\U0001f600"]),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"\x01", b"\x01\x00", b"\x7f", b"\xff"]),
    "date": (pa.date32(), [None, date(1960, 1, 1), date(2020, 2, 29)]),
    "timestamp": (pa.timestamp("us"), [None, datetime(1960, 1, 1), datetime(2020, 2, 29, 1, 2, 3, 4)]),
}


@pytest.mark.parametrize("name", ORDERED_VALUES)
def test_columns_of_every_type_order_rows(tmp_path: Path, name: str):
    kind, values = ORDERED_VALUES[name]
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("c", kind), ("v", pa.int32())])
    table = table_of(tmp_path, {**VECTORS, "num-sorted-run.compaction-trigger": "2"}, schema=schema, by="c")
    for step in range(3):
        rows = [{"k": number * 3 + step, "c": value, "v": step} for number, value in enumerate(values)]
        Random(step).shuffle(rows)
        put(table, rows)
        table.compact()
    table.compact(full=True)

    [file] = files_of(table)
    stored = pa.parquet.read_table(file["file_path"])["c"].to_pylist()
    expected = [value for value in values for _ in range(3)]
    assert list(map(repr, stored)) == list(map(repr, expected))
    assert table.verify("rows").problems == ()


def test_two_columns_and_partitions_and_dynamic_buckets(tmp_path: Path):
    options = {**VECTORS, "bucket": "-1", "dynamic-bucket.target-row-num": "20"}
    schema = COLUMNS.append(pa.field("p", pa.string(), nullable=False))
    table = table_of(tmp_path, options, schema=schema, keys=("k", "p"), partitioned_by=("p",), by="city,v")
    for step in range(3):
        put(table, [{**row, "p": f"p{row['k'] % 2}"} for row in some_rows(step, range(step * 20, step * 20 + 50))])
        table.compact()
    expected = {
        row["k"]: {**row, "p": f"p{row['k'] % 2}"}
        for step in range(3)
        for row in some_rows(step, range(step * 20, step * 20 + 50))
    }

    assert rows_in(table) == [expected[key] for key in sorted(expected)]
    assert len({(file["partition"], file["bucket"]) for file in files_of(table)}) > 2
    table.compact(full=True, where="p = 'p1'")
    assert rows_in(table) == [expected[key] for key in sorted(expected)]
    assert table.verify("rows").problems == ()


@pytest.mark.parametrize("options", [VECTORS, FIRST_ROW], ids=["deduplicate", "first-row"])
def test_keys_that_are_unique_over_all_partitions(tmp_path: Path, options: Mapping[str, str]):
    schema = COLUMNS.append(pa.field("p", pa.string()))
    table = table_of(tmp_path, {**options, "bucket": "-1"}, schema=schema, partitioned_by=("p",))
    expected: dict[int, dict[str, Any]] = {}
    for step in range(4):
        rows = [{**row, "p": f"p{(row['k'] + step) % 3}"} for row in some_rows(step, range(step * 7, step * 7 + 20))]
        put(table, rows)
        expected.update({row["k"]: row for row in rows if options is VECTORS or row["k"] not in expected})
        if step != 2:
            table.compact()

    assert rows_in(table) == [expected[key] for key in sorted(expected)]


def test_postponed_rows(tmp_path: Path):
    table = table_of(tmp_path, {**VECTORS, "bucket": "-2"})
    for step in range(3):
        put(table, some_rows(step, range(step * 10, step * 10 + 30)))
        table.compact()

    found = {row["k"]: row["v"] // 1000 for row in rows_in(table)}
    assert found == {key: min(key // 10, 2) for key in range(50)}
    assert_in_order(table, "city")


@pytest.mark.parametrize("options", [VECTORS, FIRST_ROW], ids=["deduplicate", "first-row"])
def test_another_number_of_buckets(tmp_path: Path, options: Mapping[str, str]):
    table = table_of(tmp_path, {**options, "bucket": "2"})
    for step in range(3):
        put(table, some_rows(step, range(step * 10, step * 10 + 30)))
        if step < 2:
            table.compact()
    table.alter([SetOption("bucket", "3")])
    table.rescale()

    found = {row["k"]: row["v"] // 1000 for row in rows_in(table)}
    newest = {key: min(key // 10, 2) for key in range(50)}
    oldest = {key: max(0, -(-(key - 29) // 10)) for key in range(50)}
    assert found == (newest if options is VECTORS else oldest)
    assert {file["bucket"] for file in files_of(table)} == {0, 1, 2}
    assert_in_order(table, "city")
    assert table.verify("rows").problems == ()


def test_other_columns_than_before(tmp_path: Path):
    """Files in an older order are read, marked and at last written again; nothing takes their ends for today's."""
    table = table_of(tmp_path, {**VECTORS, "num-sorted-run.compaction-trigger": "2"})
    put(table, some_rows(0, range(40)))
    table.compact()
    table.alter([SetOption("clustering.columns", "v")])
    for step in (1, 2):
        put(table, some_rows(step, range(step * 10, step * 10 + 15)))
        table.compact()

    found = {row["k"]: row["v"] // 1000 for row in rows_in(table)}
    assert found == {key: 2 if 20 <= key < 35 else 1 if 10 <= key < 25 else 0 for key in range(40)}
    assert len(files_of(table)) > 1
    table.compact(full=True)
    assert {row["k"]: row["v"] // 1000 for row in rows_in(table)} == found
    assert len(files_of(table)) == 1
    assert_in_order(table, "v")
    assert table.verify("rows").problems == ()


def test_a_wider_type_of_the_column(tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("city", pa.string()), ("v", pa.int32())])
    table = table_of(tmp_path, schema=schema, by="v")
    put(table, some_rows(0, range(-20, 20)))
    table.compact()
    put(table, some_rows(1, range(-10, 10)))
    table.alter([UpdateColumnType("v", "BIGINT")])
    table = open_table(table.path)
    put(table, some_rows(2, range(5, 30)))
    table.compact()

    found = {row["k"]: row["v"] for row in rows_in(table)}
    assert found == {key: key + (2000 if key >= 5 else 1000 if key >= -10 else 0) for key in range(-20, 30)}
    table.compact(full=True)
    assert {row["k"]: row["v"] for row in rows_in(table)} == found
    assert_in_order(table, "v")


def test_changes_between_snapshots(tmp_path: Path):
    table = table_of(tmp_path, {**VECTORS, "changelog-producer": "input"})
    put(table, some_rows(0, range(5)))
    table.compact()
    table.create_tag("before")
    put(table, some_rows(1, range(3, 8)))
    table.compact(full=True)
    table.create_tag("after")

    changed = sorted(table.to_arrow(incremental=("before", "after")).to_pylist(), key=lambda row: row["k"])
    assert changed == some_rows(1, range(3, 8))


def test_files_are_joined_as_runs_grow_and_left_otherwise(tmp_path: Path):
    """A compaction does not write the large file again each time that a small one overlaps it."""
    table = table_of(tmp_path, {**VECTORS, "num-sorted-run.compaction-trigger": "4"})
    put(table, some_rows(0, range(5000)))
    table.compact()
    [large] = [file["file_path"] for file in files_of(table)]
    for step in range(1, 8):
        put(table, some_rows(step, range(5000 + step, 5050 + step)))
        result = table.compact()
        assert result.buckets[0].rewritten_bytes < 20_000
        assert large in {file["file_path"] for file in files_of(table)}
        assert len(files_of(table)) <= 4

    assert len(rows_in(table)) == 5056
    assert table.compact(full=True).files_after == 1


def test_files_with_many_deleted_rows_are_written_again(tmp_path: Path):
    table = table_of(tmp_path, {**VECTORS, "compaction.delete-ratio-threshold": "0.3"})
    put(table, some_rows(0, range(100)))
    table.compact()
    put(table, some_rows(1, range(40)), "-D")
    table.compact()
    assert table.compact().status == "committed"

    assert rows_in(table) == some_rows(0, range(40, 100))
    assert [file["record_count"] for file in files_of(table)] == [60]


def test_a_dry_run_tells_what_the_run_does(tmp_path: Path):
    table = table_of(tmp_path)
    for step in range(3):
        put(table, some_rows(step, range(step * 10, 100)))
    before = table.latest_snapshot_id()
    planned = table.compact(full=True, dry_run=True)
    assert table.latest_snapshot_id() == before
    done = table.compact(full=True)

    assert planned.buckets[0].rewritten_bytes == done.buckets[0].rewritten_bytes > 0
    assert planned.read_amplification_before == done.read_amplification_before == 3
    assert planned.read_amplification_after == done.read_amplification_after == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "deletion-vectors.enabled"),
        ({**VECTORS, "clustering.columns": ""}, "clustering.columns"),
        ({**VECTORS, "clustering.columns": "town"}, "no column 'town'"),
        ({**VECTORS, "clustering.columns": "a"}, "nested"),
        ({**VECTORS, "merge-engine": "partial-update"}, "merge-engine"),
        ({**VECTORS, "changelog-producer": "lookup"}, "changelog-producer"),
        ({**VECTORS, "sequence.field": "v"}, "sequence.field"),
        ({**VECTORS, "record-level.expire-time": "1 h", "record-level.time-field": "v"}, "record-level.expire-time"),
    ],
)
def test_tables_that_cannot_be_are_refused(tmp_path: Path, options: Mapping[str, str], what: str):
    with pytest.raises(InvalidArgumentError, match=what):
        table_of(tmp_path, options, schema=COLUMNS.append(pa.field("a", pa.list_(pa.int32()))))


def test_without_a_key_the_option_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="primary key"):
        table_of(tmp_path, {"bucket": "-1"}, keys=())


@pytest.mark.parametrize(
    "options",
    [{"deletion-vectors.merge-on-read": "true"}, {"sequence.snapshot-ordering": "true", "write-only": "true"}],
)
def test_what_needs_files_in_the_order_of_keys_is_refused_by_name(tmp_path: Path, options: Mapping[str, str]):
    with pytest.raises(UnsupportedError, match=f"'pk-clustering-override' together with '{next(iter(options))}'"):
        table_of(tmp_path, {**VECTORS, **options})


def test_the_option_and_its_columns_do_not_change_behind_the_files(tmp_path: Path):
    table = table_of(tmp_path)
    put(table, some_rows(0, range(3)))
    table.compact()
    with pytest.raises(InvalidArgumentError, match="pk-clustering-override"):
        table.alter([SetOption("pk-clustering-override", "false")])
    with pytest.raises(InvalidArgumentError, match="city"):
        table.alter([DropColumn("city")])
    assert rows_in(table) == some_rows(0, range(3))


def test_a_renamed_column_keeps_its_order(tmp_path: Path):
    table = table_of(tmp_path, {**VECTORS, "num-sorted-run.compaction-trigger": "2"})
    put(table, some_rows(0, range(10)))
    table.compact()
    table.alter([RenameColumn("city", "town")])
    put(table, [{"k": row["k"], "town": row["city"], "v": row["v"]} for row in some_rows(1, range(5, 15))])
    table.compact()
    table.compact()

    assert {row["k"]: row["v"] // 1000 for row in rows_in(table)} == {key: int(key >= 5) for key in range(15)}
    assert len(files_of(table)) == 1
    assert_in_order(table, "town")
