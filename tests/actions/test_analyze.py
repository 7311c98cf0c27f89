"""ANALYZE: what is found is right, Java reads it, and later snapshots keep it as long as it holds."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.actions.analyze import Analyze
from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.meta.column_sketch import HASHES_KEPT, ColumnSketch
from paimon_engine.meta.schema import parse_schema, schema_to_json
from paimon_engine.meta.table_statistics import parse_table_statistics
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import DataField, parse_type
from tests.support.corpus import case
from tests.support.oracle import JavaPaimon

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.int64(), [1, 2, 3, 4]),
    "b": (pa.bool_(), [True, None, False, True]),
    "i1": (pa.int8(), [-128, 127, 127, None]),
    "i2": (pa.int16(), [5, 5, 5, 5]),
    "f": (pa.float32(), [0.1, 1e10, 0.1, -2.5]),
    "d": (pa.float64(), [1.5, math.nan, None, math.nan]),
    "dec": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-12.34"), None, None]),
    "big": (pa.decimal128(30, 0), [Decimal(10**28), Decimal(-(10**28)), Decimal(1), Decimal(1)]),
    "s": (pa.string(), ["é", "abcd", None, "é"]),
    "y": (pa.binary(), [b"", b"\x00\x01", b"", None]),
    "dt": (pa.date32(), [date(2024, 2, 29), date(1969, 12, 31), None, None]),
    "tm": (pa.time32("ms"), [time(13, 5, 9, 123000), time(0), time(0), time(0)]),
    "ts": (
        pa.timestamp("us"),
        [datetime(2024, 2, 29, 13, 5, 9, 123450), datetime(1969, 12, 31, 23, 59, 59), None, None],
    ),
    "lz": (pa.timestamp("ms", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC)] * 4),
    "none": (pa.string(), [None] * 4),
    "l": (pa.list_(pa.int32()), [[1], [], None, [2]]),
}
EXPECTED = {
    "k": {"distinctCount": 4, "min": "1", "max": "4", "nullCount": 0, "avgLen": 8, "maxLen": 8},
    "b": {"distinctCount": 2, "min": "false", "max": "true", "nullCount": 1, "avgLen": 1, "maxLen": 1},
    "i1": {"distinctCount": 2, "min": "-128", "max": "127", "nullCount": 1, "avgLen": 1, "maxLen": 1},
    "i2": {"distinctCount": 1, "min": "5", "max": "5", "nullCount": 0, "avgLen": 2, "maxLen": 2},
    "f": {"distinctCount": 3, "min": "-2.5", "max": "1.0E10", "nullCount": 0, "avgLen": 4, "maxLen": 4},
    "d": {"distinctCount": 2, "min": "1.5", "max": "NaN", "nullCount": 1, "avgLen": 8, "maxLen": 8},
    "dec": {"distinctCount": 2, "min": "-12.34", "max": "1.50", "nullCount": 2, "avgLen": 8, "maxLen": 8},
    "big": {
        "distinctCount": 3,
        "min": "-1" + "0" * 28,
        "max": "1" + "0" * 28,
        "nullCount": 0,
        "avgLen": 16,
        "maxLen": 16,
    },
    "s": {"distinctCount": 2, "nullCount": 1, "avgLen": 2, "maxLen": 4},
    "y": {"distinctCount": 2, "nullCount": 1, "avgLen": 1, "maxLen": 2},
    "dt": {"distinctCount": 2, "min": "-1", "max": "19782", "nullCount": 2, "avgLen": 4, "maxLen": 4},
    "tm": {"distinctCount": 2, "min": "0", "max": "47109123", "nullCount": 0, "avgLen": 4, "maxLen": 4},
    "ts": {
        "distinctCount": 2,
        "min": "1969-12-31 23:59:59.000000",
        "max": "2024-02-29 13:05:09.123450",
        "nullCount": 2,
        "avgLen": 8,
        "maxLen": 8,
    },
    "lz": {
        "distinctCount": 1,
        "min": "2024-01-01 00:00:00.000",
        "max": "2024-01-01 00:00:00.000",
        "nullCount": 0,
        "avgLen": 8,
        "maxLen": 8,
    },
    "none": {"distinctCount": 0, "nullCount": 4, "avgLen": 20, "maxLen": 20},
}


def rows() -> pa.Table:
    fields = [pa.field(name, kind, nullable=name != "k") for name, (kind, _) in COLUMNS.items()]
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()}, pa.schema(fields))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=rows().schema, primary_keys=["k"], options={"bucket": "2"}
    )
    table.write(rows())
    table.write(rows().slice(0, 2))
    return table


def statistics_of(table: Table) -> dict[str, Any]:
    (row,) = open_table(f"{table.path}$statistics").to_arrow().to_pylist()
    return row


def test_statistics_are_those_of_the_merged_rows(table: Table):
    size = sum(table.files()["file_size_in_bytes"].to_pylist())

    result = table.analyze()

    as_numbers = {
        name: {key: value for key, value in found.items() if key != "colId"} for name, found in result.columns.items()
    }
    assert as_numbers == EXPECTED
    assert (result.status, result.snapshot_id, result.rows) == ("committed", 3, 4)
    assert result.bytes == int(size * 4 / 6)
    assert [found["colId"] for found in result.columns.values()] == list(range(15))


def test_java_reads_the_statistics(table: Table, oracle: JavaPaimon):
    result = table.analyze()

    answer = oracle.call("read", table=table.path, system="statistics")
    (theirs,) = answer["rows"]
    theirs_by_name = dict(zip([column["name"] for column in answer["columns"]], theirs, strict=True))
    assert theirs_by_name["mergedRecordCount"] == 4
    assert json.loads(theirs_by_name["colstat"]) == result.columns
    ours = statistics_of(table)
    assert json.loads(ours["colstat"]) == result.columns
    assert (ours["snapshot_id"], ours["schema_id"], ours["mergedRecordSize"]) == (2, 0, result.bytes)
    oracle.assert_sound(table.path)


def test_java_keeps_them_in_the_next_snapshot(table: Table, oracle: JavaPaimon):
    result = table.analyze()

    oracle.run(table.path, [{"op": "compact"}])

    handle = load_table(table.path, EnvConfig(table.path))
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    assert (snapshot.id, snapshot.statistics) == (4, result.statistics_file)


def test_the_file_is_laid_out_as_java_lays_it_out(tmp_path: Path, oracle: JavaPaimon):
    ours = case("statistics").copy_to(tmp_path)
    before = json.loads(next((ours / "statistics").iterdir()).read_text(encoding="utf-8"))
    oracle.run(ours, [{"op": "statistics"}])
    java = next(
        path
        for path in (ours / "statistics").iterdir()
        if f'"snapshotId" : {before["snapshotId"]},' not in path.read_text(encoding="utf-8")
    )

    result = open_table(str(ours)).analyze([])

    assert result.statistics_file is not None
    text = (ours / "statistics" / result.statistics_file).read_text(encoding="utf-8")
    keys = ("snapshotId", "mergedRecordSize", "mergedRecordCount")
    assert [line for line in text.splitlines() if not any(key in line for key in keys)] == [
        line for line in java.read_text(encoding="utf-8").splitlines() if not any(key in line for key in keys)
    ]


def test_the_snapshot_changes_nothing_else(table: Table):
    before = table.to_arrow(["k", "s"])

    table.analyze(["k"])

    last = table.snapshots().to_pylist()[-1]
    assert (last["commit_kind"], last["delta_record_count"], last["total_record_count"]) == ("ANALYZE", 0, 6)
    assert table.to_arrow(["k", "s"]) == before


def test_columns_may_be_chosen_and_no_column_counts_the_rows(table: Table):
    assert list(table.analyze(["s", "k", "s"]).columns) == ["s", "k"]
    counted = table.analyze([])
    assert (counted.rows, counted.columns) == (4, {})


@pytest.mark.parametrize(("columns", "reason"), [(["l"], "nested"), (["missing"], "missing"), (7, "a list")])
def test_columns_without_statistics_are_refused(table: Table, columns: Any, reason: str):
    with pytest.raises(InvalidArgumentError, match=reason):
        table.analyze(columns) if not isinstance(columns, str) else run(
            Job(TableRef(path=table.path), Analyze(columns), "u")
        )
    assert table.latest_snapshot_id() == 2
    assert not (Path(table.path) / "statistics").exists()


def test_a_table_without_snapshots_has_no_statistics(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows().schema)

    assert table.analyze().status == "noop"


def test_a_job_that_is_repeated_analyzes_once(table: Table):
    job = Job(TableRef(path=table.path), Analyze(), "nightly")

    first, again = run(Job.from_json(job.to_json())), run(job)

    assert (first.status, again.status) == ("committed", "already_done")
    assert first.snapshot_id == again.snapshot_id == 3
    assert len(list((Path(table.path) / "statistics").iterdir())) == 1


def test_later_snapshots_keep_the_statistics_until_the_schema_changes(table: Table):
    name = table.analyze().statistics_file
    table.write(rows())
    handle = load_table(table.path, EnvConfig(table.path))
    kept = latest_snapshot(handle)
    assert kept is not None
    assert kept.statistics == name

    folder = Path(table.path) / "schema"
    schema = parse_schema((folder / "schema-0").read_text(encoding="utf-8"), "schema-0")
    (folder / "schema-1").write_text(
        schema_to_json(schema).replace('"id" : 0,\n  "fields"', '"id" : 1,\n  "fields"'), encoding="utf-8"
    )
    # Analyzed as of a snapshot of the old schema, committed at the new one.
    open_table(table.path).analyze(["k"])
    fresh = open_table(table.path)
    fresh.write(rows())

    last = latest_snapshot(load_table(table.path, EnvConfig(table.path)))
    assert last is not None
    assert (last.schema_id, last.statistics) == (1, None)


def test_expiry_deletes_statistics_that_no_snapshot_names(table: Table):
    old, new = table.analyze().statistics_file, table.analyze().statistics_file
    table.write(rows())

    table.expire_snapshots(retain_max=1, retain_min=1)

    assert [path.name for path in (Path(table.path) / "statistics").iterdir()] == [new]
    assert old != new


def test_tables_with_deletion_vectors_are_analyzed_without_the_deleted_rows(tmp_path: Path):
    table = open_table(str(case("dv_parquet").copy_to(tmp_path)))

    result = table.analyze()

    assert result.status == "committed"
    assert result.rows == table.to_arrow().num_rows


def test_many_distinct_values_are_estimated():
    sketch, other = (ColumnSketch(DataField(0, "s", parse_type("STRING"))) for _ in range(2))
    count = 4 * HASHES_KEPT
    for begin in range(0, count, 50_000):
        part = [f"value {number}" for number in range(begin, min(begin + 50_000, count))]
        (sketch if begin % 100_000 else other).add(pa.array(part))
        other.add(pa.array(part[:1000]))

    sketch.merge(other)

    assert abs(sketch.distinct_count - count) < count * 0.02


def test_few_distinct_values_are_counted_exactly_in_any_order():
    sketch = ColumnSketch(DataField(0, "s", parse_type("STRING")))
    words = ["", "a", "b", "ab", "ba", "aa", "\x00", "\x00\x00", "é", "aab", "aba", "baa"]
    sketch.add(pa.array([*words, *reversed(words), None]).slice(3))
    sketch.add(pa.array(words))

    assert sketch.distinct_count == len(words)


def test_both_zeros_and_all_nans_are_one_value_each():
    sketch = ColumnSketch(DataField(0, "d", parse_type("DOUBLE")))
    sketch.add(pa.array([0.0, -0.0, math.nan, -math.nan, None]))

    assert sketch.distinct_count == 2


def test_damaged_statistics_are_named():
    with pytest.raises(CorruptTableError, match="stats-1"):
        parse_table_statistics('{"snapshotId": 1, "colStats": {"a": 3}}', "stats-1")
