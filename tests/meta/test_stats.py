"""Statistics: modes, cutting, the manifest record, collecting, and agreement with Java's statistics."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.avro import read_records
from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.meta.manifest import DataFile, entry_from_record
from paimon_engine.meta.schema import TableSchema, parse_schema
from paimon_engine.meta.stats import (
    EMPTY_STATS,
    ColumnStats,
    SimpleStats,
    StatsCollector,
    StatsKind,
    StatsMode,
    apply_mode,
    from_simple_stats,
    parse_stats_mode,
    to_simple_stats,
    truncate_max,
    truncate_min,
)
from paimon_engine.types import DataType, TypeRoot, parse_type
from tests.support.reference import reference_folder

FULL = StatsMode(StatsKind.FULL)


def parse_types(text: str) -> list[DataType]:
    return [parse_type(part.strip()) for part in text.split(";")]


def collect(data_type: DataType, *batches: pa.Array, mode: StatsMode = FULL) -> ColumnStats:
    collector = StatsCollector([data_type], [mode])
    for batch in batches:
        collector.add(pa.record_batch([batch], ["x"]))
    return collector.finish()[0]


# ── Modes and cutting ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["none", "counts", "full", "truncate(16)"])
def test_modes_print_as_they_are_parsed(text: str) -> None:
    assert text == str(parse_stats_mode(text.upper()))


@pytest.mark.parametrize("text", ["", "all", "truncate", "truncate(0)", "truncate(-1)"])
def test_unknown_modes_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="stats mode"):
        parse_stats_mode(text)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("abc", "abc", "abc"),
        ("abcd", "abc", "abd"),
        ("ab\U0010ffffx", "ab\U0010ffff", "ac"),
        ("\U0010ffff" * 4, "\U0010ffff" * 3, None),
        ("ab\ud7ffx", "ab\ud7ff", "ab\ue000"),
        ("😀😀😀😀", "😀😀😀", "😀😀😁"),
        (b"abcd", b"abc", b"abd"),
        (b"a\xff\xff\xff", b"a\xff\xff", b"b"),
        (b"\xff" * 4, b"\xff" * 3, None),
        (123456, 123456, 123456),
        (Decimal("1.2345"), Decimal("1.2345"), Decimal("1.2345")),
        (None, None, None),
    ],
)
def test_bounds_are_cut_to_three(value: Any, low: Any, high: Any) -> None:
    assert low == truncate_min(value, 3)
    assert high == truncate_max(value, 3)


@given(st.one_of(st.text(st.characters(codec="utf-8")), st.binary()), st.integers(1, 5))
def test_cut_bounds_enclose_the_value(value: Any, length: int) -> None:
    low, high = truncate_min(value, length), truncate_max(value, length)

    assert low <= value
    assert len(low) <= length
    assert high is None or (high >= value and len(high) <= length)


def test_a_mode_without_upper_bound_drops_both_bounds() -> None:
    stats = ColumnStats("a", "\U0010ffff" * 4, 2)

    assert ColumnStats(None, None, 2) == apply_mode(stats, StatsMode(StatsKind.TRUNCATE, 3))
    assert ColumnStats(None, None, 2) == apply_mode(stats, StatsMode(StatsKind.COUNTS))
    assert ColumnStats(None, None, None) == apply_mode(stats, StatsMode(StatsKind.NONE))
    assert stats == apply_mode(stats, FULL)


# ── Manifest records ────────────────────────────────────────────────────────────────────────────


def test_statistics_round_trip_through_the_manifest_record() -> None:
    types = parse_types("INT; STRING; DECIMAL(20, 2); TIMESTAMP(6)")
    columns = [
        ColumnStats(1, 5, 0),
        ColumnStats("a", "b", 3),
        ColumnStats(None, None, None),
        ColumnStats(None, None, 7),
    ]

    stats = to_simple_stats(types, columns)

    assert columns == from_simple_stats(types, stats)
    assert encode_row(types, [1, "a", None, None], reserve_null=False) == stats.min_values
    assert (0, 3, None, 7) == stats.null_counts


def test_empty_statistics_are_unknown_for_every_column() -> None:
    assert EMPTY_STATS == to_simple_stats([], [])
    assert bytes(12) == EMPTY_STATS.min_values
    assert [ColumnStats(None, None, None)] * 2 == from_simple_stats(parse_types("INT; INT"), EMPTY_STATS)


def test_missing_null_counts_are_unknown() -> None:
    types = parse_types("INT")
    row = encode_row(types, [1], reserve_null=False)

    assert [ColumnStats(1, 1, None)] == from_simple_stats(types, SimpleStats(row, row, ()))


def test_another_number_of_columns_is_corrupt() -> None:
    stats = to_simple_stats(parse_types("INT"), [ColumnStats(1, 1, 0)])

    with pytest.raises(CorruptTableError):
        from_simple_stats(parse_types("INT; INT"), stats)
    with pytest.raises(CorruptTableError, match="null counts"):
        from_simple_stats(parse_types("INT"), SimpleStats(stats.min_values, stats.max_values, (0, 0)))


# ── Collecting ──────────────────────────────────────────────────────────────────────────────────


def test_batches_are_combined() -> None:
    found = collect(parse_type("INT"), pa.array([3, None]), pa.array([None, None], pa.int32()), pa.array([-1, 2]))

    assert ColumnStats(-1, 3, 3) == found


def test_all_null_columns_have_a_count_only() -> None:
    assert ColumnStats(None, None, 2) == collect(parse_type("STRING"), pa.array([None, None], pa.string()))
    assert ColumnStats(None, None, 0) == collect(parse_type("STRING"))


def test_strings_are_ordered_by_unsigned_bytes() -> None:
    # In UTF-16, as Java keeps it in memory, U+FFFD sorts behind the emoji.
    assert ColumnStats("a", "😀", 0) == collect(parse_type("STRING"), pa.array(["\ufffd", "a", "😀", "é"]))


def test_nested_and_binary_columns_have_no_bounds() -> None:
    unknown = ColumnStats(None, None, None)

    assert unknown == collect(parse_type({"type": "ARRAY", "element": "INT"}), pa.array([[1], None]))
    assert ColumnStats(None, None, 1) == collect(parse_type("BYTES"), pa.array([b"a", None]))


def test_a_nan_in_any_batch_leaves_no_bounds() -> None:
    double = parse_type("DOUBLE")
    good, bad = pa.array([1.0, 2.0, None]), pa.array([math.nan, 1.0])

    assert ColumnStats(1.0, 2.0, 1) == collect(double, good)
    for batches in ((good, bad), (bad, good), (good, bad, good)):
        assert (None, None) == (collect(double, *batches).min, collect(double, *batches).max)
    assert ColumnStats(-math.inf, math.inf, 0) == collect(double, pa.array([math.inf, -math.inf]))


def test_zero_bounds_are_widened() -> None:
    found = collect(parse_type("FLOAT"), pa.array([0.0, -0.0], pa.float32()))

    assert (-1.0, 1.0) == (math.copysign(1, found.min), math.copysign(1, found.max))


def test_other_arrow_forms_of_strings() -> None:
    string, expected = parse_type("STRING"), ColumnStats("a", "b", 1)

    for array in (pa.array(["b", None, "a"]).dictionary_encode(), pa.array(["b", None, "a"], pa.string_view())):
        assert expected == collect(string, array)


# ── Statistics that Java wrote ──────────────────────────────────────────────────────────────────

STATS_CASES = [
    "types_parquet_append",
    "types_parquet_deep",
    "key_decimals",
    "key_timestamps",
    "part_many_types",
    "stats_full",
]


def java_files(name: str) -> list[tuple[TableSchema, bytes, DataFile]]:
    """Schema, partition and entry of every file that a manifest of the case names."""
    table = reference_folder("corpus") / name / "table"
    schemas = {path.name: parse_schema(path.read_text(), str(path)) for path in table.glob("schema/schema-*")}
    entries = [
        entry_from_record(record, str(path))
        for path in sorted(table.glob("manifest/manifest-*"))
        if not path.name.startswith("manifest-list")
        for record in read_records(path.read_bytes(), str(path))
    ]
    assert entries
    return [(schemas[f"schema-{entry.file.schema_id}"], entry.partition, entry.file) for entry in entries]


def types_of(schema: TableSchema) -> list[DataType]:
    return [field.type for field in schema.row_type]


@pytest.mark.parametrize("name", STATS_CASES)
def test_rows_that_java_wrote_encode_to_the_same_bytes(name: str) -> None:
    for schema, partition, file in java_files(name):
        partition_types = [field.type for field in schema.partition_type]
        key_types = [field.type for field in schema.key_type] if schema.primary_keys else []
        for types, row in ((partition_types, partition), (key_types, file.min_key), (key_types, file.max_key)):
            assert row == encode_row(types, decode_row(types, row), reserve_null=True)
        types = types_of(schema)
        assert file.value_stats == to_simple_stats(types, from_simple_stats(types, file.value_stats))


@pytest.mark.parametrize("name", STATS_CASES)
def test_collected_statistics_equal_those_of_java(name: str) -> None:
    for schema, _, file in java_files(name):
        path = next((reference_folder("corpus") / name / "table").rglob(file.name), None)
        if path is None or file.format != "parquet":
            continue
        mode = parse_stats_mode(schema.options.get("metadata.stats-mode", "truncate(16)"))
        types, names = types_of(schema), schema.row_type.names
        modes = [parse_stats_mode(schema.options.get(f"fields.{column}.stats-mode", str(mode))) for column in names]
        table = pq.read_table(path, partitioning=None).select(list(names))
        collector = StatsCollector(types, modes)
        for batch in table.to_batches():
            collector.add(batch)

        java = from_simple_stats(types, file.value_stats)
        # Java's Parquet files have INT96 timestamps, which have no bounds in the footer; the collector knows them.
        for data_type, expected, found in zip(types, java, collector.finish(), strict=True):
            if getattr(data_type, "precision", 0) <= 6 or data_type.root == TypeRoot.DECIMAL:  # type: ignore[union-attr]
                assert str(expected) == str(found)
