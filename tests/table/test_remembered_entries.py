"""A writer that looks at a table again reads no manifest twice, and its commits are those of one that reads all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, SetOption
from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.state import entry_choice
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, live_of, read_manifest, snapshot_manifests
from paimon_engine.table.state.metadata_memory import ENTRIES_KEPT_MAX, MetadataMemory
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write import bucket_numbers
from paimon_engine.table.write.bucket_numbers import BucketNumbers
from paimon_engine.types import parse_type
from tests.table.conftest import MakeTable, Subject


@pytest.fixture
def subject(make_table: MakeTable) -> Subject:
    table = make_table({"k": pa.int64(), "v": pa.string()}, primary_keys=["k"])
    for number in range(8):
        table.write({"k": [number, 100], "v": ["a", f"{number}"]})
    return table


def test_entries_are_those_of_the_store(subject: Subject) -> None:
    table = subject.handle.remembering()
    first = live_entries(table, subject.snapshot)

    assert live_entries(table, subject.snapshot) == first == live_entries(subject.handle, subject.snapshot)


@pytest.mark.parametrize("least", [0, 1_000])
def test_a_second_look_goes_through_what_is_remembered(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(entry_choice, "ENTRIES_MIN", least)
    table = subject.handle.remembering()
    for _ in range(3):
        live_entries(table, subject.snapshot)
    manifests = snapshot_manifests(table, subject.snapshot)

    known = [table.memory.entries(table.paths.manifest(item.name), item) for item in manifests]

    assert [list(entries or ()) for entries in known] == [
        read_manifest(subject.handle, item.name) for item in manifests
    ]
    assert not entry_choice.worth_columns(table, manifests)


def test_what_a_writer_remembers_is_what_it_wrote(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table(
        "db.t",
        schema={"day": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING", "d": "DOUBLE"},
        partition_keys=["day"],
        primary_keys=["day", "k"],
        options={"bucket": "2", "manifest.merge-min-count": "3", "file-index.bloom-filter.columns": "v"},
    )
    memory = table._handle.memory
    listed = 0
    for number in range(8):
        rows = {"day": pa.array([1, 2], pa.int32()), "k": [number, 5], "v": ["a", None], "d": [1.5, float("nan")]}
        table.write(pa.table(rows), row_kinds=pa.array(["+I", "-D"]) if number == 6 else None)
        if number == 4:
            table.compact(full=True)
        handle = load_table(table.path, EnvConfig(table.path))
        for item in snapshot_manifests(handle, latest_snapshot(handle)):
            known = memory.entries(handle.paths.manifest(item.name), item)
            assert known is not None
            assert list(known) == read_manifest(handle, item.name, item)
            listed += 1
    assert listed > 8


def test_who_does_not_remember_leaves_nothing_behind(subject: Subject) -> None:
    live_entries(subject.handle, subject.snapshot)
    [manifest, *_] = snapshot_manifests(subject.handle, subject.snapshot)

    assert subject.handle.memory.entries(subject.handle.paths.manifest(manifest.name), manifest) is None


ENTRY = ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, DataFile("data-1.parquet", 1, 1))
LISTED = ManifestFile("m", 5, 1, 0, EMPTY_STATS, 0)


@pytest.mark.parametrize("change", [{"size_bytes": 6}, {"added_count": 2}, {"deleted_count": 1}], ids=str)
def test_a_manifest_that_is_listed_otherwise_is_read_again(change: dict[str, int]) -> None:
    memory = MetadataMemory()
    memory.put_entries("m", LISTED, [ENTRY])

    assert memory.entries("m", LISTED) == [ENTRY]
    assert memory.entries("m", replace(LISTED, **change)) is None


def test_no_more_than_its_bound_is_remembered() -> None:
    memory, half = MetadataMemory(), ENTRIES_KEPT_MAX // 2
    listed = replace(LISTED, added_count=half)
    for name in ("a", "b"):
        memory.put_entries(name, listed, [ENTRY] * half)
    assert memory.entries("a", listed) is not None
    memory.put_entries("c", listed, [ENTRY] * half)

    assert memory.entries("b", listed) is None
    assert memory.entries("a", listed) is not None
    assert memory.entries("c", listed) is not None


def _state(table: TableHandle, partition: bytes) -> tuple[dict[tuple[bytes, int], int], dict[bytes, int]]:
    numbers = BucketNumbers(table)
    numbers.look_up([partition])
    return numbers.next_sequence, numbers.total_buckets


def test_numbers_of_buckets_are_those_of_a_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"day": "INT NOT NULL", "k": "BIGINT NOT NULL"}
    catalog = Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.t", schema=schema, partition_keys=["day"], primary_keys=["day", "k"], options={"bucket": "2"}
    )
    handle = load_table(table.path, EnvConfig(table.path))
    remembering = handle.remembering()
    looks: list[int] = []
    read = live_of

    def noting(*arguments: Any) -> list[ManifestEntry]:
        found = read(*arguments)
        looks.append(len(found))
        return found

    monkeypatch.setattr(bucket_numbers, "live_of", noting)

    def agree(*, reads: bool) -> None:
        partition = encode_row([parse_type("INT")], [1], reserve_null=False)
        looks.clear()
        remembered = _state(remembering, partition)
        assert len(looks) == reads
        assert remembered == _state(handle, partition)

    def write(number: int, **how: Any) -> None:
        table.write(pa.table({"day": pa.array([1, 2], pa.int32()), "k": [number, number]}), **how)

    agree(reads=True)
    write(1)
    agree(reads=False)
    for number in range(2, 5):
        write(number)
    agree(reads=False)
    agree(reads=False)
    table.compact(full=True)
    agree(reads=True)
    write(5)
    agree(reads=False)
    write(6, overwrite={})
    agree(reads=True)
    table.drop_partition({"day": 1})
    agree(reads=True)
    write(7)
    agree(reads=False)
    table.rollback(snapshot=3)
    agree(reads=True)
    write(8)
    agree(reads=False)
    table.alter([SetOption("bucket", "3")])
    table.rescale()
    agree(reads=True)
    write(9)
    agree(reads=False)
