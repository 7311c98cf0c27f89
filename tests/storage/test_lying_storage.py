"""The lying store, which other tests use, lies in the ways that it says, and in no other."""

from __future__ import annotations

import pytest

from paimon_engine.errors import OutcomeUnknownError, StorageError
from paimon_engine.storage import MemoryStorage
from tests.support.lying_storage import LyingStorage


def _store() -> MemoryStorage:
    times = iter(range(1_000, 10_000, 1_000))
    storage = MemoryStorage(clock=lambda: next(times))
    for name in ("t/tag/tag-a", "t/tag/tag-b", "t/snapshot/snapshot-1"):
        storage.overwrite(f"memory://{name}", b"x")
    return storage


def _names(found: object) -> list[str]:
    return [info.path.rpartition("/")[2] for info in found]  # type: ignore[attr-defined]


def test_listings_lie_about_the_chosen_directories_and_reads_do_not() -> None:
    store = LyingStorage(_store(), lists="empty", where=r"/tag$")

    assert store.list("memory://t/tag") == []
    assert not store.exists("memory://t/tag")
    assert store.exists("memory://t/tag/tag-a")
    assert store.read("memory://t/tag/tag-a") == b"x"
    assert _names(store.list("memory://t/snapshot/")) == ["snapshot-1"]
    assert store.lie_count == 2
    store.be_honest()
    assert _names(store.list("memory://t/tag")) == ["tag-a", "tag-b"]


def test_a_stale_listing_lacks_the_newest_files_for_as_many_calls_as_wanted() -> None:
    store = LyingStorage(_store(), lists="stale", hidden=1, lies_left=1)

    assert _names(store.list("memory://t/tag")) == ["tag-a"]
    assert _names(store.list("memory://t/tag")) == ["tag-a", "tag-b"]


def test_partial_listings_are_those_of_the_seed() -> None:
    found = [
        _names(LyingStorage(_store(), lists="partial", seed=seed).walk("memory://t"))
        for seed in (*range(20), *range(20))
    ]

    assert found[:20] == found[20:]
    assert {len(names) for names in found} > {1, 2}


def test_times_are_offset() -> None:
    store = LyingStorage(_store(), time_offset_ms=-500)

    assert [info.modified_ms for info in store.list("memory://t/tag")] == [500, 1_500]
    assert store.stat("memory://t/snapshot/snapshot-1").modified_ms == 2_500


def test_creations_replace_or_are_denied() -> None:
    careless = LyingStorage(_store(), ignores_absence=True)
    assert careless.create("memory://t/tag/tag-a", b"y")
    assert (careless.read("memory://t/tag/tag-a"), careless.lie_count) == (b"y", 1)

    assert not LyingStorage(inner := _store(), denies="taken").create("memory://t/new", b"z")
    assert inner.read("memory://t/new") == b"z"
    with pytest.raises(OutcomeUnknownError):
        LyingStorage(_store(), denies="unknown", denied=r"/new$").create("memory://t/new", b"z")
    with pytest.raises(StorageError):
        LyingStorage(_store(), denies="error").create("memory://t/new", b"z")
    assert LyingStorage(_store(), denies="error", denied=r"/snapshot-").create("memory://t/new", b"z")
