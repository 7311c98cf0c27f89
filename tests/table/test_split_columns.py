"""Splits planned in columns are those that are made of the entries one by one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.env import EnvConfig
from paimon_engine.format.avro_blocks import container
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.meta.entry_columns import ColumnarEntries, EntryObjects, EntryPart
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry
from paimon_engine.meta.manifest_columns import ManifestColumns
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.predicate import parse_where
from paimon_engine.table.files.deletion_vectors import VectorLocation, vector_locations
from paimon_engine.table.read import reader
from paimon_engine.table.read.scan import plan_splits, splits_of, visible_to_readers
from paimon_engine.table.read.split_columns import LazySplits, splits_in_columns
from paimon_engine.table.state import entry_choice, live_columns
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.corpus import Case, corpus_cases
from tests.support.random_manifests import stored
from tests.support.seeds import seeds
from tests.table.conftest import MakeTable

DAYS = {"day": pa.int32()}
SMALL_SPLITS = {"source.split.target-size": "1 kb", "source.split.open-file-cost": "100 b"}
TABLES: dict[str, dict[str, Any]] = {
    "append": {"columns": {**DAYS, "v": pa.int64()}},
    "key": {"columns": {**DAYS, "k": pa.int64()}, "primary_keys": ["day", "k"]},
    "two keys": {"columns": {**DAYS, "k": pa.int32(), "l": pa.int8()}, "primary_keys": ["day", "k", "l"]},
    "deletion vectors": {
        "columns": {**DAYS, "k": pa.int64()},
        "primary_keys": ["day", "k"],
        "options": {"deletion-vectors.enabled": "true"},
    },
    "merged vectors": {
        "columns": {**DAYS, "k": pa.int64()},
        "primary_keys": ["day", "k"],
        "options": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    },
    "first-row": {
        "columns": {**DAYS, "k": pa.int64()},
        "primary_keys": ["day", "k"],
        "options": {"merge-engine": "first-row"},
    },
}


def made(make_table: MakeTable, kind: str) -> TableHandle:
    given = TABLES[kind]
    options = {"bucket": "1" if "primary_keys" in given else "-1", **SMALL_SPLITS, **given.get("options", {})}
    keys = given.get("primary_keys", ())
    return make_table(given["columns"], primary_keys=keys, partition_keys=["day"], options=options).handle


def entries_of(random: Random, table: TableHandle, count: int) -> list[ManifestEntry]:
    """Files in any order, some of one age, some that overlap in their keys, some postponed."""
    key_types = [field.type for field in table.schema.key_type]
    day_types = [field.type for field in table.schema.partition_type]

    def key(number: int) -> bytes:
        values = [number, *(random.randrange(-5, 5) for _ in key_types[1:])]
        return encode_row(key_types, values, reserve_null=True) if key_types else EMPTY_ROW

    def entry(number: int) -> ManifestEntry:
        low = random.randrange(-200, 200)
        # Of a single key, the smallest one is the largest.
        first = key(low)
        last = first if random.random() < 0.3 else key(low + random.choice([1, 3, 3, 40]))
        file = DataFile(
            f"data-{random.randrange(10**9)}-{number}.parquet",
            random.choice([0, 99, 100, 300, 1024, 9000]),
            random.randrange(100),
            first,
            last,
            min_sequence_number=random.randrange(6),
            max_sequence_number=random.randrange(6, 9),
            level=random.choice([0, 0, 1, 5]),
            creation_time_ms=random.choice([None, 0, 5, 7]),
        )
        day = encode_row(day_types, [random.choice([None, 1, 2, 30])], reserve_null=False)
        return ManifestEntry(FileKind.ADD, day, random.choice([0, 0, 1, 7, -2]), 8, file)

    return [entry(number) for number in range(count)]


def in_parts(random: Random, entries: Sequence[ManifestEntry]) -> ColumnarEntries:
    """The entries as objects and as columns of manifests, in the same order."""
    parts: list[EntryPart] = []
    left = list(entries)
    while left:
        some, left = left[: (count := random.randrange(1, 30))], left[count:]
        if random.random() < 0.4:
            parts.append(EntryObjects(some))
            continue
        found = container(stored(some))
        parts.append(ManifestColumns(found.schema, found.blocks).chosen(np.arange(len(some)), statistics=True))
    return ColumnarEntries(parts)


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("kind", TABLES)
def test_splits_are_those_of_entries_one_by_one(make_table: MakeTable, kind: str, seed: int):
    random = Random(f"{kind}/{seed}")
    table = made(make_table, kind)
    entries = entries_of(random, table, random.choice([0, 1, 5, 60, 200]))
    vectors = None
    if table.options.has_vectors:
        names = [entry.file.name for entry in entries if random.random() < 0.3]
        vectors = {name: VectorLocation("index", 0, 10, 10) for name in names}

    found = splits_in_columns(table, in_parts(random, entries), (), vectors)

    assert found is not None
    expected = splits_of(table, visible_to_readers(table, entries), None, vectors=vectors)
    assert list(found) == expected
    assert len(found) == len(expected)
    assert [found[place] for place in range(-len(expected), len(expected))] == [*expected, *expected]
    assert found[1:4] == expected[1:4] and found[::-2] == expected[::-2]
    assert list(pickle.loads(pickle.dumps(found))) == expected
    with pytest.raises(IndexError):
        found[len(expected)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"min_key": b"no key"}, id="of another length"),
        pytest.param({"min_key": b"\0\0\0\1\1" + bytes(15)}, id="null"),
        pytest.param({"max_key": b""}, id="empty"),
        pytest.param({"min_key": b"\0\0\0\1" + bytes(4) + b"\0\0\0\1" + bytes(8)}, id="above the largest"),
    ],
)
def test_keys_that_are_no_numbers_are_looked_at_one_by_one(make_table: MakeTable, change: dict[str, bytes]):
    random, table = Random(1), made(make_table, "key")
    entries = entries_of(random, table, 50)
    odd = replace(entries[7], file=replace(entries[7].file, **change))

    assert splits_in_columns(table, in_parts(random, [*entries[:7], odd, *entries[8:]]), (), None) is None


# ── reads ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def _any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns for any number of files."""
    monkeypatch.setattr(entry_choice, "ENTRIES_MIN", 1)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)


@pytest.mark.usefixtures("_any_number")
@pytest.mark.parametrize("key", [pa.string(), pa.bool_(), pa.decimal128(20, 2), pa.timestamp("us")])
def test_keys_of_other_types_are_looked_at_one_by_one(make_table: MakeTable, key: pa.DataType):
    table = make_table({"k": key}, primary_keys=["k"], options={"bucket": "1"})
    keys = pa.array([0, 1], pa.int64() if pa.types.is_timestamp(key) else pa.int32()).cast(key)
    table.write({"k": keys}).write({"k": keys[1:]})

    splits = plan_splits(table.handle, table.snapshot)

    assert isinstance(splits, list)
    assert len(table.rows()) == 2


WHERE = [
    "k = 7",
    "k > 3 AND day = 2",
    "w = 4",
    "w > 7 OR k < 2",
    "day = 3",
    "w IS NULL",
    "k BETWEEN 40 AND 60",
]


@pytest.mark.usefixtures("_any_number")
@pytest.mark.parametrize("kind", ["append", "key", "deletion vectors", "first-row"])
def test_a_filter_leaves_the_same_files(make_table: MakeTable, kind: str):
    random = Random(kind)
    options = {"bucket": "-1" if kind == "append" else "1", **SMALL_SPLITS, **TABLES[kind].get("options", {})}
    table = make_table(
        {"day": pa.int32(), "k": pa.int64(), "w": pa.int64()},
        primary_keys=[] if kind == "append" else ["day", "k"],
        partition_keys=["day"],
        options=options,
    )
    for number in range(12):
        # Some overlap with those of their neighbours.
        keys = sorted(random.sample(range(8 * number, 8 * number + 12), 6))
        columns = {"day": [1, 2, 3, 1, 2, 3], "k": keys, "w": [random.choice([None, number, 9]) for _ in keys]}
        table.write(columns)
        if table.handle.options.hides_level_0:
            table.compact(full=False)
    handle, snapshot = table.handle, table.snapshot
    vectors = vector_locations(handle, snapshot) if handle.options.has_vectors else None
    entries = visible_to_readers(handle, live_entries(handle, snapshot))
    counts = set()

    for where in map(parse_where, WHERE):
        found = plan_splits(handle, snapshot, where, keeps_statistics=True)
        assert isinstance(found, LazySplits)
        assert list(found) == splits_of(handle, entries, where, vectors=vectors), where
        counts.add(sum(len(run) for split in found for section in split.sections for run in section))

    assert len(counts) > 1


@pytest.mark.usefixtures("_any_number")
def test_a_filter_leaves_all_files_that_writers_at_once_wrote_over_each_other(make_table: MakeTable):
    random = Random(5)
    table = make_table({"k": pa.int64(), "w": pa.int64()}, primary_keys=["k"], options={"bucket": "1"})
    table.write({"k": [100, 101], "w": [0, 0]})
    writers = [table.messages({"k": sorted(random.sample(range(12), 5)), "w": [number] * 5}) for number in range(1, 7)]
    for messages in writers:
        table.commit(messages, CommitKind.APPEND)
    handle, snapshot = table.handle, table.snapshot
    entries = live_entries(handle, snapshot)
    every = table.rows()

    for key in range(12):
        where = parse_where(f"k = {key}")
        found = plan_splits(handle, snapshot, where, keeps_statistics=True)
        assert isinstance(found, LazySplits)
        assert list(found) == splits_of(handle, entries, where)
        names = {file.name for split in found for section in split.sections for run in section for file in run}
        assert names in (set(), {entry.file.name for entry in entries[1:]})
        assert table.rows(f"k = {key}") == [row for row in every if row[0] == key]


@pytest.mark.usefixtures("_any_number")
@pytest.mark.parametrize("case", corpus_cases())
def test_tables_of_java_have_the_same_splits(case: Case):
    table = load_table(str(case.table), EnvConfig(str(case.table)))
    snapshot = latest_snapshot(table)
    vectors = vector_locations(table, snapshot) if table.options.has_vectors else None
    entries = visible_to_readers(table, live_entries(table, snapshot))

    found = plan_splits(table, snapshot, keeps_statistics=True)

    assert list(found) == splits_of(table, entries, None, vectors=vectors)


@pytest.mark.usefixtures("_any_number")
@pytest.mark.parametrize("kind", ["append", "key", "deletion vectors"])
def test_rows_of_many_splits_are_read(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr(reader, "SPLITS_AT_ONCE", 2)
    table = make_table(
        TABLES[kind]["columns"],
        primary_keys=TABLES[kind].get("primary_keys", ()),
        partition_keys=["day"],
        options={"bucket": "1" if kind != "append" else "-1", **SMALL_SPLITS, **TABLES[kind].get("options", {})},
    )
    name = table.handle.schema.row_type.names[1]
    for number in range(3):
        table.write({"day": [1, 2, 3, 4, 5], name: [number, 7, 8, number, number]})
        if kind == "deletion vectors":
            table.compact(full=number == 0)

    splits = plan_splits(table.handle, table.snapshot)

    assert isinstance(splits, LazySplits)
    assert len(splits) > 4
    expected = [
        (day, value)
        for number in range(3)
        for day, value in zip([1, 2, 3, 4, 5], [number, 7, 8, number, number], strict=True)
    ]
    assert table.rows() == sorted(expected if kind == "append" else set(expected))
    assert table.rows("day = 4") == [row for row in table.rows() if row[0] == 4]
