"""A writer that looks at a table again reads no manifest twice, and its commits are those of one that reads all."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.state import live_columns
from paimon_engine.table.state.manifests import live_entries, read_manifest, snapshot_manifests
from paimon_engine.table.state.metadata_memory import ENTRIES_KEPT_MAX, MetadataMemory
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
    monkeypatch.setattr(live_columns, "ENTRIES_MIN", least)
    table = subject.handle.remembering()
    for _ in range(3):
        live_entries(table, subject.snapshot)
    manifests = snapshot_manifests(table, subject.snapshot)

    known = [table.memory.entries(table.paths.manifest(item.name), item) for item in manifests]

    assert [list(entries or ()) for entries in known] == [
        read_manifest(subject.handle, item.name) for item in manifests
    ]
    assert not live_columns.worth_columns(table, manifests)


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
