"""A manifest of many entries is decoded in columns, with the entries and the errors of one that is read by records."""

from __future__ import annotations

import random

import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.manifest import ManifestEntry, ManifestFile, counts
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.state import live_columns
from paimon_engine.table.state.entry_choice import ENTRIES_MIN
from paimon_engine.table.state.manifests import read_manifest
from tests.support.random_manifests import random_entries, stored, with_field
from tests.support.seeds import seeds
from tests.support.world.made_up import History

Outcome = list[ManifestEntry] | str


def read(history: History, name: str, listed: ManifestFile | None) -> Outcome:
    try:
        return read_manifest(history.handle, name, listed)
    except CorruptTableError as error:
        return str(error)


def put(history: History, data: bytes, entries: list[ManifestEntry]) -> ManifestFile:
    history.storage.overwrite(history.handle.paths.manifest("manifest-m"), data)
    added, deleted = counts(entries)
    return ManifestFile("manifest-m", len(data), added, deleted, EMPTY_STATS, 0)


@pytest.mark.parametrize("codec", ["zstd", "deflate", "null"])
def test_its_entries_are_the_same(codec: str, monkeypatch: pytest.MonkeyPatch):
    entries = random_entries(random.Random(1), ENTRIES_MIN + 200)
    history = History()
    listed = put(history, stored(entries, codec=codec), entries)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 1)

    assert read(history, "manifest-m", None) == read(history, "manifest-m", listed) == entries


def test_fields_of_later_releases_are_kept(monkeypatch: pytest.MonkeyPatch):
    entries = random_entries(random.Random(2), ENTRIES_MIN)
    history = History()
    listed = put(history, stored(entries, with_field("_LATER", ["null", "long"])), entries)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 1)

    assert read(history, "manifest-m", None) == read(history, "manifest-m", listed)


@pytest.mark.parametrize("seed", seeds(25))
def test_damage_is_reported_in_the_same_way(seed: int, monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(seed)
    entries = random_entries(rng, ENTRIES_MIN)
    history = History()
    data = bytearray(stored(entries, codec=rng.choice(["zstd", "null"])))
    for _ in range(rng.choice([1, 1, 3])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    listed = put(history, bytes(data), entries)
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 1)

    by_records, in_columns = read(history, "manifest-m", None), read(history, "manifest-m", listed)

    if isinstance(by_records, str) or counts(by_records) == counts(entries):
        assert in_columns == by_records
    else:
        assert "its manifest list says" in str(in_columns)
