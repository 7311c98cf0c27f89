"""Tables as DataFrames: the rows of `to_arrow`, and by Spark's own reader wherever that reads the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    DropColumn,
    InvalidArgumentError,
    RenameColumn,
    Table,
    UnsupportedError,
    UpdateColumnType,
    open_table,
)
from paimon_engine.env import EnvConfig
from paimon_engine.meta.stats import ColumnStats
from paimon_engine.spark import native
from paimon_engine.spark.executor import SparkExecutor, check_reachable
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.read.split_columns import LazySplits
from paimon_engine.table.state import entry_choice, live_columns
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.spark.reads import ARROW, BOTH, NATIVE, NEITHER, assert_reads, plan_of
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.corpus import Case, corpus_cases, every_third
from tests.support.pypaimon import PyPaimon

pytestmark = pytest.mark.spark

KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.string()), pa.field("n", pa.int32())])


@pytest.fixture
def catalog(spark: Any, tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path), executor=SparkExecutor(spark))


def rows(begin: int, end: int, text: str = "a") -> pa.Table:
    ids = range(begin, end)
    return pa.table([list(ids), [f"{text}{k}" for k in ids], [k % 7 if k % 5 else None for k in ids]], schema=KEYED)


def keyed(catalog: Catalog, options: Mapping[str, str] | None = None) -> Table:
    return catalog.create_table("db.t", schema=KEYED, primary_keys=["k"], options={"bucket": "2", **(options or {})})


# ── what is read how ────────────────────────────────────────────────────────────────────────────


def test_a_table_is_read_before_and_after_its_compaction(session: Any, tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), executor=SparkExecutor(session))
    table = keyed(catalog)
    assert_reads(table, NEITHER)

    table.write(rows(0, 30))
    assert_reads(table, NATIVE)
    table.write(rows(20, 50, "b"))
    assert_reads(table, ARROW)
    assert_reads(table, ARROW, columns=["s"], where="n > 3 OR s LIKE '%1'")
    table.compact(full=True)
    assert_reads(table, NATIVE)
    assert_reads(table, NATIVE, columns=["n", "k"], where="s > 'b' AND k <> 31")
    assert_reads(table, ARROW, snapshot=2)

    plan = plan_of(table.to_spark(["s"], where="k > 30"))
    assert "ReadSchema: struct<s:string,k:bigint>" in plan
    assert "GreaterThan(k,30)" in plan
    assert "ReadSchema: struct<n:int>" in plan_of(table.to_spark().select("n"))


def test_a_table_is_read_both_ways_at_once(session: Any, tmp_path: Path) -> None:
    table = keyed(Catalog(str(tmp_path), executor=SparkExecutor(session)), {"bucket": "4"})
    table.write(rows(0, 40))
    table.compact(full=True)
    table.write(rows(7, 8, "new"))

    assert_reads(table, BOTH)
    assert_reads(table, BOTH, columns=["s"], where="n IS NULL OR k = 7")


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        ({"merge-engine": "deduplicate"}, ARROW, NATIVE),
        ({"merge-engine": "partial-update"}, ARROW, NATIVE),
        ({"merge-engine": "partial-update", "fields.n.sequence-group": "s"}, ARROW, NATIVE),
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, ARROW, NATIVE),
        ({"merge-engine": "first-row"}, NEITHER, NATIVE),
        ({"fields.s.default-value": "none"}, ARROW, ARROW),
        ({"file.format": "orc"}, ARROW, ARROW),
        ({"file.format": "avro"}, ARROW, ARROW),
        ({"changelog-producer": "input"}, ARROW, NATIVE),
        ({"metadata.stats-mode": "none"}, ARROW, NATIVE),
        ({"metadata.stats-mode": "none", "merge-engine": "partial-update"}, ARROW, ARROW),
        ({"data-file.prefix": "_hidden-"}, ARROW, ARROW),
        ({"data-file.thin-mode": "true"}, ARROW, NATIVE),
    ],
    ids=str,
)
def test_merge_engines_and_formats(
    catalog: Catalog, options: Mapping[str, str], before: set[str], after: set[str]
) -> None:
    table = keyed(catalog, {**options, "bucket": "1"})
    table.write(rows(0, 20))
    table.write(pa.table([[3, 19, 21], [None, "b", "c"], [1, None, None]], schema=KEYED))
    assert_reads(table, before)
    table.compact(full=True)
    assert_reads(table, after)
    assert_reads(table, after, where="s >= 'a3'", columns=["k"])


def test_delete_records_in_lone_files_are_left_out(catalog: Catalog) -> None:
    table = keyed(catalog, {"bucket": "1"})
    table.write(rows(0, 3), row_kinds=["+I", "-D", "+U"])

    assert_reads(table, ARROW)
    assert table.to_spark().count() == 2


def test_deletes_that_pypaimon_notes_as_none_are_left_out(catalog: Catalog, tmp_path: Path, pypaimon: PyPaimon) -> None:
    path, kinds = tmp_path / "db.db" / "t", pa.array(["+I", "-D", "+I"])
    schema = KEYED.append(pa.field("kind", pa.string()))
    options = {"bucket": "1", "rowkind.field": "kind"}
    pypaimon.create(path, schema, primary_keys=["k"], options=options)
    pypaimon.append(path, rows(0, 3).append_column("kind", kinds))
    table = catalog.table("db.t")

    assert_reads(table, ARROW, columns=["k", "s"])
    assert table.to_spark(["k"]).count() == 2
    table.write(rows(5, 6).append_column("kind", pa.array(["+I"])))
    table.compact(full=True)
    assert_reads(table, NATIVE, columns=["k", "s"])
    assert table.to_spark(["k"]).count() == 3


def test_keys_that_may_be_lost_in_a_row_are_left_to_the_engine(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(catalog, {"bucket": "1", "merge-engine": "partial-update", "fields.n.sequence-group": "s"})
    table.write(rows(0, 3))
    assert_reads(table, NATIVE)

    monkeypatch.setattr(native, "value_ranges", lambda *_: {"k": ColumnStats(0, 2, 1)})
    assert_reads(table, ARROW)
    assert_reads(table, NATIVE, columns=["s"])


@pytest.mark.parametrize("keys", [["k"], []], ids=["keys", "append"])
def test_rows_that_deletion_vectors_mark_are_left_out(catalog: Catalog, keys: list[str]) -> None:
    options = {"bucket": "4", "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "9"}
    if not keys:
        options["bucket-key"] = "k"
    table = catalog.create_table("db.t", schema=KEYED, primary_keys=keys, options=options)
    table.write(rows(0, 4000))
    table.compact(full=True)
    assert_reads(table, NATIVE)
    if keys:
        table.write(rows(7, 8, "new"))
        table.compact()
    else:
        table.delete("k = 7")

    vectors = table.to_spark().where("k = 7").collect()
    assert [row.s for row in vectors] == (["new7"] if keys else [])
    assert_reads(table, BOTH)
    assert_reads(table, BOTH, where="s <> 'a9'", columns=["n"])
    assert_reads(table, NATIVE, tag=None, snapshot=2 if keys else 1)


def test_partitioned_tables(catalog: Catalog) -> None:
    schema = pa.schema([("p", pa.string()), ("q", pa.date32()), ("k", pa.int64())])
    table = catalog.create_table("db.t", schema=schema, partition_keys=["p", "q"])
    names = ["a", "1", "2024-01-01", "b=c", "50%/x y", "ü:#?*"]
    days = [date(2024, 1, 1), date(1, 1, 1)]
    table.write(pa.table([names * 2, [days[n % 2] for n in range(12)], list(range(12))], schema=schema))

    assert_reads(table, NATIVE)
    assert_reads(table, NATIVE, columns=["k", "p"], where="p IN ('1', 'b=c')")
    assert_reads(table, NATIVE, columns=["k"], where="q < DATE '2000-01-01' AND p = '1'")

    table.write(pa.table([["x{y}", None], [None, None], [20, 21]], schema=schema))
    assert_reads(table, NATIVE)
    assert_reads(table, NEITHER, where="p = 'nowhere'")


def test_splits_that_are_made_when_they_are_reached(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_choice, "ENTRIES_MIN", 1)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)
    table = keyed(catalog, {"bucket": "3"})
    table.write(rows(0, 40))
    table.compact(full=True)
    table.write(rows(7, 9, "new"))
    assert isinstance(plan_splits(table._handle, latest_snapshot(table._handle)), LazySplits)

    assert_reads(table, BOTH)
    assert_reads(table, BOTH, columns=["s"], where="n IS NULL OR k = 7")
    assert_reads(catalog.table("db.t$audit_log"), ARROW)


def test_columns_that_were_added_renamed_dropped_and_widened(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", schema=pa.schema([("k", pa.int32()), ("s", pa.string()), ("n", pa.int32())]))
    table.write(pa.table({"k": pa.array([1, 2], "i4"), "s": ["a", None], "n": pa.array([None, 5], "i4")}))
    table.alter([AddColumn("d", "DOUBLE"), RenameColumn("s", "t")])
    assert_reads(table, NATIVE, where="d IS NULL AND t = 'a'")
    assert_reads(table, ARROW, columns=["d"])
    table.write(pa.table({"k": pa.array([3], "i4"), "t": ["b"], "n": pa.array([7], "i4"), "d": [1.5]}))
    assert_reads(table, NATIVE)
    table.alter([DropColumn("t"), AddColumn("s", "BIGINT"), AddColumn("c", "VARCHAR(5)")])
    assert_reads(table, NATIVE)
    table.alter([UpdateColumnType("n", "BIGINT")])
    table.write(pa.table({"k": pa.array([4], "i4"), "n": [8], "d": [None], "s": [1], "c": ["x"]}))
    table.alter([UpdateColumnType("c", "VARCHAR(9)")])

    assert_reads(table, BOTH)
    assert_reads(table, BOTH, where="n < 8 OR s = 1")
    assert_reads(table, NATIVE, columns=["k", "d", "c"], where="s IS NULL OR s > 0")
    assert_reads(table, NATIVE, snapshot=1)


def test_names_that_differ_by_case_only(catalog: Catalog) -> None:
    schema = pa.schema([("a", pa.int32()), ("A", pa.int32()), ("b", pa.struct([("x", pa.int32()), ("X", pa.int32())]))])
    table = catalog.create_table("db.t", schema=schema)
    table.write(pa.table([[1, None], [3, 4], [{"x": 1, "X": 2}, None]], schema=schema))

    assert_reads(table, ARROW)
    assert_reads(table, ARROW, columns=["A"], where="a IS NULL")
    assert_reads(table, ARROW, columns=["b"])

    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("_key_k", pa.int32())])
    table = catalog.create_table("db.keyed", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    table.write(pa.table([[1], [2]], schema=schema))
    assert_reads(table, ARROW)


def test_parts_of_rows_and_maps(catalog: Catalog) -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    schema = pa.schema([("r", inner), ("m", pa.map_(pa.string(), pa.int32())), ("a.b", pa.int32())])
    table = catalog.create_table("db.t", schema=schema)
    table.write(pa.table([[{"x": 1, "y": "a"}, None], [[("k", 1)], [("k", None)]], [5, 6]], schema=schema))

    assert_reads(table, NATIVE)
    assert_reads(table, NATIVE, columns=["a.b"], where="`a.b` > 5")
    assert_reads(table, NATIVE, where="r IS NULL")
    assert_reads(table, ARROW, columns=["r.y"])
    assert_reads(table, ARROW, where="m['k'] = 1")


def test_the_ways_in_time_and_to_branches(catalog: Catalog) -> None:
    table = keyed(catalog, {"bucket": "1"})
    table.write(rows(0, 10))
    table.create_tag("first")
    table.create_branch("side", tag="first")
    table.write(rows(5, 15, "b"))
    table.write(rows(3, 4), row_kinds=["-D"])

    assert_reads(table, NATIVE, tag="first")
    assert_reads(table, NATIVE, snapshot=1, where="k > 3")
    assert_reads(table, NATIVE, branch="side")
    assert_reads(table, ARROW, timestamp=datetime.now())
    assert_reads(table, NATIVE, options={"scan.tag-name": "first"})
    assert_reads(table, NATIVE, incremental=(1, 2))
    assert_reads(table, ARROW, incremental=(1, 3), with_row_kinds=True)
    table.compact(full=True)
    assert_reads(table, ARROW, incremental=(1, 4), options={"incremental-between-scan-mode": "diff"})
    frame = table.to_spark()
    table.write(rows(100, 101))
    assert frame.count() == 14


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("files", None),
        ("snapshots", None),
        ("options", None),
        ("partitions", None),
        ("audit_log", ARROW),
        ("binlog", ARROW),
        ("ro", NATIVE),
    ],
)
def test_system_tables(catalog: Catalog, name: str, ways: set[str] | None) -> None:
    table = keyed(catalog, {"bucket": "1"})
    table.write(rows(0, 10))
    table.compact(full=True)
    table.write(rows(5, 6), row_kinds=["-D"])

    assert_reads(catalog.table(f"db.t${name}"), ways)
    if name == "audit_log":
        assert_reads(catalog.table("db.t$audit_log"), ARROW, columns=["s", "rowkind"], where="rowkind = '-D'")
        assert_reads(catalog.table("db.t$audit_log"), ARROW, incremental=(2, 3))


def test_partitions_of_a_fallback_branch(catalog: Catalog) -> None:
    schema = pa.schema([("p", pa.int32()), ("s", pa.string())])
    table = catalog.create_table("db.t", schema=schema, partition_keys=["p"])
    table.write(pa.table([[1], ["main"]], schema=schema))
    table.create_branch("late")
    catalog.table("db.t$branch_late").write(pa.table([[1, 2], ["late", "late"]], schema=schema))

    found = catalog.table("db.t", {"scan.fallback-branch": "late"})

    assert sorted(tuple(row) for row in found.to_spark().collect()) == [(1, "main"), (2, "late")]
    assert_reads(found, NATIVE)


def test_many_small_files(spark: Any, catalog: Catalog) -> None:
    table = catalog.create_table(
        "db.t", schema=KEYED, primary_keys=["k", "n"], partition_keys=["n"], options={"bucket": "1"}
    )
    for text in "ab":
        table.write(pa.table([range(40), [text] * 40, range(40)], schema=KEYED))
    assert_reads(table, ARROW)
    assert "splits=8)" in plan_of(table.to_spark()), "four tasks for each core"

    table.compact(full=True)
    jobs, threshold = spark.sparkContext.statusTracker(), "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = jobs.getJobIdsForGroup(None), spark.conf.get(threshold)
    assert len(table.to_spark().inputFiles()) == 40 > int(before[1])
    assert (jobs.getJobIdsForGroup(None), spark.conf.get(threshold)) == before


# ── values ──────────────────────────────────────────────────────────────────────────────────────

MOMENTS = [datetime(1, 1, 1), datetime(1582, 10, 10, 1, 2, 3, 4000), datetime(9999, 12, 31, 23, 59, 59, 999000)]
EXTREMES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, 127]),
    "i16": (pa.int16(), [-(1 << 15), (1 << 15) - 1]),
    "i32": (pa.int32(), [-(1 << 31), (1 << 31) - 1]),
    "i64": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "f": (pa.float32(), [-3.4028234663852886e38, 1e-45, -0.0]),
    "d": (pa.float64(), [-1.7976931348623157e308, 5e-324, -0.0, float("inf")]),
    "small": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01")]),
    "middle": (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(-1)]),
    "large": (pa.decimal128(38, 10), [Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("0.0000000001")]),
    "s": (pa.string(), ["", "a\0b", "ü😀\n", "a" * 5000]),
    "b": (pa.binary(), [b"", b"\0\xff" * 3]),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\xff"]),
    "day": (pa.date32(), [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    "t0": (pa.timestamp("s"), [one.replace(microsecond=0) for one in MOMENTS]),
    "t3": (pa.timestamp("ms"), MOMENTS),
    "t6": (pa.timestamp("us"), [*MOMENTS, datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "z3": (pa.timestamp("ms", "UTC"), [one.replace(tzinfo=UTC) for one in MOMENTS]),
    "z6": (pa.timestamp("us", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]),
    "list": (pa.list_(pa.int32()), [[], [1, None]]),
    "map": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1), ("b", None)]]),
    "row": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), [{"x": None, "y": [None, "q"]}]),
    "time": (pa.time32("ms"), [time(0), time(23, 59, 59, 999000)]),
    "floats": (pa.list_(pa.float64()), [[nan, 1.0]]),
}
NOT_NATIVE = ("time", "floats")


@pytest.mark.parametrize("keys", [["key"], []], ids=["keys", "append"])
def test_all_types(catalog: Catalog, keys: list[str]) -> None:
    schema = pa.schema(
        [pa.field("key", pa.int32(), nullable=False), *((name, kind) for name, (kind, _) in EXTREMES.items())]
    )
    count = max(len(values) for _, values in EXTREMES.values()) + 1
    columns = [values + [None] * (count - len(values)) for _, values in EXTREMES.values()]
    table = catalog.create_table("db.t", schema=schema, primary_keys=keys, options={"bucket": "1"} if keys else {})
    table.write(pa.table([list(range(count)), *columns], schema=schema))

    assert_reads(table, NATIVE, columns=[name for name in schema.names if name not in NOT_NATIVE])
    assert_reads(table, ARROW)
    for name in NOT_NATIVE:
        assert_reads(table, ARROW, columns=[name])


def test_rows_with_nan_are_not_lost_by_a_filter_on_them(catalog: Catalog) -> None:
    """Spark would skip row groups for values that their ranges do not include."""
    schema = pa.schema([("k", pa.int32()), ("d", pa.float64())])
    table = catalog.create_table("db.t", schema=schema)
    table.write(pa.table([[1, 2, 3], [1.0, nan, 3.0]], schema=schema))

    assert [row.k for row in table.to_spark().where("d > 100").collect()] == [2]
    assert_reads(table, ARROW, where="d > 100")
    assert_reads(table, NATIVE, columns=["k"], where="k > 1")
    table.write(pa.table([[4, 5], [4.0, None]], schema=schema))
    assert_reads(table, BOTH, where="d >= 3 OR d IS NULL")


def test_timestamps_of_more_digits_are_refused(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int32()), ("fine", pa.timestamp("ns"))])
    table = catalog.create_table("db.t", schema=schema)
    table.write(pa.table([[1], [1]], schema=schema))

    with pytest.raises(UnsupportedError, match="'fine'.*6 digits"):
        table.to_spark()
    assert_reads(table, NATIVE, columns=["k"])
    assert_reads(table, ARROW, columns=["k"], where="fine IS NOT NULL")


# ── where it cannot be ──────────────────────────────────────────────────────────────────────────


def test_it_takes_a_spark_executor(tmp_path: Path) -> None:
    table = keyed(Catalog(str(tmp_path)))

    with pytest.raises(InvalidArgumentError, match=r"Catalog\(\.\.\., executor=SparkExecutor\(session\)\)"):
        table.to_spark()


@pytest.mark.parametrize("name", ["relative", "sp ace%20#ü=x,y:z", "wild[card]"])
def test_a_table_is_where_spark_can_read_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse = name if name == "relative" else str(tmp_path / name)
    table = keyed(Catalog(warehouse, executor=SparkExecutor(spark)))
    table.write(rows(0, 5))

    assert_reads(table, ARROW if "[" in name else NATIVE)


def test_what_spark_does_not_reach(catalog: Catalog, spark: Any) -> None:
    table = keyed(catalog)
    table.write(rows(0, 10))

    elsewhere = open_table(table.path, executor=SparkExecutor(spark, native_schemes=["s3"]))
    assert_reads(elsewhere, ARROW)
    with pytest.raises(UnsupportedError, match="memory of one process"):
        check_reachable(EnvConfig("memory://lake"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: table.to_spark(["nope"]), "no column 'nope'"),
        (lambda table: table.to_spark(where="nope = 1"), "no column 'nope'"),
        (lambda table: table.to_spark(where="k = 'x'"), "does not fit"),
        (lambda table: table.to_spark(snapshot=1, tag="a"), "not several"),
    ],
)
def test_requests_are_checked_at_once(catalog: Catalog, call: Callable[[Table], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call(keyed(catalog))


# ── tables that Java wrote ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", every_third(corpus_cases()))
def test_tables_of_java(spark: Any, case: Case) -> None:
    table = open_table(str(case.table), executor=SparkExecutor(spark))
    types = {field.name: field.type for field in table.arrow_schema}
    columns = [name for name, kind in types.items() if kind not in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))]
    # Of the tables with all types, those columns apart that keep Spark from reading the others.
    plain = [name for name in columns if not (pa.types.is_floating(types[name]) or pa.types.is_time(types[name]))]

    for asked in {tuple(columns), tuple(plain)} if case.name.startswith("types_") else {tuple(columns)}:
        expected, frame = table.to_arrow(asked), table.to_spark(asked)
        found = frame.toArrow()
        assert found.schema.names == list(asked)
        assert_same_rows(rows_of(found), rows_of(expected), unordered=case.unordered)
