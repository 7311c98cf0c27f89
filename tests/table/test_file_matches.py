"""Statistics of many files, looked at in columns, exclude just the files that they exclude when looked at one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine import AddColumn, Catalog, CorruptTableError, RenameColumn, Table, UpdateColumnType, open_table
from paimon_engine.arrow_types import from_arrow
from paimon_engine.format.avro_blocks import container
from paimon_engine.format.binary_row import EMPTY_ROW, internal_values
from paimon_engine.meta.entry_columns import ColumnarEntries, EntryPart
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry
from paimon_engine.meta.manifest_columns import ManifestColumns
from paimon_engine.meta.stats import EMPTY_STATS, ColumnStats, SimpleStats, to_simple_stats
from paimon_engine.predicate import Predicate, as_predicate, col, parse_where, to_arrow_expression
from paimon_engine.table.files.row_ids import with_row_ids
from paimon_engine.table.read.column_matches import matches_in_columns
from paimon_engine.table.read.file_matches import FileMatches
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import DataType
from tests.support.random_manifests import stored

COLUMNS = {
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "whole": pa.int32(),
    "long": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "short": pa.decimal128(9, 2),
    "wide": pa.decimal128(30, 2),
    "text": pa.string(),
    "day": pa.date32(),
    "millis": pa.timestamp("ms"),
    "micros": pa.timestamp("us"),
    "nanos": pa.timestamp("ns"),
    "local": pa.timestamp("us", tz="UTC"),
    "bytes": pa.binary(),
    "list": pa.list_(pa.int32()),
}
KEYS = ("whole", "text")
NAN = float("nan")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    fields = [pa.field(name, kind, nullable=name not in KEYS) for name, kind in COLUMNS.items()]
    return Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema(fields), primary_keys=KEYS)


def value(chance: random.Random, kind: pa.DataType) -> Any:
    """One of few values, so that many are equal."""
    number = chance.choice([-7, -3, -1, 0, 1, 2, 5])
    if pa.types.is_boolean(kind):
        return number > 0
    if pa.types.is_floating(kind):
        return chance.choice([0.0, -0.0, number / 2, NAN, 1e9])
    if pa.types.is_string(kind):
        return chance.choice(["", "a", "ab", "abc\0", "länger als ein Feld", "zz" * 8, "\U0001f600", "abc"])
    if pa.types.is_binary(kind):
        return bytes([number & 255])
    if pa.types.is_decimal(kind):
        return Decimal(number) / 4
    if pa.types.is_list(kind):
        return [number]
    if pa.types.is_timestamp(kind):
        return number * 1_000_000_001
    return number


def bounds(chance: random.Random, kind: pa.DataType, data_type: DataType, row_count: int) -> ColumnStats:
    if chance.random() < 0.1:
        return ColumnStats(None, None, chance.choice([None, 0, row_count]))
    if pa.types.is_list(kind) or pa.types.is_binary(kind):
        return ColumnStats(None, None, chance.choice([None, 0, 1]))
    values = [value(chance, kind) for _ in range(2)]
    if pa.types.is_timestamp(kind):
        values = [one // 1_000 * 1_000 if "us" in str(kind) else one for one in values]
        values = [one // 1_000_000 * 1_000_000 if "ms" in str(kind) else one for one in values]
    else:
        values = internal_values(pa.array(values, kind), data_type)
    if any(one != one for one in values):
        return ColumnStats(None, None, 0)
    low, high = sorted(values)
    return ColumnStats(low, high, chance.choice([0, 0, 1, row_count, None]))


def stats(chance: random.Random, names: Sequence[str], row_count: int) -> SimpleStats:
    types = [from_arrow(COLUMNS[name]) for name in names]
    found = [bounds(chance, COLUMNS[name], kind, row_count) for name, kind in zip(names, types, strict=True)]
    return to_simple_stats(types, found)


def file(chance: random.Random, number: int) -> DataFile:
    row_count = chance.randrange(1, 4)
    listed = chance.choice([None, None, ("tiny", "text", "double", "micros"), ()])
    return DataFile(
        name=f"data-{number}.{chance.choice(['parquet', 'parquet', 'orc'])}",
        size_bytes=1,
        row_count=row_count,
        value_stats=EMPTY_STATS
        if chance.random() < 0.1
        else stats(chance, listed or list(COLUMNS), row_count)
        if listed != ()
        else EMPTY_STATS,
        key_stats=stats(chance, KEYS, row_count),
        value_stats_columns=listed,
    )


def leaf(chance: random.Random) -> Predicate:
    name = chance.choice(sorted(COLUMNS.keys() - {"list", "bytes"}))
    kind, column = COLUMNS[name], col(name)

    def literal() -> Any:
        one = value(chance, kind)
        return (
            pa.scalar(one, kind).as_py()
            if not pa.types.is_timestamp(kind)
            else pa.scalar(one // {"s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}[kind.unit], kind)
            .cast(pa.timestamp("us", kind.tz), safe=False)
            .as_py()
        )

    options = [
        lambda: column == literal(),
        lambda: column != literal(),
        lambda: column < literal(),
        lambda: column <= literal(),
        lambda: column > literal(),
        lambda: column >= literal(),
        lambda: column.is_in([literal(), literal(), None]),
        lambda: column.is_in([]),
        lambda: column.is_null(),
        lambda: column.is_not_null(),
        lambda: col("text").starts_with(chance.choice(["", "a", "ab", "zzzz"])),
        lambda: col("text").like(chance.choice(["a%", "%b", "abc", "_"])),
        lambda: col("list").is_null(),
        lambda: col("short") > 0.125,
    ]
    return as_predicate(chance.choice(options)())


def tree(chance: random.Random, depth: int = 0) -> Predicate:
    if depth == 2 or chance.random() < 0.5:
        return leaf(chance)
    a, b = tree(chance, depth + 1), tree(chance, depth + 1)
    return as_predicate(chance.choice([lambda: a & b, lambda: a | b, lambda: ~a])())


def answers(table: Table, parts: Sequence[Predicate], files: Sequence[DataFile]) -> tuple[list[bool], list[bool]]:
    found = FileMatches(table._handle, parts, files)
    values, keys = [found.may_match(one) for one in files], [found.key_may_match(one) for one in files]
    if len(files) > 1:
        matches = matches_in_columns(table._handle, parts, in_columns(files))
        assert (matches.by_value.tolist(), matches.by_key.tolist()) == (values, keys)
    return values, keys


def in_columns(files: Sequence[DataFile]) -> ColumnarEntries:
    """Entries of the files as a manifest of each kind has them, in the order of the files."""

    def kind(place: int) -> str:
        one = files[place]
        return repr((one.value_stats_columns, one.extras, not one.value_stats.null_counts))

    order = sorted(range(len(files)), key=kind)
    parts: list[EntryPart] = []
    for _, places in groupby(order, kind):
        entries = [ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, files[place]) for place in places]
        found = container(stored(entries))
        parts.append(ManifestColumns(found.schema, found.blocks).chosen(np.arange(len(entries))))
    return ColumnarEntries(parts, np.argsort(order))


def one_by_one(table: Table, parts: Sequence[Predicate], files: Sequence[DataFile]) -> tuple[list[bool], list[bool]]:
    each = [answers(table, parts, [one]) for one in files]
    return [values[0] for values, _ in each], [keys[0] for _, keys in each]


@pytest.mark.parametrize("seed", range(12))
def test_columns_exclude_the_files_that_are_excluded_one_by_one(table: Table, seed: int):
    chance = random.Random(seed)
    files = [file(chance, number) for number in range(120)]
    for _ in range(15):
        parts = [tree(chance) for _ in range(chance.randrange(1, 3))]
        assert answers(table, parts, files) == one_by_one(table, parts, files), [str(part) for part in parts]


def test_some_files_are_excluded_and_some_are_not(table: Table):
    chance = random.Random(5)
    files = [file(chance, number) for number in range(200)]
    for name in sorted(COLUMNS.keys() - {"list", "bytes", "flag", "single", "double", "nanos"}):
        found, _ = answers(table, [as_predicate(col(name).is_not_null())], files)
        assert set(found) == {True, False}, name


def test_files_from_before_columns_changed(table: Table):
    chance = random.Random(11)
    old = [file(chance, number) for number in range(60)]
    table.alter([RenameColumn("tiny", "long"[::-1]), UpdateColumnType("small", "BIGINT"), AddColumn("new", "INT")])
    files = [*old, *(replace(one, name=f"again-{one.name}", schema_id=0) for one in old)]
    for part in (
        col("gnol") > 0,
        col("small") <= -3,
        col("new") == 1,
        col("new").is_null(),
        (col("small") == 5) & (col("whole") == 5),
    ):
        found = answers(table, [as_predicate(part)], files)
        assert found == one_by_one(table, [as_predicate(part)], files), str(part)
    missing = [len(one.value_stats.null_counts) == 0 for one in files]
    assert answers(table, [as_predicate(col("new") == 1)], files)[0] == missing


@pytest.mark.parametrize("where", ["_ROW_ID = 5", "_ROW_ID > 17", "_SEQUENCE_NUMBER > 8", "_ROW_ID IS NULL", "k = 3"])
def test_ids_of_rows(tmp_path: Path, where: str):
    options = {"row-tracking.enabled": "true"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"k": "BIGINT"}, options=options)
    for number in range(10):
        table.write(pa.table({"k": [number, number]}))
    numbered = open_table(f"{table.path}$row_tracking")
    rows = numbered.to_arrow()

    found = numbered.to_arrow(where=where)

    assert found.sort_by("_ROW_ID") == rows.filter(to_arrow_expression(parse_where(where), rows.schema)).sort_by(
        "_ROW_ID"
    )
    assert len(found) < len(rows)
    handle = with_row_ids(table._handle)
    entries = live_entries(handle, latest_snapshot(handle))
    files = [entry.file for entry in entries]
    one = FileMatches(handle, [parse_where(where)], files)
    expected = [FileMatches(handle, [parse_where(where)], [file]).may_match(file) for file in files]
    assert [one.may_match(file) for file in files] == expected


@pytest.mark.parametrize("damage", ["cut", "arity", "offset", "text"])
def test_damaged_statistics_of_one_among_many_are_an_error(table: Table, damage: str):
    types = [from_arrow(kind) for kind in COLUMNS.values()]
    place = list(COLUMNS).index("text")
    known = [
        ColumnStats("a text of many", "z text of many", 0) if i == place else ColumnStats(None, None, 0)
        for i in range(len(types))
    ]
    sound = to_simple_stats(types, known)
    low = bytearray(sound.min_values)
    slot = 4 + 8 + 8 * place
    match damage:
        case "cut":
            low = low[:60]
        case "arity":
            low[3] += 1
        case "offset":
            low[slot + 4] = 255
        case "text":
            low[-5] = 255
            low[-16:] = b"\xff" * 16
    files = [DataFile(name=f"data-{n}.parquet", size_bytes=1, row_count=2, value_stats=sound) for n in range(20)]
    files[7] = replace(files[7], value_stats=replace(sound, min_values=bytes(low)))
    with pytest.raises(CorruptTableError):
        answers(table, [as_predicate(col("text") == "b")], files)
