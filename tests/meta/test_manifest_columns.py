"""Manifests by columns give the entries that they give one by one, or are left to that reader."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.avro import read_records, record_fields, write_records
from paimon_engine.format.avro_blocks import container
from paimon_engine.format.avro_columns import NotPlain
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.file_set import FoldError, live_files
from paimon_engine.meta.manifest import (
    MANIFEST_SCHEMA,
    DataFile,
    FileKind,
    ManifestEntry,
    ManifestFile,
    counts,
    entry_from_record,
    entry_to_record,
    unknown_types_of_entries,
)
from paimon_engine.meta.manifest_columns import ManifestColumns, are_among
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.state import live_columns
from paimon_engine.table.state.entry_choice import Choice, of_buckets, of_partitions
from paimon_engine.table.state.live_columns import live_in_columns
from tests.support.golden import golden_folder
from tests.support.random_manifests import random_entries, stored, with_field, without_fields
from tests.support.reference import reference_part

SEEDS = range(20)


@pytest.fixture(autouse=True)
def _few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns for any number of records."""
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)


def one_by_one(data: bytes) -> list[ManifestEntry]:
    unknown = unknown_types_of_entries(record_fields(data, "m"))
    return [entry_from_record(record, "m", unknown) for record in read_records(data, "m")]


def in_columns(data: bytes) -> list[ManifestEntry]:
    """Raises: NotPlain, and what `container` raises."""
    found = container(data)
    columns = ManifestColumns(found.schema, found.blocks)
    return columns.entries(np.arange(len(columns)))


# ── random manifests ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", SEEDS)
def test_random_manifests(seed: int) -> None:
    rng = random.Random(seed)
    data = stored(random_entries(rng, rng.choice([0, 1, 3, 40, 300])), codec=rng.choice(["zstd", "snappy", "none"]))

    assert in_columns(data) == one_by_one(data)


@pytest.mark.parametrize(
    "schema",
    [
        without_fields("_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES"),
        without_fields("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE"),
        {**MANIFEST_SCHEMA, "fields": MANIFEST_SCHEMA["fields"][::-1]},
    ],
    ids=["of an old release", "with what is required", "in another order"],
)
def test_schemas_of_other_writers(schema: Any) -> None:
    data = stored(random_entries(random.Random(1), 50), schema)

    assert in_columns(data) == one_by_one(data)


@pytest.mark.parametrize(
    "schema",
    [
        with_field("_NEW", ["null", "long"]),
        with_field("_FILE_SIZE", "double"),
        with_field("_DELETE_ROW_COUNT", "long"),
        with_field("_CREATION_TIME", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
        without_fields("_LEVEL"),
    ],
    ids=["unknown", "another type", "not null", "microseconds", "missing"],
)
def test_schemas_that_are_left_to_the_other_reader(schema: Any) -> None:
    entries = [ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, DataFile("data-1.orc", 1, 1, delete_row_count=1))]
    with pytest.raises(NotPlain):
        in_columns(stored(entries, schema))


def _entry(**changes: Any) -> dict[str, Any]:
    entry = ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, DataFile("data-1.orc", 1, 1, delete_row_count=1))
    record = entry_to_record(entry)
    for name, value in changes.items():
        (record if name in record else record["_FILE"])[name] = value
    return record


@pytest.mark.parametrize(
    "changes",
    [
        {"_VERSION": 1},
        {"_KIND": 2},
        {"_BUCKET": -3},
        {"_TOTAL_BUCKETS": -3},
        {"_FILE_NAME": "../data.orc"},
        {"_FILE_NAME": ".."},
        {"_FILE_NAME": "a\\b.orc"},
        {"_FILE_NAME": "däta.orc"},
        {"_FILE_NAME": "data\n.orc"},
        {"_FILE_SIZE": -1},
        {"_ROW_COUNT": -1},
        {"_SCHEMA_ID": -1},
        {"_LEVEL": -1},
        {"_EXTRA_FILES": ["../x"]},
        {"_CREATION_TIME": 10**16},
        {"_DELETE_ROW_COUNT": -1},
        {"_FILE_SOURCE": 2},
        {"_MAX_SEQUENCE_NUMBER": 2**62},
    ],
    ids=str,
)
def test_values_that_are_left_to_the_other_reader(changes: dict[str, Any]) -> None:
    data = write_records(MANIFEST_SCHEMA, [_entry(), _entry(**changes), _entry()])

    with pytest.raises(NotPlain):
        in_columns(data)


# ── stored manifests ────────────────────────────────────────────────────────────────────────────


def _manifests() -> Iterator[Path]:
    for folder in filter(None, (golden_folder(), reference_part("corpus"))):
        yield from sorted(path for path in folder.rglob("manifest-*") if "manifest-list" not in path.name)


def test_manifests_of_java_are_read_in_columns() -> None:
    plain = 0
    for path in _manifests():
        data = path.read_bytes()
        if not data.startswith(b"Obj\x01"):
            continue
        try:
            found = in_columns(data)
        except NotPlain:
            continue
        assert found == one_by_one(data), path
        plain += 1
    assert plain > 20


@pytest.mark.parametrize("seed", range(8))
def test_damaged_manifests_are_never_taken_for_others(seed: int) -> None:
    rng = random.Random(seed)
    original = stored(random_entries(rng, 60), codec="none")
    for _ in range(25):
        data = bytearray(original)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            found = in_columns(bytes(data))
        except NotPlain:
            continue
        except Exception:  # noqa: BLE001 - the container is damaged; then columns are not read
            with pytest.raises(CorruptTableError):
                one_by_one(bytes(data))
            continue
        assert found == one_by_one(bytes(data))


# ── live files ──────────────────────────────────────────────────────────────────────────────────


def reading(data: Sequence[bytes]) -> Callable[[Sequence[ManifestFile]], list[bytes]]:
    """Reads manifests whose names are their places among these."""
    return lambda some: [data[int(item.name)] for item in some]


def _history(rng: random.Random, *, is_sound: bool) -> list[list[ManifestEntry]]:
    """Manifests of commits that add and remove files."""
    live: list[ManifestEntry] = []
    manifests = []
    for _ in range(rng.randrange(1, 12)):
        entries = []
        for entry in random_entries(rng, rng.randrange(6)):
            added = ManifestEntry(FileKind.ADD, entry.partition, entry.bucket, entry.total_buckets, entry.file)
            entries.append(added)
        gone = [live.pop(rng.randrange(len(live))) for _ in range(rng.randrange(4)) if live]
        for entry in gone:
            removed = ManifestEntry(FileKind.DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file)
            entries.append(removed)
            if rng.random() < 0.4:
                moved = entry.file.upgraded(rng.choice([entry.file.level, 5]))
                entries.append(ManifestEntry(FileKind.ADD, entry.partition, entry.bucket, entry.total_buckets, moved))
        live += [entry for entry in entries if entry.kind is FileKind.ADD]
        manifests.append(entries)
    if not is_sound:
        some = rng.choice(manifests)
        some.insert(0, random_entries(rng, 1)[0])
        if live:
            some.append(rng.choice(live))
    return manifests


@pytest.mark.parametrize("share", [0, 1 << 30], ids=["group by group", "all columns at once"])
@pytest.mark.parametrize("group_bytes", [1, 1 << 20])
@pytest.mark.parametrize("seed", range(45))
def test_live_files_are_those_of_all_entries(
    monkeypatch: pytest.MonkeyPatch, seed: int, group_bytes: int, share: int
) -> None:
    monkeypatch.setattr(live_columns, "GROUP_BYTES", group_bytes)
    monkeypatch.setattr(live_columns, "REMOVING_SHARE", share)
    rng = random.Random(seed)
    manifests = _history(rng, is_sound=seed % 3 > 0)
    schemas = [MANIFEST_SCHEMA, without_fields("_WRITE_COLS"), with_field("_NEW", ["null", "long"])]
    data = [stored(entries, rng.choice(schemas)) for entries in manifests]
    listed = [ManifestFile(str(n), 0, *counts(entries), EMPTY_STATS, 0) for n, entries in enumerate(manifests)]
    choice = rng.choice(
        [
            Choice(),
            Choice(lambda _: {b"two"}),
            Choice(None, lambda total, schema_id: {3, 7} if total > 1 and schema_id else None),
        ]
    )

    found = live_in_columns(listed, reading(data), lambda item: one_by_one(data[int(item.name)]), choice)

    try:
        live = live_files(of_partitions([entry for one in data for entry in one_by_one(one)], choice))
        assert found is not None
        assert (list(found.entries), found.row_count) == (
            of_buckets(live, choice),
            sum(entry.file.row_count for entry in live),
        )
    except FoldError:
        assert found is None


@pytest.mark.parametrize("seed", range(10))
def test_names_among_others_are_found_as_numpy_finds_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.integers(0, 50, rng.integers(0, 30)).astype(np.uint64) << np.uint64(58)
    others = np.unique(rng.integers(0, 50, rng.integers(0, 30)).astype(np.uint64) << np.uint64(58))

    assert are_among(names, others).tolist() == np.isin(names, others).tolist()


def test_numbers_of_entries_that_are_not_those_of_the_list_are_left_to_the_other_reader() -> None:
    entries = random_entries(random.Random(3), 20)
    listed = ManifestFile("0", 0, 1, 0, EMPTY_STATS, 0)
    asked = []

    def read(item: ManifestFile) -> list[ManifestEntry]:
        asked.append(item)
        raise CorruptTableError("said")

    with pytest.raises(CorruptTableError, match="said"):
        live_in_columns([listed], reading([stored(entries)]), read, Choice())
    assert asked == [listed]
